"""Rebalances: who caused each of them, how long it took, and for whom it waited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kshark import limits
from kshark.capture import open_captures
from kshark.groups import Groups
from kshark.groups.rebalances import Rebalance
from kshark.groups.rebalances.sentences import trigger_of, wait_of
from kshark.model import PacketBatch, Weird
from kshark.pipeline import Engine, Options
from tests.conversation import TOPIC, Asked, Conversation, Thinned, events, registry
from tests.groups.talks import MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS, Classic
from tests.groups.test_expiry import handed, inherits, joins, two
from tests.groups.test_heartbeats import consumer
from tests.groups.test_witness import READ, Capture

SECOND = 1_000_000_000


def rebalances(talk: Conversation | Thinned, *, embedded: bool = True) -> list[Rebalance]:
    """The rebalances of the only group."""
    known = Groups()
    for event in events(talk, Options(embedded=embedded)):
        known.feed(event)
    known.close()
    (one,) = known.listed({}, rebalances=True)
    assert one.rebalances is not None
    return one.rebalances


def causes(talk: Conversation | Thinned) -> list[tuple[str, str | None]]:
    """The trigger of each, and the member. Nothing depends on who decodes the subscriptions."""
    rows = [(row.trigger, row.by.member_id.rstrip("A") if row.by else None) for row in rebalances(talk)]
    plain = [
        (row.trigger, row.by.member_id.rstrip("A") if row.by else None) for row in rebalances(talk, embedded=False)
    ]
    assert rows == plain
    return rows


def waits(row: Rebalance) -> list[tuple[str, str | None, float]]:
    """What it waited for, and how many seconds."""
    return [
        (
            one.why,
            one.member.member_id.rstrip("A") if one.member else None,
            -1 if one.until_ns is None else round((one.until_ns - one.time_ns) / SECOND, 1),
        )
        for one in row.waited_for
    ]


def answer(generation: int, *asked: tuple[Classic, Asked], protocol: str = "range") -> None:
    """The coordinator answers the joins: the first one is the leader's."""
    everybody = [
        {"member_id": one.member_id, "group_instance_id": one.instance_id, "metadata": b""} for one, _ in asked
    ]
    for number, (one, join) in enumerate(asked):
        join.answered(
            generation_id=generation,
            protocol_name=protocol,
            leader=asked[0][0].member_id,
            member_id=one.member_id,
            members=everybody if number == 0 else [],
        )


def sync(generation: int, *members: Classic) -> None:
    """Each member gets one partition; the leader is the first one."""
    for number, one in enumerate(members):
        one.syncs(generation, number, **({members[0].member_id: [0]} if number == 0 else {}))


def members(talk: Conversation, *names: str) -> list[Classic]:
    return [Classic(talk.connection(host=f"10.0.0.{number}"), name) for number, name in enumerate(names, 2)]


def begun(talk: Conversation, *names: str) -> list[Classic]:
    """A group whose first generation has these members."""
    group = members(talk, *names)
    answer(1, *((one, one.join(as_="")) for one in group))
    sync(1, *group)
    return group


def again(generation: int, *group: Classic, informed: bool = True) -> None:
    """The members learn of a rebalance from their heartbeats, and join again."""
    if informed:
        for one in group:
            one.beats(generation - 1, REBALANCE_IN_PROGRESS)
    answer(generation, *((one, one.join()) for one in group))
    sync(generation, *group)


def test_a_new_member_joins_and_the_others_join_again_later() -> None:
    talk = Conversation()
    a, b, new = (*begun(talk, "a", "b"), *members(talk, "c"))
    new.join(as_="").answered(MEMBER_ID_REQUIRED, member_id="c", generation_id=-1)
    joined = new.join()
    packet = joined.packet
    for one in (a, b):
        one.beats(1, REBALANCE_IN_PROGRESS)
    first = a.join()
    talk.pause(3)
    last = b.join()
    answer(2, (a, first), (b, last), (new, joined))
    sync(2, a, b, new)
    begin, row = rebalances(talk)
    assert (begin.trigger, begin.before, begin.after, begin.members) == ("join", None, 1, 2)
    assert (row.trigger, row.by and row.by.member_id, row.before, row.after, row.members) == ("join", "c", 1, 2, 3)
    assert row.packet == packet
    assert waits(row) == [("joined_last", "b", 3.0)]
    assert row.stood_still_ns is not None
    assert round(row.stood_still_ns / SECOND) == 3
    assert (trigger_of(row), wait_of(row.waited_for[0])) == ("c1 (10.0.0.2) joined", "c1, the last to join")


def test_a_member_leaves_with_its_reason() -> None:
    talk = Conversation()
    a, b = begun(talk, "a", "b")
    b.leaves(reason="the consumer is being closed")
    again(2, a)
    row = rebalances(talk)[-1]
    assert (causes(talk)[-1], row.reason) == (("leave", "b"), "the consumer is being closed")


def test_a_member_polls_too_late_and_comes_back() -> None:
    talk = Conversation()
    a, b = begun(talk, "a", "b")
    b.leaves(reason="consumer poll timeout has expired.")
    again(2, a)
    talk.pause(5)
    back = Classic(b.connection, "b2")
    joined = back.join(as_="")
    a.beats(2, REBALANCE_IN_PROGRESS)
    answer(3, (a, a.join()), (back, joined))
    sync(3, a, back)
    assert causes(talk)[1:] == [("poll_too_late", "b"), ("join", "b2")]
    left = rebalances(talk)[1]
    assert left.returned_ns is not None
    assert round((left.returned_ns - left.time_ns) / SECOND) == 5


def test_a_member_whose_session_expires() -> None:
    talk = Conversation()
    a, _ = begun(talk, "a", "b")
    for _ in range(5):
        talk.pause(2)
        a.beats(1)
    talk.pause(1)
    again(2, a)
    row = rebalances(talk)[-1]
    assert causes(talk)[-1] == ("expired", "b")
    assert row.stood_still_ns is not None
    assert round(row.stood_still_ns / SECOND) == 11


def test_a_member_that_is_missing_earlier_is_not_said_to_have_expired() -> None:
    talk = Conversation()
    a, _ = begun(talk, "a", "b")
    talk.pause(3)
    again(2, a)
    assert causes(talk)[-1] == ("gone", "b")


def test_a_dead_member_lets_the_others_wait_until_its_session_is_over() -> None:
    talk = Conversation()
    a, _, new = (*begun(talk, "a", "b"), *members(talk, "c"))
    talk.pause(2)
    joined = new.join(as_="")
    a.beats(1, REBALANCE_IN_PROGRESS)
    back = a.join()
    talk.pause(8)
    answer(2, (a, back), (new, joined))
    sync(2, a, new)
    assert causes(talk)[-1] == ("join", "c")
    assert waits(rebalances(talk)[-1]) == [("never_joined", "b", 8.0)]


def test_a_new_member_that_does_not_use_its_id_lets_the_others_wait() -> None:
    talk = Conversation()
    a, b = begun(talk, "a", "b")
    (lost,) = members(talk, "c")
    b.leaves()
    lost.join(as_="").answered(MEMBER_ID_REQUIRED, member_id="c", generation_id=-1)
    a.beats(1, REBALANCE_IN_PROGRESS)
    back = a.join()
    talk.pause(6)
    answer(2, (a, back))
    sync(2, a)
    assert causes(talk)[-1] == ("leave", "b")
    assert waits(rebalances(talk)[-1]) == [("pending", "c", 6.0)]


def test_a_member_that_subscribes_to_other_topics() -> None:
    talk = Conversation()
    a, b = begun(talk, "a", "b")
    changed = b.join("orders", "payments")
    a.beats(1, REBALANCE_IN_PROGRESS)
    answer(2, (a, a.join()), (b, changed))
    assert causes(talk)[-1] == ("subscription", "b")


def test_a_leader_that_sees_other_partitions() -> None:
    talk = Conversation()
    (a,) = begun(talk, "a")
    answer(2, (a, a.join(reason="cached metadata has changed from (version1) to (version2)")))
    assert causes(talk)[-1] == ("topics", "a")


def test_a_member_that_joins_again_by_itself() -> None:
    talk = Conversation()
    (a,) = begun(talk, "a")
    answer(2, (a, a.join(reason="rebalance enforced by user")))
    row = rebalances(talk)[-1]
    assert (row.trigger, row.reason) == ("rejoin", "rebalance enforced by user")


def test_the_second_half_of_a_cooperative_rebalance() -> None:
    talk = Conversation()
    a, b = begun(talk, "a", "b")
    given_up = a.join(owned=(0,), protocol="cooperative-sticky")
    b.beats(1, REBALANCE_IN_PROGRESS)
    answer(2, (a, given_up), (b, b.join(protocol="cooperative-sticky")), protocol="cooperative-sticky")
    sync(2, a, b)
    row = rebalances(talk)[-1]
    assert causes(talk)[-1] == ("revocation", "a")
    assert row.stood_still_ns is None  # only the partitions that move


def test_the_assignment_of_a_slow_leader() -> None:
    talk = Conversation()
    a, b = begun(talk, "a", "b")
    b.leaves()
    a.beats(1, REBALANCE_IN_PROGRESS)
    answer(2, (a, a.join()))
    talk.pause(4)
    sync(2, a)
    assert waits(rebalances(talk)[-1]) == [("leader", None, 4.0)]


def test_the_last_member_leaves() -> None:
    talk = Conversation()
    (a,) = begun(talk, "a")
    a.leaves()
    row = rebalances(talk)[-1]
    assert (row.trigger, row.after, row.members, row.until_ns is not None) == ("leave", None, 0, True)


def test_one_that_is_not_over_waits_to_the_end() -> None:
    talk = Conversation()
    a, b = begun(talk, "a", "b")
    (new,) = members(talk, "c")
    new.join(as_="").answered(MEMBER_ID_REQUIRED, member_id="c", generation_id=-1)
    new.join()
    a.beats(1, REBALANCE_IN_PROGRESS)
    a.join()
    row = rebalances(talk)[-1]
    assert (row.trigger, row.until_ns, waits(row)) == ("join", None, [("never_joined", "b", -1)])
    assert b.member_id == "b"


def killed_and_left(talk: Conversation) -> tuple[Classic, Classic]:
    """One member is killed, and the other one leaves: nobody is there to show that the dead one's session expires."""
    a, b = begun(talk, "a", "b")
    b.connection.reset()
    talk.pause(2)
    a.leaves()
    return a, b


def goes_by(talk: Conversation, seconds: int) -> None:
    """Time in which others send packets."""
    other = Classic(talk.connection(host="10.0.0.9"), "other", group_id="o")
    for _ in range(seconds):
        talk.pause(1)
        other.beats(1)


def of_group(talk: Conversation | Thinned, group_id: str = "c") -> Any:
    known = Groups()
    for event in events(talk, Options(embedded=True)):
        known.feed(event)
    known.close()
    return next(one for one in known.listed({}, rebalances=True) if one.group_id == group_id)


@pytest.mark.parametrize("seconds", [12, 200])
def test_the_last_member_that_a_group_waits_for_is_dead(seconds: int) -> None:
    talk = Conversation()
    killed_and_left(talk)
    goes_by(talk, seconds)
    one = of_group(talk)
    row = one.rebalances[-1]
    assert (row.trigger, row.after, row.until_packet, row.is_end_inferred) == ("leave", None, None, True)
    assert round((row.until_ns - row.time_ns) / SECOND) == 8
    assert [it[:2] for it in waits(row)] == [("never_joined", "b")]
    assert wait_of(row.waited_for[0]) == "c1, until it was removed"
    last = one.history[-1]
    assert (last.state, last.because, last.time_ns) == ("Empty", "session_timeout", row.until_ns)


def test_a_group_that_waits_for_a_dead_member_goes_on_waiting_while_its_session_may_last() -> None:
    talk = Conversation()
    killed_and_left(talk)
    goes_by(talk, 6)
    row = of_group(talk).rebalances[-1]
    assert (row.until_ns, waits(row)) == (None, [("never_joined", "b", -1)])


def test_a_member_that_joins_after_the_last_one_expired_begins_another_rebalance() -> None:
    talk = Conversation()
    killed_and_left(talk)
    goes_by(talk, 20)
    new = Classic(talk.connection(host="10.0.0.4"), "new")
    answer(3, (new, new.join(as_="")))
    sync(3, new)
    _, left, joined = of_group(talk).rebalances
    assert (left.trigger, left.is_end_inferred, round((left.until_ns - left.time_ns) / SECOND)) == ("leave", True, 8)
    assert (joined.trigger, joined.by.member_id, joined.waited_for) == ("join", "new", [])


def test_a_member_that_joined_while_the_last_one_was_dead_waited_for_it() -> None:
    talk = Conversation()
    killed_and_left(talk)
    new = Classic(talk.connection(host="10.0.0.4"), "new")
    joined = new.join(as_="")
    goes_by(talk, 9)
    answer(2, (new, joined))
    sync(2, new)
    row = of_group(talk).rebalances[-1]
    assert (row.trigger, row.after, row.is_end_inferred, row.members) == ("leave", 2, False, 1)


def test_lost_bytes_of_the_dead_member_leave_the_end_open() -> None:
    talk = Conversation()
    _, b = killed_and_left(talk)
    goes_by(talk, 20)
    beat = Classic(talk.connection(host="10.0.0.3"), b.member_id).beats(1)
    goes_by(talk, 20)
    row = of_group(talk.without_packets(beat.packets)).rebalances[-1]
    assert (row.until_ns, row.is_end_inferred) == (None, False)


def test_the_epoch_that_hands_out_the_partitions_of_a_killed_member_of_a_share_group() -> None:
    talk = Conversation()
    inherits(talk)
    row = rebalances(talk)[-1]
    assert (row.trigger, row.by and row.by.member_id[0], row.after, row.members) == ("expired", "b", 3, 1)
    assert (row.until_ns is not None, row.waited_for) == (True, [])


def test_a_capture_that_begins_later_knows_no_trigger() -> None:
    talk = Conversation()
    (a,) = members(talk, "a")
    a.beats(7)
    again(8, a)
    assert causes(talk) == [("unknown", None)]


# -- groups with epochs


def test_a_member_of_a_consumer_group_gives_up_partitions_late() -> None:
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False)
    joins(a, 1, 0, 1)
    consumer(a, 1, topic_partitions=handed(0, 1)["topic_partitions"]).given(1)
    joins(b, 2)
    consumer(a, 1).given(1, assignment=handed(0))
    talk.pause(7)
    assert waits(rebalances(talk)[-1]) == [("not_revoked", "a", -1)]
    assert rebalances(talk)[-1].waited_for[0].partitions == {TOPIC: [1]}
    consumer(a, 1, topic_partitions=handed(0)["topic_partitions"]).given(2)
    talk.pause(2)
    consumer(b, 2).given(2, assignment=handed(1))
    row = rebalances(talk)[-1]
    assert causes(talk) == [("join", "a"), ("join", "b")]
    assert waits(row) == [("not_revoked", "a", 7.0)]
    assert row.until_ns is not None
    assert row.stood_still_ns is not None
    assert [round(ns / SECOND) for ns in (row.until_ns - row.time_ns, row.stood_still_ns)] == [9, 2]


def test_members_of_a_consumer_group_leave_and_change_their_subscription() -> None:
    talk = Conversation()
    a, b = two(talk)
    consumer(b, 2, subscribed_topic_names=["t", "u"]).given(3)
    consumer(a, 2).given(3)
    consumer(b, -1).given(-1)
    consumer(a, 3).given(4)
    assert causes(talk)[2:] == [("subscription", "b"), ("leave", "b")]


def test_a_member_that_leaves_and_comes_back_is_noted_where_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its join before is in the same packet, and is not what it came back from."""
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False)
    joins(a, 1, 0, 1)
    asked, data = [], bytearray()
    with monkeypatch.context() as patch:
        patch.setattr(b.connection.tcp, "client", lambda part: data.extend(part) or [])
        asked += [consumer(b, 0, subscribed_topic_names=["t"], topic_partitions=[]), consumer(b, -1)]
    asked[0].packets = asked[1].packets = b.connection.tcp.client(bytes(data))
    asked[0].given(2, assignment=handed(0))
    asked[1].given(-1)
    consumer(a, 1).given(3)
    talk.pause(4)
    joins(b, 4)
    back = [(row.trigger, row.returned_ns is not None) for row in rebalances(talk)]
    assert back == [("join", False), ("join", False), ("leave", True), ("join", False)]


def test_a_session_of_a_consumer_group_expires() -> None:
    talk = Conversation()
    a, b = two(talk)
    a.connection.reset()
    for _ in range(4):
        talk.pause(2)
        consumer(b, 2).given(2)
    consumer(b, 2).given(3, assignment=handed(0, 1))
    assert causes(talk)[-1] in [("expired", "a"), ("unknown", None)]


def test_partitions_are_added_to_a_topic() -> None:
    talk = Conversation()
    a, b = two(talk)
    admin = talk.connection()
    body: dict[str, Any] = {
        "topics": [{"name": "t", "count": 4, "assignments": None}],
        "timeout_ms": 1000,
        "validate_only": False,
    }
    result = {"name": "t", "error_code": 0, "error_message": None}
    asked = admin.ask(37, "CreatePartitions", 2, body)
    packet = asked.packet
    asked.answered(None, results=[result])
    consumer(b, 2).given(3)
    consumer(a, 2).given(3)
    row = rebalances(talk)[-1]
    assert (row.trigger, row.by, row.packet) == ("topics", None, packet)


def test_every_prefix_of_a_capture_can_be_listed() -> None:
    talk = Conversation()
    a, b, new = (*begun(talk, "a", "b"), *members(talk, "c"))
    joined = new.join(as_="")
    again(2, a, b)
    joined.answered(27)
    b.leaves()
    again(3, a)
    total = len(talk.wire.packets)
    for number in range(total):
        known = Groups()
        for event in events(talk.without_packets(range(number, total + 1)), Options()):
            known.feed(event)
        known.close()
        for group in known.listed({}, rebalances=True):
            assert group.rebalances is not None
            for row in group.rebalances:
                assert row.until_ns is None or row.until_ns >= row.time_ns


# -- against the coordinator's own log

#: A recording of Kafka 4.4.0 and Java consumers with a session timeout of 6 s: groups jr (range), jco (cooperative) and
#: jk (KIP-848). Members join, are killed, leave, and partitions are added to the topic. Each line of the log has the
#: group, the generation before, and the coordinator's reason for the rebalance.
RECORDED = Path(__file__).parent / "rebalances.pcap.gz"
LOG = RECORDED.with_name("rebalances.log")
#: How the coordinator's reasons begin, the triggers that they are, and the word of the reason that is the member id.
REASONS: dict[str, tuple[set[str], int | None]] = {
    "Adding new member": ({"join"}, 3),
    "Leader": ({"revocation", "topics"}, 1),
    "Updating metadata for member": ({"revocation", "topics", "subscription"}, 4),
    "explicit `LeaveGroup` request": ({"leave"}, 4),
    "removing member": ({"expired"}, 2),
}


def recorded() -> dict[str, list[Rebalance]]:
    known = Groups()
    for event in Capture(RECORDED):
        known.feed(event)
    known.close()
    return {one.group_id: one.rebalances or [] for one in known.listed({}, rebalances=True)}


def test_triggers_are_those_that_the_coordinator_logged() -> None:
    rows = recorded()
    compared = 0
    for line in LOG.read_text().splitlines():
        group_id, generation, reason = line.split(" ", 2)
        if generation == "-" or (group_id, generation) == ("jr", "6"):
            continue  # the end of the last member, which nobody sees
        triggers, word = next(of for begins, of in REASONS.items() if reason.startswith(begins))
        (row,) = [it for it in rows[group_id] if (it.before or 0) == int(generation)]
        assert row.trigger in triggers, line
        assert word is None or (row.by and row.by.member_id) == reason.split()[word].strip("()"), line
        compared += 1
    assert compared == 15


def test_triggers_of_a_consumer_group_are_those_that_the_coordinator_logged() -> None:
    said = [(row.after, row.trigger, row.by and row.by.client_id) for row in recorded()["jk"]]
    assert said == [
        (1, "join", "k1"),
        (2, "subscription", "k1"),
        (3, "join", "k2"),
        (4, "expired", "k2"),
        (5, "join", "k3"),
        (6, "topics", None),
        (7, "leave", "k1"),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_lost_packets_make_no_other_trigger(seed: int) -> None:
    """Another request takes the place of a lost one only in a row that says so, or in the first one."""
    whole = {(name, row.after): row for name, rows in recorded().items() for row in rows}
    known = Groups()
    for page in Engine(READ, registry()).pages(thinned(np.random.default_rng(seed))):
        for event in page:
            known.feed(event)
    known.close()
    for one in known.listed({}, rebalances=True):
        for row in one.rebalances or []:
            true = whole.get((one.group_id, row.after))
            is_same = true is not None and (row.trigger, row.by) == (true.trigger, true.by)
            assert is_same or row.trigger in ("unknown", "gone") or row.is_lossy or row.before is None


def thinned(random: np.random.Generator) -> Iterator[PacketBatch | Weird]:
    """The recording without 3 % of its packets."""
    for item in open_captures([RECORDED]):
        if not isinstance(item, PacketBatch):
            yield item
            continue
        kept = random.random(len(item.number)) > 0.03
        columns = ("number", "time_ns", "link_type", "offset", "length", "wire_length")
        yield replace(item, **{name: getattr(item, name)[kept] for name in columns})


def test_members_beyond_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REBALANCING", 4)
    talk = Conversation()
    group = members(talk, *"abcdefgh")
    answer(1, *((one, one.join(as_="")) for one in group))
    sync(1, *group)
    group[0].beats(1, REBALANCE_IN_PROGRESS)
    begin = rebalances(talk)[0]
    assert (begin.trigger, begin.members) == ("join", 4)
