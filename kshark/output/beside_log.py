"""States of share partitions by packets, beside those that the coordinator's log replays to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kshark.analysis import InFlightState
from kshark.output.spans import API, DIM, LABEL, PLAIN, VALUE, WARN, Line
from kshark.segments import ShareState
from kshark.segments.replay import STATE_NAMES
from kshark.units import counted, safe
from kshark_dissectors.enums import DeliveryState

#: Most ranges in a line.
_SHOWN: Final = 8
#: States of records that the start offset passes.
_DONE: Final = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


class BesideLog(msgspec.Struct, gc=False):
    """A share partition by packets and by the log; its fields, in this order, are the JSON line (`kshark deliveries
    --log`). None: not in the capture, or not in the log.
    """

    group_id: str | None
    topic_id: str
    partition: int
    topic: str | None
    by_packets: InFlightState | None
    by_log: ShareState | None


def beside_lines(listed: Sequence[BesideLog]) -> Iterator[Line]:
    """Return three lines for each share partition, then how many start offsets agree."""
    agreeing = differing = 0
    for beside in listed:
        starts = _start_by_packets(beside), _start_by_log(beside)
        agreeing += None not in starts and starts[0] == starts[1]
        differing += None not in starts and starts[0] != starts[1]
        name = safe(beside.topic or beside.topic_id)
        yield [(f"{safe(beside.group_id or 'null')} · {name}[{beside.partition}]", API)]
        yield [("  by packets  ", LABEL), *_by_packets(beside)]
        yield [("  by the log  ", LABEL), *_by_log(beside)]
    if not listed:
        yield [("neither the capture nor the log has a share partition", PLAIN)]
        return
    unknown = len(listed) - agreeing - differing
    yield []
    yield [
        (f"{counted(len(listed), 'share partition')}: start offsets equal in {agreeing}", PLAIN),
        (f", different in {differing}", WARN if differing else PLAIN),
        (f", known from one side only in {unknown}", PLAIN),
    ]


def _start_by_packets(beside: BesideLog) -> int | None:
    return None if beside.by_packets is None else beside.by_packets.start_offset


def _start_by_log(beside: BesideLog) -> int | None:
    """Return the start offset by the log; -1 there means that it is not set yet.

    A leader stores the new states of records together with the start offset before them, so that records from there on
    may be done.
    """
    state = beside.by_log
    start = None if state is None else state.start_offset
    if state is None or start is None or start < 0:
        return None
    for kept in state.batches:
        if kept.first_offset <= start <= kept.last_offset and kept.delivery_state in _DONE:
            start = kept.last_offset + 1
    return start


def _by_packets(beside: BesideLog) -> Line:
    state = beside.by_packets
    if state is None:
        return [("not in the capture", DIM)]
    ranges = [(kept.first_offset, kept.last_offset, kept.state, kept.delivery_count) for kept in state.ranges]
    return [*_start(_start_by_packets(beside)), *_ranges(ranges)]


def _by_log(beside: BesideLog) -> Line:
    state = beside.by_log
    if state is None:
        return [("not in the log", DIM)]
    if state.deleted:
        return [(f"deleted at offset {state.last_at}", WARN)]
    ranges = [
        (kept.first_offset, kept.last_offset, STATE_NAMES.get(kept.delivery_state, "?"), kept.delivery_count)
        for kept in state.batches
    ]
    numbers = (
        f"  state epoch {_text(state.state_epoch)}, leader epoch {_text(state.leader_epoch)}, "
        f"snapshot epoch {_text(state.snapshot_epoch)}, last record at offset {state.last_at}"
    )
    start = _start_by_log(beside)
    stored = "" if start in (None, state.start_offset) else f" (stored {state.start_offset})"
    return [*_start(start), (stored, DIM), *_ranges(ranges), (numbers, DIM)]


def _start(start: int | None) -> Line:
    return [("start offset ", LABEL), (_text(start), VALUE)]


def _text(number: int | None) -> str:
    return "?" if number is None else str(number)


def _ranges(ranges: Sequence[tuple[int, int, str, int | None]]) -> Line:
    shown = ", ".join(_range(*kept) for kept in ranges[:_SHOWN])
    more = f", … {len(ranges) - _SHOWN} more" if len(ranges) > _SHOWN else ""
    return [(f"  {shown}{more}", PLAIN)] if ranges else []


def _range(first: int, last: int, state: str, count: int | None) -> str:
    offsets = str(first) if first == last else f"{first}-{last}"
    return f"{offsets} {state.replace('_', ' ')}{'' if count is None else f' ×{count}'}"
