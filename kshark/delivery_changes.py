"""The changes of records in flight in share groups, as `kshark deliveries` and the Python interface give them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.analysis import APIS, TRANSACTION_APIS, Analyzer, Delivery, DeliveryLog
from kshark.clusters import Clusters
from kshark.model import Event, Exchange
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark.stored_writes import StoredWrites
from kshark_dissectors.topics import NAMING_APIS

#: APIs whose bodies are read. Headers of batches, too: they show which records were aborted.
BODIES: Final = APIS | TRANSACTION_APIS | NAMING_APIS


class DeliveryChanges:
    """Follow a capture; `since` returns the changes after the last call.

    `offset`: only changes of this record. `listed`: note changes, and not only states. `stored`: also the leaders'
    writes, which `writes` attaches to the changes at the end.
    """

    def __init__(
        self, registry: Registry, *, offset: int | None = None, listed: bool = True, stored: bool = True
    ) -> None:
        self._log = DeliveryLog(offset)
        self.analyzer: Final = Analyzer(transactions=True, on_change=self._log.change if listed else None)
        self.names: Final = TopicNames(registry)
        self.clusters: Final = Clusters()
        self.writes: Final = StoredWrites(self.clusters) if stored else None

    def feed(self, event: Event) -> None:
        if isinstance(event, Exchange):
            for message in (event.request, event.response):
                if message is not None:
                    self.names.learn(message)
                    self.clusters.learn(message)
            if self.writes is not None:
                self.writes.feed(event)
        self.analyzer.feed(event)

    def since(self) -> Iterator[Delivery]:
        yield from self._log.since()

    def close(self) -> None:
        """End the capture; `since` returns the rest."""
        self.analyzer.close()
