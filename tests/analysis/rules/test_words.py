"""What rows say to people: advice where they accuse, causes that are known, and exchanges that show what they say."""

from __future__ import annotations

from typing import Final

import pytest

from kshark.analysis import RULES, Rule
from kshark.analysis.results import ordinary
from kshark.analysis.rules.causes import CAUSES
from kshark.incidents import ROWS
from tests.analysis.rules.examples import Example
from tests.conversation import findings

#: Rules of the catalogue without words yet, and those outside it: whoever gives a row its words takes it out.
SILENT: Final[frozenset[int | str]] = frozenset()
#: Rules whose exchanges are not played, and why.
NOT_PLAYED: Final = {
    **{rule.code: "bytes that no conversation writes" for rule in RULES if rule.weird and rule.wrong},
    "ACK_NOT_PERSISTED": "three that are stored have to come before, each with its Write",
    "PERSIST_SLOW": "the coordinator answers while others wait",
    "PERSISTED_STATE_MISMATCH": "three that are stored have to come before, each with its Write",
}
#: Characters of a line of an exchange: it fits a terminal of 80 columns, and two short ones stand side by side.
WIDEST: Final = 64


def is_silent(rule: Rule) -> bool:
    return (rule.number or rule.code) in SILENT


def codes(lines: str) -> set[tuple[str, bool]]:
    """What is found, and whether somebody is accused."""
    return {(finding.code, finding.verdict == "violation") for finding in findings(Example(lines).talk)}


@pytest.mark.parametrize("rule", [rule for rule in RULES if not is_silent(rule)], ids=lambda rule: rule.code)
def test_a_row_says_what_to_do(rule: Rule) -> None:
    assert rule.advice.endswith(".")
    assert rule.accuses == bool(rule.must)
    assert bool(rule.wrong) == bool(rule.right) >= (rule.number is not None)
    assert not rule.accuses or (rule.must[0].isupper() and rule.must.endswith("."))
    assert all(len(line) <= WIDEST for lines in (rule.wrong, rule.right) for line in lines.split("; "))


def test_who_said_nothing_and_does_now_is_no_longer_silent() -> None:
    assert [rule.code for rule in RULES if rule.advice and is_silent(rule)] == []


@pytest.mark.sweep(quick=40)
@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.wrong and rule.code not in NOT_PLAYED], ids=lambda rule: rule.code
)
def test_the_wrong_exchange_breaks_the_rule_and_the_right_one_does_not(rule: Rule) -> None:
    told = (rule.code, rule.accuses)
    assert told in codes(rule.wrong)
    assert told not in codes(rule.right)


@pytest.mark.parametrize("code", sorted(NOT_PLAYED))
def test_what_is_not_played_could_not_be(code: str) -> None:
    (rule,) = (rule for rule in RULES if rule.code == code)
    with pytest.raises(ValueError, match=r"."):
        Example(rule.wrong)


def test_causes_have_a_meaning_and_a_rule_each() -> None:
    assert {cause for rule in RULES if not is_silent(rule) for cause in rule.causes} - CAUSES.keys() == set()
    rows = (*RULES, *ROWS)
    assert CAUSES.keys() - {cause for row in rows for cause in row.causes} - ordinary.CAUSES == set()
    assert {cause for row in ROWS for cause in row.causes} - CAUSES.keys() == set()
    assert ordinary.CAUSES - CAUSES.keys() == set()
