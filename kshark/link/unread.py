"""Count packets without TCP by kind: number, bytes, first and last packet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kshark.limits import PACKET_KINDS
from kshark.link.packet import Other
from kshark.model import Weird

#: Counts the kinds beyond the limit.
_FURTHER: Final = Other("further kinds", "ENVELOPE_UNREAD")


class _Kind:
    """The last packet and its time, the first packet, the number of packets, their bytes."""

    __slots__ = ("first_packet", "packet", "size", "time_ns", "times")

    def __init__(self, first_packet: int) -> None:
        self.first_packet = first_packet
        self.packet = self.time_ns = self.times = self.size = 0


class Unread:
    """Packets without TCP by kind."""

    def __init__(self) -> None:
        self._kinds: dict[Other, _Kind] = {}

    def add(
        self, other: Other, packet: int, time_ns: int, times: int, size: int, first_packet: int | None = None
    ) -> None:
        """Count `times` packets; `packet` is the last of them. Packets of one batch come in no order."""
        if other not in self._kinds and len(self._kinds) >= PACKET_KINDS:
            other = _FURTHER
        first = packet if first_packet is None else first_packet
        kind = self._kinds.setdefault(other, _Kind(first))
        kind.first_packet = min(kind.first_packet, first)
        kind.packet, kind.time_ns = max((kind.packet, kind.time_ns), (packet, time_ns))
        kind.times += times
        kind.size += size

    @property
    def counts(self) -> Counter[str]:
        """Packets by kind."""
        return Counter({other.kind: kind.times for other, kind in self._kinds.items()})

    def close(self) -> Iterator[Weird]:
        """Yield one weird for each kind, in the order of their first packets."""
        for other, kind in sorted(self._kinds.items(), key=lambda pair: (pair[1].first_packet, pair[0])):
            first = kind.first_packet if kind.times > 1 else None
            yield Weird(
                other.code,
                "link",
                kind.packet,
                kind.time_ns,
                other.kind,
                first_packet=first,
                size=kind.size,
                times=kind.times,
            )
