"""Names that a capture contains: topics by id, and node ids and cluster ids by broker address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from kshark import limits
from kshark.api_keys import METADATA
from kshark.clusters import Clusters
from kshark.endpoints import endpoint
from kshark.facts import Asked, Coming, Fact, Question
from kshark.model import Message
from kshark.names import TopicNames
from kshark.registry import kafka_registry
from kshark.tables.fields import each, value


class Node(NamedTuple):
    """A broker as Metadata names it."""

    node_id: int
    listener: str


class Names:
    """Topics from any structure with an id and a name; nodes and clusters from Metadata.

    `asking`: only some connections of the capture come here; record the questions that other connections may answer.
    """

    def __init__(self, *, asking: bool = False) -> None:
        self._topics = TopicNames(kafka_registry())
        self._nodes: dict[str, Node] = {}
        self._clusters = Clusters()
        #: Classes of bodies without names: most of them.
        self.silent: set[type] = {type(None)}
        self._asking = asking
        self._asked = Asked("topic"), Asked("node"), Asked("cluster")
        self._coming = Coming()
        #: Facts about nodes and clusters from connections here.
        self._taught: list[Fact] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "silent": {type(None)}}  # rebuilt after unpickling

    def add_facts(self, facts: Iterable[Fact]) -> None:
        """Add facts from connections that were decoded elsewhere."""
        new_facts = [*facts]
        self._topics.add_facts(fact for fact in new_facts if fact.kind == "topic")
        self._coming.add(fact for fact in new_facts if fact.kind in ("node", "cluster"))

    def reach(self, packet: int) -> None:
        """Advance the time to this packet: facts that others learned from earlier packets become known."""
        self._topics.reach(packet)
        for fact in self._coming.before(packet):
            if fact.kind == "node":
                self._nodes[fact.key] = _node(fact.value)
            else:
                self._clusters.assign(fact.key, fact.value)

    @property
    def taught(self) -> Iterator[Fact]:
        """Facts from connections here."""
        yield from self._topics.taught("topic")
        yield from self._taught

    @property
    def asked(self) -> Iterator[Question]:
        """The questions asked here, with the answers."""
        return chain(*self._asked)

    def learn(self, message: Message) -> None:
        """Store the names that a message contains."""
        key = (message.api_key, message.kind)
        if key == (METADATA, "response") or self._topics.teaches(*key):
            self._learn(message)
        else:
            self.silent.add(type(message.body))

    def _learn(self, message: Message) -> None:
        self.reach(message.packet)
        self._topics.learn(message)
        if message.api_key != METADATA or message.kind != "response":
            return
        cluster = value(message.body, "cluster_id")
        self._belongs(message.broker, cluster)
        for broker in each(message.body, "brokers"):
            node_id, host, port = (value(broker, name) for name in ("node_id", "host", "port"))
            if None in (node_id, host, port) or len(self._nodes) >= limits.BROKERS:
                continue
            address, node = endpoint(host, port), Node(node_id, f"{host}:{port}")
            if self._asking and self._nodes.get(address) != node:
                self._taught.append(Fact("node", address, f"{node.node_id} {node.listener}", self._topics.packet))
            self._nodes[address] = node
            self._belongs(address, cluster)

    def _belongs(self, address: str, cluster: str | None) -> None:
        if cluster and self._clusters.assign(address, cluster) and self._asking:
            self._taught.append(Fact("cluster", address, cluster, self._topics.packet))

    def cluster(self, address: str | None) -> str | None:
        """Return the id of a broker's cluster; if the capture names only one cluster, that one."""
        return self._clusters.of(address)

    def topic(self, topic_id: str | None) -> str | None:
        if not topic_id:
            return None
        name = self._topics.by_id.get(topic_id)
        if self._asking:
            self._asked[0].ask(topic_id, name, self._topics.packet + 1)
        return name

    def node(self, address: str) -> Node | None:
        node = self._nodes.get(address)
        if self._asking:
            self._asked[1].ask(
                address, None if node is None else f"{node.node_id} {node.listener}", self._topics.packet + 1
            )
        return node

    def cluster_id(self, address: str) -> str | None:
        """Return the id of a broker's cluster if a Metadata response before names it."""
        cluster = self._clusters.shown(address)
        if self._asking:
            self._asked[2].ask(address, cluster, self._topics.packet + 1)
        return cluster


def _node(text: str) -> Node:
    node_id, listener = text.split(" ", 1)
    return Node(int(node_id), listener)
