"""A body in one line: errors by name, ids and epochs, topics and partitions, counts of everything else.

The line is made from the schema alone, for any API: names and types of fields decide once which fields are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import UnsetType

from kshark.codec.paths import Path, paths
from kshark.codec.reach import Reach
from kshark.codec.shapes import shape_of
from kshark.model import OWNER, Message
from kshark.names import TopicNames
from kshark.output import items
from kshark.output.items import Item, Named, Word
from kshark.registry import Registry

#: Names of scalars that are shown; limits, timeouts and rates are not.
_TELLING: Final = re.compile(
    r"(^|_)(id|ids|epoch|key|keys|name|names|type|types|state|acks|version|mechanism|mechanisms|host|port|group|groups|leader|members?)$"
)
#: Most cached plans; only a capture with invalid versions needs more.
_PLANS: Final = 2048
_NOT_SCALAR: Final = ("struct", "array", "records", "bytes")


class Summaries:
    """One line about a message's body.

    Strings longer than `length` are cut; topics are shown by name if `names` has it.
    """

    def __init__(self, registry: Registry, length: int = 24, names: TopicNames | None = None) -> None:
        self._registry = registry
        self._word = items.words(length)
        self._names = names
        #: The packet of the current message: only names from earlier packets are used.
        self.packet = 0
        #: Group and member of a response, as attributes of the message.
        self.owner = [items.attribute(name, self._word) for name in OWNER]
        #: Cached texts of topics by id.
        self._topic_texts: dict[str, str] = {}
        self._plans: dict[tuple[Any, Any, str, type], list[Item]] = {}

    def items(self, message: Message) -> list[Item]:
        """Return the parts of such a message's line; set `packet` before calling their functions."""
        key = (message.api_key, message.version, message.kind, type(message.body))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._make(*key)
        return plan

    def _topic(self, name: str) -> str:
        """Return a topic's name, if an earlier packet contains it, otherwise its id."""
        shown = self._topic_texts.get(name)
        if shown is None:
            topic_name = self._names and self._names.at(name, self.packet)
            if not topic_name:
                return self._word(name)
            shown = self._topic_texts[name] = self._word(topic_name)
        return shown

    def _make(self, api_key: Any, version: Any, kind: str, body: type) -> list[Item]:
        api = self._registry.api(api_key) if isinstance(api_key, int) and isinstance(version, int) else None
        if api is None or body in _UNREAD:
            return []
        layout = api.request if kind == "request" else api.response
        nearest = layout.versions.nearest(version)
        reach = Reach(layout.root, nearest, exact=body is shape_of(layout, nearest).make)
        return list(_items(reach, self._word, self._topic))


#: Types of bodies that were not decoded.
_UNREAD: Final = (type(None), UnsetType)


def _items(reach: Reach, word: Word, topic: Named) -> Iterator[Item]:
    """Return items for errors, then for fields outside arrays, then for arrays."""
    every = list(paths(reach.struct, reach.version))
    single = [path for path in every if not reach.in_array(path.names)]
    codes = [path for path in every if path.names[-1].endswith("error_code")]
    if codes:
        yield items.errors(reach, codes)
    yield from _alone(reach, [path for path in single if path not in codes], word)
    for path in every:
        if path.field.type == "array" and path.type.type == "struct" and not items.is_partitions(path):
            yield from _array(reach, path, word, topic, inner=path not in single)
    yield from (items.records(reach, path) for path in every if path.field.type == "records")


def _alone(reach: Reach, single: Sequence[Path], word: Word) -> Iterator[Item]:
    """Return items for fields outside arrays, and for arrays of scalars."""
    for path in single:
        if path.field.type not in _NOT_SCALAR and _TELLING.search(path.names[-1]):
            yield items.scalar(reach, path, word)
        elif path.names[-1] == "error_message":
            yield items.message(reach, path)
        elif path.field.type == "bytes":
            yield items.whole(path)
    for path in single:
        if path.field.type == "array" and path.type.type != "struct":
            yield items.few(reach, path, word)


def _array(reach: Reach, path: Path, word: Word, topic: Named, *, inner: bool) -> Iterator[Item]:
    """Return an item for an array of structures; `inner`: inside another array, only if it has ranges of offsets."""
    if {"first_offset", "last_offset"} <= {field.name for field in path.type.fields}:
        yield items.covered(reach, path)
    elif not inner:
        fields = [
            field
            for field in paths(path.type, reach.version)
            if len(field.names) == 1 and _TELLING.search(field.names[0]) and field.field.type not in _NOT_SCALAR
        ]
        yield items.topics(reach, path, topic) or items.elements(reach, path, fields, word)
