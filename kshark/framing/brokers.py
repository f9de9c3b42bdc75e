"""Ends that are known to be Kafka brokers.

A recognised connection identifies its broker. That helps to classify other connections to the same end whose first
bytes are not a valid request.
"""

from __future__ import annotations


class Brokers:
    """Broker ends, each with the first packet that identified it."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}

    def learn(self, end: str, packet: int) -> None:
        """Add an end that a connection identified as a broker with that packet."""
        earlier = self._since.get(end)
        if earlier is None or packet < earlier:
            self._since[end] = packet

    def is_broker(self, end: str, packet: int) -> bool:
        """True if an earlier packet identified the end as a broker."""
        since = self._since.get(end)
        return since is not None and since < packet
