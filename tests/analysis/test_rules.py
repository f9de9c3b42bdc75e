"""The rules as a whole: all of the catalogue's, each once, and the order in which they explain a refusal."""

from __future__ import annotations

from kshark.analysis.rules import EXPLANATIONS, REMARKS, closing
from kshark.analysis.sessions import UNEXPLAINED
from kshark.anomaly import CATALOGUE

SESSION_RULES = range(18, 48)


def test_every_session_rule_of_the_catalogue_is_there() -> None:
    said = {rule.code for rule in (*EXPLANATIONS, *REMARKS)} | {closing.CODE}
    assert said == {entry.code for entry in CATALOGUE.values() if entry.rule in SESSION_RULES}
    assert {CATALOGUE[code].rule for code in said} == set(SESSION_RULES)


def test_refusals_are_explained_in_the_order_of_the_catalogue() -> None:
    order = list(dict.fromkeys(CATALOGUE[rule.code].rule for rule in EXPLANATIONS))
    assert order == [22, 23, 34, 32, 37, 42, 21, 18, 19, 20, 36, 26, 45, 28, 25]


def test_what_nothing_explains_has_a_code() -> None:
    assert set(UNEXPLAINED.values()) <= set(CATALOGUE)


def test_each_rule_says_in_a_sentence_what_it_means() -> None:
    assert all((rule.check.__doc__ or "").strip().endswith(".") for rule in (*EXPLANATIONS, *REMARKS))
