"""What is kept of requests that were answered long ago: little, however many there were."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import pytest

from kshark import limits
from kshark.exchange.open_requests import ByCorrelationId, OpenRequest
from kshark.model import Exchange
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, replied, sent
from tests.conversation import Connection, Conversation, events, everything
from tests.exchange.test_stage import Talk, answer, metadata

NOTHING: Any = None


def test_who_never_answers_the_first_request_fills_no_memory() -> None:
    """Correlation ids fall, one request stays open, all others are answered at once; each of their ids is looked for
    twice."""
    by_id, waiting = ByCorrelationId(), [OpenRequest(NOTHING, NOTHING, 1_000_000)]
    tracemalloc.start()
    try:
        for number in range(1, 20_000):
            wanted = 1_000_000 - number
            assert by_id.index_of(waiting, wanted) is None
            waiting.append(OpenRequest(NOTHING, NOTHING, wanted, number=number))
            assert by_id.index_of(waiting, wanted) == 1
            del waiting[1]
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()
    assert by_id.index_of(waiting, 1_000_000) == 0


def test_a_hundred_thousand_open_requests_find_their_answers() -> None:
    """librdkafka sends as many, by default a million."""
    talk = Talk()
    count = 100_000
    for at in range(0, count, 2_000):
        talk.tcp.client(b"".join(map(metadata, range(at, at + 2_000))), mss=60_000)
    for at in range(0, count, 2_000):
        talk.tcp.broker(b"".join(map(answer, range(at, at + 2_000))), mss=60_000)
    outcomes = Counter(it.outcome for it in talk.events() if isinstance(it, Exchange))
    assert outcomes == {"answered": count}


def given_up(monkeypatch: pytest.MonkeyPatch) -> tuple[Conversation, Connection]:
    """Ten open requests, of which three are remembered; all are answered."""
    monkeypatch.setattr(limits, "OPEN_BYTES", 2 * limits.OPEN_REQUEST_BYTES + 100)
    talk = Conversation()
    connection = talk.connection()
    for _ in range(10):
        sent(connection, METADATA, 0, NO_TOPICS)
    for number in range(2, 12):
        replied(connection, NO_METADATA, correlation_id=number)
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)
    return talk, connection


def test_answers_to_requests_that_were_given_up_accuse_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    talk, _ = given_up(monkeypatch)
    assert everything(talk) == []
    outcomes = Counter(it.outcome for it in events(talk) if isinstance(it, Exchange))
    assert outcomes["orphan"] == outcomes["unanswered"] > 0


def test_after_requests_were_given_up_nothing_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    talk, connection = given_up(monkeypatch)
    connection.tcp.client(b"\0\0\0\x09" + b"\0\3\0\0\0\0\3\0\0")  # its body is missing
    found = [it for it in everything(talk) if it.code == "UNDECODABLE_BODY"]
    assert [(it.verdict, it.unknown_because) for it in found] == [("unknown", "limit")]
