"""Verdicts that wait for what the capture shows later: asked for when their session goes on, and not whenever any
session does."""

from __future__ import annotations

import pytest

from kshark.analysis.states.session.state import Unbroken
from tests.analysis.talks import handed, opened
from tests.conversation import Conversation, everything


def twice_handed_out(talk: Conversation) -> None:
    """Records that a member has accepted are handed out to another one, of which nothing more is seen."""
    a = opened(talk)
    a.share_fetch(1).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(2, [(0, 9, 1)]).answered()
    opened(talk, name="b").share_fetch(1).answered(responses=handed((0, 0, 9, 2)))


def asked(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often it was asked whether a session had gone on."""
    times = 0
    holds = Unbroken.holds

    def counted(proof: Unbroken) -> bool | None:
        nonlocal times
        times += 1
        return holds(proof)

    with monkeypatch.context() as patched:
        patched.setattr(Unbroken, "holds", counted)
        everything(talk)
    return times


def test_the_steps_of_other_sessions_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, among_others = Conversation(), Conversation()
    twice_handed_out(alone)
    twice_handed_out(among_others)
    opened(among_others, upto=50, name="c")
    assert asked(among_others, monkeypatch) == asked(alone, monkeypatch) > 0
