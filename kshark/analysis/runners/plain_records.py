"""The fast path of most records: acquired when due, and acknowledged by the member that held them for certain.

Each trigger of the rules' rows has a sign, which is one bit (kshark.analysis.rules.triggers). An unusual delivery has
the signs of its triggers. Only rules with one of these signs are asked; without any sign no situation is made. The
exact path asks all rules and returns the same findings (`Analyzer(exact=True)`; tests compare both)."""

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
#: How records became available again, if rules look at their next acquisition.
_TELLING: Final = frozenset({"stored", "lock_timeout"})
_NONE: Final[Sequence[Piece]] = ()


def acknowledged(acknowledging: Acknowledging) -> int:  # noqa: C901 - hot: once for each acknowledged partition
    """Return the signs of acknowledgements that were answered."""
    partition, rate, signs = acknowledging.share_partition, acknowledging.rate, 0
    if acknowledging.error != 0:
        return ALL_SIGNS
    if partition.last_delivery_packet >= acknowledging.step.packet:
        signs = triggers.AHEAD.sign
    if rate is not None and (rate.is_release_storm or rate.is_rejecting):
        signs |= triggers.MANY_BACK.sign
    for run in acknowledging.runs:
        if run.type == GAP:
            signs |= _PASSES_OVER
            break
    for first, last, possible in acknowledging.pieces:
        record = possible[0]
        hold = record.hold
        if len(possible) > 1 or hold is None or record.stage is not ACQUIRED:
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
    """Return the ranges that an answer acquires in a partition, with the states of their records, and their signs."""
    records, stored, signs = partition.records, partition.stored, 0
    acquired: list[AcquiredRange] = []
    before = -1 if stored is None else stored[0] - 1
    for _, first, last, number in ranges:
        if not before < first <= last:
            signs |= _DISORDERED
        before = last
        pieces, later = records.over(first, last), _NONE
        if pieces:
            repeated = _repeated(number, pieces)
            if repeated == _UNDUE:
                later = [piece for piece in pieces if came_later(piece.value, step, number)]
                if later:
                    pieces = [piece for piece in pieces if not came_later(piece.value, step, number)]
                pieces = [partition.between(piece, step.time_ns, until_ns) for piece in pieces]
                repeated = _repeated(number, pieces)
            signs |= repeated
            for piece in pieces:
                hold = piece.value[0].hold
                if hold is not None and hold.lacks:
                    signs |= _REACHED
        elif number != 1:
            signs |= _UNDUE
        lacks = lacking(spans, first, last)
        if lacks and any(lack.kind == OUTSIDE for lack in lacks):
            signs |= _OUT_OF_REACH
        acquired.append(_range_of((first, last, number, pieces, lacks, later)))
    return acquired, signs


def _repeated(number: int, pieces: Sequence[Piece]) -> int:
    """Return the signs of records that had a known state before they were acquired."""
    signs = 0 if 0 < number <= USUAL_LIMIT else _UNDUE
    for piece in pieces:
        record = piece.value[0]
        if len(piece.value) > 1 or record.stage is not AVAILABLE or record.count != number - 1:
            return _UNDUE
        if record.how in _TELLING:
            signs |= _AGAIN
    return signs


#: Make a NamedTuple in C; see offset_ranges.
_range_of: Final[Callable[[tuple[int, int, int, Sequence[Piece], Lacks | None, Sequence[Piece]]], AcquiredRange]] = (
    partial(tuple.__new__, AcquiredRange)
)
