"""What happened to records of share partitions, and what they are in, as they are listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kshark import limits
from kshark.analysis.states.partition.records_in_flight import Piece
from kshark.analysis.states.partition.share_partition import Change, SharePartition
from kshark.analysis.states.tables.in_flight import ACQUIRED, UNKNOWN

Offsets = tuple[int, int]


class InFlightRange(msgspec.Struct, gc=False):
    """Records in one state; `delivery_count` and `member_id` (who has them acquired) null where they are not known, or
    nobody has."""

    first_offset: int
    last_offset: int
    state: str
    delivery_count: int | None
    member_id: str | None


class Delivery(msgspec.Struct, gc=False, omit_defaults=True):
    """One change of a share partition; its fields, in this order, are the JSON line (`kshark deliveries -T json`).

    `event`: acquired, accepted, released, rejected, gap, renewed, lock_timeout, session_released, leader_changed,
    offset_reset; `offsets` are the ranges that it happened to. `start_offset` is null where the capture does not tell
    it; `end_offset` is the next offset to acquire. `ranges` are the records from the start offset on, as they are
    afterwards, limits.LISTED_RANGES at most; where that are not all, `more_ranges` says how many are not listed."""

    group_id: str | None
    topic_id: str
    topic: str | None
    partition: int
    packet: int
    time_ns: int
    event: str
    member_id: str | None
    start_offset: int | None
    end_offset: int | None
    ranges: list[InFlightRange]
    offsets: list[Offsets]
    client_id: str | None
    client: str | None
    more_ranges: int = 0

    def has(self, offset: int) -> bool:
        """Whether it happened to that record."""
        return any(first <= offset <= last for first, last in self.offsets)


class InFlightState(msgspec.Struct, gc=False):
    """A share partition at a moment; its fields, in this order, are the JSON line (`kshark deliveries --at`)."""

    group_id: str | None
    topic_id: str
    topic: str | None
    partition: int
    start_offset: int | None
    end_offset: int | None
    ranges: list[InFlightRange]


class Holder(msgspec.Struct, gc=False):
    """A member that has records acquired; its fields, in this order, are the JSON line (`kshark deliveries --holders`).

    `since_ns` is when it acquired the first of them, `until_ns` when the last lock runs out; `blocks_start`: the start
    offset waits for it."""

    group_id: str | None
    topic_id: str
    topic: str | None
    partition: int
    member_id: str | None
    client_id: str | None
    client: str
    records: int
    offsets: list[Offsets]
    since_ns: int
    until_ns: int
    blocks_start: bool


class DeliveryLog:
    """Changes as they are listed: what happens to several ranges with one exchange is one change. `change` is told them
    by an Analyzer.

    `offset`: changes of that record are listed with all ranges.
    """

    def __init__(self, offset: int | None = None) -> None:
        self._told: list[Delivery] = []
        self._offset = offset

    def change(self, change: Change) -> None:
        offsets, partition = (change.first, change.last), change.partition
        topic_id, number = partition.partition
        for one in reversed(self._told):
            if one.packet != change.packet or one.member_id != change.member_id:
                break
            if (one.event, one.group_id, one.topic_id, one.partition) == (
                change.event,
                partition.group_id,
                topic_id,
                number,
            ):
                one.offsets.append(offsets)
                one.start_offset, one.end_offset = partition.start, partition.end
                one.ranges, one.more_ranges = self._ranges(change, one.offsets)
                return
        step = change.step
        client_id, client = (None, None) if step is None else (step.client_id, step.connection.client)
        ranges, more = self._ranges(change, [offsets])
        self._told.append(
            Delivery(
                group_id=partition.group_id,
                topic_id=topic_id,
                topic=None,
                partition=number,
                packet=change.packet,
                time_ns=change.time_ns,
                event=change.event,
                member_id=change.member_id,
                start_offset=partition.start,
                end_offset=partition.end,
                ranges=ranges,
                offsets=[offsets],
                client_id=client_id,
                client=client,
                more_ranges=more,
            )
        )

    def _ranges(self, change: Change, offsets: Iterable[Offsets]) -> tuple[list[InFlightRange], int]:
        """Those that are listed, and how many more there are."""
        is_asked = self._offset is not None and any(first <= self._offset <= last for first, last in offsets)
        most = None if is_asked else limits.LISTED_RANGES
        pieces = _pieces(change.partition, change.time_ns, most)
        more = change.partition.records.count_from(pieces[-1].last + 1) if pieces else 0
        return [*_joined(pieces)], more

    def since(self) -> list[Delivery]:
        """Since the last time."""
        told, self._told = self._told, []
        return told


def state_of(partition: SharePartition, now_ns: int) -> InFlightState:
    """What its records are in at that time."""
    topic_id, number = partition.partition
    ranges = [*_joined(_pieces(partition, now_ns))]
    return InFlightState(partition.group_id, topic_id, None, number, partition.start, partition.end, ranges)


def holders_of(partition: SharePartition, now_ns: int) -> list[Holder]:
    """Who has records of it acquired at that time, for certain."""
    found: dict[str | None, Holder] = {}
    topic_id, number = partition.partition
    for piece in _pieces(partition, now_ns):
        record, *others = piece.value
        hold = record.hold
        if others or record.stage is not ACQUIRED or hold is None:
            continue
        step = hold.step
        holder = found.get(step.member_id)
        if holder is None:
            who = step.member_id, step.client_id, step.connection.client
            holder = Holder(partition.group_id, topic_id, None, number, *who, 0, [], step.end_ns, hold.late_ns, False)
            found[step.member_id] = holder
        holder.records += piece.size
        holder.offsets.append((piece.first, piece.last))
        holder.since_ns, holder.until_ns = min(holder.since_ns, step.end_ns), max(holder.until_ns, hold.late_ns)
        holder.blocks_start = holder.blocks_start or piece.first == partition.start
    return [*found.values()]


def _pieces(partition: SharePartition, now_ns: int, most: int | None = None) -> list[Piece]:
    """Records from the start offset on: all, or so many ranges."""
    records = partition.records
    first = records.first if partition.start is None else partition.start
    if first is None:
        return []
    pieces = records.ranges_from(first, len(records) if most is None else most)
    return [partition.between(piece, now_ns, now_ns) for piece in pieces]


def _joined(pieces: Iterable[Piece]) -> Iterator[InFlightRange]:
    """They as they are listed: neighbours that are alike are one range."""
    before: InFlightRange | None = None
    for piece in pieces:
        told = _range(piece)
        if before is not None and before.last_offset + 1 == told.first_offset and _same(before, told):
            before.last_offset = told.last_offset
            continue
        if before is not None:
            yield before
        before = told
    if before is not None:
        yield before


def _range(piece: Piece) -> InFlightRange:
    stages = {one.stage for one in piece.value}
    counts = {one.count for one in piece.value}
    stage = stages.pop() if len(stages) == 1 else UNKNOWN
    hold = piece.value[0].hold
    member_id = hold.step.member_id if stage is ACQUIRED and hold is not None else None
    return InFlightRange(piece.first, piece.last, stage, counts.pop() if len(counts) == 1 else None, member_id)


def _same(one: InFlightRange, two: InFlightRange) -> bool:
    return (one.state, one.delivery_count, one.member_id) == (two.state, two.delivery_count, two.member_id)
