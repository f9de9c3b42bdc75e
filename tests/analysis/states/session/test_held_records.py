"""What a session holds: its partitions, and the records acquired and not yet acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark import limits
from kshark.analysis.facts.calls import AcknowledgementBatch, Listed, Reply, ShareStep
from kshark.analysis.states.session.held_records import HeldRange, InFlight
from tests.analysis.plain import step
from tests.analysis.talks import handed
from tests.conversation import Conversation, findings, note

ONE, TWO = ("t", 1), ("t", 2)
RENEW = 4


def listing(partition: tuple[str, int], *acknowledged: tuple[int, int], renews: bool = False) -> Listed:
    return Listed(partition, [AcknowledgementBatch(first, last, [4 if renews else 1]) for first, last in acknowledged])


def took(held: InFlight, *steps: ShareStep) -> InFlight:
    for each in steps:
        held.take(each, each.reply)
    return held


def acquires(*ranges: tuple[int, int], packet: int = 10, **more: Any) -> ShareStep:
    """Records of partition 1 come with this answer."""
    return step(1, packet, acquired=[(ONE, first, last) for first, last in ranges], **more)


def acknowledges(*ranges: tuple[int, int], renews: bool = False, **more: Any) -> ShareStep:
    return step(1, 20, fetch=False, listed=[listing(ONE, *ranges, renews=renews)], **more)


def ranges(held: InFlight) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in held.held.get(ONE, ())]


def test_records_are_held_until_they_are_acknowledged() -> None:
    held = took(InFlight(), acquires((0, 9)))
    assert held.held == {ONE: held.held[ONE]}
    assert (ranges(held), held.ranges) == ([(0, 9)], 1)
    assert ranges(took(held, acknowledges((0, 4)))) == [(5, 9)]
    assert ranges(took(held, acknowledges((7, 7)))) == [(5, 6), (8, 9)]
    assert held.ranges == 2
    assert ranges(took(held, acknowledges((0, 99)))) == []
    assert held.ranges == 0


def test_only_the_range_that_ends_at_both_ends_is_gone_whole() -> None:
    held = took(InFlight(), acquires((0, 4), (5, 9)))
    assert ranges(took(held, acknowledges((0, 3)))) == [(4, 4), (5, 9)]
    assert ranges(took(held, acknowledges((4, 4)))) == [(5, 9)]
    assert ranges(took(held, acknowledges((4, 9)))) == []


def test_a_lock_that_is_renewed_goes_on() -> None:
    held = took(InFlight(), acquires((0, 9)), acknowledges((0, 9), renews=True))
    assert ranges(held) == [(0, 9)]


def test_records_acquired_again_are_held_once_by_the_new_lock() -> None:
    held = took(InFlight(), acquires((0, 9)), acquires((4, 12), packet=50))
    assert ranges(held) == [(0, 3), (4, 12)]
    first, second = held.held[ONE]
    assert second.until_ns - first.until_ns == 40_000_000


def test_ranges_lie_in_the_order_of_their_offsets() -> None:
    held = took(InFlight(), acquires((20, 29), (0, 9), (10, 14), (9, 9)))
    assert ranges(held) == [(0, 8), (9, 9), (10, 14), (20, 29)]


def test_a_range_that_ends_before_it_begins_is_none() -> None:
    held = took(InFlight(), acquires((5, 4)), acquires((5, 5)), acknowledges((6, 4)))
    assert (ranges(held), held.ranges) == ([(5, 5)], 1)


@pytest.mark.parametrize(
    ("reply", "left"),
    [
        (Reply.REJECTED_EARLY, {ONE}),
        (Reply.INVALID_EPOCH, {ONE}),
        (Reply.FAILED_LATER, None),
        (Reply.UNCLEAR, None),
        (Reply.FAILED_REOPEN, None),
        (Reply.UNANSWERED, None),
    ],
)
def test_what_is_not_accepted_leaves_all_or_makes_it_uncertain(reply: Reply, left: set[tuple[str, int]] | None) -> None:
    held = took(InFlight(), step(0, listed=[listing(ONE)], acquired=[(ONE, 0, 9)]))
    held.take(acknowledges((0, 9)), reply)
    assert (held.partitions, ranges(held)) == (left, [(0, 9)])


operations = st.lists(
    st.tuples(st.booleans(), st.integers(0, 30), st.integers(-1, 12)).map(lambda it: (it[0], it[1], it[1] + it[2])),
    max_size=12,
)


@given(operations)
def test_the_ranges_are_the_offsets_that_are_held(asked: list[tuple[bool, int, int]]) -> None:
    held, offsets = InFlight(), set[int]()
    for acquired, first, last in asked:
        took(held, acquires((first, last)) if acquired else acknowledges((first, last)))
        mine = set(range(first, last + 1))
        offsets = offsets | mine if acquired else offsets - mine
    assert [offset for first, last in ranges(held) for offset in range(first, last + 1)] == sorted(offsets)
    assert held.ranges == len(ranges(held))


def test_locks_run_out() -> None:
    held = took(InFlight(), acquires((0, 9)))
    until_ns = held.held[ONE][0].until_ns
    assert until_ns == 11_000_000 + 30_000_000_000
    last, gone = acknowledges(), acknowledges()
    last.time_ns, gone.time_ns = until_ns - 1, until_ns
    assert (held.unacknowledged(ONE, last), held.unacknowledged(ONE, gone)) == (10, 0)


def test_what_is_unacknowledged_when_a_step_is_done() -> None:
    held = took(InFlight(), acquires((0, 9), (20, 24)))
    asked = step(2, 30, listed=[listing(ONE, (3, 5), (24, 99)), listing(TWO, (0, 2))], forgotten=[ONE])
    assert (held.unacknowledged(ONE, asked), held.unacknowledged(TWO, asked)) == (11, 0)
    assert ranges(held) == [(0, 9), (20, 24)]


def test_too_many_ranges_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_RANGES", 2)
    held = took(InFlight(), acquires((0, 1), (10, 11), (20, 21)))
    assert (ranges(held), held.ranges) == ([(0, 1), (10, 11)], 2)
    held.held[ONE][0].until_ns = 11_000_000
    took(held, acquires((20, 21)))
    assert (ranges(held), held.ranges) == ([(10, 11), (20, 21)], 2)
    held.held[ONE] = [HeldRange(0, 1, 0), HeldRange(10, 11, 0)]
    took(held, acquires((40, 41)))
    assert (ranges(held), held.ranges) == ([(40, 41)], 1)


def test_a_range_is_not_split_into_more_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which side is kept does not matter: what is not remembered is not said to be unacknowledged."""
    monkeypatch.setattr(limits, "HELD_RANGES", 2)
    held = took(InFlight(), acquires((0, 99)), acknowledges((10, 10)), acknowledges((20, 20)))
    assert (ranges(held), held.ranges) == ([(0, 9), (21, 99)], 2)
    took(held, acknowledges((0, 9)), acknowledges((30, 30)))
    assert (ranges(held), held.ranges) == ([(21, 29), (31, 99)], 2)


# -- partitions


def partitions(*steps: ShareStep) -> tuple[set[tuple[str, int]] | None, Sequence[tuple[str, int]]]:
    held = took(InFlight(), *steps)
    return held.partitions, list(held.acknowledged_only)


OPENING = step(0, listed=[listing(ONE)])


def test_partitions_are_known_from_the_opening_on() -> None:
    assert partitions(step(1, listed=[listing(ONE)])) == (None, [])
    assert partitions(OPENING) == ({ONE}, [])
    assert partitions(OPENING, step(1, listed=[listing(TWO)])) == ({ONE, TWO}, [])
    assert partitions(OPENING, step(1, forgotten=[ONE, TWO])) == (set(), [])
    assert partitions(OPENING, step(0, listed=[listing(TWO)])) == ({TWO}, [])


def test_what_is_listed_to_acknowledge_enters_too() -> None:
    """Before ShareFetch 1 it entered only where it was to be fetched."""
    alone = step(1, listed=[listing(TWO, (0, 9))])
    assert partitions(OPENING, alone) == ({ONE, TWO}, [TWO])
    assert partitions(OPENING, step(1, version=0, listed=[listing(TWO, (0, 9))])) == ({ONE, TWO}, [])
    assert partitions(OPENING, step(1, listed=[listing(ONE, (0, 9))])) == ({ONE}, [])
    assert partitions(OPENING, alone, step(2, listed=[listing(TWO)])) == ({ONE, TWO}, [])
    assert partitions(OPENING, alone, step(2, forgotten=[TWO])) == ({ONE}, [])
    assert partitions(OPENING, step(1, listed=[listing(TWO, (0, 9))], forgotten=[TWO])) == ({ONE}, [])
    assert partitions(OPENING, step(1, fetch=False, listed=[listing(TWO, (0, 9))])) == ({ONE}, [])
    assert partitions(OPENING, step(-1, listed=[listing(TWO, (0, 9))])) == ({ONE}, [])


def test_records_of_it_are_told_once() -> None:
    alone = step(1, listed=[listing(TWO, (0, 9))])
    assert partitions(OPENING, alone, step(2, acquired=[(TWO, 10, 19)])) == ({ONE, TWO}, [])
    assert partitions(OPENING, alone, step(2, acquired=[(ONE, 10, 19)])) == ({ONE, TWO}, [TWO])
    assert partitions(OPENING, step(1, listed=[listing(TWO, (0, 9))], acquired=[(TWO, 10, 19)])) == ({ONE, TWO}, [TWO])


def test_too_many_partitions_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION_PARTITIONS", 1)
    assert partitions(OPENING) == ({ONE}, [])
    assert partitions(OPENING, step(1, listed=[listing(TWO, (0, 9))])) == (None, [])


def test_nothing_is_known_of_what_was_not_seen() -> None:
    held = took(InFlight(), OPENING, step(1, listed=[listing(TWO, (0, 9))]), acquires((0, 9)))
    held.forget()
    assert (held.partitions, held.acknowledged_only, held.held, held.ranges) == (None, {}, {}, 0)


# -- as conversations


def test_a_renewed_lock_is_still_held() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(1, [(0, 9, RENEW)], version=2).answered()
    held = a.share_fetch(2, forget=[0]).answered()
    assert findings(talk) == [note("UNRELEASED_ON_FORGET", held)]
    assert "10 records" in findings(talk)[0].argument


def test_records_acquired_again_are_counted_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_fetch(1, [0]).answered(responses=handed((0, 0, 9), (0, 5, 14)))
    a.share_acknowledge(2, [(12, 13, 1), (0, 4, 2)]).answered()
    a.share_fetch(3, forget=[0]).answered()
    assert "8 records" in findings(talk)[-1].argument


def test_a_partition_that_was_acknowledged_with_the_same_request_is_forgotten() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_fetch(1, [0], acks=[(5, 9, 1), (0, 4, 1)], forget=[0]).answered()
    assert findings(talk) == []
