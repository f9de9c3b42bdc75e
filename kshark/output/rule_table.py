"""The rule catalogue as a table and as objects: the parties that a rule may blame, its verdicts, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kshark.analysis import RULES, Rule
from kshark.analysis.facts.bases import kind_of, name_of
from kshark.output.catalogue import EVERY_RULE, NUMBERS, group_of
from kshark.output.spans import CODE, DIM, ERROR, NOTE, PLAIN, WARN, Line, folded, plain
from kshark.output.text_table import Column, table

_COLUMNS: Final = (Column("rule", right=True), Column("code"), Column("judges"), Column("may blame"), Column("verdict"))
#: Verdicts by their letter.
_LETTERS: Final = {"V": ("violation", ERROR), "U": ("unknown", WARN), "N": ("note", NOTE)}
_LEGEND: Final = "V violation, U unknown where the capture cannot prove it, N note: no rule was broken"
#: A sentence with less room beside its row moves below it.
_BESIDE: Final = 40
_BETWEEN: Final = "  "
#: Width of the rule's number, and the space after it.
_INDENT: Final = 6


def numbers_without_row() -> list[int]:
    """Return the numbers of the catalogue that no rule implements yet."""
    return sorted({*NUMBERS} - {rule.number for rule in RULES})


def rule_lines(width: int | None) -> Iterator[Line]:
    """Return a row for each rule by number, codes without a number last, and a legend; `width` None: no limit."""
    titles, *rows = table(_COLUMNS, [_row(rule) for rule in EVERY_RULE], None)
    beside = len(plain(titles)) + len(_BETWEEN)
    below = width is not None and width - beside < _BESIDE
    yield [*titles, *([] if below else [(f"{_BETWEEN}text of a finding", DIM)])]
    for rule, row in zip(EVERY_RULE, rows, strict=True):
        if below:
            yield row
            yield from folded([(" " * _INDENT + rule.text, PLAIN)], width, _INDENT)
        else:
            yield from folded([*row, (" " * (beside - len(plain(row))), PLAIN), (rule.text, PLAIN)], width, beside)
    yield from folded([(_LEGEND, DIM)], width)
    if missing := numbers_without_row():
        yield from folded([("no row yet: ", DIM), (", ".join(map(str, missing)), DIM)], width, 2)


def _row(rule: Rule) -> list[Line]:
    verdicts: Line = [(letter if word in rule.verdicts else " ", style) for letter, (word, style) in _LETTERS.items()]
    while verdicts[-1][0] == " ":
        verdicts.pop()
    return [
        [(str(rule.number or ""), DIM)],
        [(rule.code, CODE)],
        [(group_of(rule), PLAIN)],
        [("/".join(rule.blame) or "none", PLAIN)],
        verdicts,
    ]


def rule_objects() -> list[dict[str, Any]]:
    """Return an object for each rule, and a summary with the numbers without a rule."""
    rows = [
        {
            "rule": rule.number,
            "code": rule.code,
            "machine": group_of(rule),
            "blame": rule.blame,
            "verdicts": rule.verdicts,
            "causes": rule.causes,
            "rests_on": [{"kind": kind_of(basis), "name": name_of(basis)} for basis in rule.rests_on],
            "text": rule.text,
        }
        for rule in EVERY_RULE
    ]
    return [*rows, {"summary": {"rules": len(rows), "without_row": numbers_without_row()}}]
