"""What a range that is handed out lacks: its offsets without a record in the same answer, as far as its spans tell.

To the spans' own kinds come two: `missing` between two batches, which compaction has left, and `outside` of all of
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kshark.analysis.facts.calls import Span
from kshark.records.spans import DATA, HOLED, UNREAD

MISSING: Final = "missing"
OUTSIDE: Final = "outside"


class Lack(NamedTuple):
    """Offsets of which not each has a record, or nobody knows."""

    first: int
    last: int
    kind: str


#: In the order of their offsets; all others have a record.
Lacks = Sequence[Lack]


def lacking(spans: Sequence[Span] | None, first: int, last: int) -> Lacks | None:
    """What these offsets lack; None where nothing is known of any. A field that is not read to its end says nothing of
    what it lacks."""
    if not spans:
        return None
    low, high, kind = spans[0]
    if kind == DATA and low <= first and last <= high:
        return ()  # the usual
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
    """Whether compaction has taken some of the records: offsets of a log are without a gap else."""
    return any(one.kind in (MISSING, HOLED) for one in lacks or ())


def between(lacks: Lacks, first: int, last: int) -> list[Lack]:
    """Those of them that lie between two offsets, cut off there."""
    return [
        Lack(max(one.first, first), min(one.last, last), one.kind)
        for one in lacks
        if one.first <= last and one.last >= first
    ]


def recorded(lacks: Lacks, first: int, last: int) -> tuple[int, int] | None:
    """The first offsets between two that have a record each."""
    at = first
    for lack in lacks:
        if at < lack.first:
            break
        at = max(at, lack.last + 1)
    else:
        return (at, last) if at <= last else None
    return (at, min(last, lack.first - 1)) if at <= last else None
