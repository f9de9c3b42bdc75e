"""The shown start offset passes records of aborted transactions, if an answer shows that the leader took them out."""

from __future__ import annotations

import struct

import pytest

from kshark.analysis import Analyzer
from kshark.pipeline import JUDGED
from kshark.records import Record
from kshark.records.writer import write_batch
from tests.analysis.coordinators import leader
from tests.analysis.talks import handed
from tests.conversation import Conversation, Thinned, events

ACCEPT, GAP = 1, 0
ABORT, COMMIT = 0, 1


def records(type: int) -> bytes:
    """Records 0 to 4, a transaction's from 5 to 9 with its marker at 10, and records 11 to 14."""
    parts = []
    for first, last, producer in ((0, 4, -1), (5, 9, 7), (11, 14, -1)):
        batch = [Record(offset, 0, None, b"v", ()) for offset in range(first, last + 1)]
        parts.append(write_batch(batch, base_offset=first, producer_id=producer, transactional=producer >= 0))
    key, value = struct.pack(">hh", 0, type), struct.pack(">hi", 0, 1)
    end = [Record(10, 0, key, value, ())]
    parts.insert(2, write_batch(end, base_offset=10, producer_id=7, control=True, transactional=True))
    return b"".join(parts)


def consumed(type: int, *ranges: tuple[int, int], count: int = 1) -> Conversation:
    """A member acquires these ranges of the records, and acknowledges all of them."""
    talk = Conversation()
    leader(talk)
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed(*((0, *range_, count) for range_ in ranges), records=records(type)))
    a.share_acknowledge(1, [(first, last, ACCEPT) for first, last in ranges]).answered()
    return talk


def start(talk: Conversation | Thinned) -> tuple[int | None, str | None, int | None]:
    analyzer = Analyzer()
    for event in events(talk, JUDGED):
        analyzer.feed(event)
    (state,) = analyzer.in_flight(0)
    return state.start_offset, state.start_source, state.start_least


def test_it_passes_them() -> None:
    assert start(consumed(ABORT, (0, 4), (10, 14))) == (15, "aborted", 15)


def test_without_an_abort_it_is_unknown() -> None:
    """Members outside the capture may have them."""
    assert start(consumed(COMMIT, (0, 4), (10, 14))) == (None, "passed_over", 5)


def test_it_does_not_pass_what_was_delivered() -> None:
    """share.isolation.level is read_uncommitted."""
    talk = Conversation()
    leader(talk)
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 14), records=records(ABORT)))
    a.share_acknowledge(1, [(0, 4, ACCEPT), (10, 14, ACCEPT)]).answered()
    assert start(talk) == (5, "seen", 5)


@pytest.mark.parametrize("count", [2, 3])
def test_records_that_are_delivered_again_do_not_show_it(count: int) -> None:
    """Then the leader skips what others hold."""
    assert start(consumed(ABORT, (0, 4), (10, 14), count=count)) == (None, "passed_over", 5)


def test_a_lost_packet_does_not_move_it_further() -> None:
    talk = consumed(ABORT, (0, 4), (10, 14))
    for number, _ in talk.packets():
        analyzer = Analyzer()
        for event in events(talk.without_packets({number}), JUDGED):
            analyzer.feed(event)
        assert all((state.start_offset or 0) <= 15 for state in analyzer.in_flight(0))
