"""How often rules were put to the test, as a report for people: what was broken, what was right, and what never was
tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kshark.analysis import RuleCoverage
from kshark.analysis.rules import BOOK
from kshark.output.catalogue import group_of
from kshark.output.spans import CODE, DIM, ERROR, GOOD, LABEL, NOTE, PLAIN, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.output.units import counted, number

#: Columns of what is wrapped, also where nothing limits them.
_WIDTH: Final = 100
_COLUMNS: Final = (
    Column("rule", right=True),
    Column("put to the test"),
    Column("blame", drop=1),
    *(Column(title, right=True) for title in ("times", "held", "broken", "unknown", "noted")),
)
_OF_SIDES: Final = (
    Column("whose rules"),
    *(Column(title, right=True) for title in ("rules", "tested", "never broken", "broken", "not decided")),
    Column("times right", right=True, drop=1),
)
#: What rules came to that were put to the test, the worst first.
_CAME_TO: Final = {"broken": ERROR, "not decided": WARN, "never broken": GOOD}
_ORDER: Final = ("never broken", "broken", "not decided")


def coverage_lines(rules: Sequence[RuleCoverage], width: int | None) -> Iterator[Line]:
    """A row for each rule that was put to the test, by what came of it; how each side did; what never was put to the
    test."""
    tested = [rule for rule in rules if rule.tested]
    if tested:
        yield from _by_outcome(tested, width)
    sides = {_side(rule): None for rule in rules}
    if tested and len(sides) > 1:
        yield from table(
            _OF_SIDES, [_of_side(side, [rule for rule in rules if _side(rule) == side]) for side in sides], width
        )
        yield []
    came_to = _came_to(tested)
    counts = ", ".join(f"{came_to[came]} {came}" for came in _ORDER)
    yield from folded(
        [(f"{came_to.total()} of {counted(_numbers(rules), 'rule')} put to the test: {counts}", PLAIN)], width, 2
    )
    numbers = {rule.rule for rule in tested}
    yield from _untested([rule for rule in rules if rule.rule not in numbers], min(width or _WIDTH, _WIDTH))
    yield []


def _by_outcome(tested: Sequence[RuleCoverage], width: int | None) -> Iterator[Line]:
    """One table, a line above each of its parts."""
    parts = [(came, _of(tested, came)) for came in _CAME_TO]
    titles, *rows = table(_COLUMNS, [_row(rule) for _, part in parts for rule in part], width)
    yield titles
    for came, part in parts:
        if part:
            right = sum(rule.held for rule in part)
            yield [(came, _CAME_TO[came]), (f": {counted(_numbers(part), 'rule')}, {number(right)} times right", DIM)]
        yield from rows[: len(part)]
        del rows[: len(part)]
    yield from rows  # what the table says of columns without room
    yield []


def _untested(rules: Sequence[RuleCoverage], width: int) -> Iterator[Line]:
    """By what they are about, their names."""
    groups: dict[str, list[str]] = {}
    for rule in rules:
        groups.setdefault(group_of(BOOK.by_code[rule.code]), []).append(rule.code)
    if groups:
        yield [(f"never put to the test: {counted(_numbers(rules), 'rule')}", PLAIN)]
    label = max(map(len, groups), default=0) + 4
    for group, codes in groups.items():
        yield from folded([(f"  {group}".ljust(label), LABEL), (", ".join(codes), DIM)], width, label)


def _of(rules: Sequence[RuleCoverage], came: str) -> list[RuleCoverage]:
    return [
        rule
        for rule in rules
        if ("broken" if rule.broken else "not decided" if rule.unknown else "never broken") == came
    ]


def _numbers(rules: Sequence[RuleCoverage]) -> int:
    """How many rules they are: one may have several codes."""
    return len({rule.rule for rule in rules})


def _came_to(tested: Sequence[RuleCoverage]) -> Counter[str]:
    """How many rules came to what; the worst of its codes is what a rule came to."""
    return Counter({rule.rule: came for came in reversed(_CAME_TO) for rule in _of(tested, came)}.values())


def _side(rule: RuleCoverage) -> str:
    """Whom it accuses first."""
    return rule.blame[0] if rule.blame else "nobody"


def _of_side(side: str, rules: Sequence[RuleCoverage]) -> list[Cell]:
    tested = [rule for rule in rules if rule.tested]
    came_to = _came_to(tested)
    parts = (came_to[came] for came in _ORDER)
    return [side, *map(number, (_numbers(rules), came_to.total(), *parts, sum(rule.held for rule in tested)))]


def _row(rule: RuleCoverage) -> list[Cell]:
    counts = ((rule.held, GOOD), (rule.broken, ERROR), (rule.unknown, WARN), (rule.noted, NOTE))
    return [
        [(str(rule.rule), DIM)],
        [(rule.code, CODE)],
        [(_side(rule), DIM)],
        [(number(rule.tested), PLAIN)],
        *([(number(count), style)] if count else [] for count, style in counts),
    ]
