"""The kernel's blocks become batches: VLAN tags are put back, cooked headers added, loopback's copies left out."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest

from kshark.capture.live.kernel_blocks import COOKED, ETHERNET, batch_of, packets_of

ETHERNET_FRAME = bytes.fromhex("0a00000000010a00000000020800") + b"payload"
LOOPBACK, ETHER = 772, 1
INCOMING, OUTGOING = 0, 4


class Seen(NamedTuple):
    """A packet as the kernel describes it."""

    data: bytes
    time_ns: int = 5
    wire_length: int = 0
    hardware: int = ETHER
    direction: int = INCOMING
    tag: tuple[int, int] | None = None
    address: bytes = b"\x0a\x00\x00\x00\x00\x02"


def block(*packets: Seen) -> bytes:
    """Return a block as in linux/if_packet.h: its header, and each packet with its header and room before it."""
    pieces = []
    for packet in packets:
        kind, tag = packet.tag or (0, 0)
        status = 1 | (0x50 if packet.tag else 0)
        begin = 96
        size = begin + len(packet.data) + (-len(packet.data) & 15)
        seconds, rest = divmod(packet.time_ns, 1_000_000_000)
        head = struct.pack(
            "=5IIHH",
            size,
            seconds,
            rest,
            len(packet.data),
            packet.wire_length or len(packet.data),
            status,
            begin,
            begin,
        )
        head += struct.pack("=IIHH8x", 0, tag, kind, 0)
        # beyond the address the kernel leaves what was there
        head += struct.pack("=H2siHBB", 17, b"\x08\x00", 1, packet.hardware, packet.direction, len(packet.address))
        head += packet.address.ljust(8, b"\xff")
        pieces.append((head.ljust(begin, b"\xee") + packet.data).ljust(size, b"\0"))
    return struct.pack("=IIIIIIQQQ", 1, 0, 1, len(packets), 48, 0, 0, 0, 0) + b"".join(pieces)


def packets(data: bytes, link_type: int = ETHERNET) -> list[tuple[int, int, bytes, int]]:
    batch = batch_of(data, link_type, 10)
    if batch is None:
        return []
    columns = (batch.number, batch.time_ns, batch.offset, batch.length, batch.wire_length)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(number, time_ns, batch.buffer[at : at + length], wire) for number, time_ns, at, length, wire in rows]


def test_packets_are_numbered_with_their_times_and_lengths() -> None:
    data = block(Seen(ETHERNET_FRAME, 1_500_000_000_123_456_789), Seen(ETHERNET_FRAME[:14], 7, wire_length=60))

    assert packets_of(data) == 2
    assert packets(data) == [
        (10, 1_500_000_000_123_456_789, ETHERNET_FRAME, len(ETHERNET_FRAME)),
        (11, 7, ETHERNET_FRAME[:14], 60),
    ]


def test_a_tag_that_the_network_card_removed_is_put_back() -> None:
    first, second = packets(block(Seen(ETHERNET_FRAME, tag=(0x88A8, 100)), Seen(ETHERNET_FRAME)))

    assert first[2] == ETHERNET_FRAME[:12] + bytes.fromhex("88a80064") + ETHERNET_FRAME[12:]
    assert first[3] == len(ETHERNET_FRAME) + 4
    assert second[2] == ETHERNET_FRAME


def test_packets_of_all_interfaces_get_a_cooked_header() -> None:
    ((_, _, data, wire),) = packets(block(Seen(b"an IP packet", direction=INCOMING)), COOKED)

    assert data == bytes.fromhex("0000000100060a000000000200000800") + b"an IP packet"
    assert wire == len(data)


@pytest.mark.parametrize(("hardware", "count"), [(LOOPBACK, 1), (ETHER, 2)])
def test_of_loopback_only_what_comes_in_is_returned(hardware: int, count: int) -> None:
    both = [Seen(ETHERNET_FRAME, hardware=hardware, direction=direction) for direction in (OUTGOING, INCOMING)]

    assert len(packets(block(*both))) == count


def test_a_block_of_outgoing_copies_alone_is_no_batch() -> None:
    assert packets(block(Seen(ETHERNET_FRAME, hardware=LOOPBACK, direction=OUTGOING))) == []
