"""Findings grouped into cases: each gets a capture of its own as evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct, field

from kshark.analysis import Rule
from kshark.anonymous import Pseudonyms
from kshark.headlines import Headline, Headlines
from kshark.headlines.alike import INCIDENTS, client_of
from kshark.limits import STATISTICS_ROWS
from kshark.model import Finding
from kshark.output.catalogue import CODES

Per = Literal["cause", "finding"]
#: Code, verdict, cause, blamed party (its kind and name), and for `per finding` its number.
_Sort = tuple[str, str, str | None, str, str, int]

#: Most cases of a run; those with less weight are left out.
MOST_CASES: Final = 200
#: Packets of further findings that are named.
_NAMED: Final = 1_000
_GRAVITY: Final = {"violation": 0, "unknown": 1, "note": 2}
_NAME_LENGTH: Final = 80


class Recorded(Struct):
    """The packets that a flight recorder held when it wrote a case: of these interfaces, from a time to a time.

    `missed`: findings like it since the recording before, which have no file. `is_cut`: the evidence began before.
    """

    interfaces: str
    since_ns: int
    until_ns: int
    missed: int = 0
    is_cut: bool = False


class Case(Struct):
    """Findings with one code, verdict, cause and blamed party. `first` is the one whose packets are the evidence.

    `packets`: those of all findings, the first thousand. `name`: the name of its folder, empty until it is chosen.
    """

    first: Finding
    count: int = 0
    packets: list[int] = field(default_factory=list)
    name: str = ""
    headline: Headline | None = None
    recorded: Recorded | None = None


def is_due(finding: Finding) -> bool:
    """True if evidence is due without being asked for by code: something is or may be wrong, or an event happened."""
    return finding.verdict != "note" or finding.code in INCIDENTS


def chosen_cases(findings: Iterable[Finding], per: Per, names: Pseudonyms | None = None) -> tuple[list[Case], int]:
    """Return the cases by weight, and how many others are left out. `findings` are read twice.

    `names`: the names of folders have pseudonyms.
    """
    cases: dict[_Sort, Case] = {}
    others = 0
    for number, finding in enumerate(findings):
        sort = _sort(finding, per, number)
        case = cases.get(sort)
        if case is None and len(cases) >= STATISTICS_ROWS:
            others += 1
        elif case is None:
            cases[sort] = Case(finding)
    chosen = dict(sorted(cases.items(), key=lambda entry: _gravity(entry[1].first))[:MOST_CASES])
    headlines = {sort: Headlines() for sort in chosen}
    for number, finding in enumerate(findings):
        sort = _sort(finding, per, number)
        if sort in chosen:
            case = chosen[sort]
            case.count += 1
            case.packets += [finding.packet] if len(case.packets) < _NAMED else []
            headlines[sort].add(finding)
    for number, (sort, case) in enumerate(chosen.items(), 1):
        case.name = folder_name(f"{number:03}", case.first if names is None else names.finding(case.first))
        case.headline = headline_of(headlines[sort], case.first)
    return [*chosen.values()], others + len(cases) - len(chosen)


def headline_of(headlines: Headlines, finding: Finding) -> Headline:
    """Return the headline of a finding's code; one from the catalogue if there is none."""
    entry = CODES[finding.code]
    said = next((said for said in headlines.of() if said.code == finding.code), None)
    return said or Headline("rule", entry.text, entry.advice, finding.code, finding.verdict)


def _sort(finding: Finding, per: Per, number: int) -> _Sort:
    party = finding.broker if finding.blame == "broker" else client_of(finding)
    return finding.code, finding.verdict, finding.cause, finding.blame, party, number if per == "finding" else 0


def _gravity(finding: Finding) -> tuple[int, int, int]:
    entry = CODES.get(finding.code)
    weight = entry.weight if isinstance(entry, Rule) else 0
    return _GRAVITY[finding.verdict], -weight, finding.packet


def folder_name(prefix: str, finding: Finding) -> str:
    """Return a name that every file system takes: `001-EPOCH_SKIP_AHEAD-skip_after_timeout-billing-3`."""
    parts = [finding.code, *([finding.cause] if finding.cause else []), client_of(finding)]
    return f"{prefix}-" + re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(parts))[:_NAME_LENGTH].rstrip("._-")
