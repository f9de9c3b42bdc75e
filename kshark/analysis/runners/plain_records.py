"""The fast path of most records: handed out as they were due, and acknowledged by a member that surely had them.

What is odd about a situation has a sign, a bit for each trigger of the rules' rows (kshark.analysis.rules.triggers):
only the rules are looked at whose trigger's bit is there, and where there is none the situation need not be drawn up.
The exact path looks at all of them and comes to the same (`Analyzer(exact=True)`; tests hold the two together)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from kshark.analysis.facts.calls import Acquired, ShareStep, Span
from kshark.analysis.rules import triggers
from kshark.analysis.rules.book import ALL_SIGNS
from kshark.analysis.states.partition.missing_offsets import OUTSIDE, Lacks, between, lacking
from kshark.analysis.states.partition.records_in_flight import AcquiredRange, Piece, came_later
from kshark.analysis.states.partition.share_partition import SharePartition
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.tables.in_flight import ACQUIRED, AVAILABLE, GAP, USUAL_LIMIT

_NOT_HELD: Final = triggers.NOT_HELD.sign
_PASSES_OVER: Final = triggers.PASSES_OVER.sign
_LACKING: Final = triggers.LACKING.sign
_REFUSED_BEFORE: Final = triggers.REFUSED_BEFORE.sign
_UNDUE: Final = triggers.UNDUE.sign | triggers.AGAIN.sign
_AGAIN: Final = triggers.AGAIN.sign
_DISORDERED: Final = triggers.DISORDERED.sign
_OUT_OF_REACH: Final = triggers.OUT_OF_REACH.sign
_REACHED: Final = triggers.REACHED.sign
#: How records became available that rules look at when they are handed out again.
_TELLING: Final = frozenset({"stored", "lock_timeout"})
_NONE: Final[Sequence[Piece]] = ()


def acknowledged(asked: Acknowledging) -> int:
    """What is odd about acknowledgements that were answered."""
    partition, rate, signs = asked.share_partition, asked.rate, 0
    if asked.error != 0:
        return ALL_SIGNS
    if partition.last_delivery_packet >= asked.step.packet:
        signs = triggers.AHEAD.sign
    if rate is not None and (rate.is_release_storm or rate.is_rejecting):
        signs |= triggers.MANY_BACK.sign
    for run in asked.runs:
        if run.type == GAP:
            signs |= _PASSES_OVER
            break
    for first, last, may in asked.pieces:
        record = may[0]
        hold = record.hold
        if len(may) > 1 or hold is None or record.stage is not ACQUIRED:
            signs |= _NOT_HELD
        if hold is not None:
            if partition.refused and hold.before is not None:
                signs |= _REFUSED_BEFORE
            if hold.lacks and between(hold.lacks, first, last):
                signs |= _LACKING
    return signs


def acquired_ranges(
    partition: SharePartition, ranges: Iterable[Acquired], spans: Sequence[Span] | None, step: ShareStep, until_ns: int
) -> tuple[list[AcquiredRange], int]:
    """The ranges that the answer to a request hands out of a partition, with what was known of them since, and what is
    odd about them."""
    records, stored, signs = partition.records, partition.stored, 0
    handed: list[AcquiredRange] = []
    before = -1 if stored is None else stored[0] - 1
    for _, first, last, number in ranges:
        if not before < first <= last:
            signs |= _DISORDERED
        before = last
        pieces, later = records.over(first, last), _NONE
        if pieces:
            again = _again(number, pieces)
            if again == _UNDUE:
                later = [piece for piece in pieces if came_later(piece.value, step, number)]
                if later:
                    pieces = [piece for piece in pieces if not came_later(piece.value, step, number)]
                pieces = [partition.between(piece, step.time_ns, until_ns) for piece in pieces]
                again = _again(number, pieces)
            signs |= again
            for piece in pieces:
                hold = piece.value[0].hold
                if hold is not None and hold.lacks:
                    signs |= _REACHED
        elif number != 1:
            signs |= _UNDUE
        lacks = lacking(spans, first, last)
        if lacks and any(one.kind == OUTSIDE for one in lacks):
            signs |= _OUT_OF_REACH
        handed.append(_handed((first, last, number, pieces, lacks, later)))
    return handed, signs


def _again(number: int, pieces: Sequence[Piece]) -> int:
    """What is odd about records of which something was known before they are handed out."""
    signs = 0 if 0 < number <= USUAL_LIMIT else _UNDUE
    for piece in pieces:
        record = piece.value[0]
        if len(piece.value) > 1 or record.stage is not AVAILABLE or record.count != number - 1:
            return _UNDUE
        if record.how in _TELLING:
            signs |= _AGAIN
    return signs


#: A NamedTuple made in C; see offset_ranges.
_handed: Final[Callable[[tuple[int, int, int, Sequence[Piece], Lacks | None, Sequence[Piece]]], AcquiredRange]] = (
    partial(tuple.__new__, AcquiredRange)
)
