"""What a capture tells about its cluster: names of topic ids, node ids of brokers' addresses."""

from __future__ import annotations

from typing import NamedTuple

from kshark import limits
from kshark.api_keys import METADATA
from kshark.model import Message, endpoint
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark.tables.fields import each, value


class Node(NamedTuple):
    """A broker as Metadata names it."""

    node_id: int
    listener: str


class Names:
    """Topics from any structure that has id and name, nodes from Metadata, as far as the capture has told them."""

    def __init__(self) -> None:
        self._topics = TopicNames(Registry(installed=False))
        self._nodes: dict[str, Node] = {}
        #: Classes of bodies that tell no names: most of them.
        self.silent: set[type] = {type(None)}

    def learn(self, message: Message) -> None:
        """Takes the names that a message tells."""
        key = (message.api_key, message.kind)
        if key == (METADATA, "response") or self._topics.teaches(*key):
            self._learn(message)
        else:
            self.silent.add(type(message.body))

    def _learn(self, message: Message) -> None:
        self._topics.learn(message)
        if message.api_key != METADATA or message.kind != "response":
            return
        for broker in each(message.body, "brokers"):
            node_id, host, port = (value(broker, name) for name in ("node_id", "host", "port"))
            if None in (node_id, host, port) or len(self._nodes) >= limits.BROKERS:
                continue
            self._nodes[endpoint(host, port)] = Node(node_id, f"{host}:{port}")

    def topic(self, topic_id: str | None) -> str | None:
        return self._topics.known.get(topic_id) if topic_id else None

    def node(self, address: str) -> Node | None:
        return self._nodes.get(address)
