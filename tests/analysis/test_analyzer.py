"""The analysis as a stage: what it counts, who has a session, and whom a heartbeat, an answer or a broker's names are
about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshark import limits
from kshark.analysis import Analyzer, in_packet_order
from tests.analysis.results.test_sessions import sessions
from tests.analysis.talks import opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Conversation,
    Thinned,
    events,
    findings,
)


def test_the_summary_counts_what_was_seen_and_found() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    analyzer = Analyzer()
    found = [finding for event in events(talk) for finding in analyzer.feed(event)]
    found += analyzer.close()
    assert analyzer.summary() == {
        "sessions": 1,
        "exchanges": len(talk.exchanges),
        "violations": 1,
        "unknown": 0,
        "notes": 0,
        "gaps": 0,
        "by_code": {"EPOCH_SKIP_AHEAD": 1},
    }
    assert in_packet_order(found) == found


def test_a_refused_request_that_cannot_be_read_is_not_passed_over() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    refused = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    rows = talk.packets()
    number, packet = rows[refused.packets[0] - 1]
    group = packet.data.index(b"\x02g")
    rows[refused.packets[0] - 1] = (
        number,
        replace(packet, data=packet.data[:group] + b"\x7f" + packet.data[group + 1 :]),
    )
    found = [finding for finding in findings(Thinned(rows)) if finding.cause is not None]
    assert [(finding.code, finding.verdict, finding.unknown_because, finding.packet) for finding in found] == [
        ("EPOCH_REFUSED", "unknown", "cut", refused.packet)
    ]


def test_more_sessions_than_the_limit_forget_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS", 3)
    talk = Conversation()
    connection = talk.connection()
    members = [talk.member(name, connection=connection) for name in "abcdef"]
    for member in members:
        member.share_fetch(0).answered()
    wrong = members[0].share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    told = [(found.code, found.verdict, found.packet) for found in findings(talk)]
    assert ("SESSION_UNKNOWN", "unknown", wrong.packet) in told
    assert ("SESSIONS_FORGOTTEN", "note") in {(code, verdict) for code, verdict, _ in told}
    assert len(sessions(talk)) == 7, "what is forgotten is listed"
