"""`-Y` for results of the analysis: a result is shown if one of its messages passes the filter."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from typing import Final

from kshark.analysis import AnalysisResult, ListedSession
from kshark.cli.shown import display_filter
from kshark.model import Event, Finding, Message

#: Number of distinct packets: at most 128 MB. In longer captures two packets may share a bit, and a result may be shown
#: although none of its messages passes.
_PACKETS: Final = 1 << 30


class Packets:
    """A set of packet numbers, added in any order, with one bit each."""

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
    """Select findings, and requests of share sessions, that are based on a message that passes the filter.

    Without a filter, select all.
    """

    def __init__(self, args: Namespace) -> None:
        self._wanted = display_filter(args)
        self._packets = Packets()

    def passes(self, message: Message) -> bool:
        """True if the message passes; its packet is remembered."""
        if self._wanted is None:
            return True
        passed = self._wanted.passes(message)
        if passed:
            self._packets.add(message.packet)
        return passed

    @property
    def has_passed(self) -> Callable[[int], bool] | None:
        """True for packets of messages that passed; None without a filter."""
        return None if self._wanted is None else self._packets.has

    def add(self, page: Iterable[Event]) -> None:
        """Remember the messages that pass."""
        if self._wanted is not None:
            for event in page:
                if type(event) is Message:
                    self.passes(event)

    def shown(self, results: Iterable[AnalysisResult]) -> Iterable[AnalysisResult]:
        """Return the results that are shown."""
        return results if self._wanted is None else filter(self.shows, results)

    def shows(self, result: AnalysisResult) -> bool:
        """True if one of the messages of a result passed. Sessions are always shown, as connections are."""
        if self._wanted is None or isinstance(result, ListedSession):
            return True
        exchanges, else_packet = (
            (result.witness, result.packet) if isinstance(result, Finding) else ([result.witness], result.step.packet)
        )
        packets = [
            packet
            for exchange in exchanges
            for packet in (exchange.request_packet, exchange.response_packet)
            if packet is not None
        ]
        return any(map(self._packets.has, packets or [else_packet]))
