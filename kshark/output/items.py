"""Parts of a body's one-line summary: errors by name, values, topics with their partitions, counts. Each is built once
per layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark.codec import DECODED
from kshark.codec.paths import Path, values
from kshark.codec.reach import Reach
from kshark.output.enumerations import name_of, named
from kshark.output.spans import ERROR, LABEL, VALUE, Line, spaced
from kshark.output.units import number, shortened, size

#: Makes a string of a body printable and not too long.
Word = Callable[[str], str]
#: The text for a topic, given its name or id.
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
#: So many partitions of a topic are looked at; the text of more would be cut anyway.
_MANY: Final = 64
#: So many words, and values of a field, are kept: most come again and again.
_WORDS: Final = 512
_VALUES: Final = 64


class Item(NamedTuple):
    """One part of the summary: `text` gives it with a space and its label in front; empty if the body has nothing to
    say there."""

    label: str
    style: str
    text: Callable[[Any], str]
    #: The same with styles, if the text has labels inside.
    line: Callable[[Any], Line] | None = None


def line_of(items: Iterable[Item], body: Any) -> Line:
    """The items' texts as spans, separated by spaces."""
    return spaced(line for line in (_spans(item, body) for item in items) if line)


def _spans(item: Item, body: Any) -> Line:
    if item.line is not None:
        return item.line(body)
    text = item.text(body)
    if not text:
        return []
    said = text.removeprefix(f" {item.label}")
    return [(item.label, LABEL), (said, item.style)] if item.label else [(said, item.style)]


def _label(name: str) -> str:
    label = _LABELS.get(name, name.removesuffix("_id"))
    return label + "=" if label else ""


def words(length: int) -> Word:
    """Makes printable words of at most that length; in quotes if they would read as two."""

    @lru_cache(_WORDS)
    def word(text: str) -> str:
        text = shortened(text, length)
        return f'"{text}"' if " " in text or "=" in text else text

    return word


def errors(reach: Reach, codes: Sequence[Path]) -> Item:
    """The error codes by name, the most frequent first."""
    checks = reach.beside(codes)

    def text(body: Any) -> str:
        for check in checks:
            if check(body):
                return f" {_counted(codes, body)}"
        return ""

    return Item("", ERROR, text)


def _counted(codes: Sequence[Path], body: Any) -> str:
    found = Counter(named(code, path.field) for path in codes for code in values(body, path.names) if code)
    shown = [name + (f" ×{times}" if times > 1 else "") for name, times in found.most_common(_FEW)]
    if len(found) > _FEW:
        shown.append(f"and {len(found) - _FEW} more")
    return ", ".join(shown)


def whole(path: Path) -> Item:
    """The message inside bytes, if there is one: `CreateTopics v7`."""
    held = (*path.names[:-1], path.names[-1] + DECODED)

    def text(body: Any) -> str:
        return next(
            (
                f" {each['api']} v{each['version']}"
                for each in values(body, held)
                if isinstance(each, dict) and "api" in each
            ),
            "",
        )

    return Item("", VALUE, text)


def message(reach: Reach, path: Path) -> Item:
    """The broker's error message, in quotes."""
    read = reach.first_value(path.names)

    def text(body: Any) -> str:
        value = read(body)
        return f' "{shortened(value, 80)}"' if value else ""

    return Item("", ERROR, text)


def scalar(reach: Reach, path: Path, word: Word) -> Item:
    """A value; negative ones only if they mean something."""
    field, label = path.field, _label(path.names[-1])
    read, before = reach.first_value(path.names), f" {label}"
    keep_negative = path.names[-1].endswith("epoch") or path.names[-1] == "acks"

    @lru_cache(_VALUES)
    def said(value: Any) -> str:
        if value is None or value is UNSET:
            return ""
        if isinstance(value, str):
            return before + word(value) if value and value != _NO_UUID else ""
        if field.enum is not None and (member := name_of(value, field)):
            return before + member
        return f"{before}{value}" if keep_negative or value >= 0 else ""

    return Item(label, VALUE, lambda body: said(read(body)))


def attribute(name: str, word: Word) -> Item:
    """A text that the message has besides its body."""
    label, read = _label(name), attrgetter(name)

    def text(message: Any) -> str:
        value = read(message)
        return f" {label}{word(value)}" if value else ""

    return Item(label, VALUE, text)


def few(reach: Reach, path: Path, word: Word) -> Item:
    """An array of plain values: a few strings are shown, more are counted."""
    read, label = reach.every(path.names), _label(path.names[-1])

    def shown(found: Sequence[Any]) -> str:
        if len(found) > _FEW or not all(isinstance(value, str) for value in found):
            return str(found[0]) if len(found) == 1 else number(len(found))
        return ",".join([word(value) for value in found])

    def text(body: Any) -> str:
        found = read(body)
        return f" {label}{shown(found)}" if found and found != [None] else ""

    return Item(label, VALUE, text)


def covered(reach: Reach, path: Path) -> Item:
    """Ranges of offsets, as the number of records in them."""
    ranges, label = reach.rows(path.names, ("first_offset", "last_offset")), _label(path.names[-1])

    def text(body: Any) -> str:
        count = 0
        for first, last in ranges(body):
            if first is not UNSET and last is not UNSET and first <= last:
                count += last - first + 1
        return f" {label}{number(count)}" if count else ""

    return Item(label, VALUE, text)


def elements(reach: Reach, path: Path, told: Sequence[Path], word: Word) -> Item:
    """An array of structures: a single one by those fields that say something, more are counted."""
    every, inside = reach.every(path.names), reach.inside(path)
    items = [scalar(inside, each, word) for each in told]
    label = path.names[-1] + "="

    def text(body: Any) -> str:
        found = every(body)
        if len(found) == 1 and items:
            return "".join([item.text(found[0]) for item in items])
        return f" {label}{number(len(found))}" if found else ""

    def line(body: Any) -> Line:
        found = every(body)
        if len(found) == 1 and items:
            return line_of(items, found[0])
        return [(label, LABEL), (number(len(found)), VALUE)] if found else []

    return Item("", VALUE, text, line)


def is_partitions(path: Path) -> bool:
    """Whether an array holds a topic's partitions."""
    return path.names[-1] in _PARTITIONS and len(path.names) > 1


def topics(reach: Reach, path: Path, shown: Named) -> Item | None:
    """`orders[0-3,7] +2`: the first topics with their partitions, and how many more; None if the elements are no
    topics."""
    inner = [field.name for field in path.type.in_wire_order(reach.version)]
    names = [name for name in _TOPIC if name in inner]
    holder = next((name for name in _PARTITIONS if name in inner), None)
    if not names or (holder is None and len(inner) > len(names)):
        return None
    every, inside = reach.every(path.names), reach.inside(path)
    name_in, label = _named_by(inside, names), _label(path.names[-1])
    if holder is None:
        return _names(label, every, lambda topic: shown(name_in(topic)))
    partition = next(field for field in path.type.fields if field.name == holder)
    index = next((f.name for f in (partition.element or partition).fields if f.name in _PARTITION), None)
    if index is None and (partition.element or partition).type != "int32":
        return None
    indexes = inside.every((holder,) if index is None else (holder, index))

    def one(topic: Any) -> str:
        found = indexes(topic)
        return f"{shown(name_in(topic))}[{found[0] if len(found) == 1 else ranged(found[:_MANY])}]"

    def text(body: Any) -> str:
        found = every(body)
        if len(found) < 2:
            return f" {label}{one(found[0])}" if found else ""
        return f" {label}{one(found[0])} {one(found[1])}" + (f" +{len(found) - 2}" if len(found) > 2 else "")

    return Item(label, VALUE, text)


def _names(label: str, every: Callable[[Any], Sequence[Any]], name: Callable[[Any], str]) -> Item:
    """Topics without partitions: the first few names."""

    def text(body: Any) -> str:
        found = every(body)
        if not found:
            return ""
        more = f" +{len(found) - _FEW}" if len(found) > _FEW else ""
        return f" {label}{','.join([name(topic) for topic in found[:_FEW]])}{more}"

    return Item(label, VALUE, text)


def _named_by(reach: Reach, names: Sequence[str]) -> Callable[[Any], str]:
    """The first of these fields that has a value."""
    readers = [reach.first_value((name,)) for name in names]

    def name(topic: Any) -> str:
        for read in readers:
            value: str = read(topic)
            if value and value != _NO_UUID:
                return value
        return "?"

    return name


def ranged(indexes: Iterable[int]) -> str:
    """`0-3,7`; a long one ends with `…`."""
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
    """The number of records and their bytes; only the bytes if batches were not opened."""
    every = reach.every(path.names)

    def text(body: Any) -> str:
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
            return ""
        return f" records={number(count)} ({size(total)})" if opened else f" records={size(total)}"

    return Item("records=", VALUE, text)


def _count_of(batch: Any) -> int:
    """A legacy message has no count of its own."""
    count: int = batch.count if hasattr(batch, "count") else len(batch.records)
    return count
