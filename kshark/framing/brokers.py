"""Ends that are known to be Kafka brokers.

A recognised connection identifies its broker. That helps to classify other connections to the same end whose first
bytes are not a valid request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kshark.facts import Asked, Fact


class Brokers:
    """Broker ends, each with the first packet that identified it, here or in another part of the capture.

    `asking`: only some of the capture's connections come here; questions that other parts may answer are recorded.
    """

    def __init__(self, *, asking: bool = False) -> None:
        #: The questions asked here, and their answers.
        self.asked = Asked("broker")
        self._asking = asking
        self._own: dict[str, int] = {}
        self._since: dict[str, int] = {}

    def add_facts(self, facts: Iterable[Fact]) -> None:
        """Add ends that other parts of the capture identified."""
        for fact in facts:
            if fact.kind == "broker":
                self._add(self._since, fact.key, fact.packet)

    def learn(self, end: str, packet: int) -> None:
        """Add an end that a connection here identified as a broker with that packet."""
        self._add(self._own, end, packet)
        self._add(self._since, end, packet)

    def is_broker(self, end: str, packet: int) -> bool:
        """True if an earlier packet identified the end as a broker."""
        since = self._since.get(end)
        identified = since is not None and since < packet
        if self._asking:
            self.asked.ask(end, "" if identified else None, packet)
        return identified

    @property
    def taught(self) -> Iterator[Fact]:
        """The ends that connections here identified."""
        return (Fact("broker", end, "", packet) for end, packet in self._own.items())

    @staticmethod
    def _add(packets: dict[str, int], end: str, packet: int) -> None:
        earlier = packets.get(end)
        if earlier is None or packet < earlier:
            packets[end] = packet
