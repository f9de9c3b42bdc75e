"""The catalogue of rules, each with where it can be seen: captures whose golden findings name it, the promise that
shows little else.

`python -m tests.analysis.rules.catalogue` writes CATALOGUE.md anew, as `python -m tests.golden` does when all else is
written."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from kshark.analysis import RULES, Rule
from kshark.analysis.facts.bases import kind_of, name_of
from kshark.output.catalogue import group_of
from kshark.output.rule_table import numbers_without_row
from tests.analysis.rules.promises import PROMISES
from tests.golden.writer import CAPTURES_TOLD, findings_file

WRITTEN: Final = Path(__file__).with_name("CATALOGUE.md")
#: Captures that are named of each rule; how many more there are is said.
_NAMED: Final = 2
_FINDING: Final = re.compile(r"^packet \d+: (?P<code>[A-Z_0-9]+) (?P<verdict>\w+)", re.M)
_TITLES: Final = ("rule", "code", "machine", "may blame", "verdicts", "rests on", "captures", "conversation")


@cache
def captures_of() -> dict[str, list[str]]:
    """Captures of which each code is told, those that are told it oftenest first."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for capture in CAPTURES_TOLD:
        for found in _FINDING.finditer(findings_file(capture).read_text()):
            counts[found["code"]][capture.name.partition(".pcap")[0]] += 1
    return {code: sorted(told, key=lambda name: (-told[name], name)) for code, told in counts.items()}


@cache
def conversations_of() -> dict[str, list[str]]:
    """Promises of which each code is told, those first of which little else is."""
    found: dict[str, list[str]] = defaultdict(list)
    for promise, told in sorted(((promise, promise()[1]) for promise in PROMISES), key=lambda kept: len(kept[1])):
        for code in dict.fromkeys(it.code for it in told):
            found[code].append(promise.__name__.replace("_", " "))
    return dict(found)


def catalogue() -> Iterator[str]:
    """The lines of CATALOGUE.md."""
    yield "# Every rule, and where it can be seen"
    yield ""
    yield (
        "Written by `python -m tests.analysis.rules.catalogue`; `kshark explain CODE` says more of each. Captures are "
        "those of"
    )
    yield "`captures/`, as their golden findings tell; conversations are the promises beside this file."
    yield ""
    yield _cells(*_TITLES)
    yield _cells("--:", *["---"] * (len(_TITLES) - 1))
    yield from map(_row, RULES)
    if missing := numbers_without_row():
        yield ""
        yield f"No row yet: {', '.join(map(str, missing))}."


def _row(rule: Rule) -> str:
    told = captures_of().get(rule.code, [])
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    blame, verdicts = " or ".join(rule.blame) or "nobody", ", ".join(rule.verdicts)
    conversation, *_ = conversations_of().get(rule.code, [""])
    number = "" if rule.number is None else str(rule.number)
    rests_on = ", ".join(f"{kind_of(basis)} {name_of(basis)}" for basis in rule.rests_on)
    captures = ", ".join(told[:_NAMED]) + more
    return _cells(number, rule.code, group_of(rule), blame, verdicts, rests_on, captures, conversation)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def write() -> None:
    WRITTEN.write_text("".join(f"{line}\n" for line in catalogue()))


if __name__ == "__main__":
    write()
