"""Incidents of a conversation."""

from __future__ import annotations

from kshark.analysis import Observer
from kshark.incidents import Incidents
from kshark.model import Finding
from kshark.pipeline import JUDGED
from tests.conversation import Conversation, Thinned, events, registry


def incidents(talk: Conversation | Thinned) -> list[Finding]:
    """Return the incidents in the order of packets. Each event comes as a page of its own; all in one give the same."""
    found = _of([[event] for event in events(talk, JUDGED)])
    assert _of([events(talk, JUDGED)]) == found
    return sorted(found, key=lambda finding: (finding.packet, finding.code))


def _of(pages: list[list[object]]) -> list[Finding]:
    observer, stage = Observer(registry()), Incidents(registry())
    found = [finding for page in pages for finding in stage.page(page, observer.page(page))]  # type: ignore[arg-type]
    return [*found, *stage.close()]
