"""Names that a capture contains: topics by id, and node ids and cluster ids by broker address."""

from __future__ import annotations

from typing import Any, NamedTuple

from kshark import limits
from kshark.api_keys import METADATA
from kshark.clusters import Clusters
from kshark.endpoints import endpoint
from kshark.model import Message
from kshark.names import TopicNames
from kshark.registry import kafka_registry
from kshark.tables.fields import each, value


class Node(NamedTuple):
    """A broker as Metadata names it."""

    node_id: int
    listener: str


class Names:
    """Topics from any structure with an id and a name; nodes and clusters from Metadata."""

    def __init__(self) -> None:
        self._topics = TopicNames(kafka_registry())
        self._nodes: dict[str, Node] = {}
        self._clusters = Clusters()
        #: Classes of bodies without names: most of them.
        self.silent: set[type] = {type(None)}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "silent": {type(None)}}  # rebuilt after unpickling

    def learn(self, message: Message) -> None:
        """Store the names that a message contains."""
        key = (message.api_key, message.kind)
        if key == (METADATA, "response") or self._topics.teaches(*key):
            self._learn(message)
        else:
            self.silent.add(type(message.body))

    def _learn(self, message: Message) -> None:
        self._topics.learn(message)
        if message.api_key != METADATA or message.kind != "response":
            return
        cluster = value(message.body, "cluster_id")
        self._belongs(message.broker, cluster)
        for broker in each(message.body, "brokers"):
            node_id, host, port = (value(broker, name) for name in ("node_id", "host", "port"))
            if None in (node_id, host, port) or len(self._nodes) >= limits.BROKERS:
                continue
            address = endpoint(host, port)
            self._nodes[address] = Node(node_id, f"{host}:{port}")
            self._belongs(address, cluster)

    def _belongs(self, address: str, cluster: str | None) -> None:
        if cluster:
            self._clusters.assign(address, cluster)

    def cluster(self, address: str | None) -> str | None:
        """Return the id of a broker's cluster; if the capture names only one cluster, that one."""
        return self._clusters.of(address)

    def topic(self, topic_id: str | None) -> str | None:
        return self._topics.by_id.get(topic_id) if topic_id else None

    def node(self, address: str) -> Node | None:
        return self._nodes.get(address)

    def cluster_id(self, address: str) -> str | None:
        """Return the id of a broker's cluster if a Metadata response before names it."""
        return self._clusters.shown(address)
