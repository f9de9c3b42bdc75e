"""Another clock, another setting, a smaller table, fewer packets: what was proved may become unknown, and nobody else
is accused. Rows name what weakens them."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Final

import pytest

from kshark import limits
from kshark.analysis import RULES, Rule
from kshark.analysis.facts.bases import AT_LEAST, AT_MOST, Limit
from kshark.analysis.rules import BOOK
from kshark.model import Finding
from tests.analysis.rules.examples import Example
from tests.analysis.rules.promises import PROMISES
from tests.analysis.rules.twins import KINDS, WRITTEN, Talk, accusations, is_played, summary, talks, without_times
from tests.conversation import Thinned, everything
from tests.examples import as_many

#: Rules with a row that is played, and whose wrong exchanges are a violation.
PLAYED: Final = [rule for rule in RULES if rule.accuses and rule.wrong and is_played(rule.wrong)]


@cache
def every_talk() -> list[Talk]:
    return [*talks()]


@pytest.mark.parametrize("kind", KINDS)
def test_some_twins_add_no_violation(kind: str) -> None:
    for talk in Random(kind).sample(every_talk(), as_many(12)):
        count, wrong = accusations(kind, talk)
        assert count > 0
        assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_twin_adds_a_violation(kind: str) -> None:
    made = [accusations(kind, talk) for talk in every_talk()]
    assert [line for _, wrong in made for line in wrong] == []
    assert summary({kind: sum(count for count, _ in made)})[0] in WRITTEN.read_text().splitlines()


def verdicts(rule: Rule, found: list[Finding]) -> set[str]:
    return {finding.verdict for finding in found if finding.code == rule.code}


@pytest.mark.parametrize("rule", PLAYED, ids=lambda rule: rule.code)
def test_rows_that_rest_on_a_duration_are_those_that_a_file_without_times_does_not_prove(rule: Rule) -> None:
    talk = Example(rule.wrong).talk
    if "violation" not in verdicts(rule, everything(talk)):
        pytest.skip("its wrong exchanges are no violation")
    proved = {"violation" in verdicts(rule, everything(Thinned(rows))) for _, rows, _ in without_times(talk.packets())}
    rests_on_times = not {AT_LEAST, AT_MOST}.isdisjoint(rule.rests_on)
    assert rests_on_times or proved == {True}
    assert not rests_on_times or rule.code in ALSO_PROVED_WITHOUT or False in proved


#: The time shows whether the client or the network is to blame, or proves only what another check reports, or a note
#: rests on it.
ALSO_PROVED_WITHOUT: Final = {
    *("EPOCH_REPLAY", "FETCH_UNASSIGNED_PARTITION", "FETCH_BY_DEPARTED_MEMBER"),
    *("CONSUMER_EPOCH_FENCED", "GENERATION_STALE"),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_row_names_limits_that_there_are(rule: Rule) -> None:
    assert all(hasattr(limits, basis.name) for basis in rule.rests_on if isinstance(basis, Limit))
    assert len(set(rule.rests_on)) == len(rule.rests_on)


def test_arguments_rest_on_nothing_that_their_row_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from kshark.analysis.runners import verdict

    judge, seen = verdict.judge, set()

    def judged(rule: Rule, argument: verdict.Argument, *given: object, **named: object) -> object:
        seen.update((rule.code, ground.basis) for ground in argument.grounds)
        return original(rule, argument, *given, **named)

    original = verdict.judged
    assert judge is verdict.judge
    monkeypatch.setattr("kshark.analysis.runners.runner.judged", judged)
    for promise in PROMISES:
        everything(promise()[0])
    assert seen
    assert {(code, basis) for code, basis in seen if basis not in BOOK.by_code[code].rests_on} == set()
