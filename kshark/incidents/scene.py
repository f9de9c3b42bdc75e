"""The scene: what the capture shows to all watchers up to the current packet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.analysis.facts.bases import Duration, Lasted
from kshark.analysis.facts.brokers import Broker, Brokers
from kshark.analysis.facts.clock import Durations, PacketTime
from kshark.api_keys import METADATA
from kshark.incidents.usage import Usage
from kshark.link.disorder import CLOCK_DOUBTS, DISORDERS
from kshark.model import ByMessage, Flow, Message
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark_dissectors.topics import NAMING_APIS

#: Codes of the weirds that the scene reads.
WEIRDS: Final[frozenset[str]] = CLOCK_DOUBTS | DISORDERS
#: APIs whose bodies the scene reads.
APIS: Final[frozenset[int]] = frozenset({*NAMING_APIS, METADATA})
#: Requests of one connection without an answer so far, in the order in which they were sent.
Open = ByMessage[tuple[Message]]


class Scene:
    """Brokers, open connections, their open requests, names and usage of topics, and the capture's clock.

    `now`: the current packet. `flows`: connections that are not over, by number. `open`: by number of the connection,
    its requests without an answer so far (requests without one by protocol too, until their exchange comes).
    """

    def __init__(self, registry: Registry) -> None:
        self.now = PacketTime(0, 0)
        self.flows: Final[dict[int, Flow]] = {}
        self.open: Final[dict[int, Open]] = {}
        self.brokers: Final = Brokers()
        self.durations: Final = Durations()
        self.names: Final = TopicNames(registry)
        #: By connection, until when its last throttled answer lets the client wait. Fed by the watcher Throttling.
        self.throttled_until: Final[dict[int, int]] = {}
        #: Fed by the watcher Topics.
        self.usage: Final = Usage()

    def broker_of(self, flow: Flow) -> Broker:
        """Return the broker of a connection: one object for all addresses that Metadata gives to one node."""
        return self.brokers.at(flow.broker)

    def cluster_of(self, flow: Flow) -> int:
        """Return the number of the cluster that a connection belongs to."""
        return self.brokers.at(flow.broker).cluster

    def connections_of(self, broker: Broker) -> Iterator[Flow]:
        """Yield the open connections of a broker that speak Kafka."""
        return (flow for flow in self.flows.values() if flow.service == "kafka" and self.broker_of(flow) is broker)

    def oldest_open(self, flow: int) -> Message | None:
        """Return the first request of a connection that has no answer so far."""
        requests = self.open.get(flow)
        return next(iter(requests.values()))[0] if requests else None

    def lasted(self, least_ns: int, since: PacketTime, until: PacketTime | None = None) -> Lasted:
        """Return the ground that at least this time passed between two packets; `until` None: until now."""
        return Lasted(self.durations, since, until or self.now, Duration.AT_LEAST, least_ns)

    def topic(self, topic_id: str) -> str:
        """Return the name of a topic, or its id if the name is unknown."""
        return self.names.by_id.get(topic_id, topic_id)
