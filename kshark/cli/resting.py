"""`-Y` for what the analysis tells: it is shown when a message that it rests on passes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import Final

from kshark.analysis import AnalysisResult, ListedSession
from kshark.cli.shown import display_filter
from kshark.model import Event, Finding, Message

#: Packets that are told apart: 128 MB at most. Of more, one may be taken for another, and what rests on it be shown for
#: nothing.
_PACKETS: Final = 1 << 30


class Packets:
    """Numbers of packets, in any order: a bit each."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, packet: int) -> None:
        at = packet % _PACKETS >> 3
        if at >= len(self._bits):
            self._bits += bytes(max(at + 1 - len(self._bits), len(self._bits) >> 3))
        self._bits[at] |= 1 << (packet & 7)

    def has(self, packet: int) -> bool:
        at = packet % _PACKETS >> 3
        return at < len(self._bits) and bool(self._bits[at] >> (packet & 7) & 1)


class Resting:
    """Findings, and requests of share sessions, that rest on a message that passes; all of them, where there is no
    filter."""

    def __init__(self, args: Namespace) -> None:
        self._wanted = display_filter(args)
        self._packets = Packets()

    def passes(self, message: Message) -> bool:
        """Whether the message passes; it is remembered."""
        if self._wanted is None:
            return True
        passed = self._wanted.passes(message)
        if passed:
            self._packets.add(message.packet)
        return passed

    def add(self, page: Iterable[Event]) -> None:
        """Remembers the messages that pass."""
        if self._wanted is not None:
            for event in page:
                if type(event) is Message:
                    self.passes(event)

    def shown(self, told: Iterable[AnalysisResult]) -> Iterable[AnalysisResult]:
        """What of this is shown."""
        return told if self._wanted is None else (one for one in told if self.shows(one))

    def shows(self, told: AnalysisResult) -> bool:
        """Whether a message that it rests on has passed; sessions are shown as connections are."""
        if self._wanted is None or isinstance(told, ListedSession):
            return True
        exchanges, else_packet = (
            (told.witness, told.packet) if isinstance(told, Finding) else ([told.witness], told.step.packet)
        )
        packets = [
            packet for each in exchanges for packet in (each.request_packet, each.response_packet) if packet is not None
        ]
        return any(map(self._packets.has, packets or [else_packet]))
