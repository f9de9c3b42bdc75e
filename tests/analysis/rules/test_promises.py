"""What rows promise comes, and nothing else does: promises against the findings, and against the rows."""

from __future__ import annotations

import pytest

from kshark.analysis import RULES
from kshark.output.catalogue import parties
from tests.analysis.rules.promises import PROMISES, SAID, Promise, said_of, sentences


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_a_promise_is_kept(promise: Promise) -> None:
    _, told = promise()
    assert said_of(promise) == told
    assert said_of(promise, exact=True) == told


def test_rows_promise_what_comes_and_nothing_else() -> None:
    told = [it for promise in PROMISES for it in promise()[1]]
    assert {(it.code, it.verdict) for it in told} == {
        (rule.code, verdict) for rule in RULES for verdict in rule.verdicts
    }
    assert {(it.code, it.cause) for it in told if it.cause} == {
        (rule.code, cause) for rule in RULES for cause in rule.causes
    }
    blamed = {
        (it.code, party) for it in told if it.verdict == "violation" for party in parties(it.code, it.blame or "")
    }
    assert blamed == {(rule.code, blame) for rule in RULES for blame in rule.blame}


def test_the_sentences_are_those_that_were_read() -> None:
    assert list(sentences()) == SAID.read_text().splitlines()
