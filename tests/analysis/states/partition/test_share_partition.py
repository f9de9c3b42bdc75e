"""What records of a share partition may be in, after each thing that can happen to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import AcknowledgementBatch, ShareStep
from kshark.analysis.facts.known import ALWAYS, Known
from kshark.analysis.facts.releases import Release
from kshark.analysis.states.partition.locks import GroupLocks
from kshark.analysis.states.partition.records_in_flight import (
    AcknowledgedRange,
    AcquiredRange,
    OpenRequest,
    StoredRange,
    runs_of,
)
from kshark.analysis.states.partition.share_partition import Change, SharePartition
from kshark.analysis.states.tables.in_flight import ACCEPT, ACKNOWLEDGED, ARCHIVED, AVAILABLE, REJECT, RELEASE, RENEW
from tests.analysis.plain import MS, connection, step
from tests.conversation import BROKER

ONE = ("t", 0)
LEADER = Broker([BROKER])


class Told:
    """A share partition and what it told."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.group = GroupLocks()
        self.partition = SharePartition(step(0), ONE, LEADER, self.group, self.changes.append)

    def acquires(
        self, packet: int, first: int, last: int, count: int = 1, *, member: str = "a", lock_ms: int | None = 1000
    ) -> ShareStep:
        fetch = step(1, packet, on=connection(broker=LEADER), member=member)
        answer = fetch.answer
        assert answer is not None
        answer.lock_ns = None if lock_ms is None else lock_ms * MS
        pieces = self.partition.over(first, last, fetch.time_ns, answer.time_ns)
        self.partition.acquire(fetch, answer, [AcquiredRange(first, last, count, pieces)])
        return fetch

    def acknowledges(self, packet: int, *runs: tuple[int, int, int], member: str = "a", certain: bool = True) -> None:
        self.partition.acknowledge(
            step(2, packet, fetch=False, member=member), [AcknowledgedRange(*run) for run in runs], certain=certain
        )

    def at(self, packet: int) -> list[tuple[int, int, str]]:
        """Ranges with all that they may be, at the time of that packet."""
        return [
            (one.first, one.last, " or ".join(f"{it.stage} {it.count}" for it in one.value))
            for one in self.partition.over(0, 1000, packet * MS, packet * MS)
        ]

    @property
    def events(self) -> list[tuple[str, int, int]]:
        return [(change.event, change.first, change.last) for change in self.changes]


def test_what_is_known_late_may_have_changed_records_before_or_behind_the_others() -> None:
    here, there = connection(0), connection(1)
    for before, packet, on, changes in ((5, 10, there, ALWAYS), (40, 30, there, Known(42)), (40, 30, here, ALWAYS)):
        partition = SharePartition(step(0), ONE, LEADER, GroupLocks())
        partition.follow(step(1, before, on=here))
        partition.follow(step(1, packet, on=on))
        assert partition.changes == changes, (before, packet)


def test_whether_a_lock_was_out_before_its_session_ended_is_not_known_to_the_millisecond() -> None:
    """Seen on 4.1.2, which takes the delivery back with the session, and not with the lock."""
    for late, counts in ((500, "available 0"), (1009, "available 0"), (1010, "available 0 or available 1")):
        told = Told()
        told.acquires(10, 0, 9)
        told.partition.let_go("a", late, late * MS, certain=True, uncounted=True)
        assert told.at(late) == [(0, 9, counts)], late


def test_records_are_acquired_and_acknowledged() -> None:
    told = Told()
    told.acquires(10, 0, 9)
    told.acknowledges(20, (0, 3, ACCEPT), (4, 4, REJECT), (5, 6, RELEASE))
    assert told.at(22) == [(0, 3, "acknowledged 1"), (4, 4, "archived 1"), (5, 6, "available 1"), (7, 9, "acquired 1")]
    assert told.events == [("acquired", 0, 9), ("accepted", 0, 3), ("rejected", 4, 4), ("released", 5, 6)]
    assert told.partition.end == 10


def test_a_lock_runs_out_between_two_times() -> None:
    told = Told()
    told.acquires(10, 0, 9)  # asked at 10 ms, answered at 11, a second's lock, a timer may be late by 100 ms
    assert told.at(1009) == [(0, 9, "acquired 1")]
    assert told.at(1010) == [(0, 9, "acquired 1 or available 1")]
    assert told.at(1111) == [(0, 9, "acquired 1 or available 1")]
    assert told.at(1112) == [(0, 9, "available 1")]
    told.partition.time(76, 2111 * MS)  # a timer under load may be late by another second
    assert told.events == [("acquired", 0, 9)]
    told.partition.time(77, 2112 * MS)
    assert told.events == [("acquired", 0, 9), ("lock_timeout", 0, 9)]
    assert told.changes[-1].time_ns == 1111 * MS


def test_without_a_word_how_long_a_lock_may_be_anything_a_broker_can_be_told() -> None:
    told = Told()
    told.acquires(10, 0, 0, lock_ms=None)
    assert told.at(1000) == [(0, 0, "acquired 1")]
    assert told.at(60_000) == [(0, 0, "acquired 1 or available 1")]


def test_a_renewed_lock_begins_anew() -> None:
    told = Told()
    told.acquires(10, 0, 9)
    told.acknowledges(900, (0, 9, RENEW))
    assert told.at(1500) == [(0, 9, "acquired 1")]
    assert told.at(2100) == [(0, 9, "available 1")]


def test_of_records_that_come_for_ever_the_last_acquisitions_are_remembered() -> None:
    """4.1 counts none that ends with its session."""
    told = Told()
    for packet in range(0, 4000, 100):
        told.acquires(packet + 10, 0, 0)
        told.partition.let_go("a", packet + 50, (packet + 50) * MS, certain=True, uncounted=True)
    ((record, *_),) = [piece.value for piece in told.partition.over(0, 0, 4000 * MS, 4000 * MS)]
    assert record.hold is not None
    remembered, hold = 0, record.hold.before
    while hold is not None:
        remembered, hold = remembered + 1, hold.before
    assert 25 <= remembered <= 26


def test_records_given_back_at_the_highest_count_seen_may_be_archived() -> None:
    told = Told()
    told.acquires(10, 0, 0, 2)
    told.acknowledges(20, (0, 0, RELEASE))
    assert told.at(22) == [(0, 0, "available 2 or archived 2")]
    told.acquires(30, 5, 5, 3)  # others are delivered more often
    assert told.at(32)[0] == (0, 0, "available 2")


def test_an_acknowledgement_that_may_have_been_taken() -> None:
    told = Told()
    told.acquires(10, 0, 4)
    told.acknowledges(20, (0, 1, ACCEPT), certain=False)
    assert told.at(22) == [(0, 1, "acquired 1 or acknowledged 1"), (2, 4, "acquired 1")]
    told.acquires(30, 0, 1, 2, member="b")  # it was not
    assert told.at(32) == [(0, 1, "acquired 2"), (2, 4, "acquired 1")]


def test_who_acquired_records_again_meanwhile_keeps_them() -> None:
    """The release of a waiting fetch is taken when it comes; its answer comes later than that to the next member."""
    told = Told()
    told.acquires(10, 0, 4)
    released = step(2, 20, answered=40)
    told.acquires(30, 0, 4, 2, member="b")
    told.partition.acknowledge(released, [AcknowledgedRange(0, 4, RELEASE)], certain=True)
    assert told.at(41) == [(0, 4, "acquired 2")]


def test_a_session_that_is_over_releases_what_its_member_holds() -> None:
    told = Told()
    told.acquires(10, 0, 4)
    told.acquires(12, 5, 9, member="b")
    told.partition.let_go("a", 20, 20 * MS, certain=True, uncounted=False)
    told.partition.let_go("b", 21, 21 * MS, certain=False, uncounted=False)
    assert told.at(22) == [(0, 4, "available 1"), (5, 9, "acquired 1 or available 1")]
    assert told.events[2:] == [("session_released", 0, 4)]


def test_the_start_offset_passes_what_is_done() -> None:
    told = Told()
    told.partition.begin(-1, (), 0)
    told.acquires(10, 100, 109)
    assert (told.partition.start, told.partition.end) == (100, 110)
    told.acknowledges(20, (102, 109, ACCEPT))
    assert told.partition.start == 100
    told.acknowledges(30, (100, 101, REJECT))
    assert told.partition.start == 110


def test_the_first_record_that_was_seen_need_not_be_the_first() -> None:
    """The answer to another fetch may be later, or never come."""
    told = Told()
    told.partition.begin(-1, (), 0)
    told.acquires(10, 20, 39)
    told.acquires(12, 0, 19)
    assert told.partition.start == 0
    told.partition.miss(step(1, 30))
    assert told.partition.start == 0
    told.partition.miss(step(1, 8))
    assert told.partition.start is None
    told.partition.write(900, 899 * MS, 900 * MS, 0, ())
    told.partition.miss(step(1, 8))
    assert told.partition.start == 0


def test_the_start_that_a_leader_stores_counts_for_more() -> None:
    """Seen on 4.3.1: the first acquisition was that of a fetch that was answered with an error."""
    told = Told()
    told.partition.begin(-1, (), 0)
    told.acquires(10, 20, 39)
    told.partition.write(900, 899 * MS, 900 * MS, 0, [StoredRange(0, 19, AVAILABLE, 1)])
    assert (told.partition.start, told.at(901)) == (0, [(0, 19, "available 1"), (20, 39, "acquired 1")])


def test_it_is_not_lower_than_what_was_done_with_meanwhile() -> None:
    told = Told()
    told.partition.begin(-1, (), 0)
    told.acquires(10, 0, 19)
    told.acknowledges(20, (0, 9, ACCEPT))
    told.partition.write(30, 29 * MS, 30 * MS, 0, [StoredRange(0, 9, ACKNOWLEDGED, 1)])
    assert told.partition.start == 10


def test_what_a_leader_reads_and_writes() -> None:
    told = Told()
    told.partition.begin(50, [StoredRange(50, 51, ACKNOWLEDGED, 1), StoredRange(52, 53, AVAILABLE, 1)], 0)
    assert (told.partition.start, told.partition.end) == (52, 54)
    told.acquires(10, 52, 55, 2)
    told.partition.write(900, 1000 * MS, 1005 * MS, 52, [StoredRange(53, 53, ARCHIVED, 2)])
    assert told.at(1006) == [
        (50, 51, "acknowledged 1"),
        (52, 52, "acquired 2"),
        (53, 53, "archived 2"),
        (54, 55, "acquired 2"),
    ]
    told.partition.write(1100, 1045 * MS, 1050 * MS, 52, [StoredRange(52, 52, AVAILABLE, 2)])
    assert told.events[1:] == [("session_released", 53, 53), ("lock_timeout", 52, 52)]


def test_what_is_being_acknowledged_waits_for_the_answer() -> None:
    told = Told()
    told.acquires(10, 0, 4)
    told.partition.open.append(OpenRequest(step(2, 15, fetch=False), [AcknowledgedRange(0, 4, ACCEPT)]))
    told.partition.write(20, 19 * MS, 20 * MS, 0, [StoredRange(0, 4, ACKNOWLEDGED, 1)])
    assert told.at(21) == [(0, 4, "acquired 1")]


def test_what_is_stored_may_be_older_than_the_last_acquisition() -> None:
    told = Told()
    told.acquires(10, 0, 4, 2)
    told.partition.write(20, 15 * MS, 20 * MS, 0, [StoredRange(0, 4, AVAILABLE, 1)])
    assert told.at(21) == [(0, 4, "acquired 2 or available 1")]
    told.partition.write(900, 899 * MS, 900 * MS, 0, [StoredRange(0, 4, ACKNOWLEDGED, 2)])
    assert told.at(901) == [(0, 4, "acknowledged 2")]


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(
    ("releases", "more"), [({Release.V4_2}, ""), ({Release.V4_1}, " or available 1"), (Release, " or available 1")]
)
def test_the_end_of_an_earlier_delivery_may_be_stored_late(
    releases: Iterable[Release], more: str, *, released: bool
) -> None:
    """Seen on 4.3.1 and 4.1.2 under load; in 4.1 a session that ends takes its deliveries back."""
    told = Told()
    told.partition.leader = Broker([BROKER], releases=frozenset(releases))
    told.acquires(10, 0, 4, 2)
    if released:
        told.partition.highest = 5  # not archived yet
        told.acknowledges(20, (0, 4, RELEASE))
    told.partition.write(900, 899 * MS, 900 * MS, 0, [StoredRange(0, 4, AVAILABLE, 1)])
    assert told.at(901) == [(0, 4, f"{'available' if released else 'acquired'} 2{more}")]


def test_what_is_stored_tells_of_acquisitions_that_were_not_seen() -> None:
    told = Told()
    told.acquires(10, 0, 1, 2)
    told.acquires(12, 5, 5, 3)
    told.acknowledges(20, (0, 1, RELEASE))
    told.partition.write(300, 299 * MS, 300 * MS, 0, [StoredRange(0, 0, AVAILABLE, 3), StoredRange(1, 1, ARCHIVED, 5)])
    assert told.at(301)[:2] == [(0, 0, "available 3"), (1, 1, "archived 5")]
    assert told.events[3:] == []


def test_what_is_done_stays_done_whatever_is_stored_late() -> None:
    """Seen on 4.3.1: a leader that read the state anew let the locks of before run out, and stored that."""
    told = Told()
    told.acquires(10, 0, 1)
    told.acknowledges(20, (0, 1, ACCEPT))
    told.partition.write(2000, 1999 * MS, 2000 * MS, 0, [StoredRange(0, 1, AVAILABLE, 1)])
    assert told.at(2001) == [(0, 1, "acknowledged 1")]


def test_some_brokers_do_not_count_what_the_end_of_a_session_releases() -> None:
    told = Told()
    told.acquires(10, 0, 0, 2)
    told.acquires(12, 1, 1, 2, member="b")
    told.partition.let_go("a", 20, 20 * MS, certain=True, uncounted=True)
    told.partition.let_go("b", 21, 21 * MS, certain=True, uncounted=None)
    assert told.at(22) == [(0, 0, "available 1"), (1, 1, "available 1 or available 2 or archived 2")]


def test_locks_of_before_a_leader_read_the_state_anew_run_out_all_the_same() -> None:
    """Seen on 4.1.2: what it stored then was not what it knew, and the next delivery had the number of the last."""
    told = Told()
    told.acquires(10, 0, 0, 2)
    told.partition.begin(0, [StoredRange(0, 0, AVAILABLE, 1)], 20 * MS)
    told.acquires(500, 0, 0, 2, member="b")
    told.partition.let_go("b", 520, 520 * MS, certain=True, uncounted=True)
    told.partition.write(1050, 1049 * MS, 1050 * MS, 0, [StoredRange(0, 0, AVAILABLE, 2)])
    assert told.at(1051) == [(0, 0, "available 1 or available 2")]
    told.partition.write(1250, 1249 * MS, 1250 * MS, 0, [StoredRange(0, 0, AVAILABLE, 3)])
    assert told.at(1251) == [(0, 0, "available 3")]


def test_what_was_handed_out_before_a_leader_read_the_state_anew_may_be_new_to_it() -> None:
    """Seen on 4.1.2: a lock of before runs out, and is stored; the records' next delivery is their first all the
    same."""
    told = Told()
    told.acquires(10, 0, 9)
    told.partition.begin(0, [StoredRange(0, 4, AVAILABLE, 1)], 20 * MS)
    told.partition.write(1050, 1049 * MS, 1050 * MS, 0, [StoredRange(5, 9, AVAILABLE, 1)])
    assert told.at(1051) == [(0, 4, "available 1")]
    told.partition.write(1250, 1249 * MS, 1250 * MS, 0, [StoredRange(5, 9, AVAILABLE, 1)])
    assert told.at(1251) == [(0, 4, "available 1"), (5, 9, "available 1")]


def test_so_may_be_what_nobody_saw_handed_out() -> None:
    """Seen on 4.1.2: fetches that failed had acquired records, whose locks ran out when another instance of their
    leader had read."""
    told = Told()
    told.acquires(10, 0, 4)
    told.partition.begin(0, [StoredRange(0, 4, AVAILABLE, 1)], 300 * MS)
    told.partition.write(
        1250, 1249 * MS, 1250 * MS, 0, [StoredRange(0, 4, AVAILABLE, 2), StoredRange(5, 9, AVAILABLE, 1)]
    )
    assert told.at(1251) == [(0, 4, "available 1 or available 2")]


def test_a_session_that_may_be_over_lets_go_once() -> None:
    told = Told()
    told.acquires(10, 0, 9)
    for packet in range(20, 40):
        told.partition.let_go("a", packet, packet * MS, certain=False, uncounted=False)
    assert told.at(41) == [(0, 9, "acquired 1 or available 1")]


def test_another_leader_may_know_it_otherwise() -> None:
    told = Told()
    told.acquires(10, 0, 4)
    told.partition.meets(step(1, 20), Broker(["10.0.0.8:9092"]))
    assert (told.at(22), told.partition.known) == ([], Known(20, because="leader_moved"))


def test_batches_by_type() -> None:
    def runs(*batches: tuple[int, int, list[int]]) -> list[Any]:
        return [tuple(run) for run in runs_of(AcknowledgementBatch(*one) for one in batches)]

    assert runs((0, 3, [1])) == [(0, 3, 1)]
    assert runs((0, 4, [1, 1, 2, 3, 3])) == [(0, 1, 1), (2, 2, 2), (3, 4, 3)]
    assert runs((3, 1, [1]), (0, 3, [1, 2]), (0, 1, [])) == []


def test_what_is_done_with_is_forgotten_first() -> None:
    told = Told()
    told.partition.room = 2
    for n in range(5):
        told.acquires(10 + 10 * n, 10 * n, 10 * n + 9)
    assert (len(told.partition.records), told.partition.forgotten) == (5, -1)
    for n in range(4):
        told.acknowledges(100 + n, (10 * n, 10 * n + 9, ACCEPT))
    assert [first for first, _, _ in told.at(110)] == [30, 40]
    assert told.partition.forgotten == 29


def test_who_never_held_records_has_nothing_to_let_go_of() -> None:
    told = Told()
    told.acquires(10, 0, 9)
    assert told.group.concern("a", LEADER, 0, ()) == [ONE]
    assert told.group.concern("b", LEADER, 20 * MS, ()) == []
    assert [told.group.concern("b", LEADER, 10_000 * MS, ()) for _ in range(2)] == [[ONE], [ONE]]
    told.partition.time(100, 10_000 * MS)
    assert told.group.concern("b", LEADER, 20_000 * MS, ()) == []
    told.partition.lose_sight(200, "gap")
    assert told.group.concern("a", LEADER, 20_000 * MS, [ONE]) == []
