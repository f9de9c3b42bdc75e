"""`kafka.topic`: the topics of a message, by name and by id.

Since KIP-516 many messages carry only ids of topics: ShareFetch, ShareAcknowledge, Fetch 13 and later. A capture shows
the name of an id in Metadata, CreateTopics and others (kshark.names).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark.codec.paths import Names, Path, paths_of_versions, values
from kshark.model import Message
from kshark.registry import Registry

#: Returns the name of a topic id, if a packet before this one showed it (TopicNames.at).
NameOf = Callable[[str, int], str | None]

#: Names of fields with a topic's name; the message definitions of Kafka call their type topicName.
_NAMED: Final = re.compile(r"(^|_)topics?(_names?)?$")
#: A field that is only called `name` is a topic's name if its owner's name, or a field next to it, says so.
_OWNERS: Final = {"topic", "topics"}
_BESIDE: Final = {"partitions", "partition_index", "topic_id"}
#: A name that nothing next to it explains: of CreatePartitions' response.
_BARE: Final = ("results", "name")
#: The id that means "no topic". Kafka: Uuid.ZERO_UUID.
_NONE: Final = "A" * 22


def is_topic_name(path: Path) -> bool:
    """True if the field, or each element of the array, is the name of a topic."""
    if path.type.type != "string":
        return False
    if path.names[-1] != "name" or not path.owners:
        return bool(_NAMED.search(path.names[-1]))
    owner = path.owners[-1]
    beside = {field.name for field in (owner.element or owner).fields}
    return bool(_OWNERS & {*owner.name.split("_")} or _BESIDE & beside) or path.names == _BARE


def is_topic_id(path: Path) -> bool:
    """True if the field, or each element of the array, is the id of a topic."""
    return path.type.type == "uuid" and (path.names[-1] in ("topic_id", "topic_ids") or bool(path.field.name_in))


class Topic(NamedTuple):
    """A topic as a message has it: by name, or by id with the name that the capture shows for it."""

    id: str | None
    name: str | None


class Topics:
    """The topics of messages. `name_of` is set for each capture; without it ids have no names."""

    def __init__(self, registry: Registry) -> None:
        self.name_of: NameOf | None = None
        self._registry = registry
        self._paths: dict[tuple[int, str], list[tuple[Names, bool]]] = {}

    @property
    def apis(self) -> frozenset[int]:
        """The APIs whose requests or responses have topics."""
        return frozenset(
            key for key in self._registry.names() if self._of_api(key, "request") or self._of_api(key, "response")
        )

    def of(self, message: Message) -> Iterator[Topic]:
        """Yield the topics of a message: for each field of its layout, in wire order."""
        body, key = message.body, message.api_key
        if body is None or body is UNSET or not isinstance(key, int):
            return
        for names, by_id in self._of_api(key, message.kind):
            for value in values(body, names):
                if isinstance(value, str) and value and value != _NONE:
                    yield self._by_id(value, message.packet) if by_id else Topic(None, value)

    def read(self, message: Message) -> list[Any]:
        """Return the name of each topic, or its id if no earlier packet shows the name."""
        return [topic.name or topic.id for topic in self.of(message)]

    def _by_id(self, topic_id: str, packet: int) -> Topic:
        return Topic(topic_id, None if self.name_of is None else self.name_of(topic_id, packet))

    def _of_api(self, key: int, kind: str) -> list[tuple[Names, bool]]:
        """Return the paths of names and ids, and whether each is one of ids."""
        topic_paths = self._paths.get((key, kind))
        if topic_paths is None:
            topic_paths = self._paths[key, kind] = self._look_up(key, kind)
        return topic_paths

    def _look_up(self, key: int, kind: str) -> list[tuple[Names, bool]]:
        api = self._registry.api(key)
        if api is None:
            return []
        layout = api.request if kind == "request" else api.response
        every = (path for path, _ in paths_of_versions(layout.root, layout.versions))
        return [(path.names, is_topic_id(path)) for path in every if is_topic_name(path) or is_topic_id(path)]
