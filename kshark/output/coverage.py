"""How often rules were put to the test, as a table for people: those that were, and the names of all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kshark.analysis import RuleCoverage
from kshark.output.spans import CODE, DIM, ERROR, GOOD, NOTE, PLAIN, WARN, Line, folded
from kshark.output.text_table import Column, table
from kshark.output.units import counted, number

_COLUMNS: Final = (
    Column("rule", right=True),
    Column("put to the test"),
    Column("blame", drop=1),
    *(Column(title, right=True) for title in ("times", "held", "broken", "unknown", "noted")),
)


def coverage_lines(rules: Sequence[RuleCoverage], width: int | None) -> Iterator[Line]:
    """A row for each rule that was put to the test, what came of all of them, and what never was."""
    tested = [rule for rule in rules if rule.tested]
    if tested:
        yield from table(_COLUMNS, [_row(rule) for rule in tested], width)
    broken = sum(rule.broken > 0 for rule in tested)
    unknown = sum(rule.unknown > 0 and not rule.broken for rule in tested)
    kept = len(tested) - broken - unknown
    line = f"{len(tested)} of {counted(len(rules), 'rule')} put to the test: {kept} never broken, {broken} broken, {unknown} not decided"
    yield from folded([(line, PLAIN)], width, 2)
    if untested := [rule.code for rule in rules if not rule.tested]:
        yield from folded([("never put to the test: ", DIM), (", ".join(untested), DIM)], width, 2)
    yield []


def _row(rule: RuleCoverage) -> list[Line]:
    counts = ((rule.held, GOOD), (rule.broken, ERROR), (rule.unknown, WARN), (rule.noted, NOTE))
    return [
        [(str(rule.rule), DIM)],
        [(rule.code, CODE)],
        [(rule.blame[0] if rule.blame else "nobody", DIM)],
        [(number(rule.tested), PLAIN)],
        *([(number(count), style)] if count else [] for count, style in counts),
    ]
