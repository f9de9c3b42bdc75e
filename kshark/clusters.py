"""Which cluster a broker's address belongs to, as Metadata tells: a capture may hold the traffic of several."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from kshark import limits
from kshark.api_keys import METADATA
from kshark.endpoints import endpoint
from kshark.model import Message


class Clusters:
    """`learn` takes messages in the order of the time line. Of an address what was told last holds: a port is used
    again.

    Clusters are numbered in the order in which they were told of. An address of which no cluster was told is taken to
    be of number 0: two addresses are not known to belong to two clusters until the capture says so."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def learn(self, message: Message) -> list[str]:
        """The addresses of which the message tells a cluster that was not known: who answers, and those whom it
        names."""
        body: Any = message.body
        cluster = (
            getattr(body, "cluster_id", UNSET) if message.api_key == METADATA and message.kind == "response" else UNSET
        )
        if not isinstance(cluster, str) or not cluster:
            return []
        named = getattr(body, "brokers", UNSET)
        known = (
            [one for one in named or () if isinstance(one.host, str) and isinstance(one.port, int)]
            if named is not UNSET
            else []
        )
        return [
            one for one in (message.broker, *(endpoint(one.host, one.port) for one in known)) if self.tell(one, cluster)
        ]

    def tell(self, address: str, cluster: str) -> bool:
        """An address belongs to a cluster; whether that is new."""
        if self._of.get(address) == cluster or (address not in self._of and len(self._of) >= limits.BROKERS):
            return False
        self._of[address] = cluster
        self._numbers.setdefault(cluster, len(self._numbers))
        return True

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, address: str) -> int:
        """The number of the cluster that the broker at an address belongs to."""
        return self._numbers.get(self._of.get(address, ""), 0)

    @property
    def ids(self) -> dict[int, str]:
        """The ids of all clusters by number."""
        return {number: cluster for cluster, number in self._numbers.items()}

    def id(self, number: int) -> str | None:
        """The id of the cluster with that number."""
        return self.ids.get(number)

    def of(self, address: str | None) -> str | None:
        """The id of a broker's cluster; where the capture told of one cluster only, that one's."""
        if address in self._of:
            return self._of[address]
        return self.id(0) if len(self._numbers) == 1 else None
