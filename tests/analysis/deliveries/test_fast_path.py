"""The fast path of acknowledgements: which of them no rule looks at. That findings stay the same: tests/analysis/sessions."""

from __future__ import annotations

import pytest

from kshark.analysis.deliveries.record_rules import RecordRules, Situation
from kshark.analysis.deliveries.record_situation import Acknowledging
from kshark.analysis.machines.in_flight import GAP, RELEASE
from kshark.analysis.verdict import Verdict
from tests.analysis.talks import batch_of, handed, opened
from tests.conversation import Conversation, everything


def looked_at(talk: Conversation, monkeypatch: pytest.MonkeyPatch, *, exact: bool = False) -> list[int]:
    """The epochs of requests whose acknowledgements rules looked at."""
    epochs: list[int] = []
    judge = RecordRules.judge

    def told(rules: RecordRules, now: Situation, said: list[Verdict]) -> None:
        if isinstance(now, Acknowledging):
            epochs.append(now.step.epoch)
        judge(rules, now, said)

    with monkeypatch.context() as patched:
        patched.setattr(RecordRules, "judge", told)
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
