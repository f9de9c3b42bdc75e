"""What a leader stores of acknowledgements: the look that suffices mostly says what the whole one does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.states.partition.persisting import ORDERLY, Persistence, concern
from kshark.analysis.states.partition.records_in_flight import AcknowledgedRange, StoredRange
from kshark.analysis.states.tables.in_flight import ACCEPT, ACKNOWLEDGED, ARCHIVED, AVAILABLE, REJECT, RELEASE, RENEW
from tests.analysis.plain import step
from tests.shared import CAPTURES
from tests.thinning import Whole, findings_in, single_packets

ASKED = [AcknowledgedRange(0, 4, ACCEPT), AcknowledgedRange(5, 5, RELEASE), AcknowledgedRange(6, 9, REJECT)]
ALL = [StoredRange(0, 4, ACKNOWLEDGED, 1), StoredRange(5, 5, AVAILABLE, 1), StoredRange(6, 9, ARCHIVED, 1)]
#: First offset, and how many more.
RANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=8)
SINGLY = [StoredRange(at, at, one.stage, 1) for one in ALL for at in range(one.first, one.last + 1)]


def write(packet: int, *, start: int = 0) -> StateStep:
    return StateStep(step(0, packet), ("t", 0), 0, start_offset=start)


def looked_at(
    *writes: tuple[int, list[StoredRange]], runs: list[AcknowledgedRange] = ASKED
) -> tuple[bool, list[tuple[int, int]]]:
    """Whether it is just what was said, and what is left to store: acknowledged with packet 10."""
    asked = step(1, 10, fetch=False)
    brief, whole = Persistence(), Persistence()
    for packet, stored in writes:
        brief.write(write(packet), stored, is_awaited=True)
        whole.write(write(packet), stored, is_awaited=True)
    left = whole.answered(asked, runs, write(1), accepted=True).left
    return brief.is_as_acknowledged(asked, runs), [(one.first, one.last) for one in left]


@pytest.mark.parametrize(
    "stored",
    [
        ALL,
        SINGLY,
        [StoredRange(0, 4, ACKNOWLEDGED, 1), StoredRange(5, 5, ARCHIVED, 1), StoredRange(6, 20, ARCHIVED, 1)],
    ],
)
def test_one_write_stores_what_was_said(stored: list[StoredRange]) -> None:
    assert looked_at((11, stored)) == (True, [])
    assert looked_at((11, [StoredRange(90, 99, ACKNOWLEDGED, 1)]), (12, stored)) == (True, [])


def test_what_is_missing_is_left() -> None:
    assert looked_at() == (False, [(0, 9)])
    assert looked_at((11, ALL[:2])) == (False, [(6, 9)])
    assert looked_at((11, [StoredRange(0, 2, ACKNOWLEDGED, 1), *ALL[1:]])) == (False, [(3, 4)])
    assert looked_at((9, ALL)) == (False, [(0, 9)]), "it was sent before the request"


def test_what_is_not_plain_is_looked_at() -> None:
    assert looked_at((11, ALL[:2]), (12, ALL[2:])) == (False, [])
    assert looked_at((11, [StoredRange(0, 9, ACKNOWLEDGED, 1)])) == (False, [])
    assert looked_at((11, ALL), runs=[*ASKED, AcknowledgedRange(10, 10, RENEW)]) == (False, [])
    assert looked_at((11, ALL), runs=[]) == (False, [])


def test_who_stored_three_is_expected_to_store_on() -> None:
    leader, asked = Persistence(), step(1, 10, fetch=False)
    for times in range(ORDERLY):
        assert not leader.answered(asked, [AcknowledgedRange(5, 5, RENEW)], write(1), accepted=True).is_due, times
        leader.write(write(11), ALL, is_awaited=True)
        assert leader.is_as_acknowledged(asked, ASKED)
    assert leader.answered(asked, ASKED, write(1), accepted=True).is_due


def test_nothing_is_expected_where_writes_are_forgotten() -> None:
    leader, asked = Persistence(), step(1, 10, fetch=False)
    for packet in range(11, 111):
        leader.write(write(packet), ALL, is_awaited=True)
        assert leader.is_as_acknowledged(asked, ASKED)
    assert not leader.answered(asked, [AcknowledgedRange(90, 99, ACCEPT)], write(1), accepted=True).is_due


@pytest.mark.sweep
def test_findings_of_captures_are_those_of_the_whole_look() -> None:
    whole = Whole.load(CAPTURES / "share-loss.pcap")
    for way, keep in single_packets(whole, every=100):
        assert findings_in(whole.thinned(keep)) == findings_in(whole.thinned(keep), exact=True), way


@given(RANGES, RANGES)
def test_what_is_asked_is_found_in_one_go(stored: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    """Also where neither stands in its order, or lies over itself."""
    batches = [StoredRange(first, first + more, ACKNOWLEDGED, 1) for first, more in stored]
    runs = [AcknowledgedRange(first, first + more, ACCEPT) for first, more in asked]
    each = [any(run.first <= one.last and run.last >= one.first for run in runs) for one in batches]
    assert concern(batches, runs) == each
