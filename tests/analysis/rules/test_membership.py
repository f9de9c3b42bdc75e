"""Members and their coordinator: what is wrong with a heartbeat, what only looks so, and what cannot be told."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kshark
from tests.analysis.talks import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    INVALID_REQUEST,
    UNKNOWN_MEMBER_ID,
    broker_closes,
    broker_refuses,
    caused,
    codes,
    left,
    stranger,
    unchanged,
)
from tests.conversation import Asked, Conversation, Member, findings, note, unknown, violation
from tests.shared import CAPTURES

NOBODY = {"topic_partitions": []}


def given(a: Member, *epochs: int) -> None:
    """Heartbeats, each with the epoch that the one before was given."""
    known = 1
    for epoch in epochs:
        a.heartbeat(known).given(epoch)
        known = epoch


def fenced(a: Member, epoch: int, how: str | None = None) -> Asked:
    """A heartbeat that is refused with FENCED_MEMBER_EPOCH; `how` the broker says that its epoch stands."""
    said = (
        None
        if how is None
        else f"The share group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"(3)."
    )
    return a.heartbeat(epoch).answered(FENCED_MEMBER_EPOCH, error_message=said)


# -- as it is


@pytest.mark.parametrize(
    ("group", "name", "rack", "told"),
    [
        ("", "a", None, "its group_id is empty"),
        ("g", "", None, "its member_id is empty"),
        ("g", "a", "", "its rack_id is empty"),
        ("", "", "", "its group_id is empty"),
        ("g", "x" * 37, None, "its member id is 37 characters long"),
        ("g", "x" * 36, None, "it subscribes to no topic"),
        ("g", "a", "r", "it subscribes to no topic"),
    ],
)
def test_the_first_mistake_of_a_join_is_told(group: str, name: str, rack: str | None, told: str) -> None:
    talk = Conversation()
    a = Member(talk.connection(), group, name)
    a.heartbeat(0, rack_id=rack).answered(INVALID_REQUEST)
    assert [it.argument.rpartition("; ")[2] for it in findings(talk)] == [told]


def test_a_session_without_a_group_is_refused() -> None:
    """Taken, it is no mistake; with a group, it is another one; of a request that is not certain nobody knows."""
    talk = Conversation()
    a = talk.member("a")
    Member(a.connection, None, "b" * 22).share_fetch(0).answered()
    Member(a.connection, "", "c" * 22).share_fetch(0).answered(30)
    a.share_fetch(0).answered(INVALID_REQUEST)
    assert "EMPTY_IDS" not in dict(codes(talk))
    Member(stranger(talk).connection, "", "b" * 22).share_fetch(0).answered(INVALID_REQUEST)
    assert ("EMPTY_IDS", "unknown") in codes(talk)


def test_a_join_with_a_subscription_is_right() -> None:
    talk = Conversation()
    talk.member("a")
    assert findings(talk) == []


def test_what_is_not_refused_is_not_wrong() -> None:
    """Some other coordinator may take what Kafka's refuses."""
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.heartbeat(0).given(1, assignment=NOBODY)
    a.heartbeat(-2).given(1)
    assert findings(talk) == []


def test_an_invalid_request_that_nothing_explains() -> None:
    talk = Conversation()
    a = talk.member("a")
    odd = a.heartbeat(1).answered(INVALID_REQUEST)
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="unanswered", cause="unknown")]


# -- epochs


@pytest.mark.parametrize("how", [None, "greater"])
def test_an_epoch_that_nobody_gave(how: str | None) -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 2, 3)
    assert findings(talk) == []
    wrong = fenced(a, 4, how)
    assert findings(talk) == [violation("MEMBER_EPOCH_AHEAD", wrong, blame="client", cause="ahead")]


def test_the_broker_says_that_the_epoch_is_old() -> None:
    """Another heartbeat, unseen, was given newer ones."""
    talk = Conversation()
    odd = fenced(talk.member("a"), 4, "smaller")
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="hidden_traffic", cause="unknown")]


def test_an_epoch_may_have_been_given_before_the_capture() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    odd = fenced(a, 4, "greater")
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="beginning_not_seen", cause="unknown")]


def test_an_epoch_may_have_been_given_in_an_answer_that_never_came() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(1)
    a.connection.close()
    odd = fenced(a.on(talk.connection()), 2)
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="unanswered", cause="unknown")]


def test_the_epoch_before_is_taken_once_where_its_answer_was_lost() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(1)
    a.connection.close()
    again = a.on(talk.connection())
    again.heartbeat(1).given(2)
    again.heartbeat(2).given(2)
    assert findings(talk) == []


def test_an_old_epoch() -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 2, 3, 4)
    wrong = fenced(a, 2, "smaller")
    assert findings(talk) == [violation("MEMBER_EPOCH_BEHIND", wrong, blame="client", cause="behind")]
    assert findings(talk.without_exchange(-2)) == [unknown("MEMBER_REFUSED", wrong, because="gap", cause="unknown")]


def test_the_epoch_before_is_no_old_one() -> None:
    """Refused all the same, it was another one that came before."""
    talk = Conversation()
    a = talk.member("a")
    given(a, 2, 3, 4)
    odd = fenced(a, 3, "smaller")
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="hidden_traffic", cause="unknown")]


def test_whoever_has_two_heartbeats_open_may_send_the_old_epoch() -> None:
    talk = Conversation()
    a = talk.member("a")
    first, second = a.heartbeat(1), a.heartbeat(1)
    first.given(2)
    second.given(2)
    assert findings(talk) == []


def test_an_epoch_that_is_kept_on_another_connection_may_be_another_process() -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 2)
    a.on(talk.connection()).heartbeat(1).given(2)
    assert findings(talk) == []


def test_heartbeats_that_cross_on_two_connections_prove_nothing() -> None:
    talk = Conversation()
    a = talk.member("a")
    beats = a.on(talk.connection())
    leave = a.heartbeat(-1)
    beats.heartbeat(0, ["t"]).given(2, assignment=NOBODY)
    leave.given(-1)
    odd = beats.heartbeat(2).answered(UNKNOWN_MEMBER_ID)
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="race", cause="unknown")]


def test_a_lower_epoch_of_a_member_that_joined_again_is_right() -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 2, 3)
    a.heartbeat(0, ["t"]).given(1, assignment=NOBODY)
    given(a, 1)
    assert findings(talk) == []


# -- members that the group does not have


def test_whoever_left_and_joined_again_is_in_the_group() -> None:
    talk = Conversation()
    a = talk.member("a")
    left(a)
    a.join()
    unchanged(a)
    odd = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="hidden_traffic", cause="unknown")]


def test_whoever_left_may_have_joined_again_unseen() -> None:
    talk = Conversation()
    a = talk.member("a")
    left(a)
    odd = a.heartbeat(7).answered(UNKNOWN_MEMBER_ID)
    assert findings(talk) == [note("HEARTBEAT_AFTER_LEAVE", odd, cause="left")]


def test_a_leave_that_was_not_answered_may_not_have_been_taken() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(-1)
    a.connection.close()
    odd = a.on(talk.connection()).heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="unanswered", cause="unknown")]


def test_a_refusal_is_explained_by_the_leave_on_another_connection() -> None:
    talk = Conversation()
    a = talk.member("a")
    left(a)
    wrong = a.on(talk.connection()).heartbeat(1).answered(GROUP_ID_NOT_FOUND, error_message="Group g not found.")
    assert findings(talk) == [violation("HEARTBEAT_AFTER_LEAVE", wrong, blame="client", cause="left")]


def test_a_leave_of_nobody_harms_nobody() -> None:
    talk = Conversation()
    odd = talk.member("a", joined=False).heartbeat(-1).answered(GROUP_ID_NOT_FOUND)
    assert findings(talk) == [note("HEARTBEAT_AFTER_LEAVE", odd, cause="never_joined")]


def test_after_a_refusal_a_member_joins_again_or_leaves() -> None:
    talk = Conversation()
    a = talk.member("a")
    fenced(a, 8)
    a.heartbeat(0, ["t"]).given(2, assignment=NOBODY)
    fenced(a, 9)
    left(a)
    assert codes(talk) == [("MEMBER_EPOCH_AHEAD", "violation")] * 2


def test_who_goes_on_elsewhere_after_a_refusal_may_be_somebody_else() -> None:
    talk = Conversation()
    a = talk.member("a")
    fenced(a, 8)
    a.on(talk.connection()).heartbeat(1).given(1)
    assert codes(talk) == [("MEMBER_EPOCH_AHEAD", "violation")]


def test_two_heartbeats_may_be_refused_at_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    first, second = a.heartbeat(8), a.heartbeat(8)
    for asked in (first, second):
        asked.answered(FENCED_MEMBER_EPOCH)
    assert codes(talk) == [("MEMBER_EPOCH_AHEAD", "violation")] * 2


# -- lateness


def test_a_heartbeat_in_time() -> None:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(9.9)
    unchanged(a)
    assert findings(talk) == []


def test_a_member_that_is_always_late_is_told_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    for pause in (11, 12, 13, 5, 11):
        talk.pause(pause)
        unchanged(a)
    assert codes(talk) == [("HEARTBEAT_LATE", "note")] * 2


def test_whoever_joins_again_or_leaves_is_not_late() -> None:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(60)
    a.join()
    talk.pause(60)
    left(a)
    assert findings(talk) == []


def test_a_member_that_is_given_up_though_it_was_in_time() -> None:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(9.9)
    odd = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    assert findings(talk) == [unknown("MEMBER_REFUSED", odd, because="hidden_traffic", cause="unknown")]


def test_a_member_that_was_given_up_and_leaves() -> None:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(46)
    late = a.heartbeat(-1).answered(UNKNOWN_MEMBER_ID)
    assert findings(talk) == [note("HEARTBEAT_LATE", late, cause="expired")]


def lasted(*pauses: float, broker: str | None = None) -> str | None:
    """Who is to blame for the heartbeat that comes at last; behind each pause, and right before it, the member sends a
    share request. `broker`: on another connection, to this broker."""
    talk = Conversation()
    a = talk.member("a")
    fetches = a if broker is None else a.on(talk.connection(broker))
    for epoch, pause in enumerate(pauses):
        talk.pause(pause)
        fetches.share_fetch(epoch).answered()
    late = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return next(one.blame for one in findings(talk) if one.code == "HEARTBEAT_LATE" and one.packet == late.packet)


def test_whoever_is_heard_while_a_heartbeat_is_due_has_the_blame() -> None:
    assert lasted(30, 16) == "client"
    assert lasted(4, 4, 4, 34) == "client"
    assert lasted(4, 4, 38) == "unknown", "not yet due for a whole interval"


def test_what_comes_along_with_the_heartbeat_may_have_waited_for_the_network_too() -> None:
    assert lasted(46) == "unknown"
    assert lasted(45, 1, 0.5) == "unknown"
    assert lasted(1, 45, 0.5, 0.5) == "unknown"


def test_what_another_broker_is_asked_takes_another_way() -> None:
    assert lasted(30, 16, broker="10.0.0.8:9092") == "unknown"


def test_on_the_heartbeats_connection_tcp_may_still_wait_to_send_again() -> None:
    """Two outages: a heartbeat is lost in both, and TCP does not send it again in between, when share requests on
    another connection arrive."""
    assert lasted(30, 16, broker="10.0.0.9:9092") == "unknown"
    assert lasted(20, 10, 10, 6, broker="10.0.0.9:9092") == "unknown"


def test_on_a_new_connection_it_may_have_been_the_network() -> None:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(46)
    late = a.on(talk.connection()).heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    assert findings(talk) == [note("HEARTBEAT_LATE", late, cause="expired")]


def test_a_heartbeat_may_have_been_missed_by_the_sniffer() -> None:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(30)
    unchanged(a)
    talk.pause(30)
    odd = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    assert caused(talk) == [note("HEARTBEAT_LATE", odd, cause="expired")]
    assert findings(talk.without_exchange(-2)) == [unknown("MEMBER_REFUSED", odd, because="gap", cause="unknown")]


def test_while_the_coordinator_is_down_nobody_is_late() -> None:
    talk = Conversation()
    a = talk.member("a")
    broker_closes(a.connection)
    talk.pause(15)
    broker_refuses(talk)
    again = a.on(talk.connection())
    unchanged(again)
    assert findings(talk) == []


# -- answers


def test_an_assignment_comes_with_a_join_and_with_new_topics() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(1, ["t", "u"]).given(2, assignment=NOBODY)
    a.heartbeat(2).given(2)
    assert findings(talk) == []
    wrong = a.heartbeat(2, ["t"]).given(2)
    assert findings(talk) == [violation("ASSIGNMENT_MISSING", wrong, blame="broker")]


def test_a_group_that_is_gone_is_of_no_other_type() -> None:
    talk = Conversation()
    a = talk.member("a")
    gone, conflict = (f"Group g {what}." for what in ("not found", "is not a share group"))
    first = a.heartbeat(1).answered(GROUP_ID_NOT_FOUND, error_message=gone)
    second = a.on(talk.connection()).heartbeat(1).answered(GROUP_ID_NOT_FOUND, error_message=conflict)
    assert caused(talk) == [
        unknown("MEMBER_REFUSED", first, because="hidden_traffic", cause="unknown"),
        violation("GROUP_TYPE_CONFLICT", second, blame="client", cause="other_type"),
    ]


def test_a_consumer_may_not_join_a_share_group() -> None:
    talk = Conversation()
    asked = [
        talk.connection().ask(
            68, "ConsumerGroupHeartbeat", 1, {"group_id": "g", "member_id": "a", "member_epoch": epoch}
        )
        for epoch in (0, 0)
    ]
    for one, what in zip(asked, ("is not a consumer group", "not found"), strict=True):
        one.answered(
            GROUP_ID_NOT_FOUND,
            error_message=f"Group g {what}.",
            member_epoch=0,
            heartbeat_interval_ms=0,
            assignment=None,
        )
    assert findings(talk) == [
        violation("GROUP_TYPE_CONFLICT", asked[0], blame="client", cause="other_type"),
        unknown("MEMBER_REFUSED", asked[1], because="race", cause="unknown"),
    ]


def test_two_addresses_are_not_known_to_be_two_brokers() -> None:
    talk = Conversation()
    a = talk.member("a")
    unchanged(a.on(talk.connection("10.0.0.8:9092")))
    assert findings(talk) == []


def test_a_member_whose_beginning_was_not_seen() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.heartbeat(4).given(5)
    a.heartbeat(5).given(5)
    odd = fenced(a, 9)
    assert findings(talk) == [violation("MEMBER_EPOCH_AHEAD", odd, blame="client", cause="ahead")]


# -- the answer key


def expected() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = json.loads((CAPTURES / "adv-members.expected.json").read_text())["steps"]
    return [
        step
        for step in steps
        if step["api"] in ("ShareGroupHeartbeat", 68) and set(step["rules"]) & {46, *range(94, 109)}
    ]


@pytest.fixture(scope="module")
def told() -> dict[int, set[int]]:
    """Of adv-members: the numbers of the rules whose findings stand at each packet."""
    found: dict[int, set[int]] = {}
    for finding in kshark.check(CAPTURES / "adv-members.pcap"):
        found.setdefault(finding.packet, set()).add(finding.rule or 0)
    return found


#: What its maker meant to be wrong, and was not: the epoch that A kept was its own, since the coordinator gives
#: assignments late.
RIGHT = {"A keeps its old epoch (previous epoch: tolerated)", "epoch 0 of an existing member (4.2+: rejoins)"}


@pytest.mark.parametrize("step", expected(), ids=lambda step: step["sent"])
def test_every_step_of_the_answer_key_is_told(step: dict[str, Any], told: dict[int, set[int]]) -> None:
    packets = {step["request_packet"], step["response_packet"]}
    if packets == {None}:
        packets = {366, 367}
    numbers = set[int]().union(*(told.get(packet, set()) for packet in packets))
    assert bool(numbers & set(step["rules"])) == (step["sent"] not in RIGHT), numbers
