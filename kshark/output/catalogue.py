"""Every code that kshark gives: weirds, which are facts about bytes, and rules of the protocol, which are judged."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from kshark.analysis import RULES, Rule
from kshark.anomaly import CATALOGUE, Entry

#: Numbers of the rule catalogue.
NUMBERS: Final = range(1, 129)
CODES: Final[dict[str, Entry | Rule]] = {**CATALOGUE, **{rule.code: rule for rule in RULES}}
#: The rules that judge weirds, by the codes of these.
JUDGED_BY: Final = {code: rule for rule in RULES for code in rule.weird}


def judged(codes: Container[str]) -> list[str]:
    """The weirds of which findings with these codes tell."""
    return [weird for weird, rule in JUDGED_BY.items() if rule.code in codes]


def parties(code: str, blame: str) -> Sequence[str]:
    """Who is to blame for a violation; all who may be, where the capture does not tell which."""
    return CODES[code].blame if blame == "unknown" else (blame,)


def number_of(entry: Entry | Rule) -> int | None:
    """The number in the rule catalogue; None for what is outside it."""
    rule = entry if isinstance(entry, Rule) else JUDGED_BY.get(entry.code)
    return None if rule is None else rule.number


def group_of(entry: Entry | Rule) -> str:
    """What it is about: the stage that sees it, or the machine whose rule it is; `exchange` where one by itself is
    enough for the rule."""
    if isinstance(entry, Entry):
        return entry.group
    if entry.weird:
        return CATALOGUE[entry.weird[0]].group
    return entry.machine.name if entry.machine is not None else "exchange"
