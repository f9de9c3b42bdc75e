"""Offsets of an acquired range without a record in the same answer, as far as its spans are known.

Two kinds are added to those of the spans: `missing` between two batches, removed by compaction, and `outside` of all
batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kshark.analysis.facts.calls import Span
from kshark.analysis.facts.known import never
from kshark.records.spans import DATA, HOLED, UNREAD

MISSING: Final = "missing"
OUTSIDE: Final = "outside"
#: No message shows whether compaction removed records.
NOT_COMPACTED: Final = never("compaction")


class Lack(NamedTuple):
    """Offsets of which some have no record, or of which this is unknown."""

    first: int
    last: int
    kind: str


#: In the order of their offsets; all other offsets have a record.
Lacks = Sequence[Lack]


def lacking(spans: Sequence[Span] | None, first: int, last: int) -> Lacks | None:
    """Return the offsets without a record in a range, or None if nothing is known about the range.

    A records field that was not read to its end proves no offset missing.
    """
    if not spans:
        return None
    low, high, kind = spans[0]
    if kind == DATA and low <= first and last <= high:
        return ()  # usual
    lacks, at = [], first
    is_whole = not any(kind == UNREAD for _, _, kind in spans)
    outside, missing = (OUTSIDE, MISSING) if is_whole else (UNREAD, UNREAD)
    for begin, stop, kind in [*spans, (spans[-1][1] + 1, last, outside)]:
        if at < begin and at <= last:
            lacks.append(Lack(at, min(begin - 1, last), outside if begin == low else missing))
        if kind != DATA and stop >= at and begin <= last:
            lacks.append(Lack(max(begin, at), min(stop, last), kind))
        at = max(at, stop + 1)
    return lacks


def are_compacted(lacks: Lacks | None) -> bool:
    """True if compaction has removed some records. Otherwise the offsets of a log have no gaps."""
    return any(lack.kind in (MISSING, HOLED) for lack in lacks or ())


def between(lacks: Lacks, first: int, last: int) -> list[Lack]:
    """Return the missing offsets between two offsets, cut at these offsets."""
    return [
        Lack(max(lack.first, first), min(lack.last, last), lack.kind)
        for lack in lacks
        if lack.first <= last and lack.last >= first
    ]


def recorded(lacks: Lacks, first: int, last: int) -> tuple[int, int] | None:
    """Return the first range between two offsets in which every offset has a record."""
    at = first
    for lack in lacks:
        if at < lack.first:
            break
        at = max(at, lack.last + 1)
    else:
        return (at, last) if at <= last else None
    return (at, min(last, lack.first - 1)) if at <= last else None
