"""The rule coverage of a check as text: rules that were broken, never broken, and never tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kshark.analysis import By, ClientCoverage, RuleCoverage
from kshark.analysis.rules import BOOK
from kshark.output.catalogue import group_of
from kshark.output.spans import CODE, DIM, ERROR, GOOD, LABEL, NOTE, PLAIN, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.units import counted, number, safe

#: Width of wrapped text, also without a terminal.
_WIDTH: Final = 100
_COLUMNS: Final = (
    Column("rule", right=True),
    Column("tested"),
    Column("blame", drop=1),
    *(Column(title, right=True) for title in ("times", "held", "broken", "unknown", "noted")),
)
#: The position of the column about whom a rule blames.
_SIDE: Final = 2
_OF_SIDES: Final = (
    Column("whose rules"),
    *(Column(title, right=True) for title in ("rules", "tested", "never broken", "broken", "not decided")),
    Column("times right", right=True, drop=1),
)
_OF_CLIENTS: Final = (
    Column("client", elastic=16),
    Column("software", elastic=16),
    *(Column(title, right=True) for title in ("tested", "never broken", "broken", "not decided")),
    Column("times right", right=True, drop=1),
)
#: The outcomes of tested rules, the worst first.
_OUTCOMES: Final = {"broken": ERROR, "not decided": WARN, "never broken": GOOD}
_ORDER: Final = ("never broken", "broken", "not decided")


def coverage_lines(rules: Sequence[RuleCoverage], width: int | None) -> Iterator[Line]:
    """Return a row for each tested rule by its outcome, the results of each side, and the rules never tested."""
    tested = [rule for rule in rules if rule.tested]
    if tested:
        yield from _by_outcome(tested, width)
    sides = {_side(rule): None for rule in rules}
    if tested and len(sides) > 1:
        yield from table(
            _OF_SIDES, [_of_side(side, [rule for rule in rules if _side(rule) == side]) for side in sides], width
        )
        yield []
    yield from _summed(rules, width)
    yield []


def client_lines(clients: Sequence[ClientCoverage], by: By, width: int | None) -> Iterator[Line]:
    """Return a row for each client, or each software; then the rules about clients that each one tested, by outcome."""
    if not clients:
        yield [("no client sent a request that is counted", PLAIN)]
        yield []
        return
    columns = _OF_CLIENTS if by == "client" else _OF_CLIENTS[1:]
    yield from table(columns, [_of_client(client, by) for client in clients], width)
    for client in clients:
        yield []
        software = f" ({safe(client.software)})" if client.software else ""
        yield [(f"{by} {safe(client.name)}{software}", LABEL)]
        if tested := [rule for rule in client.rules if rule.tested]:
            yield from _by_outcome(tested, width, sides=False)
        yield from _summed(client.rules, width)
    yield []


def _of_client(client: ClientCoverage, by: By) -> list[Cell]:
    tested = [rule for rule in client.rules if rule.tested]
    outcomes = _count_outcomes(tested)
    names = [safe(client.name), *([safe(client.software or "")] if by == "client" else [])]
    counts = [f"{outcomes.total()} of {_numbers(client.rules)}", *(number(outcomes[outcome]) for outcome in _ORDER)]
    return [*names, *counts, number(sum(rule.held for rule in tested))]


def _summed(rules: Sequence[RuleCoverage], width: int | None) -> Iterator[Line]:
    """Return how many rules were tested, with which outcome, and the names of the others."""
    outcomes = _count_outcomes([rule for rule in rules if rule.tested])
    counts = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in _ORDER)
    yield from folded([(f"{outcomes.total()} of {counted(_numbers(rules), 'rule')} tested: {counts}", PLAIN)], width, 2)
    numbers = {rule.rule for rule in rules if rule.tested}
    yield from _untested([rule for rule in rules if rule.rule not in numbers], min(width or _WIDTH, _WIDTH))


def _by_outcome(tested: Sequence[RuleCoverage], width: int | None, *, sides: bool = True) -> Iterator[Line]:
    """Return one table with a title line above each outcome. `sides`: also whom the rules blame."""
    parts = [(outcome, _of(tested, outcome)) for outcome in _OUTCOMES]
    columns, cells = [*_COLUMNS], [_row(rule) for _, part in parts for rule in part]
    if not sides:
        for row in (columns, *cells):
            del row[_SIDE]  # type: ignore[attr-defined]
    titles, *rows = table(columns, cells, width)
    yield titles
    for outcome, part in parts:
        if part:
            right = sum(rule.held for rule in part)
            yield [
                (outcome, _OUTCOMES[outcome]),
                (f": {counted(_numbers(part), 'rule')}, {number(right)} times right", DIM),
            ]
        yield from rows[: len(part)]
        del rows[: len(part)]
    yield from rows  # the table's line about omitted columns
    yield []


def _untested(rules: Sequence[RuleCoverage], width: int) -> Iterator[Line]:
    """Return the names of the rules, by group."""
    groups: dict[str, list[str]] = {}
    for rule in rules:
        groups.setdefault(group_of(BOOK.by_code[rule.code]), []).append(rule.code)
    if groups:
        yield [(f"never tested: {counted(_numbers(rules), 'rule')}", PLAIN)]
    label = max(map(len, groups), default=0) + 4
    for group, codes in groups.items():
        yield from folded([(f"  {group}".ljust(label), LABEL), (", ".join(codes), DIM)], width, label)


def _of(rules: Sequence[RuleCoverage], outcome: str) -> list[RuleCoverage]:
    return [
        rule
        for rule in rules
        if ("broken" if rule.broken else "not decided" if rule.unknown else "never broken") == outcome
    ]


def _numbers(rules: Sequence[RuleCoverage]) -> int:
    """Return the number of different rules: one rule may have several codes."""
    return len({rule.rule for rule in rules})


def _count_outcomes(tested: Sequence[RuleCoverage]) -> Counter[str]:
    """Count the rules by outcome; a rule has the worst outcome of its codes."""
    return Counter({rule.rule: outcome for outcome in reversed(_OUTCOMES) for rule in _of(tested, outcome)}.values())


def _side(rule: RuleCoverage) -> str:
    """Return the party that the rule accuses first."""
    return rule.blame[0] if rule.blame else "none"


def _of_side(side: str, rules: Sequence[RuleCoverage]) -> list[Cell]:
    tested = [rule for rule in rules if rule.tested]
    outcomes = _count_outcomes(tested)
    parts = (outcomes[outcome] for outcome in _ORDER)
    return [side, *map(number, (_numbers(rules), outcomes.total(), *parts, sum(rule.held for rule in tested)))]


def _row(rule: RuleCoverage) -> list[Cell]:
    counts = ((rule.held, GOOD), (rule.broken, ERROR), (rule.unknown, WARN), (rule.noted, NOTE))
    return [
        [(str(rule.rule), DIM)],
        [(rule.code, CODE)],
        [(_side(rule), DIM)],
        [(number(rule.tested), PLAIN)],
        *([(number(count), style)] if count else [] for count, style in counts),
    ]
