"""The fast path of most steps: it says what the exact one says, of captures as they are and of what is left of them."""

from __future__ import annotations

import zlib
from pathlib import Path
from random import Random

import pytest

from kshark.analysis import Analyzer, Coverage, Listed
from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.runners import sessions as session
from kshark.analysis.states.session.plain import advance
from kshark.analysis.states.session.state import SessionState
from kshark.model import Event, Finding
from tests.analysis.talks import opened
from tests.conversation import Conversation, events
from tests.shared import CAPTURES, sample_of
from tests.thinning import Whole, events_of, removals

SHARING = sorted(
    path
    for path in CAPTURES.glob("*.pcap")
    if path.name.startswith(("adv-", "share-")) and path.stat().st_size < 800_000
)


Said = tuple[list[Finding], dict[str, object], list[Listed], Coverage | None]


def said(happened: list[Event], *, exact: bool) -> Said:
    analyzer = Analyzer(sessions=True, steps=True, coverage=True, exact=exact)
    found = analyzer.page(happened)
    found += analyzer.close()
    return found, analyzer.summary(), analyzer.listed(), analyzer.coverage


def said_one_by_one(happened: list[Event]) -> Said:
    analyzer = Analyzer(sessions=True, steps=True, coverage=True)
    found = [finding for event in happened for finding in analyzer.feed(event)]
    found += analyzer.close()
    return found, analyzer.summary(), analyzer.listed(), analyzer.coverage


def fast_paths(happened: list[Event], monkeypatch: pytest.MonkeyPatch, *, exact: bool) -> int:
    """How many steps took it."""
    taken: list[ShareStep] = []

    def counted(state: SessionState, step: ShareStep) -> None:
        taken.append(step)
        advance(state, step)

    monkeypatch.setattr(session, "advance", counted)
    said(happened, exact=exact)
    return len(taken)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", sample_of(SHARING, 6, seed=12), ids=lambda path: path.stem)
def test_both_paths_say_the_same(capture: Path) -> None:
    whole = Whole.load(capture)
    random = Random(zlib.crc32(capture.name.encode()))
    for way, keep in [("whole", whole.everything()), *removals(whole, random, singles=2, others=1)]:
        happened = list(events_of(whole.thinned(keep)))
        assert said(happened, exact=False) == said(happened, exact=True) == said_one_by_one(happened), way


def test_a_healthy_session_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation()
    opened(talk, upto=9)
    happened = events(talk)
    assert fast_paths(happened, monkeypatch, exact=False) == 9
    assert fast_paths(happened, monkeypatch, exact=True) == 0


def test_what_is_missing_counts_for_the_steps_around_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of one of two sessions on a host is lost; what stands behind that goes the fast path again."""
    talk = Conversation()
    a, b = opened(talk), opened(talk, name="b")
    lost = []
    for epoch in range(1, 21):
        a.share_fetch(epoch).answered()
        asked = b.share_fetch(epoch).answered()
        lost += asked.packets if epoch == 3 else []
    happened = events(talk.without_packets(lost))
    assert said(happened, exact=False) == said(happened, exact=True)
    assert fast_paths(happened, monkeypatch, exact=False) > 30
