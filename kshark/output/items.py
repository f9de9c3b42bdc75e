"""What a summary can say of a body: errors by name, values, topics with their partitions, counts. Each is made once for a layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark.codec import DECODED
from kshark.output.enumerations import name_of, named
from kshark.output.reach import Reach
from kshark.output.spans import ERROR, LABEL, VALUE, Line, spaced
from kshark.output.units import number, shortened, size
from kshark.paths import Path, values

#: What of a body is said, None where it does not say it.
Text = Callable[[Any], str | None]
#: A word of a body, printable and not too long.
Word = Callable[[str], str]
#: A topic's name by its id; whatever else it is given it gives back.
Named = Callable[[str], str]

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
#: Partitions of a topic that are looked at; ranges of more are cut anyway.
_MANY: Final = 64
#: Words kept, most of which come again and again.
_WORDS: Final = 1024


class Item(NamedTuple):
    """Something a body may say: a label, and the text behind it."""

    label: str
    style: str
    text: Text
    #: The same as spans, where there are labels inside the text.
    line: Callable[[Any], Line] | None = None


def text_of(items: Iterable[Item], body: Any) -> str:
    """Everything said, a space before each."""
    return "".join([f" {label}{said}" for label, _, text, _ in items if (said := text(body)) is not None])


def line_of(items: Iterable[Item], body: Any) -> Line:
    """The same as spans, a space between."""
    return spaced(line for line in (_spans(item, body) for item in items) if line)


def _spans(item: Item, body: Any) -> Line:
    if item.line is not None:
        return item.line(body)
    text = item.text(body)
    if text is None:
        return []
    return [(item.label, LABEL), (text, item.style)] if item.label else [(text, item.style)]


def _labelled(name: str, text: Text) -> Item:
    label = _LABELS.get(name, name.removesuffix("_id"))
    return Item(label + "=" if label else "", VALUE, text)


def words(length: int) -> Word:
    """Makes words of at most that length; in quotes what would read as two."""

    @lru_cache(_WORDS)
    def word(text: str) -> str:
        text = shortened(text, length)
        return f'"{text}"' if " " in text or "=" in text else text

    return word


def errors(reach: Reach, codes: Sequence[Path]) -> Item:
    """The error codes by name, those that occur most first."""
    every = [(reach.every(code.names, true=True), code.field) for code in codes]

    def text(body: Any) -> str | None:
        found = [named(code, field) for read, field in every for code in read(body)]
        return _counted(found) if found else None

    return Item("", ERROR, text)


def _counted(names: list[str]) -> str:
    found = Counter(names)
    shown = [name + (f" ×{times}" if times > 1 else "") for name, times in found.most_common(_FEW)]
    if len(found) > _FEW:
        shown.append(f"and {len(found) - _FEW} more")
    return ", ".join(shown)


def whole(path: Path) -> Item:
    """The message that bytes hold, where they hold one: `CreateTopics v7`."""
    held = (*path.names[:-1], path.names[-1] + DECODED)

    def text(body: Any) -> str | None:
        return next((f"{each['api']} v{each['version']}" for each in values(body, held) if isinstance(each, dict) and "api" in each), None)

    return Item("", VALUE, text)


def message(reach: Reach, path: Path) -> Item:
    """What a broker says about an error, in quotes."""
    read = reach.one(path.names)

    def text(body: Any) -> str | None:
        value = read(body)
        return f'"{shortened(value, 80)}"' if value else None

    return Item("", ERROR, text)


def scalar(reach: Reach, path: Path, word: Word) -> Item:
    """A value; negative ones only where they mean something."""
    name, field = path.names[-1], path.field
    read = reach.one(path.names)
    keep_negative = name.endswith("epoch") or name == "acks"

    def text(body: Any) -> str | None:
        value = read(body)
        if type(value) is str:
            return word(value) if value and value != _NO_UUID else None
        if value is None or value is UNSET:
            return None
        if field.enum is not None and (member := name_of(value, field)):
            return member
        return str(value) if keep_negative or value >= 0 else None

    return _labelled(name, text)


def few(reach: Reach, path: Path, word: Word) -> Item:
    """An array of plain values: few strings are shown, many are counted."""
    read = reach.every(path.names)

    def text(body: Any) -> str | None:
        found = read(body)
        if not found or found == [None]:
            return None
        if len(found) > _FEW or not all(isinstance(value, str) for value in found):
            return str(found[0]) if len(found) == 1 else number(len(found))
        return ",".join([word(value) for value in found])

    return _labelled(path.names[-1], text)


def covered(reach: Reach, path: Path) -> Item:
    """Ranges of offsets by the records they cover."""
    every, inside = reach.every(path.names), reach.inside(path)
    first_of, last_of = inside.one(("first_offset",)), inside.one(("last_offset",))

    def text(body: Any) -> str | None:
        count = 0
        for each in every(body):
            first, last = first_of(each), last_of(each)
            if type(first) is int and type(last) is int and first <= last:
                count += last - first + 1
        return number(count) if count else None

    return _labelled(path.names[-1], text)


def elements(reach: Reach, path: Path, told: Sequence[Path], word: Word) -> Item:
    """An array of structures outside others: a single one by those of its fields that tell something, else how many they are."""
    every, inside = reach.every(path.names), reach.inside(path)
    items = [scalar(inside, each, word) for each in told]
    label = path.names[-1] + "="

    def text(body: Any) -> str | None:
        found = every(body)
        if len(found) == 1 and items:
            return text_of(items, found[0])[1:] or None
        return label + number(len(found)) if found else None

    def line(body: Any) -> Line:
        found = every(body)
        if len(found) == 1 and items:
            return line_of(items, found[0])
        return [(label, LABEL), (number(len(found)), VALUE)] if found else []

    return Item("", VALUE, text, line)


def is_partitions(path: Path) -> bool:
    """Whether that is an array of a topic's partitions."""
    return path.names[-1] in _PARTITIONS and len(path.names) > 1


def topics(reach: Reach, path: Path, topic_name: Named, word: Word) -> Item | None:
    """`orders[0-3,7] +2`: the first topics with their partitions, and how many more; None where elements are no topics."""
    inner = [field.name for field in path.type.in_wire_order(reach.version)]
    names = [name for name in _TOPIC if name in inner]
    holder = next((name for name in _PARTITIONS if name in inner), None)
    if not names or (holder is None and len(inner) > len(names)):
        return None
    every, inside = reach.every(path.names), reach.inside(path)
    named_by = _named_by(inside, names)
    if holder is None:
        return _names(path, every, lambda topic: word(topic_name(named_by(topic))))
    partition = next(field for field in path.type.fields if field.name == holder)
    index = next((f.name for f in (partition.element or partition).fields if f.name in _PARTITION), None)
    if index is None and (partition.element or partition).type != "int32":
        return None
    indexes = inside.every((holder,) if index is None else (holder, index))

    def one(topic: Any) -> str:
        found = indexes(topic)
        return f"{word(topic_name(named_by(topic)))}[{found[0] if len(found) == 1 else ranged(found[:_MANY])}]"

    def text(body: Any) -> str | None:
        found = every(body)
        if len(found) < 2:
            return one(found[0]) if found else None
        return f"{one(found[0])} {one(found[1])}" + (f" +{len(found) - 2}" if len(found) > 2 else "")

    return _labelled(path.names[-1], text)


def _names(path: Path, every: Callable[[Any], list[Any]], name: Callable[[Any], str]) -> Item:
    """Topics without partitions: the first names."""

    def text(body: Any) -> str | None:
        found = every(body)
        if not found:
            return None
        return ",".join([name(topic) for topic in found[:_FEW]]) + (f" +{len(found) - _FEW}" if len(found) > _FEW else "")

    return _labelled(path.names[-1], text)


def _named_by(reach: Reach, names: Sequence[str]) -> Callable[[Any], str]:
    """The first of these fields that has something."""
    readers = [reach.one((name,)) for name in names]

    def name(topic: Any) -> str:
        for read in readers:
            value: str = read(topic)
            if value and value != _NO_UUID:
                return value
        return "?"

    return name


def ranged(indexes: Iterable[int]) -> str:
    """`0-3,7`; what is too long ends with `…`."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        elif len(runs) == 4:
            return ",".join(_runs(runs)) + ",…"
        else:
            runs.append([index, index])
    return ",".join(_runs(runs))


def _runs(runs: list[list[int]]) -> Iterator[str]:
    return (str(first) if first == last else f"{first}-{last}" for first, last in runs)


def records(reach: Reach, path: Path) -> Item:
    """How many records and their bytes; the bytes alone where batches were not opened."""
    every = reach.every(path.names)

    def text(body: Any) -> str | None:
        total = count = 0
        opened = False
        for field in every(body):
            if field is None:
                continue
            total += field.size
            for batch in field.batches or ():
                opened = True
                count += _count_of(batch)
        if not total:
            return None
        return f"{number(count)} ({size(total)})" if opened else size(total)

    return Item("records=", VALUE, text)


def _count_of(batch: Any) -> int:
    """A legacy message has no count of its own."""
    count: int = batch.count if hasattr(batch, "count") else len(batch.records)
    return count
