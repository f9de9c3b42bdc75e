"""Learn the names of topic ids from every structure that has both.

The dissectors mark the fields (`name_in`); this module depends on no particular API.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from msgspec import UNSET, Struct

from kshark import limits
from kshark.codec.paths import Names, paths, values
from kshark.model import Message
from kshark.registry import Registry
from kshark.schema import Field

#: The id that means "no topic". Kafka: Uuid.ZERO_UUID.
_NONE: Final = "A" * 22


class Pair(Struct, frozen=True):
    """Fields with an id and its name: the way to the structure that has both, and the names of the two fields in it."""

    way: Names
    id: str
    name: str


def pairs(root: Field, version: int) -> tuple[Pair, ...]:
    """Return every pair of a layout in one version."""
    every = {path.names: path.field for path in paths(root, version)}
    return tuple(
        Pair(names[:-1], names[-1], field.name_in)
        for names, field in every.items()
        if field.name_in and (*names[:-1], field.name_in) in every
    )


def has_pairs(field: Field) -> bool:
    """True if the field contains pairs in any version."""
    inner = field.element or field
    return bool(field.name_in) or any(map(has_pairs, inner.fields))


class TopicNames:
    """Topic names that a capture shows, across connections; `learn` takes messages in the order of the time line.

    `by_id` has every name learned so far. Beyond limits.TOPICS ids, names are not kept and `full` is true. `reach`
    moves the time line forward.
    """

    def __init__(self, registry: Registry) -> None:
        self.by_id: dict[str, str] = dict(import_module("kshark_dissectors.topics").TOPIC_NAMES)
        self.full = False
        #: The latest packet that the time line has reached.
        self.packet = 0
        self._since: dict[str, int] = dict.fromkeys(self.by_id, 0)
        self._registry = registry
        self._of_messages: dict[tuple[Any, Any, str], tuple[Pair, ...]] = {}
        self._of_structures: dict[tuple[str, int], tuple[Pair, ...]] = {}

    def at(self, topic_id: str, packet: int) -> str | None:
        """Return the name, if a packet before this one showed it."""
        since = self._since.get(topic_id)
        return self.by_id[topic_id] if since is not None and since < packet else None

    def teaches(self, api_key: Any, kind: str) -> bool:
        """True if messages of this API and direction pair ids and names in any version."""
        api = self._registry.api(api_key) if isinstance(api_key, int) else None
        return api is not None and has_pairs((api.request if kind == "request" else api.response).root)

    def learn(self, message: Message) -> None:
        """Learn the pairs of a message's body."""
        layout_pairs = self._of_message(message.api_key, message.version, message.kind)
        if layout_pairs and message.body is not None and message.body is not UNSET:
            self.reach(message.packet)
            self._learn_pairs(layout_pairs, message.body)

    def learn_opened(self, opened: dict[str, Any]) -> None:
        """Learn the pairs of a structure or message inside bytes, as kshark.embedded makes it."""
        if "data" in opened:
            key = (opened["name"], opened.get("version", 0))
            layout_pairs = self._of_structures.get(key)
            if layout_pairs is None:
                layout_pairs = self._of_structures[key] = self._in_structure(*key)
            self._learn_pairs(layout_pairs, opened["data"])
        elif "body" in opened:
            self._learn_pairs(self._of_message(opened["api_key"], opened["version"], opened["kind"]), opened["body"])

    def reach(self, packet: int) -> None:
        """Move the time line forward to this packet."""
        self.packet = max(self.packet, packet)

    def add(self, topic_id: str, name: str, packet: int) -> None:
        """Add a name shown by this packet; the first name of an id stays."""
        if topic_id in self._since:
            return
        if len(self._since) >= limits.TOPICS:
            self.full = True
            return
        self.by_id[topic_id] = name
        self._since[topic_id] = packet

    def _in_structure(self, name: str, version: int) -> tuple[Pair, ...]:
        layout = self._registry.structure(name)
        roots = () if layout is None else (layout.root, *layout.older.values())
        known_version = 0 if layout is None else layout.versions.nearest(version)
        return tuple(dict.fromkeys(pair for root in roots for pair in pairs(root, known_version)))

    def _of_message(self, api_key: Any, version: Any, kind: str) -> tuple[Pair, ...]:
        key = (api_key, version, kind)
        layout_pairs = self._of_messages.get(key)
        if layout_pairs is None:
            layout_pairs = self._of_messages[key] = self._look_up(*key)
        return layout_pairs

    def _look_up(self, api_key: Any, version: Any, kind: str) -> tuple[Pair, ...]:
        api = self._registry.api(api_key) if isinstance(api_key, int) else None
        if api is None or not isinstance(version, int):
            return ()
        layout = api.request if kind == "request" else api.response
        return pairs(layout.root, layout.versions.nearest(version))

    def _learn_pairs(self, layout_pairs: Iterable[Pair], body: Any) -> None:
        for pair in layout_pairs:
            for owner in values(body, pair.way):
                topic_id, name = _get(owner, pair.id), _get(owner, pair.name)
                if not isinstance(topic_id, str) or not isinstance(name, str) or topic_id == _NONE or not name:
                    continue
                self.add(topic_id, name, self.packet)


def _get(owner: Any, name: str) -> Any:
    return owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)
