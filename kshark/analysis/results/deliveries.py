"""Changes of share partitions' records, and their states, as they are listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.transactions import OpenTransaction
from kshark.analysis.states.partition.records_in_flight import May, Piece, is_done
from kshark.analysis.states.partition.share_partition import Change, SharePartition
from kshark.analysis.states.tables.in_flight import ACQUIRED, UNKNOWN
from kshark.model import Shown
from kshark.offset_ranges import OffsetRanges

Offsets = tuple[int, int]


class InFlightRange(msgspec.Struct, gc=False):
    """Records in one state. `delivery_count` is null if unknown; `member_id`, the member that has them acquired, is
    null if unknown or none."""

    first_offset: int
    last_offset: int
    state: str
    delivery_count: int | None
    member_id: str | None


class StoredBatch(msgspec.Struct, gc=False):
    """Records in one state, as a leader stores them."""

    first_offset: int
    last_offset: int
    state: str
    delivery_count: int


class StoredWrite(msgspec.Struct, gc=False):
    """A WriteShareGroupState for one share partition; a leader only writes what changed.

    `leader`: the address of its connection. `error_code`, `answer_packet`: null without a readable answer.
    `delivery_complete_count`: ended records above the start offset; null before version 1, or if it is unknown."""

    packet: int
    time_ns: int
    answer_packet: int | None
    error_code: int | None
    leader: str
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int | None
    batches: list[StoredBatch]


class Delivery(Shown, gc=False, omit_defaults=True):
    """One change of a share partition; its fields, in this order, are the JSON line (`kshark deliveries -T json`).

    `event`: acquired, accepted, released, rejected, gap, renewed, lock_timeout, session_released, leader_changed,
    offset_reset. `offsets` are the changed ranges. `start_offset` is null if the capture does not show it. `end_offset`
    is the next offset to acquire. `ranges` are the records from the start offset on, after the change, at most
    limits.LISTED_RANGES; `more_ranges` is the number of ranges that are not listed. `cluster_id`: null if no Metadata
    shows it. `start_source`, `start_packet` and `start_least`: see kshark.analysis.ShownStart. `stored`: the writes of
    the leader that store the change, as far as the capture has them."""

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
    cluster_id: str | None = None
    start_source: str | None = None
    start_packet: int | None = None
    start_least: int | None = None
    stored: list[StoredWrite] = msgspec.field(default_factory=list)

    def has(self, offset: int) -> bool:
        """True if the record changed."""
        return any(first <= offset <= last for first, last in self.offsets)

    def __repr__(self) -> str:
        changed = ",".join(f"{first}-{last}" for first, last in self.offsets)
        partition = f"{self.topic or self.topic_id}-{self.partition}"
        return f"<Delivery {self.event} {changed}, {partition!r}, group {self.group_id!r}, packet {self.packet}>"


class InFlightState(msgspec.Struct, gc=False):
    """A share partition at one time; its fields, in this order, are the JSON line (`kshark deliveries --at`)."""

    group_id: str | None
    topic_id: str
    topic: str | None
    partition: int
    start_offset: int | None
    end_offset: int | None
    ranges: list[InFlightRange]
    cluster_id: str | None
    start_source: str | None
    start_packet: int | None
    start_least: int | None


class Holder(msgspec.Struct, gc=False):
    """A member that has records acquired; its fields, in this order, are the JSON line (`kshark deliveries --holders`).

    `since_ns`: when it acquired the first of them. `until_ns`: when the last lock expires. `blocks_start`: the start
    offset waits for one of these records."""

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
    cluster_id: str | None


class WaitingGroup(msgspec.Struct, gc=False):
    """A share group that has come to an open transaction, which records after it wait for; its fields, in this order,
    are the JSON line (`kshark deliveries --holders`).

    `offset`: the first one of the transaction. `transactional_id`, `client_id`: null if unknown; `client`: the
    producer's host. `since_ns`, `packet`: the answer to the first Produce of the transaction. `timeout_ms`: the
    transaction's, null if its InitProducerId is not in the capture. `isolation_level`: the group's
    share.isolation.level, null if the capture does not show it: with read_uncommitted it does not wait."""

    group_id: str | None
    topic_id: str
    topic: str | None
    partition: int
    offset: int
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    client_id: str | None
    client: str
    since_ns: int
    packet: int
    timeout_ms: int | None
    isolation_level: str | None
    cluster_id: str | None

    @property
    def producer_named(self) -> str:
        """`producer 7 (transactional id tx, client c1, 10.0.0.1)`."""
        names = [f"transactional id {self.transactional_id}"] if self.transactional_id else []
        names += [f"client {self.client_id}"] if self.client_id else []
        return f"producer {self.producer_id} ({', '.join([*names, self.client])})"


class HeldRange(Struct, frozen=True):
    """Records that a member has acquired. `until_ns`: the earliest time at which their lock may expire."""

    member_id: str | None
    first_offset: int
    last_offset: int
    delivery_count: int | None
    since_ns: int
    until_ns: int

    @property
    def records(self) -> int:
        return self.last_offset - self.first_offset + 1


class Extent(Struct, frozen=True):
    """The records in flight of a share partition: from its start offset, None if that is unknown, to the next offset to
    acquire. `cluster`: its number (kshark.clusters). `packet`: the last request for it."""

    group_id: str | None
    cluster: int
    topic_id: str
    partition: int
    start: int | None
    end: int | None
    packet: int
    records: OffsetRanges[May]

    @property
    def ended(self) -> int:
        """Number of records that certainly ended above the start offset: they wait for those before them."""
        if self.start is None or self.end is None:
            return 0
        return sum(piece.size for piece in self.records.over(self.start, self.end - 1) if is_done(piece.value))


def extent_of(partition: SharePartition) -> Extent:
    """Return the extent of a partition's records in flight, without a look at each of them."""
    topic_id, number = partition.partition
    return Extent(
        partition.group_id,
        partition.leader.cluster,
        topic_id,
        number,
        partition.shown_start.offset,
        partition.end,
        partition.seen,
        partition.records,
    )


class DeliveryLog:
    """Collect the changes of an Analyzer (`change`) as they are listed: changes of several ranges by one exchange are
    one Delivery.

    `offset`: list changes of this record with all ranges.
    """

    def __init__(self, offset: int | None = None) -> None:
        self._deliveries: list[Delivery] = []
        self._offset = offset

    def change(self, change: Change) -> None:
        offsets, partition = (change.first, change.last), change.partition
        topic_id, number = partition.partition
        for delivery in reversed(self._deliveries):
            if delivery.packet != change.packet or delivery.member_id != change.member_id:
                break
            if (delivery.event, delivery.group_id, delivery.topic_id, delivery.partition, delivery.cluster_id) == (
                change.event,
                partition.group_id,
                topic_id,
                number,
                partition.leader.cluster_id,
            ):
                delivery.offsets.append(offsets)
                delivery.end_offset = partition.end
                (
                    delivery.start_offset,
                    delivery.start_source,
                    delivery.start_packet,
                    delivery.start_least,
                ) = partition.shown_start
                delivery.ranges, delivery.more_ranges = self._ranges(change, delivery.offsets)
                return
        step = change.step
        client_id, client = (None, None) if step is None else (step.client_id, step.connection.client)
        ranges, unlisted = self._ranges(change, [offsets])
        start = partition.shown_start
        self._deliveries.append(
            Delivery(
                group_id=partition.group_id,
                topic_id=topic_id,
                topic=None,
                partition=number,
                packet=change.packet,
                time_ns=change.time_ns,
                event=change.event,
                member_id=change.member_id,
                start_offset=start.offset,
                end_offset=partition.end,
                ranges=ranges,
                offsets=[offsets],
                client_id=client_id,
                client=client,
                more_ranges=unlisted,
                cluster_id=partition.leader.cluster_id,
                start_source=start.source,
                start_packet=start.packet,
                start_least=start.least,
            )
        )

    def _ranges(self, change: Change, offsets: Iterable[Offsets]) -> tuple[list[InFlightRange], int]:
        """Return the listed ranges, and the number of the others."""
        is_asked = self._offset is not None and any(first <= self._offset <= last for first, last in offsets)
        max_ranges = None if is_asked else limits.LISTED_RANGES
        pieces = _pieces(change.partition, change.time_ns, max_ranges)
        unlisted = change.partition.records.count_from(pieces[-1].last + 1) if pieces else 0
        return [*_joined(pieces)], unlisted

    def since(self) -> list[Delivery]:
        """Return the deliveries since the last call."""
        deliveries, self._deliveries = self._deliveries, []
        return deliveries


def state_of(partition: SharePartition, now_ns: int) -> InFlightState:
    """Return the states of a partition's records at a time."""
    topic_id, number = partition.partition
    ranges = [*_joined(_pieces(partition, now_ns))]
    start = partition.shown_start
    return InFlightState(
        group_id=partition.group_id,
        topic_id=topic_id,
        topic=None,
        partition=number,
        start_offset=start.offset,
        end_offset=partition.end,
        ranges=ranges,
        cluster_id=partition.leader.cluster_id,
        start_source=start.source,
        start_packet=start.packet,
        start_least=start.least,
    )


def holders_of(partition: SharePartition, now_ns: int) -> list[Holder]:
    """Return the members that have records of a partition acquired at a time, for certain."""
    holders: dict[str | None, Holder] = {}
    topic_id, number = partition.partition
    for piece in _pieces(partition, now_ns):
        record, *others = piece.value
        hold = record.hold
        if others or record.stage is not ACQUIRED or hold is None:
            continue
        step = hold.step
        holder = holders.get(step.member_id)
        if holder is None:
            client = step.member_id, step.client_id, step.connection.client
            holder = Holder(
                partition.group_id,
                topic_id,
                None,
                number,
                *client,
                0,
                [],
                step.end_ns,
                hold.late_ns,
                False,
                partition.leader.cluster_id,
            )
            holders[step.member_id] = holder
        holder.records += piece.size
        holder.offsets.append((piece.first, piece.last))
        holder.since_ns, holder.until_ns = min(holder.since_ns, step.end_ns), max(holder.until_ns, hold.late_ns)
        holder.blocks_start = holder.blocks_start or piece.first == partition.start
    return [*holders.values()]


def waiting_of(partition: SharePartition, open_transactions: Iterable[OpenTransaction]) -> WaitingGroup | None:
    """Return the group of a partition if all records before its first open transaction were acquired, or aborted.

    A group that has acquired records of the transaction does not wait: it reads with read_uncommitted.
    """
    first = next((it for it in open_transactions if it.ended is None), None)
    if first is None or partition.next_offset != first.first:
        return None
    topic_id, number = partition.partition
    producer = first.producer
    return WaitingGroup(
        partition.group_id,
        topic_id,
        None,
        number,
        first.first,
        producer.producer_id,
        first.epoch,
        producer.transactional_id,
        producer.client_id,
        producer.host,
        first.time_ns,
        first.packet,
        producer.timeout_ms,
        None,
        partition.leader.cluster_id,
    )


def held_of(partition: SharePartition, now_ns: int) -> list[HeldRange]:
    """Return the ranges of a partition that members have acquired at a time, for certain."""
    held: list[HeldRange] = []
    for piece in _pieces(partition, now_ns):
        record, *others = piece.value
        hold = record.hold
        if others or record.stage is not ACQUIRED or hold is None:
            continue
        held.append(
            HeldRange(hold.step.member_id, piece.first, piece.last, record.count, hold.since.end_ns, hold.early_ns)
        )
    return held


def _pieces(partition: SharePartition, now_ns: int, max_ranges: int | None = None) -> list[Piece]:
    """Return the records from the start offset on: all, or the first `max_ranges` ranges."""
    records = partition.records
    first = records.first if partition.start is None else partition.start
    if first is None:
        return []
    pieces = records.ranges_from(first, len(records) if max_ranges is None else max_ranges)
    return [partition.between(piece, now_ns, now_ns) for piece in pieces]


def _joined(pieces: Iterable[Piece]) -> Iterator[InFlightRange]:
    """Yield the pieces as they are listed; join adjacent ranges with the same state."""
    previous: InFlightRange | None = None
    for piece in pieces:
        listed = _range(piece)
        if previous is not None and previous.last_offset + 1 == listed.first_offset and _same(previous, listed):
            previous.last_offset = listed.last_offset
            continue
        if previous is not None:
            yield previous
        previous = listed
    if previous is not None:
        yield previous


def _range(piece: Piece) -> InFlightRange:
    stages = {record.stage for record in piece.value}
    counts = {record.count for record in piece.value}
    stage = stages.pop() if len(stages) == 1 else UNKNOWN
    hold = piece.value[0].hold
    member_id = hold.step.member_id if stage is ACQUIRED and hold is not None else None
    return InFlightRange(piece.first, piece.last, stage, counts.pop() if len(counts) == 1 else None, member_id)


def _same(first: InFlightRange, second: InFlightRange) -> bool:
    return (first.state, first.delivery_count, first.member_id) == (
        second.state,
        second.delivery_count,
        second.member_id,
    )
