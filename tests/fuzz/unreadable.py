"""Captures in which bodies cannot be read: nobody is accused by that, but of the bytes themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Final

import msgspec

from kshark.analysis.rules import BOOK
from kshark.model import Finding
from tests.fuzz.kind import Broken, Kind, Seen, shorter
from tests.fuzz.losses import FROM, loaded
from tests.packets import Packet, batch
from tests.property.mangled import packets_of, tcp_at
from tests.thinning import added, findings_in, place_of

#: What may be found of bytes.
OF_BYTES: Final = frozenset(rule.code for rule in BOOK.weirds.values())
#: The prefix with the length, and what of the head stays: an answer's error code may be in it, a request's key and
#: number are.
HEAD: Final = 12
#: Shorter bodies might be read, whatever is in them.
LEAST: Final = 60


class Spoiled(msgspec.Struct):
    """The places of a capture's packets that hold a message each, of whose body every byte is `filler`."""

    capture: str
    packets: list[int]
    filler: int


@lru_cache(maxsize=24)
def _packets(name: str) -> tuple[list[Packet], list[int]]:
    """A capture's packets, and the places of those that are a message each."""
    packets = packets_of(FROM[name])
    return packets, [
        at
        for at, packet in enumerate(packets)
        if (body := _body_at(packet)) is not None and len(packet.data) - body >= LEAST
    ]


def _body_at(packet: Packet) -> int | None:
    """Where a body begins, in a packet that holds just one message."""
    start = tcp_at(packet)
    if start is None:
        return None
    first = start + 4 * (packet.data[start + 12] >> 4)
    size = len(packet.data) - first
    return first + HEAD if size > HEAD and int.from_bytes(packet.data[first : first + 4]) == size - 4 else None


class Unreadable(Kind[Spoiled]):
    name = "unreadable"
    case = Spoiled
    share = 1

    def make(self, random: Random) -> Spoiled:
        name = random.choice([*FROM])
        places = _packets(name)[1]
        return Spoiled(
            name,
            random.sample(places, min(len(places), random.choice((1, 1, 2, 5)))),
            random.choice((0x7F, 0x80, 0xFF)),
        )

    def check(self, case: Spoiled) -> Seen:
        found = [it for it in spoiled(case) if it.code not in OF_BYTES]
        if found:
            raise Broken("what cannot be read accuses", [f"{it.code} at {place_of(it)}: {it.argument}" for it in found])
        packets = _packets(case.capture)[0]
        return Seen(len(packets), sum(len(it.data) for it in packets), Counter())

    def smaller(self, case: Spoiled) -> Iterator[Spoiled]:
        yield from (Spoiled(case.capture, packets, case.filler) for packets in shorter(case.packets))


def spoiled(case: Spoiled) -> list[Finding]:
    """The violations that the capture itself does not have."""
    packets = [*_packets(case.capture)[0]]
    for at in case.packets:
        packet, body = packets[at], _body_at(packets[at])
        if body is not None:
            packets[at] = replace(packet, data=packet.data[:body] + bytes([case.filler]) * (len(packet.data) - body))
    return added(loaded(case.capture)[1], findings_in([batch(packets)]))
