"""All codes of kshark: weirds, which are facts about bytes, and rules of the protocol, which judge."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from kshark.analysis import RULES, Rule
from kshark.analysis.rules import BOOK
from kshark.analysis.rules.causes import ADVICE
from kshark.anomaly import CATALOGUE, Entry
from kshark.errors import UsageError, close_to
from kshark.incidents import ROWS

#: The numbers of the rule catalogue, without those of incidents.
NUMBERS: Final = (*range(1, 129), *range(144, 148), 159)
#: Rules and incidents, by number; those without a number last.
EVERY_RULE: Final = tuple(sorted((*RULES, *ROWS), key=lambda rule: (rule.number is None, rule.number or 0, rule.code)))
CODES: Final[dict[str, Entry | Rule]] = {**CATALOGUE, **{rule.code: rule for rule in EVERY_RULE}}
_INCIDENTS: Final = frozenset(row.code for row in ROWS)
#: The rules that judge weirds, by the code of the weird.
JUDGED_BY: Final = BOOK.weirds


def codes_of_rules(texts: Iterable[str]) -> set[str]:
    """Return the codes of rules in texts such as `EPOCH_REPLAY,DOUBLE_ACK`. Raises UsageError for an unknown one."""
    codes = {code.strip().upper() for text in texts for code in text.split(",") if code.strip()}
    for code in sorted(codes):
        if code not in CODES:
            raise UsageError(f'no code "{code}"{close_to(code, CODES)} (kshark explain lists them)')
        if not isinstance(CODES[code], Rule):
            raise UsageError(f"{code} is a note about a capture, not a rule; name a rule (kshark explain lists all)")
    return codes


def judged(codes: Container[str]) -> list[str]:
    """Return the weirds that findings with these codes cover."""
    return [*{weird: None for rule in RULES if rule.code in codes for weird in rule.weird}]


def parties(code: str, blame: str) -> Sequence[str]:
    """Return the parties to blame for a violation; all candidates if the capture does not show which."""
    return CODES[code].blame if blame == "unknown" else (blame,)


def weight_of(code: str) -> int:
    """Return how much a rule matters; 0 for other codes."""
    return getattr(CODES.get(code), "weight", 0)


def advice_of(code: str, cause: str | None) -> str:
    """Return what to do about findings of a code and a cause; empty for an unknown code."""
    entry = CODES.get(code)
    return ADVICE.get(cause or "", "" if entry is None else entry.advice)


def number_of(entry: Entry | Rule) -> int | None:
    """Return the number in the rule catalogue; None for other codes."""
    rule = entry if isinstance(entry, Rule) else JUDGED_BY.get(entry.code)
    return None if rule is None else rule.number


def group_of(entry: Entry | Rule) -> str:
    """Return the stage that finds a weird, or the state machine of a rule.

    `exchange` for a rule that needs only one exchange, `event` for an incident.
    """
    if isinstance(entry, Entry):
        return entry.group
    if entry.code in _INCIDENTS:
        return "event"
    if entry.weird:
        return CATALOGUE[entry.weird[0]].group
    return entry.machine.name if entry.machine is not None else "exchange"
