"""The catalogue is whole: each of its numbers is a row, and each row can be seen somewhere."""

from __future__ import annotations

from typing import Final

import pytest

from kshark.analysis import RULES, Rule
from kshark.output.catalogue import NUMBERS
from kshark.output.rule_table import numbers_without_row
from tests.analysis.rules.catalogue import WRITTEN, captures_of, catalogue, conversations_of

#: Numbers without a row: whoever writes one takes it out.
MISSING: Final[frozenset[int]] = frozenset()


def test_each_number_is_a_row_or_known_to_be_missing() -> None:
    assert {rule.number for rule in RULES if rule.number is not None} | MISSING == {*NUMBERS}
    assert numbers_without_row() == sorted(MISSING)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_row_can_be_seen(rule: Rule) -> None:
    assert captures_of().get(rule.code) or conversations_of().get(rule.code)


def test_the_written_catalogue_is_what_the_rows_say() -> None:
    assert list(catalogue()) == WRITTEN.read_text().splitlines()
