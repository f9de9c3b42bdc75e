"""Findings as JSON lines: every key is present, and those that the rule's row gives are added."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import asdict

from kshark.analysis import Rule
from kshark.analysis.facts.bases import kind_of, name_of
from kshark.incidents import ROWS
from kshark.model import Finding
from kshark.output.catalogue import CODES

_INCIDENTS: Final = frozenset(row.code for row in ROWS)
#: The number of findings that each event explains, by code; an event is known by its code and its first packet.
Explained = Mapping[tuple[str, int], Mapping[str, int]]


class ListedFinding(Finding, gc=False):
    """A finding as it is printed.

    `weight`: what people see first. `rests_on`: what the rule rests on besides the packets, as kind and name.
    `explains`: the findings under an event, counted by code; null for other findings, and as long as they are not all
    known.
    """

    until_ns: int | None = None
    until_packet: int | None = None
    weight: int = 0
    rests_on: Sequence[Mapping[str, str]] = ()
    explains: Mapping[str, int] | None = None


def json_findings(findings: Iterable[Finding], explained: Explained | None = None) -> Iterator[ListedFinding]:
    """Yield findings as they are printed. `explained` None: what the events explain is not known yet."""
    for finding in findings:
        fields: dict[str, Any] = {name: None if value is UNSET else value for name, value in asdict(finding).items()}
        rule = CODES.get(finding.code)
        weight = rule.weight if isinstance(rule, Rule) else 0
        explains = None
        if explained is not None and finding.code in _INCIDENTS:
            explains = explained.get((finding.code, finding.packet), {})
        yield ListedFinding(**fields, weight=weight, rests_on=_BASES.get(finding.code, ()), explains=explains)


def explained_by(findings: Iterable[Finding]) -> Explained:
    """Count the findings that each event explains."""
    explained: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for finding in findings:
        if finding.event_code is not None and finding.event_packet is not None:
            explained[finding.event_code, finding.event_packet][finding.code] += 1
    return explained


_BASES: Final = {
    code: [{"kind": kind_of(basis), "name": name_of(basis)} for basis in rule.rests_on]
    for code, rule in CODES.items()
    if isinstance(rule, Rule)
}
