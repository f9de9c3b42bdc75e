"""Packets whose payload is overwritten: frames that cannot be cut are holes, and nobody is accused of what they
held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshark.model import Finding
from tests.analysis.rules.promises.acknowledgements import ACCEPT, INVALID_RECORD_STATE
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, handed, replied, sent
from tests.conversation import Conversation, Thinned, everything

#: Ethernet, IPv4 and TCP with timestamps.
HEADERS = 66
#: Rules of the bytes themselves: what was overwritten breaks these.
OF_BYTES = {"FRAME_LENGTH_INVALID", "UNDECODABLE_BODY", "TRAILING_BYTES"}
#: Lengths of 0 bytes, of some millions, beyond what brokers take, and below 0.
OVERWRITTEN = pytest.mark.parametrize(
    "byte", [b"\0", b"\1", b"A", b"\xff"], ids=["none", "long", "too long", "negative"]
)


def overwritten(talk: Conversation, number: int, byte: bytes) -> Thinned:
    """The capture, with one packet's payload replaced."""
    rows = talk.packets()
    packet = rows[number - 1][1]
    damaged = replace(packet, data=packet.data[:HEADERS] + byte * (len(packet.data) - HEADERS))
    return Thinned([(n, damaged if n == number else p) for n, p in rows])


def accused(talk: Conversation | Thinned) -> list[Finding]:
    return [it for it in everything(talk) if it.verdict == "violation" and it.code not in OF_BYTES]


def too_slow() -> Conversation:
    """Both members are handed the records, one behind the other; the first one acknowledges them when they are the
    other's."""
    talk = Conversation()
    first = talk.connection()
    sent(first, METADATA, 0, NO_TOPICS)
    replied(first, NO_METADATA)
    a, b = talk.member("a").on(first), talk.member("b")  # joins elsewhere, as Java clients do
    for epoch, first_offset in enumerate((20, 10, 0)):
        got = handed((0, first_offset, first_offset + 9))
        a.share_fetch(epoch, [] if epoch else [0]).answered(responses=got, acquisition_lock_timeout_ms=1000)
    talk.pause(2)
    b.share_fetch(0, [0]).answered(responses=handed((0, 0, 9, 2)), acquisition_lock_timeout_ms=1000)
    a.share_acknowledge(3, [(0, 9, ACCEPT)]).answered(acks={0: INVALID_RECORD_STATE})
    a.share_fetch(4).answered()
    return talk


def test_a_lock_that_was_out_is_nobodys_fault() -> None:
    assert accused(too_slow()) == []


@OVERWRITTEN
def test_no_overwritten_packet_accuses_anybody(byte: bytes) -> None:
    talk = too_slow()
    for number, packet in talk.packets():
        if len(packet.data) > HEADERS:
            assert accused(overwritten(talk, number, byte)) == [], number


@OVERWRITTEN
def test_an_answer_to_an_overwritten_request_is_no_answer_to_nobody(byte: bytes) -> None:
    talk = Conversation()
    connection = talk.connection()
    asked = []
    for _ in range(9):
        asked.append(sent(connection, METADATA, 0, NO_TOPICS))
        replied(connection, NO_METADATA)
    for number in asked:
        assert accused(overwritten(talk, number, byte)) == [], number
