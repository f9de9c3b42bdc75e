"""Log segments as text: a line for each stored record, a tree for each batch, the states that a log replays to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from kshark.output.spans import API, CODE, DIM, ERROR, LABEL, PLAIN, VALUE, WARN, Line, Span
from kshark.output.text_table import Column, table
from kshark.output.tree import Trees
from kshark.segments import SegmentBatch, ShareState
from kshark.segments.replay import STATE_NAMES
from kshark.units import counted, moment, number, safe, shortened, size
from kshark_dissectors.enums import DeliveryState

_MS: Final = 1_000_000
#: Characters of a text in a record's line.
_TEXT: Final = 40
_RANGES: Final = (
    Column("offsets", right=True),
    Column("records", right=True),
    Column("state"),
    Column("delivered", right=True),
)


def record_lines(stored: SegmentBatch) -> Iterator[Line]:
    """Return a line for each record of a batch; of a batch without opened records, one line."""
    weirds: Line = [(f"  {','.join(stored.weird)}", WARN)] if isinstance(stored.weird, list) else []
    records = stored.batch.records
    if not records:
        written = getattr(stored.batch, "max_timestamp", None)
        yield [*_place(stored, stored.batch.base_offset, written), *_batch(stored), *weirds]
    for record in records:
        yield [*_place(stored, record.offset, record.timestamp), *_content(record), *weirds]
        weirds = []


def batch_lines(stored: SegmentBatch, trees: Trees) -> Iterator[Line]:
    """Return a batch with all its fields, and an empty line."""
    yield [(f"byte {stored.position}  ", DIM), (_log(stored) or safe(stored.file), VALUE), ("  ", DIM), *_batch(stored)]
    if isinstance(stored.weird, list):
        detail = f"  {safe(stored.detail)}" if isinstance(stored.detail, str) else ""
        yield [("  " + ", ".join(stored.weird), WARN), (detail, DIM)]
    yield from trees.below(stored.batch, 1)
    yield []


def share_state_lines(states: Sequence[ShareState], width: int | None) -> Iterator[Line]:
    """Return a table for each share partition, then their number."""
    for state in states:
        yield _head(state)
        if state.batches:
            yield from table(_RANGES, [_range(*kept) for kept in state.batches], width, indent=2)
        yield []
    if states:
        yield [(f"{counted(len(states), 'share partition')} by the log alone", API)]
    else:
        yield [("the segments hold no state of share partitions (it is in __share_group_state)", PLAIN)]


def _head(state: ShareState) -> Line:
    line: Line = [(f"{safe(state.group_id)} · {safe(state.topic_id)}[{state.partition}]", VALUE)]
    if state.deleted:
        return [*line, ("  deleted", WARN), (f"  {state.log}, offset {state.last_at}", DIM)]
    for label, content in (
        ("start offset", state.start_offset),
        ("state epoch", state.state_epoch),
        ("leader epoch", state.leader_epoch),
        ("snapshot epoch", state.snapshot_epoch),
    ):
        line += [(f"  {label} ", LABEL), ("?" if content is None else str(content), VALUE)]
    since = (
        "its snapshot is in an earlier segment"
        if state.snapshot_at is None
        else f"snapshot at offset {state.snapshot_at}"
    )
    return [*line, (f"  {state.log}: {since}, {counted(state.updates, 'update')} up to offset {state.last_at}", DIM)]


def _range(first: int, last: int, state: int, delivered: int) -> list[Line | str]:
    return [
        str(first) if first == last else f"{first}-{last}",
        number(last - first + 1),
        [_state(state)],
        f"×{delivered}",
    ]


def _state(state: int) -> Span:
    if state not in STATE_NAMES:
        return f"state {state}", WARN
    return STATE_NAMES[state], ERROR if state == DeliveryState.ARCHIVED else VALUE


def _log(stored: SegmentBatch) -> str:
    if stored.topic is None:
        return ""
    return safe(stored.topic) if stored.partition is None else f"{safe(stored.topic)}-{stored.partition}"


def _place(stored: SegmentBatch, offset: int, timestamp: Any) -> Line:
    time = moment(timestamp * _MS) if isinstance(timestamp, int) and timestamp >= 0 else "no time"
    return [(f"{_log(stored)} {offset:>8} ".lstrip(), DIM), (f"{time}  ", DIM)]


def _batch(stored: SegmentBatch) -> Line:
    batch = stored.batch
    last, count = getattr(batch, "last_offset_delta", None), getattr(batch, "count", len(batch.records))
    offsets = f"offsets {batch.base_offset} to {batch.base_offset + last}" if last else f"offset {batch.base_offset}"
    producer = getattr(batch, "producer_id", -1)
    parts = [counted(count, "record"), f"magic {batch.magic}", size(batch.size), getattr(batch, "codec", "none")]
    parts += [f"producer {producer} epoch {getattr(batch, 'producer_epoch', -1)}"] if producer >= 0 else []
    parts += [word for word in ("transactional", "control") if getattr(batch, word, False)]
    return [(offsets, API), (f"  {', '.join(parts)}", PLAIN)]


def _content(record: Any) -> Line:
    if record.control is not UNSET:
        epoch = record.control.coordinator_epoch
        of = "" if epoch is UNSET else f", coordinator epoch {epoch}"
        return [(f"control record {record.control.type}{of}", CODE)]
    key, value = getattr(record, "key_decoded", UNSET), getattr(record, "value_decoded", UNSET)
    if not isinstance(key, dict) and not isinstance(value, dict):
        return [(f"key {_size(record, 'key')}, value {_size(record, 'value')}", PLAIN)]
    name = next((part["name"] for part in (key, value) if isinstance(part, dict) and "name" in part), "unknown type")
    line: Line = [(name.removesuffix("Key").removesuffix("Value"), API)]
    line += _fields(key)
    if getattr(record, "value", None) is None:
        return [*line, ("  tombstone", WARN)]
    fields = _fields(value)
    return [*line, ("  →", DIM), *fields] if fields else line


def _size(record: Any, part: str) -> str:
    content = getattr(record, part, UNSET)
    length = getattr(record, f"{part}_size", None) if content is UNSET else content and len(content)
    return "null" if length is None else size(len(content) if isinstance(content, bytes) else length)


def _fields(structure: Any) -> Line:
    """Return the fields of a decoded structure: `group=billing partition=1`."""
    data = structure.get("data") if isinstance(structure, dict) else None
    if not isinstance(data, Mapping):
        return [("  not decoded", WARN)] if structure is not UNSET else []
    line: Line = []
    for name, content in data.items():
        if not name.endswith("_decoded"):
            line += [(f" {name}=", LABEL), (_shown(content), VALUE)]
    return line


def _shown(content: Any) -> str:
    if content is None or isinstance(content, bool):
        return {None: "null", True: "true", False: "false"}[content]
    if isinstance(content, bytes | bytearray | memoryview):
        return size(len(content))
    if isinstance(content, Mapping):
        return "{…}"
    if isinstance(content, Iterable) and not isinstance(content, str):
        return _list([*content])
    return shortened(str(content), _TEXT)


def _list(elements: list[Any]) -> str:
    """Return an array: ranges of offsets and short lists in full, of others the number."""
    if elements and all(isinstance(element, Mapping) and "first_offset" in element for element in elements):
        shown = [f"{element['first_offset']}-{element['last_offset']}" for element in elements[:4]]
    elif len(elements) <= 4 and not any(isinstance(element, Mapping | list) for element in elements):
        shown = [_shown(element) for element in elements]
    else:
        return f"[{len(elements)}]"
    return f"[{', '.join(shown)}{f', … {len(elements)}' if len(elements) > len(shown) else ''}]"
