"""Every code that kshark gives: weirds, which are facts about bytes, and rules of the protocol, which are judged."""

from __future__ import annotations

from typing import Final

from kshark.analysis import RULES, Rule
from kshark.anomaly import CATALOGUE, Entry

CODES: Final[dict[str, Entry | Rule]] = {**CATALOGUE, **{rule.code: rule for rule in RULES}}


def number_of(entry: Entry | Rule) -> int | None:
    """The number in the rule catalogue; None for what is outside it."""
    return entry.number if isinstance(entry, Rule) else entry.rule


def group_of(entry: Entry | Rule) -> str:
    """What it is about: the stage that sees it, or the machine whose rule it is."""
    if isinstance(entry, Entry):
        return entry.group
    return entry.machine.name if entry.machine is not None else "exchange of its own"
