"""Nothing of a capture changes when its packets travel in envelopes, each in another one; no message when they are cut
into fragments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kshark.model import Message
from kshark.pipeline import Engine, Options
from tests.link.frames import ethernet_of, geneve, gre, gtp_u, outer, outer_6, vxlan
from tests.link.test_fragments import pieces
from tests.packets import Packet, batch
from tests.property.event_values import event_values
from tests.property.mangled import LINK_BYTES, batches_of, packets_of
from tests.shared import CAPTURES, sample_of

BUNDLED = sorted(CAPTURES.glob("*.pcap*"))
#: Around an IP packet: a link type, and what stands around.
ENVELOPES: tuple[tuple[int, Callable[[bytes], bytes]], ...] = (
    (1, ethernet_of),
    (1, lambda ip: ethernet_of(vxlan(ethernet_of(ip)))),
    (101, lambda ip: vxlan(ethernet_of(ip), 8472)),
    (101, lambda ip: geneve(0x6558, ethernet_of(ip), bytes(16))),
    (113, lambda ip: bytes(14) + b"\x08\0" + gre(0x88BE, bytes(8) + ethernet_of(ip), 0x1000, bytes(4))),
    (101, lambda ip: outer(4 if ip[0] >> 4 == 4 else 41, ip)),
    (101, lambda ip: outer_6(4 if ip[0] >> 4 == 4 else 41, ip)),
    (101, gtp_u),
    (105, lambda ip: b"\x08\1" + bytes(22) + b"\xaa\xaa\3\0\0\0" + ethernet_of(ip)[12:]),
    (219, lambda ip: b"\0\0\x11\x40" + bytes(4) + ethernet_of(ip)),
)
#: What an outer header may say, and what the envelopes add at most.
LONGEST = 65_535 - 150
WINDOW = 400


def ip_of(packet: Packet) -> bytes | None:
    """The IP packet in an ordinary one that was captured whole."""
    at = LINK_BYTES.get(packet.link_type)
    data = b"" if at is None or packet.wire_length != len(packet.data) else packet.data[at:]
    return data if data and data[0] in (0x45, 0x60) and len(data) <= LONGEST else None


def wrapped(packet: Packet, random: Random) -> Packet:
    ip = ip_of(packet)
    if ip is None:
        return packet
    link_type, wrap = random.choice(ENVELOPES)
    data = wrap(ip)
    return Packet(packet.time_ns, data, len(data), link_type)


def in_fragments(packet: Packet, number: int, random: Random) -> list[Packet]:
    """Shuffled, perhaps inside a tunnel; nothing of what is too short to be cut."""
    ip = ip_of(packet)
    if ip is None or ip[0] != 0x45 or len(ip) < 60:
        return [packet]
    if random.random() < 0.5:
        ip = vxlan(ethernet_of(ip))
    parts = pieces(ip, [random.randint(1, 20), random.randint(1, 50)], number)
    random.shuffle(parts)
    return [Packet(packet.time_ns, part, len(part), 101) for part in parts]


def window(capture: Path, random: Random) -> list[Packet]:
    packets = packets_of(capture)
    at = random.randrange(max(1, len(packets) - WINDOW))
    return packets[at : at + WINDOW]


def messages(packets: list[Packet]) -> list[Any]:
    """Of whole packets, in their order, without packets' numbers."""
    found = [
        event for page in Engine(Options()).pages([batch(packets)]) for event in page if isinstance(event, Message)
    ]
    return [
        (m.kind, m.flow, m.client, m.api, m.version, m.correlation_id, m.size, m.latency_ns, repr(m.body), m.weird)
        for m in found
    ]


@pytest.mark.parametrize("capture", sample_of(BUNDLED, 6, seed=4), ids=lambda path: path.name)
def test_envelopes_change_nothing(capture: Path) -> None:
    random = Random(capture.name)
    packets = window(capture, random)
    assert event_values(batches_of([wrapped(packet, random) for packet in packets], random)) == event_values(
        [batch(packets)]
    )


@pytest.mark.parametrize("capture", sample_of(BUNDLED, 6, seed=5), ids=lambda path: path.name)
def test_fragments_change_no_message(capture: Path) -> None:
    random = Random(capture.name)
    packets = window(capture, random)
    cut = [part for number, packet in enumerate(packets) for part in in_fragments(packet, number, random)]
    assert len(cut) > len(packets)
    assert messages(cut) == messages(packets)
