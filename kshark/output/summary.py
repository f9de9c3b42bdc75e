"""What a body says, in one line: errors by name, ids and epochs, topics and partitions, how many of everything else.

Made from the schema alone, for any API: which fields are worth the room follows from their names and types.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET

from kshark.codec import DECODED
from kshark.model import Message
from kshark.names import TopicNames
from kshark.output.enumerations import name_of, named
from kshark.output.spans import ERROR, LABEL, VALUE, Line, spaced
from kshark.output.units import number, shortened, size
from kshark.paths import Path, paths, values
from kshark.registry import Registry
from kshark.schema import Field

Item = Callable[[Any], Line]
#: A topic's name by its id; whatever else it is given it gives back.
Named = Callable[[str], str]

#: Scalars worth a place in one line; limits, timeouts and rates are not.
_TELLING: Final = re.compile(
    r"(^|_)(id|ids|epoch|key|keys|name|names|type|types|state|acks|version|mechanism|mechanisms|host|port|group|groups|leader|members?)$"
)
#: Shorter labels than the field's own name; others lose `_id` and `s` alone stays.
_LABELS: Final = {
    "share_session_epoch": "epoch",
    "acknowledgement_batches": "acks",
    "acquired_records": "acquired",
    "forgotten_topics_data": "forgotten",
    "subscribed_topic_names": "topics",
    "client_software_name": "software",
    "client_software_version": "version",
    "topic_data": "",
    "topics": "",
    "responses": "",
    "topic_partitions": "",
    "results": "",
}
_TOPIC: Final = ("topic", "name", "topic_name", "topic_id")
_PARTITIONS: Final = ("partitions", "partition_data", "partition_responses", "partition_indexes")
_PARTITION: Final = ("partition_index", "partition", "index")
_NO_UUID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_FEW: Final = 3


class Summaries:
    """One line about a message's body; strings longer than `length` are cut, topics are told by name where `names` has it."""

    def __init__(self, registry: Registry, length: int = 24, names: TopicNames | None = None) -> None:
        self._registry = registry
        self._length = length
        self._names = names
        self._packet = 0
        self._plans: dict[tuple[int, int, str], list[Item]] = {}

    def of(self, message: Message) -> Line:
        """Empty where the body was not read or has nothing to say."""
        body = message.body
        if body is None or body is UNSET or not isinstance(message.api_key, int) or not isinstance(message.version, int):
            return []
        key = (message.api_key, message.version, message.kind)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(*key)
        self._packet = message.packet
        return spaced(item for item in (make(body) for make in plan) if item)

    def _topic(self, topic_id: str) -> str:
        """A topic's name, as far as the capture told it before this message; else its id."""
        return (self._names and self._names.at(topic_id, self._packet)) or topic_id

    def _plan(self, api_key: int, version: int, kind: str) -> list[Item]:
        api = self._registry.api(api_key)
        if api is None:
            return []
        layout = api.request if kind == "request" else api.response
        known = layout.versions.nearest(version)
        return list(_items(layout.root, known, self._length, self._topic))


def _items(root: Field, version: int, length: int, topic: Named) -> Iterator[Item]:
    """Errors first, then what stands outside arrays, then the arrays."""
    every = list(paths(root, version))
    single = [path for path in every if not _inside_array(root, path.names)]
    codes = [path for path in every if path.names[-1].endswith("error_code")]
    if codes:
        yield _errors(codes)
    for path in single:
        if path.field.type not in ("struct", "array", "records", "bytes") and _TELLING.search(path.names[-1]) and path not in codes:
            yield _scalar(path, length)
        elif path.names[-1] == "error_message":
            yield _message(path)
        elif path.field.type == "bytes":
            yield _whole(path)
    for path in single:
        if path.field.type == "array" and path.type.type != "struct":
            yield _list(path, length)
    for path in every:
        if path.field.type == "array" and path.type.type == "struct" and not _is_partitions(path):
            yield from _structs(path, version, length, topic, outside=path in single)
    for path in every:
        if path.field.type == "records":
            yield _records(path)


def _inside_array(root: Field, names: Sequence[str]) -> bool:
    field = root
    for name in names[:-1]:
        field = next(f for f in (field.element or field).fields if f.name == name)
        if field.type == "array":
            return True
    return False


def _is_partitions(path: Path) -> bool:
    return path.names[-1] in _PARTITIONS and len(path.names) > 1


def _label(name: str) -> str:
    return _LABELS.get(name, name.removesuffix("_id"))


def _labelled(name: str, text: str) -> Line:
    label = _label(name)
    return [(label + "=", LABEL), (text, VALUE)] if label else [(text, VALUE)]


def _errors(codes: list[Path]) -> Item:
    def make(body: Any) -> Line:
        found = Counter(named(code, path.field) for path in codes for code in values(body, path.names) if code)
        shown = [name + (f" ×{times}" if times > 1 else "") for name, times in found.most_common(_FEW)]
        if len(found) > _FEW:
            shown.append(f"and {len(found) - _FEW} more")
        return [(", ".join(shown), ERROR)] if shown else []

    return make


def _whole(path: Path) -> Item:
    """The message that bytes hold, where they hold one: `CreateTopics v7`."""
    held = (*path.names[:-1], path.names[-1] + DECODED)

    def make(body: Any) -> Line:
        return [(f"{each['api']} v{each['version']}", VALUE) for each in values(body, held) if isinstance(each, dict) and "api" in each]

    return make


def _message(path: Path) -> Item:
    def make(body: Any) -> Line:
        return [(f'"{shortened(text, 80)}"', ERROR) for text in values(body, path.names) if text]

    return make


def _scalar(path: Path, length: int) -> Item:
    name = path.names[-1]
    keep_negative = name.endswith("epoch") or name == "acks"

    def make(body: Any) -> Line:
        for value in values(body, path.names):
            if value is None or value == "" or value == _NO_UUID:
                return []
            if isinstance(value, str):
                return _labelled(name, _word(value, length))
            if member := name_of(value, path.field):
                return _labelled(name, member)
            return _labelled(name, str(value)) if keep_negative or value >= 0 else []
        return []

    return make


def _word(text: str, length: int) -> str:
    text = shortened(text, length)
    return f'"{text}"' if " " in text or "=" in text else text


def _list(path: Path, length: int) -> Item:
    """Few strings are shown, many are counted."""

    def make(body: Any) -> Line:
        found = list(values(body, path.names))
        if not found or found == [None]:
            return []
        if len(found) > _FEW or not all(isinstance(value, str) for value in found):
            return _labelled(path.names[-1], str(found[0]) if len(found) == 1 else number(len(found)))
        return _labelled(path.names[-1], ",".join(_word(value, length) for value in found))

    return make


def _structs(path: Path, version: int, length: int, topic: Named, *, outside: bool) -> Iterator[Item]:
    """An array of structures: topics by name, ranges of offsets by the records they cover, a single one by its fields, else a count."""
    if {"first_offset", "last_offset"} <= {field.name for field in path.type.fields}:
        yield _covered(path)
    elif outside:
        yield _topics(path, version, length, topic) or _elements(path, version, length)


def _covered(path: Path) -> Item:
    def make(body: Any) -> Line:
        ends = [(_read(each, "first_offset"), _read(each, "last_offset")) for each in values(body, path.names)]
        count = sum(max(0, last - first + 1) for first, last in ends if first is not None and last is not None)
        return _labelled(path.names[-1], number(count)) if count else []

    return make


def _elements(path: Path, version: int, length: int) -> Item:
    inside = [inner for inner in paths(path.type, version) if len(inner.names) == 1 and _TELLING.search(inner.names[0])]
    scalars = [_scalar(inner, length) for inner in inside if inner.field.type not in ("struct", "array", "records", "bytes")]
    name = path.names[-1]

    def make(body: Any) -> Line:
        found = list(values(body, path.names))
        if len(found) == 1 and found[0] is not None and scalars:
            return spaced(item for item in (scalar(found[0]) for scalar in scalars) if item)
        return [(f"{name}=", LABEL), (number(len(found)), VALUE)] if found and found != [None] else []

    return make


def _topics(path: Path, version: int, length: int, topic_name: Named) -> Item | None:
    """`orders[0-3,7] +2`: the first topics with their partitions, and how many more; None where elements are no topics."""
    inner = [field.name for field in path.type.in_wire_order(version)]
    names = [name for name in _TOPIC if name in inner]
    holder = next((name for name in _PARTITIONS if name in inner), None)
    if not names or (holder is None and len(inner) > len(names)):
        return None
    if holder is None:
        return _names(path, names, length, topic_name)
    partition = next(field for field in path.type.fields if field.name == holder)
    index = next((f.name for f in (partition.element or partition).fields if f.name in _PARTITION), None)
    if index is None and (partition.element or partition).type != "int32":
        return None

    def one(topic: Any) -> str:
        name = topic_name(_named_by(topic, names))
        held = _read(topic, holder) or ()
        found = held if index is None else [_read(each, index) for each in held[:64]]
        return f"{_word(name, length)}[{ranged(each for each in found if each is not None)}]"

    def make(body: Any) -> Line:
        found = [topic for topic in values(body, path.names) if topic is not None]
        if not found:
            return []
        text = " ".join([one(topic) for topic in found[:2]]) + (f" +{len(found) - 2}" if len(found) > 2 else "")
        return _labelled(path.names[-1], text)

    return make


def _names(path: Path, names: Sequence[str], length: int, topic_name: Named) -> Item:
    """Topics without partitions: the first names."""

    def make(body: Any) -> Line:
        found = [_word(topic_name(_named_by(topic, names)), length) for topic in values(body, path.names) if topic is not None]
        more = f" +{len(found) - _FEW}" if len(found) > _FEW else ""
        return _labelled(path.names[-1], ",".join(found[:_FEW]) + more) if found else []

    return make


def _named_by(topic: Any, names: Sequence[str]) -> str:
    return next((value for value in (_read(topic, name) for name in names) if value and value != _NO_UUID), "?")


def _read(struct: Any, name: str) -> Any:
    """A field's value; None also where a damaged body ended before it, or an older layout has no such field."""
    value = getattr(struct, name, UNSET)
    return None if value is UNSET else value


def ranged(indexes: Iterable[int]) -> str:
    """`0-3,7`; what is too long ends with `…`."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        elif len(runs) == 4:
            return ",".join(_run(run) for run in runs) + ",…"
        else:
            runs.append([index, index])
    return ",".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    return str(run[0]) if run[0] == run[1] else f"{run[0]}-{run[1]}"


def _records(path: Path) -> Item:
    """How many records and their bytes; the bytes alone where batches were not opened."""

    def make(body: Any) -> Line:
        found = [field for field in values(body, path.names) if field is not None]
        total = sum(field.size for field in found)
        if not total:
            return []
        batches = [batch for field in found for batch in getattr(field, "batches", None) or ()]
        count = sum(_count_of(batch) for batch in batches)
        return [("records=", LABEL), (f"{number(count)} ({size(total)})" if batches else size(total), VALUE)]

    return make


def _count_of(batch: Any) -> int:
    """A legacy message has no count of its own."""
    return batch.count if hasattr(batch, "count") else len(batch.records)
