"""Captures with something wrong on purpose: bytes flipped, packets lost, repeated, displaced or cut, headers that
lie."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

from kshark.capture import open_captures
from kshark.model import ACK, FIN, RST, SYN, PacketBatch
from tests.packets import ETHERNET, Packet, batch

Mutation = Callable[[list[Packet], Random], list[Packet]]

#: Bytes in front of the IP header, by link type (tcpdump.org/linktypes).
LINK_BYTES: Final = {0: 4, 1: 14, 12: 0, 101: 0, 113: 16, 276: 20}
TCP: Final = 6
FAR: Final = (1, 2, 7, 100, 1460, 1 << 16, 1 << 20, 1 << 29, 1 << 30, 1 << 31)
SECOND: Final = 1_000_000_000


def packets_of(capture: Path) -> list[Packet]:
    return [
        Packet(time_ns, item.buffer[offset : offset + length], wire_length, link_type)
        for item in open_captures([capture])
        if isinstance(item, PacketBatch)
        for time_ns, offset, length, wire_length, link_type in zip(
            *(column.tolist() for column in (item.time_ns, item.offset, item.length, item.wire_length, item.link_type)),
            strict=True,
        )
    ]


def batches_of(packets: list[Packet], random: Random) -> list[PacketBatch]:
    """The packets in a few batches of any size, so that what is open at their edges is met too."""
    edges = [0, *sorted(random.randint(0, len(packets)) for _ in range(random.choice((0, 3, 20)))), len(packets)]
    return [batch(packets[a:z], a + 1) for a, z in pairwise(edges) if a < z]


def tcp_at(packet: Packet) -> int | None:
    """Where the TCP header begins; None where it is not all there."""
    at = LINK_BYTES.get(packet.link_type)
    if at is None or len(packet.data) <= at:
        return None
    version = packet.data[at] >> 4
    header, protocol_at = (4 * (packet.data[at] & 15), at + 9) if version == 4 else (40, at + 6)
    if version not in (4, 6) or len(packet.data) < at + header + 20 or packet.data[protocol_at] != TCP:
        return None
    return at + header


def picked(packets: list[Packet], random: Random) -> Iterator[int]:
    """A few places among the packets, or many; the last ones first, so that removing and inserting there disturbs no
    other place."""
    count = random.choice((1, 3, 10, 1 + len(packets) // 30))
    yield from sorted(random.sample(range(len(packets)), min(count, len(packets))), reverse=True)


def in_place(change: Callable[[Packet, Random], Packet]) -> Mutation:
    """A mutation that changes some packets and leaves the others where they are."""

    def mutate(packets: list[Packet], random: Random) -> list[Packet]:
        out = list(packets)
        for at in picked(packets, random):
            out[at] = change(out[at], random)
        return out

    return mutate


def _written(packet: Packet, at: int, form: str, *values: int) -> Packet:
    data = bytearray(packet.data)
    struct.pack_into(form, data, at, *values)
    return replace(packet, data=bytes(data))


def _flipped(packet: Packet, random: Random, first: int, stop: int) -> Packet:
    data = bytearray(packet.data)
    for _ in range(random.choice((1, 1, 2, 8))):
        if first < min(stop, len(data)):
            data[random.randrange(first, min(stop, len(data)))] = random.choice(
                (0, 1, 127, 128, 255, random.randrange(256))
            )
    return replace(packet, data=bytes(data))


def _header_flipped(packet: Packet, random: Random) -> Packet:
    return _flipped(packet, random, 0, 80)


def _payload_flipped(packet: Packet, random: Random) -> Packet:
    start = tcp_at(packet)
    return (
        packet
        if start is None
        else _flipped(packet, random, start + 4 * (packet.data[start + 12] >> 4), len(packet.data))
    )


def _message_head_flipped(packet: Packet, random: Random) -> Packet:
    """Where lengths, keys, versions and correlation ids stand."""
    start = tcp_at(packet)
    first = 0 if start is None else start + 4 * (packet.data[start + 12] >> 4)
    return packet if start is None else _flipped(packet, random, first, first + 24)


def _cut_short(packet: Packet, random: Random) -> Packet:
    """By the snap length: the wire length stays."""
    return replace(packet, data=packet.data[: random.randrange(len(packet.data) + 1)])


def _wire_length_wrong(packet: Packet, random: Random) -> Packet:
    return replace(
        packet, wire_length=max(0, packet.wire_length + random.choice((-1, 1)) * random.choice((1, 4, 60, 2000)))
    )


def _ip_length_wrong(packet: Packet, random: Random) -> Packet:
    start = LINK_BYTES.get(packet.link_type, 0)
    if len(packet.data) < start + 20:
        return packet
    at = start + (2 if packet.data[start] >> 4 == 4 else 4)
    (length,) = struct.unpack_from(">H", packet.data, at)
    return _written(
        packet, at, ">H", random.choice((0, 19, 39, 40, 65535, length - 1, length + 1, length // 2)) & 0xFFFF
    )


def _tcp_header_length_wrong(packet: Packet, random: Random) -> Packet:
    start = tcp_at(packet)
    return packet if start is None else _written(packet, start + 12, "B", random.randrange(16) << 4)


def _number_wrong(packet: Packet, random: Random) -> Packet:
    """The sequence number or the acknowledgement, by a little or by much."""
    start = tcp_at(packet)
    if start is None:
        return packet
    at = start + random.choice((4, 4, 8))
    (number,) = struct.unpack_from(">I", packet.data, at)
    return _written(packet, at, ">I", (number + random.choice((-1, 1)) * random.choice(FAR)) & 0xFFFFFFFF)


def _flags_wrong(packet: Packet, random: Random) -> Packet:
    start = tcp_at(packet)
    if start is None:
        return packet
    return _written(
        packet, start + 13, "B", packet.data[start + 13] ^ random.choice((SYN, FIN, RST, ACK, SYN | FIN, 0xFF))
    )


def _time_wrong(packet: Packet, random: Random) -> Packet:
    return packet.at(
        max(0, packet.time_ns + random.choice((-1, 1)) * random.choice((SECOND // 1000, SECOND, 90 * SECOND)))
    )


def _link_type_wrong(packet: Packet, random: Random) -> Packet:
    return replace(packet, link_type=random.choice((0, 1, 12, 101, 113, 147, 276)))


def dropped(packets: list[Packet], random: Random) -> list[Packet]:
    out = list(packets)
    for at in picked(packets, random):
        del out[at : at + random.choice((1, 1, 2, 5))]
    return out or packets


def repeated(packets: list[Packet], random: Random) -> list[Packet]:
    """Retransmitted: at once, or much later; sometimes with other bytes, sometimes cut otherwise."""
    out = list(packets)
    for at in picked(packets, random):
        again = random.choice((lambda p: p, lambda p: _payload_flipped(p, random), lambda p: _shortened(p, random)))(
            packets[at]
        )
        out.insert(min(at + random.choice((0, 1, 2, 10, 100)), len(out)), again)
    return out


def _shortened(packet: Packet, random: Random) -> Packet:
    """The first part of the payload only, as after a retransmission in other segments; IPv4."""
    start, ip = tcp_at(packet), LINK_BYTES.get(packet.link_type, 0)
    if start is None or packet.data[ip] >> 4 != 4:
        return packet
    payload = start + 4 * (packet.data[start + 12] >> 4)
    if payload >= len(packet.data):
        return packet
    data = packet.data[: random.randrange(payload, len(packet.data) + 1)]
    return _written(replace(packet, data=data, wire_length=len(data)), ip + 2, ">H", len(data) - ip)


def displaced(packets: list[Packet], random: Random) -> list[Packet]:
    """Out of order, by few packets or by many; times stay with the place, so that they go on."""
    out = list(packets)
    for at in picked(packets, random):
        out.insert(min(at + random.choice((1, 1, 2, 5, 30, 80, 200)), len(out)), out.pop(at))
    return [packet.at(place.time_ns) for packet, place in zip(out, packets, strict=True)]


def intruding(packets: list[Packet], random: Random) -> list[Packet]:
    """A SYN, FIN or RST of nobody between the others: headers of a real packet, with other flags and without
    payload."""
    out = list(packets)
    for at in picked(packets, random):
        start = tcp_at(packets[at])
        if start is not None:
            flags = random.choice((SYN, SYN | ACK, FIN | ACK, FIN, RST, RST | ACK, SYN | FIN, ACK))
            bare = _written(packets[at], start + 12, "BB", 5 << 4, flags)
            bare = _ip_sized(replace(bare, data=bare.data[: start + 20], wire_length=start + 20))
            out.insert(at + random.choice((0, 1)), _number_wrong(bare, random) if random.random() < 0.3 else bare)
    return out


def _ip_sized(packet: Packet) -> Packet:
    start = LINK_BYTES[packet.link_type]
    if packet.data[start] >> 4 == 4:
        return _written(packet, start + 2, ">H", len(packet.data) - start)
    return _written(packet, start + 4, ">H", len(packet.data) - start - 40)


def wrapped(packets: list[Packet], random: Random) -> list[Packet]:
    """Every direction's sequence numbers moved so that they pass 2**32 in its middle; acknowledgements follow."""
    seen: dict[bytes, list[int]] = {}
    keys = [_ends(packet) for packet in packets]
    for packet, key in zip(packets, keys, strict=True):
        if key is not None:
            seen.setdefault(key[0], []).append(struct.unpack_from(">I", packet.data, key[2] + 4)[0])
    shift = {end: -numbers[len(numbers) // 2] & 0xFFFFFFFF for end, numbers in seen.items()}
    out = []
    for packet, key in zip(packets, keys, strict=True):
        if key is not None:
            own, peer, start = key
            seq, ack = struct.unpack_from(">II", packet.data, start + 4)
            packet = _written(
                packet, start + 4, ">II", (seq + shift[own]) & 0xFFFFFFFF, (ack + shift.get(peer, 0)) & 0xFFFFFFFF
            )
        out.append(packet)
    return out


def _ends(packet: Packet) -> tuple[bytes, bytes, int] | None:
    """Both ports, of the direction and of its answer, and where TCP begins: enough to tell the connections of a capture
    apart."""
    start = tcp_at(packet)
    if start is None:
        return None
    ports = packet.data[start : start + 4]
    return ports, ports[2:] + ports[:2], start


def _elsewhere(packet: Packet, random: Random) -> Packet:
    """The same on another link layer, behind VLAN tags, or over IPv6 (IPv4 on Ethernet only)."""
    if packet.link_type != ETHERNET or packet.data[12:14] != b"\x08\x00" or len(packet.data) < 34:
        return packet
    ip, ether = packet.data[14:], b"\x08\x00"
    if ip[0] == 0x45 and len(ip) >= 24 and (ip[21] + ip[23]) % 3 == 0:  # all packets of a connection, or none
        length = struct.unpack_from(">H", ip, 2)[0] - 20
        ends = b"".join(b"\x20\x01\x0d\xb8" + bytes(8) + ip[at : at + 4] for at in (12, 16))
        ip, ether = struct.pack(">IHBB", 0x60000000, length & 0xFFFF, ip[9], 64) + ends + ip[20:], b"\x86\xdd"
    link_type, front = random.choice(
        (
            (ETHERNET, packet.data[:12] + b"\x81\x00\0\x07" * random.choice((1, 2, 3)) + ether),
            (ETHERNET, packet.data[:12] + ether),
            (0, (b"\2\0\0\0", b"\0\0\0\2")[random.randrange(2)] if ether == b"\x08\x00" else b"\x1e\0\0\0"),
            (101, b""),
            (113, b"\0\0\0\1\0\6" + bytes(8) + ether),
            (276, ether + b"\0\0" + bytes(16)),
        )
    )
    return Packet(packet.time_ns, front + ip, packet.wire_length - len(packet.data) + len(front + ip), link_type)


def elsewhere(packets: list[Packet], random: Random) -> list[Packet]:
    """Every packet as another machine would have captured it."""
    return [_elsewhere(packet, random) for packet in packets]


def stamped_late(packets: list[Packet], random: Random) -> list[Packet]:
    """Each direction by a clock of its own, all in the order of these times."""
    most_ns, by = random.choice((100_000, 3_000_000, 150_000_000)), dict[object, int]()

    def late(packet: Packet) -> int:
        ends = _ends(packet)
        return 0 if ends is None else by.setdefault(ends[0], random.randrange(most_ns))

    return sorted((packet.at(packet.time_ns + late(packet)) for packet in packets), key=lambda packet: packet.time_ns)


def begun_before(packets: list[Packet], random: Random) -> list[Packet]:
    """The capture began later, or ended earlier."""
    at = random.randrange(len(packets))
    return packets[at:] if random.random() < 0.7 else packets[: at + 1]


MUTATIONS: Final[dict[str, Mutation]] = {
    "header bytes flipped": in_place(_header_flipped),
    "payload bytes flipped": in_place(_payload_flipped),
    "message heads flipped": in_place(_message_head_flipped),
    "cut short": in_place(_cut_short),
    "wire length wrong": in_place(_wire_length_wrong),
    "IP length wrong": in_place(_ip_length_wrong),
    "TCP header length wrong": in_place(_tcp_header_length_wrong),
    "sequence number wrong": in_place(_number_wrong),
    "flags wrong": in_place(_flags_wrong),
    "time wrong": in_place(_time_wrong),
    "link type wrong": in_place(_link_type_wrong),
    "other layers": elsewhere,
    "dropped": dropped,
    "repeated": repeated,
    "displaced": displaced,
    "intruding": intruding,
    "wrapped": wrapped,
    "begun before": begun_before,
    "stamped late": stamped_late,
}


def anything(packets: list[Packet], random: Random) -> list[Packet]:
    """Several mutations, one after the other."""
    for name in random.sample(list(MUTATIONS), random.choice((2, 3, 5))):
        packets = MUTATIONS[name](packets, random)
    return packets
