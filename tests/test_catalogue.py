"""The catalogue and the code agree: every code is produced somewhere, tested somewhere, and nothing else is produced."""

from __future__ import annotations

import re

import pytest

from kshark.anomaly import CATALOGUE
from tests.shared import ROOT

PRODUCT = {path: path.read_text() for folder in ("kshark", "spark_analysis") for path in (ROOT / folder).rglob("*.py")}
SOURCE = "\n".join(text for path, text in PRODUCT.items() if path.name != "anomaly.py")
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != "test_catalogue.py")


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_code_is_produced_and_tested(code: str) -> None:
    assert re.search(rf'"{code}"', SOURCE), f"nothing in the product says {code}"
    assert re.search(rf"\b{code}\b", TESTS), f"no test names {code}"


def test_rules_have_one_code_each() -> None:
    """A rule number that stands for several malformed bodies is the exception: all of them are undecodable bodies."""
    rules = [entry.rule for entry in CATALOGUE.values() if entry.rule is not None and entry.rule != 6]
    assert len(rules) == len(set(rules))


def test_texts_are_sentences() -> None:
    assert [entry.code for entry in CATALOGUE.values() if not entry.text.endswith(".") or not entry.text[0].isupper()] == []
