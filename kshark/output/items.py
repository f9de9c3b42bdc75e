"""Parts of a body's one-line summary: errors by name, values, topics with their partitions, counts.

Each part is built once per layout.
"""

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
from kshark.units import number, shortened, size

#: A function that makes a string printable and limits its length.
Word = Callable[[str], str]
#: A function that returns the text for a topic's name or id.
Named = Callable[[str], str]

#: Labels that are shorter than the field's name; from other names only `_id` is removed.
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
#: Most partitions of a topic that are read; the text of more would be cut anyway.
_MANY: Final = 64
#: Cached words, and cached values of a field: most of them repeat.
_WORDS: Final = 512
_VALUES: Final = 64


class Item(NamedTuple):
    """One part of the summary.

    `text` returns it after a space and its label; empty if the body has no such value.
    """

    label: str
    style: str
    text: Callable[[Any], str]
    #: The text with styles, if it contains labels.
    line: Callable[[Any], Line] | None = None


def line_of(items: Iterable[Item], body: Any) -> Line:
    """Return the items' texts as spans, separated by spaces."""
    return spaced(line for line in (_spans(item, body) for item in items) if line)


def _spans(item: Item, body: Any) -> Line:
    if item.line is not None:
        return item.line(body)
    text = item.text(body)
    if not text:
        return []
    value = text.removeprefix(f" {item.label}")
    return [(item.label, LABEL), (value, item.style)] if item.label else [(value, item.style)]


def _label(name: str) -> str:
    label = _LABELS.get(name, name.removesuffix("_id"))
    return label + "=" if label else ""


def words(length: int) -> Word:
    """Return a function that makes printable words of at most that length; in quotes if they contain a space or `=`."""

    @lru_cache(_WORDS)
    def word(text: str) -> str:
        text = shortened(text, length)
        return f'"{text}"' if " " in text or "=" in text else text

    return word


def errors(reach: Reach, codes: Sequence[Path]) -> Item:
    """Return an item with the names of error codes, the most frequent first."""
    checks = reach.beside(codes)

    def text(body: Any) -> str:
        for check in checks:
            if check(body):
                return f" {_counted(codes, body)}"
        return ""

    return Item("", ERROR, text)


def _counted(codes: Sequence[Path], body: Any) -> str:
    counts = Counter(named(code, path.field) for path in codes for code in values(body, path.names) if code)
    shown = [name + (f" ×{times}" if times > 1 else "") for name, times in counts.most_common(_FEW)]
    if len(counts) > _FEW:
        shown.append(f"and {len(counts) - _FEW} more")
    return ", ".join(shown)


def whole(path: Path) -> Item:
    """Return an item with the message inside bytes, if there is one: `CreateTopics v7`."""
    decoded_names = (*path.names[:-1], path.names[-1] + DECODED)

    def text(body: Any) -> str:
        return next(
            (
                f" {decoded['api']} v{decoded['version']}"
                for decoded in values(body, decoded_names)
                if isinstance(decoded, dict) and "api" in decoded
            ),
            "",
        )

    return Item("", VALUE, text)


def message(reach: Reach, path: Path) -> Item:
    """Return an item with the broker's error message, in quotes."""
    read = reach.first_value(path.names)

    def text(body: Any) -> str:
        value = read(body)
        return f' "{shortened(value, 80)}"' if value else ""

    return Item("", ERROR, text)


def scalar(reach: Reach, path: Path, word: Word) -> Item:
    """Return an item with a value; negative values only if they have a meaning."""
    field, label = path.field, _label(path.names[-1])
    read, prefix = reach.first_value(path.names), f" {label}"
    keep_negative = path.names[-1].endswith("epoch") or path.names[-1] == "acks"

    @lru_cache(_VALUES)
    def formatted(value: Any) -> str:
        if value is None or value is UNSET:
            return ""
        if isinstance(value, str):
            return prefix + word(value) if value and value != _NO_UUID else ""
        if field.enum is not None and (member := name_of(value, field)):
            return prefix + member
        return f"{prefix}{value}" if keep_negative or value >= 0 else ""

    return Item(label, VALUE, lambda body: formatted(read(body)))


def attribute(name: str, word: Word) -> Item:
    """Return an item with a text attribute of the message."""
    label, read = _label(name), attrgetter(name)

    def text(message: Any) -> str:
        value = read(message)
        return f" {label}{word(value)}" if value else ""

    return Item(label, VALUE, text)


def few(reach: Reach, path: Path, word: Word) -> Item:
    """Return an item for an array of scalar values: a few strings are listed, more are counted."""
    read, label = reach.every(path.names), _label(path.names[-1])

    def shown(elements_: Sequence[Any]) -> str:
        if len(elements_) > _FEW or not all(isinstance(value, str) for value in elements_):
            return str(elements_[0]) if len(elements_) == 1 else number(len(elements_))
        return ",".join([word(value) for value in elements_])

    def text(body: Any) -> str:
        elements_ = read(body)
        return f" {label}{shown(elements_)}" if elements_ and elements_ != [None] else ""

    return Item(label, VALUE, text)


def covered(reach: Reach, path: Path) -> Item:
    """Return an item with the number of records in ranges of offsets."""
    ranges, label = reach.rows(path.names, ("first_offset", "last_offset")), _label(path.names[-1])

    def text(body: Any) -> str:
        count = 0
        for first, last in ranges(body):
            if first is not UNSET and last is not UNSET and first <= last:
                count += last - first + 1
        return f" {label}{number(count)}" if count else ""

    return Item(label, VALUE, text)


def elements(reach: Reach, path: Path, fields: Sequence[Path], word: Word) -> Item:
    """Return an item for an array of structures: the important fields of a single one; more are counted."""
    every, inside = reach.every(path.names), reach.inside(path)
    items = [scalar(inside, field, word) for field in fields]
    label = path.names[-1] + "="

    def text(body: Any) -> str:
        elements_ = every(body)
        if len(elements_) == 1 and items:
            return "".join([item.text(elements_[0]) for item in items])
        return f" {label}{number(len(elements_))}" if elements_ else ""

    def line(body: Any) -> Line:
        elements_ = every(body)
        if len(elements_) == 1 and items:
            return line_of(items, elements_[0])
        return [(label, LABEL), (number(len(elements_)), VALUE)] if elements_ else []

    return Item("", VALUE, text, line)


def is_partitions(path: Path) -> bool:
    """True if an array contains a topic's partitions."""
    return path.names[-1] in _PARTITIONS and len(path.names) > 1


def topics(reach: Reach, path: Path, shown: Named) -> Item | None:
    """Return an item with the first topics and their partitions, and the number of others: `orders[0-3,7] +2`.

    None if the elements are not topics.
    """
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

    def topic_text(topic: Any) -> str:
        elements_ = indexes(topic)
        return f"{shown(name_in(topic))}[{elements_[0] if len(elements_) == 1 else ranged(elements_[:_MANY])}]"

    def text(body: Any) -> str:
        elements_ = every(body)
        if len(elements_) < 2:
            return f" {label}{topic_text(elements_[0])}" if elements_ else ""
        return f" {label}{topic_text(elements_[0])} {topic_text(elements_[1])}" + (
            f" +{len(elements_) - 2}" if len(elements_) > 2 else ""
        )

    return Item(label, VALUE, text)


def _names(label: str, every: Callable[[Any], Sequence[Any]], name: Callable[[Any], str]) -> Item:
    """Return an item for topics without partitions: the first few names."""

    def text(body: Any) -> str:
        topics_ = every(body)
        if not topics_:
            return ""
        rest = f" +{len(topics_) - _FEW}" if len(topics_) > _FEW else ""
        return f" {label}{','.join([name(topic) for topic in topics_[:_FEW]])}{rest}"

    return Item(label, VALUE, text)


def _named_by(reach: Reach, names: Sequence[str]) -> Callable[[Any], str]:
    """Return a function that returns the first of these fields with a value."""
    readers = [reach.first_value((name,)) for name in names]

    def name(topic: Any) -> str:
        for read in readers:
            value: str = read(topic)
            if value and value != _NO_UUID:
                return value
        return "?"

    return name


def ranged(indexes: Iterable[int]) -> str:
    """Return `0-3,7`; a long list ends with `…`."""
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
    """Return an item with the number of records and their bytes; only the bytes if batches were not opened."""
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
    """Return the number of records; a legacy message has no count of its own."""
    count: int = batch.count if hasattr(batch, "count") else len(batch.records)
    return count
