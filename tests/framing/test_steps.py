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
