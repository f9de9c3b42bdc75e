"""Captures that hold both sides of what stands between clients and brokers: a NAT, or a proxy with connections of its
own."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from kshark.model import Finding
from tests.packets import Packet
from tests.property.mangled import LINK_BYTES, tcp_at

_ACK: Final = 16
_IPV4: Final = 4


@dataclass(frozen=True)
class Passing:
    """How packets are seen a second time: their clients have another address, or their brokers (`of_brokers`),
    `renumbered` bytes further in the stream (a proxy's own numbers), so much later on their way to the broker and
    earlier on the way back, all of them by a clock that is ahead."""

    way_ns: int = 1_000
    clock_ns: int = 0
    renumbered: int = 0
    address: bytes = bytes((192, 168, 7, 7))
    of_brokers: bool = False

    def twice(self, packets: Iterable[Packet], brokers: frozenset[str]) -> list[Packet]:
        """All packets, and those of connections with these brokers once more, in the order of their times."""
        out: list[tuple[int, int, int, Packet]] = []
        for number, packet in enumerate(packets):
            out.append((packet.time_ns, number, 0, packet))
            ends = _ends(packet)
            if ends is None or brokers.isdisjoint(ends):
                continue
            way = 1 if ends[1] in brokers else -1
            time_ns = packet.time_ns + way * self.way_ns + self.clock_ns
            out.append((time_ns, number, way, replace(self._passed(packet, way), time_ns=time_ns)))
        return [packet for *_, packet in sorted(out, key=lambda one: one[:3])]

    def _passed(self, packet: Packet, way: int) -> Packet:
        tcp, ip = tcp_at(packet), LINK_BYTES[packet.link_type]
        assert tcp is not None
        data = bytearray(packet.data)
        at = ip + (12 if (way == 1) is not self.of_brokers else 16)
        data[at : at + 4] = self.address
        if self.renumbered:
            seq, ack = struct.unpack_from(">II", data, tcp + 4)
            own, peer = (self.renumbered, 3 * self.renumbered)[::way]
            ack = ack + peer if data[tcp + 13] & _ACK else ack
            struct.pack_into(">II", data, tcp + 4, (seq + own) & 0xFFFFFFFF, ack & 0xFFFFFFFF)
        return replace(packet, data=bytes(data))

    def undone(self, found: Iterable[Finding], addresses: Iterable[str]) -> Iterator[Finding]:
        """Findings under the addresses that clients and brokers had before."""
        passed = ".".join(map(str, self.address))
        before = {f"{passed}:{port}": f"{host}:{port}" for host, _, port in (one.rpartition(":") for one in addresses)}
        for finding in found:
            client, broker = (before.get(end, end) for end in (finding.client, finding.broker))
            yield msgspec.structs.replace(finding, client=client, broker=broker)


def _ends(packet: Packet) -> tuple[str, str] | None:
    """Source and target of an IPv4 packet."""
    tcp = tcp_at(packet)
    if tcp is None or packet.data[LINK_BYTES[packet.link_type]] >> 4 != _IPV4:
        return None
    ip, ports = LINK_BYTES[packet.link_type], struct.unpack_from(">HH", packet.data, tcp)
    source, target = (".".join(map(str, packet.data[at : at + 4])) for at in (ip + 12, ip + 16))
    return f"{source}:{ports[0]}", f"{target}:{ports[1]}"


def ends_in(packets: Iterable[Packet]) -> set[str]:
    return {end for packet in packets for end in _ends(packet) or ()}
