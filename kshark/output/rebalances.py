"""Rebalances of a group as a table: who caused each, how long it took, for whom it waited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kshark.groups.rebalances import Rebalance, Wait
from kshark.groups.rebalances.sentences import NOTICED_NS, trigger_of, wait_of
from kshark.output.spans import DIM, GOOD, LABEL, PLAIN, VALUE, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.units import clock, counted, safe

#: Most rebalances of each group without `-V`: the last ones.
_SHOWN: Final = 12
#: A rebalance, or a stand-still, that is longer is highlighted.
_LONG_NS: Final = 10_000_000_000
#: The reason of each new member.
_ORDINARY: Final = "need to re-join with the given member-id"
_COLUMNS: Final = (
    Column("packet", right=True, drop=1),
    Column("time"),
    Column("took", right=True),
    Column("stood still", right=True),
    Column("before → after", drop=2),
    Column("members", right=True, drop=3),
    Column("caused by", elastic=30),
    Column("waited for", elastic=30),
)


def rebalance_lines(rows: Sequence[Rebalance], left_out: int, width: int | None, *, verbose: bool) -> Iterator[Line]:
    """Return a row for each rebalance, and a line that counts their causes; without `verbose` the last ones only."""
    if not rows:
        yield [("  rebalances ", LABEL), ("none in this capture", DIM)]
        return
    yield from folded(_totals(rows, left_out), width, 4)
    shown = rows if verbose else rows[-_SHOWN:]
    if len(shown) < len(rows):
        yield [(f"  {counted(len(rows) - len(shown), 'rebalance')} before (-V)", DIM)]
    last = rows[-1]
    yield from table(_COLUMNS, [_row(row, is_last=row is last, verbose=verbose) for row in shown], width, 2)


def _totals(rows: Sequence[Rebalance], left_out: int) -> Line:
    """Return `rebalances 22: st10 joined ×10, st0 left ×9; stood still for 1.3 s in all`."""
    causes = Counter(trigger_of(row, named=False) for row in rows)
    named = ", ".join(f"{cause} ×{count}" for cause, count in causes.most_common())
    still = sum(row.stood_still_ns or 0 for row in rows)
    line: Line = [("  rebalances ", LABEL), (str(len(rows) + left_out), VALUE), (f": {named}", PLAIN)]
    if still:
        line.append((f"; partitions stood still for {_seconds(still)} in all", WARN if still > _LONG_NS else PLAIN))
    if left_out:
        line.append((f"; {counted(left_out, 'rebalance')} before these were discarded", WARN))
    return line


def _row(row: Rebalance, *, is_last: bool, verbose: bool) -> list[Cell]:
    took = None if row.until_ns is None else row.until_ns - row.time_ns
    numbers = ("?" if row.before is None else str(row.before), "-" if row.after is None else str(row.after))
    return [
        str(row.packet),
        clock(row.time_ns, 3),
        [("not over" if is_last else "overtaken", WARN)] if took is None else _duration(took, row.is_end_inferred),
        "" if row.stood_still_ns is None else _duration(row.stood_still_ns),
        " → ".join(numbers),
        str(row.members),
        _cause(row),
        _waits(row.waited_for, verbose=verbose),
    ]


def _cause(row: Rebalance) -> Line:
    line: Line = [(safe(trigger_of(row)), GOOD if row.trigger in ("join", "leave") else WARN)]
    if row.reason and not row.reason.startswith(_ORDINARY):
        line.append((f' "{safe(row.reason)}"', DIM))
    if row.returned_ns is not None:
        line.append((f", joined again {_seconds(row.returned_ns - row.time_ns)} later on its connection", WARN))
    if row.is_lossy:
        line.append((", bytes lost before", WARN))
    if row.others:
        line.append((f", {counted(row.others, 'more change')}", DIM))
    return line


def _waits(waits: Sequence[Wait], *, verbose: bool) -> Line:
    noticed = [one for one in waits if one.until_ns is None or one.until_ns - one.time_ns > NOTICED_NS]
    line: Line = []
    for one in noticed if verbose else noticed[:2]:
        long = one.until_ns is None or one.until_ns - one.time_ns > _LONG_NS
        line += [("; " if line else "", DIM), (safe(wait_of(one)), WARN if long else PLAIN)]
        about = ", about" if one.until_packet is None else ""
        waited = " to the end" if one.until_ns is None else f"{about} {_seconds(one.until_ns - one.time_ns)}"
        line.append((waited, VALUE))
    return line


def _duration(ns: int, is_inferred: bool = False) -> Cell:
    return [("about " * is_inferred + _seconds(ns), WARN if ns > _LONG_NS else PLAIN)]


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s" if ns >= 1e9 else f"{ns / 1e9:.2f} s"
