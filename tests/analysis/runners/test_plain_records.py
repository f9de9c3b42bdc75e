"""The fast path of acknowledgements: which of them no rule looks at. That findings stay the same:
tests/analysis/sessions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kshark.analysis.rules import BOOK, RuleBook
from kshark.analysis.rules.book import ALL_SIGNS
from kshark.analysis.rules.rule import Check
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.partition.situations import Acknowledging, Acquiring
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import GAP, RELEASE
from tests.analysis.talks import batch_of, handed, opened
from tests.conversation import Conversation, everything


def looked_at(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch, about: type = Acknowledging, *, exact: bool = False
) -> list[int]:
    """The epochs of requests whose acknowledgements, or acquisitions, rules looked at."""
    epochs: list[int] = []
    ask = Runner.ask_uncounted

    def asked(runner: Runner, now: Any, said: list[Verdict], owner: Any = None, signs: int = ALL_SIGNS) -> str | None:
        if isinstance(now, about):
            epochs.append(now.step.epoch)
        return ask(runner, now, said, owner, signs)

    with monkeypatch.context() as patched:
        patched.setattr(Runner, "ask_uncounted", asked)
        everything(talk, exact=exact)
    return epochs


def test_what_is_taken_of_records_that_are_held_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(2, [(0, 4, 1)]).answered()
    a.share_acknowledge(3, [(5, 9, RELEASE)]).answered()
    assert looked_at(talk, monkeypatch) == []
    assert looked_at(talk, monkeypatch, exact=True) == [2, 3]


def test_what_was_acknowledged_before_or_is_refused_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(2, [(0, 9, 1)]).answered()
    a.share_acknowledge(3, [(0, 9, 1)]).answered()
    a.share_acknowledge(4, [(0, 9, 1)]).answered(acks={0: 121})
    assert looked_at(talk, monkeypatch) == [3, 4]


def test_gaps_are_looked_at_and_so_is_what_has_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation()
    a = opened(talk)
    records = batch_of(0, 4) + batch_of(5, 5, control=True)
    a.share_fetch(1).answered(responses=handed((0, 0, 5), records=records))
    a.share_acknowledge(2, [(0, 1, 1)]).answered()
    a.share_acknowledge(3, [(2, 4, GAP)]).answered()
    a.share_acknowledge(4, [(5, 5, 1)]).answered()
    assert looked_at(talk, monkeypatch) == [3, 4]


def test_what_is_handed_out_for_the_first_time_or_was_given_back_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(2, [(0, 4, 1), (5, 9, RELEASE)]).answered()
    a.share_fetch(3).answered(responses=handed((0, 5, 9, 2), (0, 10, 19)))
    assert looked_at(talk, monkeypatch, Acquiring) == []
    assert looked_at(talk, monkeypatch, Acquiring, exact=True) == [1, 3]


def test_what_was_done_with_or_comes_with_another_number_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(2, [(0, 4, 1), (5, 9, RELEASE)]).answered()
    a.share_fetch(3).answered(responses=handed((0, 0, 4, 2)))
    a.share_fetch(4).answered(responses=handed((0, 5, 9, 3)))
    a.share_fetch(5).answered(responses=handed((0, 30, 39), (0, 20, 29)))
    assert looked_at(talk, monkeypatch, Acquiring) == [3, 4, 5]


def test_a_rule_without_a_trigger_is_asked_about_all() -> None:
    """Each row of records has one: no acknowledgement would be plain if one had none."""
    assert not BOOK.concerns_plain(IN_FLIGHT)
    row = replace(BOOK.by_code["DOUBLE_ACK"], checks=(Check(lambda now: None, about=Acknowledging),))
    book = RuleBook([row])
    assert book.concerns_plain(IN_FLIGHT, Acknowledging)
    assert not book.concerns_plain(IN_FLIGHT, Acquiring)
