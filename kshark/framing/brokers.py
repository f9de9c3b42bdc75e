"""Ends known to be Kafka brokers: what one connection showed about its broker helps to tell others that begin like
nothing known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kshark.facts import Asked, Fact


class Brokers:
    """Each end since the first packet that showed it, on a connection here or, as `told`, elsewhere.

    `asking`: only some of the capture's connections come here; what is asked that others may have told is remembered.
    """

    def __init__(self, *, asking: bool = False) -> None:
        #: What was asked, and answered by what was known.
        self.asked = Asked("broker")
        self._asking = asking
        self._own: dict[str, int] = {}
        self._since: dict[str, int] = {}

    def told(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if fact.kind == "broker":
                self._add(self._since, fact.key, fact.packet)

    def learn(self, end: str, packet: int) -> None:
        """A connection here turned out to be Kafka with that packet."""
        self._add(self._own, end, packet)
        self._add(self._since, end, packet)

    def known(self, end: str, packet: int) -> bool:
        """Whether an earlier packet showed it."""
        since = self._since.get(end)
        known = since is not None and since < packet
        if self._asking:
            self.asked.ask(end, "" if known else None, packet)
        return known

    @property
    def taught(self) -> Iterator[Fact]:
        """What connections here showed."""
        return (Fact("broker", end, "", packet) for end, packet in self._own.items())

    @staticmethod
    def _add(known: dict[str, int], end: str, packet: int) -> None:
        before = known.get(end)
        if before is None or packet < before:
            known[end] = packet
