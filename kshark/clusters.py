"""Map brokers' addresses to clusters, from Metadata responses: a capture may hold the traffic of several clusters."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from kshark import limits
from kshark.api_keys import METADATA
from kshark.endpoints import endpoint
from kshark.model import Message


class Clusters:
    """The cluster of each broker address. `learn` receives messages in the order of the time line.

    The last report for an address holds, because a port is used again. Clusters are numbered in the order of their
    first report. An address without a report counts as cluster 0: two addresses belong to different clusters only if
    the capture shows it.
    """

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def learn(self, message: Message) -> list[str]:
        """Return the addresses whose cluster this message newly shows: the answering broker and the listed ones."""
        body: Any = message.body
        cluster = (
            getattr(body, "cluster_id", UNSET) if message.api_key == METADATA and message.kind == "response" else UNSET
        )
        if not isinstance(cluster, str) or not cluster:
            return []
        named = getattr(body, "brokers", UNSET)
        brokers = (
            [broker for broker in named or () if isinstance(broker.host, str) and isinstance(broker.port, int)]
            if named is not UNSET
            else []
        )
        addresses = (message.broker, *(endpoint(broker.host, broker.port) for broker in brokers))
        return [address for address in addresses if self.assign(address, cluster)]

    def assign(self, address: str, cluster: str) -> bool:
        """Record that an address belongs to a cluster; True if that is new."""
        if self._of.get(address) == cluster or (address not in self._of and len(self._of) >= limits.BROKERS):
            return False
        self._of[address] = cluster
        self._numbers.setdefault(cluster, len(self._numbers))
        return True

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, address: str) -> int:
        """Return the number of the cluster that the broker at an address belongs to."""
        return self._numbers.get(self._of.get(address, ""), 0)

    @property
    def ids(self) -> dict[int, str]:
        """The ids of all clusters by number."""
        return {number: cluster for cluster, number in self._numbers.items()}

    def id(self, number: int) -> str | None:
        """Return the id of the cluster with that number."""
        return self.ids.get(number)

    def number_of(self, cluster_id: str | None) -> int:
        """Return the number of the cluster with that id."""
        return self._numbers.get(cluster_id or "", 0)

    def shown(self, address: str) -> str | None:
        """Return the id of a broker's cluster if a Metadata response names it."""
        return self._of.get(address)

    def of(self, address: str | None) -> str | None:
        """Return the id of a broker's cluster; if the capture shows only one cluster, that one's."""
        if address in self._of:
            return self._of[address]
        return self.id(0) if len(self._numbers) == 1 else None
