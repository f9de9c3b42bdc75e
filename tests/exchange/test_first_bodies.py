"""The first small bodies of a layout are interpreted; its reader is compiled when more follow, or a large one."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kshark.codec import compile_reader, compiler
from kshark.exchange import decoding
from kshark.model import Message
from kshark.schema import Layout
from tests.exchange.test_stage import METADATA, Talk, answer, codes, metadata, request


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The layouts whose readers were compiled, in this order, as in a new process."""
    monkeypatch.setattr(compiler, "_COMPILED", {})
    names: list[str] = []

    def noted(layout: Layout, version: int, **settings: Any) -> Any:
        names.append(layout.name)
        return compile_reader(layout, version, **settings)

    monkeypatch.setattr(decoding, "compile_reader", noted)
    return names


def read(exchanges: int, *, topics: int = 0) -> list[Message]:
    """The messages of a connection on which a client asks for metadata so often."""
    talk, names = Talk(), struct.pack(">i", topics) + b"\0\1t" * topics
    for number in range(exchanges):
        talk.tcp.client(request(METADATA, 0, number, names))
        talk.tcp.broker(answer(number))
    messages = talk.messages()
    assert len(messages) == 2 * exchanges
    assert not any(map(codes, messages))
    return messages


def test_a_layout_with_two_bodies_is_never_compiled(compiled: list[str]) -> None:
    read(decoding.INTERPRETED)
    assert compiled == []


def test_the_next_body_compiles_its_reader_once(compiled: list[str]) -> None:
    read(10)
    assert compiled == ["MetadataRequest", "MetadataResponse"]


def test_a_large_body_compiles_its_reader_at_once(compiled: list[str]) -> None:
    (asked, _) = read(1, topics=decoding.INTERPRETED_BYTES)
    assert compiled == ["MetadataRequest"]
    assert len(asked.body.topics) == decoding.INTERPRETED_BYTES


def test_what_an_earlier_capture_compiled_is_used_at_once(compiled: list[str]) -> None:
    read(10)
    read(1)
    assert compiled == 2 * ["MetadataRequest", "MetadataResponse"]


def test_both_ways_read_the_same() -> None:
    bodies = [message.body for message in read(2 * decoding.INTERPRETED, topics=3)]
    assert bodies[:2] * len(bodies[::2]) == bodies


@pytest.mark.parametrize("broken", range(4))
def test_a_body_that_does_not_fit_has_its_fault_whichever_body_it_is(broken: int) -> None:
    talk = Talk()
    for number in range(4):
        talk.tcp.client(request(METADATA, 0, number, struct.pack(">i", 9)) if number == broken else metadata(number))
        talk.tcp.broker(answer(number))
    asked = [message for message in talk.messages() if message.kind == "request"]
    assert [codes(message) for message in asked] == [
        ["TOO_MANY_ELEMENTS"] if number == broken else [] for number in range(4)
    ]
