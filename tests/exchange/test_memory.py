"""What a connection remembers between two of its frames, and for how long."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import kshark
from kshark import limits
from kshark.model import Event, Gap, Message, Weird
from kshark.pipeline import Engine
from tests.exchange.test_stage import (
    API_VERSIONS,
    SASL_HANDSHAKE,
    Talk,
    answer,
    codes,
    framed,
    metadata,
    produced,
    request,
)
from tests.packets import batches

HANDSHAKE = request(SASL_HANDSHAKE, 0, 1, struct.pack(">h", 5) + b"PLAIN")


def handshaken(error: int) -> bytes:
    return framed(struct.pack(">ihi", 1, error, 0))


def messages(talk: Talk, *lost: int) -> list[Message]:
    return talk.messages(lost=lost)


# -- lost answers


def test_an_answer_after_lost_ones_gives_up_the_requests_before_it() -> None:
    """Two answers are lost; the third one is no answer out of order, and what comes behind it neither."""
    talk = Talk()
    talk.tcp.client(b"".join(map(metadata, range(1, 6))))
    talk.tcp.broker(answer(1))
    lost = [*talk.tcp.broker(answer(2)), *talk.tcp.broker(answer(3))]
    talk.tcp.broker(answer(4) + answer(5))
    told = messages(talk, *lost)
    assert [(each.correlation_id, codes(each)) for each in told if each.kind == "response"] == [
        (1, []),
        (4, ["RESYNC"]),
        (5, ["RESYNC"]),
    ]
    assert talk.exchanges(lost=tuple(lost))[1:] == [
        ("unanswered", 2, None),
        ("unanswered", 3, None),
        ("answered", 4, 4),
        ("answered", 5, 5),
    ]


def later(talk: Talk, *lost: int) -> list[list[str]]:
    """Codes of the answers to three more requests that are answered in another order, long after bytes of either side
    were lost."""
    talk.wire.pause(2)
    talk.tcp.client(metadata(11) + metadata(12) + metadata(13))
    talk.tcp.broker(answer(12) + answer(11) + answer(13))
    return [codes(each) for each in messages(talk, *lost) if each.kind == "response"][-3:]


def test_once_no_request_waits_nothing_is_lost_any_more() -> None:
    """A request was lost with its answer, which makes every later answer doubtful until all that are open have
    theirs."""
    talk = Talk()
    for number in range(1, 4):
        talk.tcp.client(metadata(number))
        talk.tcp.broker(answer(number))
    lost = [*talk.tcp.client(metadata(4)), *talk.tcp.broker(answer(4))]
    talk.tcp.client(metadata(5))
    talk.tcp.broker(answer(5))
    assert later(talk, *lost) == [["RESPONSE_OUT_OF_ORDER", "RESYNC"], ["RESYNC"], []]


def test_requests_that_were_lost_take_no_answers_with_them() -> None:
    talk = Talk()
    for number in range(1, 4):
        talk.tcp.client(metadata(number))
        talk.tcp.broker(answer(number))
    talk.tcp.client(metadata(4))
    lost = talk.tcp.client(metadata(5))
    talk.tcp.client(metadata(6) + metadata(7) + metadata(8))
    talk.wire.pause(2)
    talk.tcp.broker(answer(7) + answer(4) + answer(6) + answer(8))
    told = talk.events(lost=tuple(lost))
    assert sum(isinstance(event, Gap) for event in told) == 1
    found = [
        (each.correlation_id, codes(each)) for each in told if isinstance(each, Message) and each.kind == "response"
    ][3:]
    assert found == [(7, ["RESPONSE_OUT_OF_ORDER"]), (4, []), (6, []), (8, [])]


# -- times


def test_latency_is_from_the_requests_last_byte_to_the_answers_first() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1), mss=10)
    talk.wire.pause(0.1)
    packets = talk.tcp.broker(answer(1), mss=4)
    _, told = messages(talk)
    assert told.packets == (packets[0], packets[-1])
    assert told.latency_ns == 101_000_000


# -- raw tokens


def test_a_handshake_that_was_refused_is_followed_by_requests() -> None:
    talk = Talk()
    talk.tcp.client(HANDSHAKE)
    talk.tcp.broker(handshaken(33))
    talk.tcp.client(framed(b"\0user\0secret"))
    assert codes(messages(talk)[-1])[0] == "UNKNOWN_API"


def test_answers_to_tokens_that_never_came_are_not_waited_for() -> None:
    """The second token was not answered when the client went on with requests."""
    talk = Talk()
    talk.tcp.client(HANDSHAKE)
    talk.tcp.broker(handshaken(0))
    talk.tcp.client(framed(b"\0user\0secret") + framed(b"more of it, at length"))
    talk.tcp.broker(framed(b""))
    talk.tcp.client(metadata(2))
    talk.tcp.broker(answer(2))
    assert talk.exchanges()[-1] == ("answered", 2, 2)


# -- what is forgotten


@pytest.mark.parametrize(("others", "code"), [(63, "ACKS0_ANSWERED"), (64, "RESPONSE_UNMATCHED")])
def test_of_requests_without_answer_the_last_ones_are_remembered(others: int, code: str) -> None:
    talk = Talk()
    talk.tcp.client(b"".join(produced(number, 0) for number in range(1, others + 2)))
    talk.tcp.broker(answer(1))
    assert codes(messages(talk)[-1]) == [code]


@pytest.mark.parametrize(("open_ones", "given_up"), [(3, 0), (4, 2)])
def test_as_many_requests_may_be_open_as_the_limit_says(
    monkeypatch: pytest.MonkeyPatch, open_ones: int, given_up: int
) -> None:
    monkeypatch.setattr(limits, "OPEN_BYTES", 2 * (limits.OPEN_REQUEST_BYTES + len(metadata(0)) - 4))
    talk = Talk()
    talk.tcp.client(b"".join(map(metadata, range(open_ones))))
    assert [event.code for event in talk.events() if isinstance(event, Weird)].count("IN_FLIGHT_LIMIT") == given_up


def answers(count: int, **body: Any) -> list[Any]:
    """The bodies of as many answers to ApiVersions that are the same to the byte."""
    talk = Talk()
    for number in range(count):
        asked = kshark.encode(API_VERSIONS, 3, "request", {"client_software_name": "x", "client_software_version": "1"})
        talk.tcp.client(request(API_VERSIONS, 3, number, b"\0" + asked))
        told = kshark.encode(API_VERSIONS, 3, "response", body)
        talk.tcp.broker(framed(struct.pack(">i", number) + told))
    return [each.body for each in messages(talk) if each.kind == "response"]


def test_long_answers_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = answers(2, api_keys=[{"api_key": key, "min_version": 0, "max_version": 1} for key in range(20)])
    assert first is second
    monkeypatch.setattr(limits, "REPEATED_BYTES", 100)
    first, second = answers(2, api_keys=[{"api_key": key, "min_version": 0, "max_version": 1} for key in range(20)])
    assert first is not second


def test_an_answer_that_does_not_fit_is_told_each_time() -> None:
    talk = Talk()
    for number in range(3):
        asked = kshark.encode(API_VERSIONS, 3, "request", {"client_software_name": "x", "client_software_version": "1"})
        talk.tcp.client(request(API_VERSIONS, 3, number, b"\0" + asked))
        talk.tcp.broker(framed(struct.pack(">i", number) + kshark.encode(API_VERSIONS, 3, "response", {}) + b"\0"))
    assert [codes(each) for each in messages(talk) if each.kind == "response"] == [["TRAILING_BYTES"]] * 3


# -- versions


@pytest.mark.parametrize("version", [-1, -32768, 32767, 14])
def test_a_version_that_nobody_has_is_shown_as_it_was_sent(version: int) -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    talk.tcp.client(request(3, version, 2, struct.pack(">i", 0)))
    last = messages(talk)[-1]
    assert (last.api, last.version, codes(last)) == ("Metadata", version, ["VERSION_UNKNOWN"])


# -- the end


def unanswered(events: list[Event]) -> list[str]:
    return [event.detail for event in events if isinstance(event, Weird) and event.code == "REQUEST_UNANSWERED"]


def test_only_connections_that_ended_owe_answers() -> None:
    for ends in (True, False):
        talk = Talk()
        talk.tcp.client(metadata(1))
        if ends:
            talk.tcp.reset()
        events = [event for page in Engine().pages(batches(talk.wire.packets, [1] * 9)) for event in page]
        assert len(unanswered(events)) == ends
