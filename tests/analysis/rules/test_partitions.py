"""The partitions of a session: what is said of those that are listed to acknowledge, forgotten, or still held."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from kshark import limits
from tests.analysis.coordinators import NOT_COORDINATOR
from tests.analysis.rules.promises.partitions import fetched_after_leaving, forgot_partition, phantom
from tests.analysis.talks import (
    FENCED_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    alone,
    assigned,
    codes,
    handed,
    left,
    opened,
    unchanged,
)
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    TOPIC,
    Asked,
    Conversation,
    Member,
    Thinned,
    findings,
    note,
)


def test_the_partition_is_named() -> None:
    talk = Conversation()
    a = talk.member("a")
    phantom(a, 0)
    unchanged(a)
    a.share_fetch(5, forget=[7]).answered()
    assert [(it.code, it.topic_id, it.partition) for it in findings(talk)] == [
        ("UNRELEASED_ON_FORGET", TOPIC, 1),
        ("PHANTOM_SESSION_PARTITION", TOPIC, 1),
        ("FORGET_UNKNOWN", TOPIC, 7),
    ]


def test_a_partition_listed_to_acknowledge_and_forgotten_at_once_is_gone() -> None:
    talk = Conversation()
    a = talk.member("a")
    forgot_partition(a, 0)
    a.share_fetch(2, [1], acks=[(0, 4, 1)], forget=[1]).answered()
    a.share_fetch(3).answered(responses=handed((0, 0, 4)))
    assert codes(talk) == [("UNRELEASED_ON_FORGET", "note")]


def test_a_partition_that_is_listed_or_forgotten_with_the_fetch_is_no_phantom() -> None:
    for asked in ({"partitions": [1]}, {"forget": [1]}):
        talk = Conversation()
        a = talk.member("a")
        forgot_partition(a, 0)
        a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
        a.share_fetch(3, **asked).answered(responses=handed((1, 5, 9)))  # type: ignore[arg-type]
        unchanged(a)
        assert codes(talk) == [("UNRELEASED_ON_FORGET", "note")]


def test_records_of_the_other_partition_come_first() -> None:
    talk = Conversation()
    a = talk.member("a")
    forgot_partition(a, 0)
    a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
    a.share_fetch(3).answered(responses=handed((0, 0, 4), (1, 5, 9)))
    unchanged(a)
    assert codes(talk) == [("UNRELEASED_ON_FORGET", "note"), ("PHANTOM_SESSION_PARTITION", "violation")]


def test_records_of_a_partition_that_was_not_listed_show_an_opening_that_was_not_seen() -> None:
    """The member had the partition before: to acknowledge its records brings nothing into the session."""
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    a.share_fetch(0, [0]).answered()
    again = a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1).answered(responses=handed((1, 0, 4)))
    a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
    a.share_fetch(3).answered(responses=handed((1, 5, 9)))
    unchanged(a)
    assert "PHANTOM_SESSION_PARTITION" not in dict(codes(talk))
    assert "PHANTOM_SESSION_PARTITION" not in dict(codes(talk.without_packets(again.all_packets)))


def test_where_the_session_goes_on_elsewhere_it_may_have_been_opened_anew() -> None:
    talk = Conversation()
    a = talk.member("a")
    forgot_partition(a, 0)
    a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
    b = a.on(talk.connection())
    for fetch in (b.share_fetch(3), b.share_fetch(4)):
        fetch.answered(responses=handed((1, 5, 9)))
    unchanged(a)
    assert "PHANTOM_SESSION_PARTITION" not in dict(codes(talk))


def test_an_acknowledgement_hands_out_nothing() -> None:
    talk = Conversation()
    a = talk.member("a")
    forgot_partition(a, 0)
    a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
    a.share_acknowledge(3).answered()
    unchanged(a)
    assert codes(talk) == [("UNRELEASED_ON_FORGET", "note")]


def test_a_partition_that_is_listed_and_forgotten_is_not_strange() -> None:
    talk = Conversation()
    opened(talk).share_fetch(1, [7], forget=[7]).answered()
    assert findings(talk) == []


def test_which_partitions_an_older_session_holds_is_not_known() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.share_fetch(4).answered()
    a.share_fetch(5, forget=[7]).answered()
    assert findings(talk) == []


def test_which_partitions_it_holds_is_not_known_behind_what_was_missed() -> None:
    talk = Conversation()
    a = opened(talk, 3)
    a.share_fetch(4, forget=[7]).answered()
    assert codes(talk) == [("FORGET_UNKNOWN", "note")]
    assert codes(talk.without_exchange(3)) == []


def test_the_first_strange_partition_is_named() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    a.share_fetch(1, forget=[0, 8, 7]).answered()
    assert [it.partition for it in findings(talk)] == [8]


def test_a_partition_is_forgotten_after_its_lock_ran_out() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=2000)
    talk.pause(3)
    a.share_fetch(1, forget=[0]).answered()
    assert codes(talk) == []


def test_of_several_forgotten_partitions_the_one_that_is_held() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0, 1]).answered(responses=handed((1, 0, 9)))
    held = a.share_fetch(1, forget=[0, 1]).answered()
    assert findings(talk) == [note("UNRELEASED_ON_FORGET", held)]
    assert findings(talk)[0].partition == 1


def test_what_is_refused_forgets_nothing() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_fetch(5, forget=[0, 7]).answered(INVALID_SHARE_SESSION_EPOCH)
    assert codes(talk) == [("EPOCH_SKIP_AHEAD", "violation")]


# -- partitions of others


def unassigned(talk: Conversation | Thinned) -> list[tuple[str, int | None]]:
    """What is said of partitions that are not the member's: verdict and partition."""
    return [(it.verdict, it.partition) for it in findings(talk) if it.code == "FETCH_UNASSIGNED_PARTITION"]


def taken_away(*before: int) -> tuple[Conversation, Member]:
    """A member that is assigned these and 0, of which 0 alone is left to it."""
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0, *before)
    a.share_fetch(0, [0]).answered()
    assignment = {"topic_partitions": [{"topic_id": TOPIC, "partitions": [0]}]}
    a.heartbeat(1).given(2, assignment=assignment)
    return talk, a


def still_two(a: Member) -> None:
    a.heartbeat(2).given(2)


@pytest.mark.parametrize(("late_ms", "verdict"), [(0, "violation"), (1, "violation"), (50, "unknown")])
def test_where_clocks_differ_the_assignment_may_have_come_behind_the_request(late_ms: int, verdict: str) -> None:
    """The heartbeat's broker is another one than the fetch's, and so is its recorder."""
    talk = Conversation()
    a = talk.member("a")
    beats = a.on(talk.connection())
    assigned(beats, 0)
    talk.pause(0.02)
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1).answered()
    unchanged(beats)
    packets = talk.wire.packets
    packets[1] = replace(packets[1], time_ns=packets[2].time_ns + late_ms * 1_000_000 * (late_ms > 0))
    assert unassigned(talk) == [(verdict, 1)]


def test_a_partition_that_was_just_taken_away_may_be_asked_for_once() -> None:
    talk, a = taken_away(1)
    a.share_fetch(1, [1]).answered()
    still_two(a)
    assert unassigned(talk) == []


@pytest.mark.parametrize(("pause", "told"), [(1, [("violation", 1)]), (0.9, [])])
def test_behind_the_next_request_a_partition_that_was_taken_away_is_anothers(
    pause: float, told: list[tuple[str, int]]
) -> None:
    """Seen behind a slow network: requests and answers go on, and what was assigned is on its way on another
    connection."""
    talk, a = taken_away(1)
    a.share_fetch(1).answered()
    talk.pause(pause)
    a.share_fetch(2, [1]).answered()
    still_two(a)
    assert unassigned(talk) == told


def test_a_session_that_is_opened_anew_has_at_first_what_the_old_one_had() -> None:
    """A Java client whose connection was reset when a partition was taken away: its next request had been made
    before."""
    talk, a = taken_away(1)
    talk.pause(5)
    a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1, forget=[1]).answered()
    still_two(a)
    assert unassigned(talk) == []


def test_a_partition_that_never_was_the_members_is_anothers_at_once() -> None:
    talk, a = taken_away()
    a.share_fetch(1, [1]).answered()
    still_two(a)
    assert unassigned(talk) == [("violation", 1)]


def test_of_a_member_whose_join_was_not_seen_it_may_have_been_before() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    assigned(a, 0)
    a.share_fetch(0, [1]).answered()
    unchanged(a)
    assert unassigned(talk) == []


def told_of_another(refused: int) -> tuple[Conversation, Asked]:
    """A member whose join was refused so often is in the group, then assigned 0, and asks for 1; its last join."""
    talk = Conversation()
    a = talk.member("a", joined=False)
    for _ in range(refused):
        a.heartbeat(0, ["t"]).answered(NOT_COORDINATOR)
    joined = a.join()
    a.heartbeat(1).given(2, assignment={"topic_partitions": [{"topic_id": TOPIC, "partitions": [0]}]})
    a.share_fetch(0, [1]).answered()
    a.share_fetch(1).answered()
    still_two(a)
    return talk, joined


def test_a_refused_join_assigns_nothing() -> None:
    for refused in range(3):
        talk, _ = told_of_another(refused)
        assert unassigned(talk) == [("violation", 1)]


def test_with_an_answer_that_was_missed_it_may_have_been_assigned() -> None:
    for refused in range(3):
        talk, joined = told_of_another(refused)
        assert unassigned(talk.without_packets([joined.answer_packets[0]])) == []


def test_what_enters_the_session_is_said_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    a.share_fetch(0, [0]).answered()
    a.share_fetch(1, [1]).answered()
    a.share_fetch(2, [1]).answered()
    unchanged(a)
    assert unassigned(talk) == [("violation", 1)]


def test_what_is_acknowledged_or_forgotten_at_once_is_not_asked_for() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    a.share_fetch(0, [0]).answered()
    a.share_fetch(1, [1], acks=[(0, 4, 2)], forget=[1]).answered()
    a.share_fetch(2, [2], forget=[2]).answered()
    unchanged(a)
    assert unassigned(talk) == []


def test_an_assignment_that_was_missed_may_have_had_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    assignment = {"topic_partitions": [{"topic_id": TOPIC, "partitions": [0, 1]}]}
    missed = a.heartbeat(1).given(2, assignment=assignment)
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1).answered()
    still_two(a)
    assert unassigned(talk) == []
    for packet in missed.all_packets:
        assert unassigned(talk.without_packets([packet])) in ([], [("unknown", 1)])
    assert unassigned(talk.without_packets(missed.all_packets)) == [("unknown", 1)]


def test_whoever_left_and_joined_again_may_be_given_the_same_epoch() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    gone = left(a)
    back = a.heartbeat(0, ["t"]).given(1, assignment={"topic_partitions": [{"topic_id": TOPIC, "partitions": [1]}]})
    a.share_fetch(0, [1]).answered()
    a.share_fetch(1).answered()
    unchanged(a)
    assert unassigned(talk) == []
    assert unassigned(talk.without_packets([*gone.all_packets, *back.all_packets])) == [("unknown", 1)]


def test_a_member_that_joined_again_opens_its_session_with_what_it_had() -> None:
    """A Java client that subscribes to something else, and whose connection was reset."""
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 1)
    a.share_fetch(0, [1]).answered()
    left(a)
    a.heartbeat(0, ["t"]).given(1, assignment={"topic_partitions": [{"topic_id": TOPIC, "partitions": [0]}]})
    talk.pause(2)
    a.share_fetch(1, [0]).answered(SHARE_SESSION_NOT_FOUND)
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1, forget=[1]).answered()
    unchanged(a)
    assert unassigned(talk) == []


def test_a_session_may_be_opened_with_what_was_never_fetched() -> None:
    """A Java client that leaves before it fetches, and joins again: which partitions it was assigned before, no packet
    need show."""
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    opening = a.share_fetch(0, [0, 1]).answered()
    forgets = a.share_fetch(1, forget=[1]).answered()
    a.share_fetch(2).answered()
    unchanged(a)
    assert unassigned(talk) == []
    for seen in (opening, forgets):
        for packet in seen.all_packets:
            assert ("violation", 1) not in unassigned(talk.without_packets([packet]))
    assert unassigned(talk.without_packets(forgets.all_packets)) == []


def joined_again(*, late: bool = False) -> tuple[Conversation, Asked, Asked]:
    """A member that has had 1, left and joined again, is assigned 0, and asks for 1 (`late`: it did before it left);
    its leave and join."""
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 1)
    a.share_fetch(0, [1]).answered()
    asked = a.on(talk.connection()).share_fetch(0, [1]) if late else None
    gone = left(a)
    back = a.heartbeat(0, ["t"]).given(1, assignment={"topic_partitions": [{"topic_id": TOPIC, "partitions": [0]}]})
    (asked or a.share_fetch(0, [1])).answered()
    a.share_fetch(1).answered()
    unchanged(a)
    return talk, gone, back


def test_what_it_had_before_it_left_is_anothers_now() -> None:
    talk, gone, back = joined_again()
    assert unassigned(talk) == [("violation", 1)]
    for seen in (gone, back):
        for packet in seen.all_packets:
            assert unassigned(talk.without_packets([packet])) in ([], [("unknown", 1)])


def test_before_the_first_packet_of_the_later_membership_all_may_have_been() -> None:
    talk, gone, back = joined_again()
    assert unassigned(talk.without_packets([*gone.all_packets, *back.all_packets])) == []


def test_what_it_asked_for_before_it_left_is_not_judged_by_what_it_was_given_since() -> None:
    talk, *_ = joined_again(late=True)
    assert unassigned(talk) == []


def test_of_what_waits_for_a_proof_no_more_is_held_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITING_VERDICTS", 1)
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1).answered()
    a.share_fetch(2, [2]).answered()
    unchanged(a)
    assert unassigned(talk) == [("violation", 1), ("unknown", 2)]


def test_nothing_is_said_of_a_member_that_was_told_nothing() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.share_fetch(0, [1]).answered()
    assert unassigned(talk) == []


# -- members that are gone


def departed(talk: Conversation | Thinned) -> list[str]:
    """The verdicts on members that went on without their group."""
    return [verdict for code, verdict in codes(talk) if code == "FETCH_BY_DEPARTED_MEMBER"]


@pytest.mark.parametrize(("pause", "told"), [(30, ["violation"]), (29, ["unknown"]), (0.9, [])])
def test_whoever_joins_later_was_gone_until_then(pause: float, told: list[str]) -> None:
    """Sooner he may have asked to before: at once, or held up for seconds, as seen at brokers behind a proxy."""
    talk = Conversation()
    a = talk.member("a")
    fetched_after_leaving(a)
    talk.pause(pause)
    a.join()
    assert departed(talk) == told


def test_a_fetch_that_is_held_up_may_have_been_sent_before_the_leave() -> None:
    talk = Conversation()
    a = talk.member("a")
    fetching = a.on(talk.connection())
    fetching.share_fetch(0, [0]).answered()
    left(a)
    talk.pause(20)
    fetching.share_fetch(1).answered()
    talk.pause(31)
    a.join()
    assert departed(talk) == []


def test_a_join_that_crosses_with_a_fetch_may_have_been_sent_first() -> None:
    """A Java client that subscribes anew: what it was assigned before it left, it asks for as it joins."""
    talk = Conversation()
    a = talk.member("a")
    fetching = a.on(talk.connection())
    fetching.share_fetch(0, [0]).answered()
    left(a)
    talk.pause(2)
    crosses, join = fetching.share_fetch(0, [0]), a.heartbeat(0, ["t"])
    crosses.answered()
    join.given(1)
    assert departed(talk) == []


def test_who_has_another_coordinator_connection_may_have_joined_on_a_third() -> None:
    talk = Conversation()
    a = talk.member("a")
    fetched_after_leaving(a)
    talk.pause(31)
    a.on(talk.connection()).join()
    assert departed(talk) == ["unknown"]


def test_a_heartbeat_that_is_missing_may_have_been_a_join() -> None:
    talk = Conversation()
    a = talk.member("a")
    fetched_after_leaving(a)
    missing = a.heartbeat(5)
    talk.pause(31)
    a.join()
    assert departed(talk) == ["violation"]
    assert departed(talk.without_packets(missing.packets)) == ["unknown"]


def test_whoever_has_an_epoch_later_had_joined() -> None:
    talk = Conversation()
    a = talk.member("a")
    fetched_after_leaving(a)
    a.heartbeat(7).given(7)
    assert departed(talk) == ["unknown"]


def test_whoever_is_told_again_that_it_is_out_was_out() -> None:
    for error, verdict in ((UNKNOWN_MEMBER_ID, "violation"), (FENCED_MEMBER_EPOCH, "unknown")):
        talk = Conversation()
        a = talk.member("a")
        fetched_after_leaving(a)
        a.heartbeat(1).answered(error)
        assert departed(talk) == [verdict]


def test_a_fetch_that_crosses_with_the_leave_is_nobodys_fault() -> None:
    talk = Conversation()
    a = talk.member("a")
    fetching = a.on(talk.connection())
    fetching.share_fetch(0, [0]).answered()
    leaving = a.heartbeat(-1)
    open_still = fetching.share_fetch(1)
    leaving.given(-1)
    open_still.answered()
    fetching.share_fetch(2).answered()
    a.join()
    assert departed(talk) == []


@pytest.mark.parametrize("asked", [{"acks": [(0, 0, 1)], "forget": [0], "partitions": [0]}, {"forget": [0]}])
def test_whoever_left_gives_back_what_it_holds(asked: dict[str, Any]) -> None:
    """A Java client that subscribes anew, on another connection than it joins on."""
    talk = Conversation()
    a = opened(talk)
    left(a)
    talk.pause(2)
    a.share_fetch(1, **asked).answered()
    a.join()
    assert departed(talk) == []


def test_a_session_is_closed_by_whoever_left() -> None:
    talk = Conversation()
    a = opened(talk)
    left(a)
    a.share_acknowledge(-1).answered()
    assert departed(talk) == []


def test_whoever_joined_again_is_in_it() -> None:
    talk = Conversation()
    a = opened(talk)
    left(a)
    a.join()
    a.share_fetch(1).answered()
    assert departed(talk) == []


def test_whoever_was_put_out_goes_on() -> None:
    for error in (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID):
        talk = Conversation()
        a = opened(talk)
        a.heartbeat(1).answered(error)
        a.share_fetch(1).answered()
        talk.pause(1)
        a.share_fetch(2).answered()
        a.share_fetch(3).answered()
        assert departed(talk) == ["violation"]


def test_whoever_was_put_out_may_not_have_heard_of_it() -> None:
    """Seen behind a slow network: the answer to the heartbeat takes longer than a few fetches on another connection."""
    talk = Conversation()
    a = opened(talk)
    fetches = a.on(talk.connection())
    a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    for epoch in (1, 2, 3):
        talk.pause(0.2)
        fetches.share_fetch(epoch).answered()
    a.join()
    assert departed(talk) == []


def test_whoever_was_put_out_gives_back_what_it_holds() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    a.share_acknowledge(1, [(0, 4, 2)]).answered()
    a.share_fetch(2, [0], acks=[(5, 9, 2)]).answered()
    a.share_fetch(3, forget=[0]).answered()
    assert departed(talk) == []


def test_a_heartbeat_that_was_missed_may_have_been_a_join() -> None:
    talk = Conversation()
    a = opened(talk)
    left(a)
    a.join()
    a.share_fetch(1).answered()
    at = len(talk.exchanges) - 2
    assert departed(talk.without_exchange(at)) in ([], ["unknown"])
    assert departed(talk.without_packets([talk.exchanges[at].sent])) in ([], ["unknown"])


def test_each_departure_is_said_once() -> None:
    talk = Conversation()
    a = opened(talk)
    for epoch in (1, 3):
        left(a)
        a.share_fetch(epoch).answered()
        a.share_fetch(epoch + 1).answered()
        a.join()
    assert departed(talk) == ["violation"] * 2


def test_a_fetch_that_was_overtaken_behind_the_leave_does_not_stand_for_those_that_are_served() -> None:
    """It was counted and its answer refuses it, so nothing was said of it; what is served next is told all the same."""
    talk = Conversation()
    a = opened(talk)
    left(a)
    waits = a.share_fetch(1)
    overtakes = a.on(talk.connection()).share_acknowledge(2).answered()
    waits.answered(INVALID_SHARE_SESSION_EPOCH)
    served = a.share_fetch(3).answered()
    a.share_fetch(4).answered()
    assert departed(talk) == ["violation"]
    assert departed(talk.without_packets(overtakes.all_packets)) == ["violation"]
    assert departed(talk.without_packets(served.all_packets)) == ["unknown"]


def test_what_is_unknown_elsewhere_is_proved_on_the_connection_of_the_leave() -> None:
    """What it does on another connection may belong to a join that nobody saw; once each is said."""
    talk = Conversation()
    a = opened(talk)
    elsewhere = a.on(talk.connection())
    left(a)
    talk.pause(2)
    for epoch in (1, 2):
        elsewhere.share_fetch(epoch).answered()
    for epoch in (3, 4):
        a.share_fetch(epoch).answered()
    elsewhere.share_fetch(5).answered()
    a.heartbeat(7).given(7)
    assert departed(talk) == ["unknown", "violation"]


@pytest.mark.parametrize(
    ("beats_here", "received", "verdict"),
    [(True, True, ["violation"]), (True, False, []), (False, True, ["violation"]), (False, False, ["unknown"])],
)
def test_a_member_that_lacks_the_answer_has_its_assignment_of_before(
    beats_here: bool, received: bool, verdict: list[str]
) -> None:
    """TCP may deliver the coordinator's answer seconds after the capture shows it."""
    talk = alone()
    beats = talk.member("a")
    a = beats if beats_here else beats.on(talk.connection())
    both, one = ([{"topic_id": TOPIC, "partitions": list(partitions)}] for partitions in ((0, 1), (0,)))
    beats.heartbeat(1).given(2, assignment={"topic_partitions": both})
    beats.heartbeat(2).given(2)
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1, forget=[1]).answered()
    with nullcontext() if received else beats.connection.pipelined():
        beats.heartbeat(2).given(3, assignment={"topic_partitions": one})
        talk.pause(3)
        if received and not beats_here:
            beats.heartbeat(3).given(3)
        a.share_fetch(2).answered()
        a.share_fetch(3, [1]).answered()
    beats.heartbeat(3).given(3)
    assert [it for it, _ in unassigned(talk)] == verdict
