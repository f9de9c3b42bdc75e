"""How often bytes are looked at: a look is at all that is there, so the pieces they come in may not each cause one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kshark.framing import boundaries, cutting, judgement
from kshark.model import Frames
from tests.exchange.test_stage import answer, metadata
from tests.framing.test_middle import messages
from tests.packets import Tcp, Wire

#: What is read as a request's length is none of a request.
NOISE = bytes(Random(7).choices(range(0x80, 0x100), k=4_000))

#: ApiVersions, whose first version has no body, and an answer to it.
HELLO = bytes.fromhex("0000000b 0012 0000 00000001 0001 63")
WELCOME = bytes.fromhex("00000010 00000001 0000 00000001 0012 0000 0004")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where chains of requests, or of answers, were looked for."""
    places: list[int] = []
    for room, name in ((boundaries, "requests_from"), (boundaries, "answers_from"), (judgement, "requests_from")):
        monkeypatch.setattr(room, name, _counted(getattr(room, name), places))
    return places


def _counted(look: Callable[..., Any], places: list[int]) -> Callable[..., Any]:
    def counted(data: bytes, at: int, *more: Any) -> Any:
        places.append(at)
        return look(data, at, *more)

    return counted


def in_pieces(tcp: Tcp, size: int) -> None:
    for at in range(0, len(NOISE), size):
        tcp.client(NOISE[at : at + size])


@pytest.mark.parametrize("size", [1, 4, 40])
def test_bytes_that_are_no_kafka_in_small_pieces(looks: list[int], size: int) -> None:
    """One that is seen from its middle on: messages may begin at each of its segments."""
    wire = Wire()
    tcp = Tcp(wire)
    in_pieces(tcp, size)
    assert messages(wire.packets) == []
    assert len(looks) < 25 * len(NOISE) / size


@pytest.mark.parametrize("size", [1, 4, 40])
def test_bytes_behind_an_impossible_length_in_small_pieces(looks: list[int], size: int) -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.client(b"\xff" * 4)
    in_pieces(tcp, size)
    tcp.client(metadata(2) + metadata(3) + metadata(4))
    assert [message.correlation_id for message in messages(wire.packets)] == [1, 2, 3, 4]
    assert len(looks) < 25 * len(NOISE) / size


def test_frames_between_gaps_become_columns_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other request is lost; each that is left is searched and cut by itself."""
    wire = Wire()
    tcp = Tcp(wire).open()
    for number in range(200):
        sent = len(wire.packets)
        tcp.client(metadata(number))
        if number % 2:
            del wire.packets[sent:]
        tcp.broker(answer(number))
    made: list[Frames] = []

    def making(*columns: Any, **named: Any) -> Frames:
        made.append(Frames(*columns, **named))
        return made[-1]

    monkeypatch.setattr(cutting, "Frames", making)
    assert len(messages(wire.packets)) == 300
    assert len(made) <= 4


def test_bytes_between_gaps_are_searched_once(looks: list[int]) -> None:
    """Every other byte is lost: each that is left begins behind a gap, and the next gap is known when it comes."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    for byte in NOISE[:1000]:
        tcp.seq[0] += 1
        tcp.client(bytes([byte]))
    assert len(messages(wire.packets)) == 2
    assert len(looks) < 1000 + 50


def test_an_answer_does_not_ask_for_its_request_again(looks: list[int]) -> None:
    """Connections that are seen from their middle on: a request that tells nothing by itself, then its answer."""
    wire = Wire()
    for number in range(50):
        tcp = Tcp(wire, source=f"10.0.0.1:{50_000 + number}")
        tcp.client(HELLO)
        tcp.broker(WELCOME)
    assert len(messages(wire.packets)) == 100
    assert len(looks) <= 50 * 3, "one look at the request, and one at either side's bytes with the answer"
