"""Records in flight as text: a row for each change, tables of states and holders, the history of one record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kshark.analysis import (
    Aborted,
    Delivery,
    Holder,
    InFlightRange,
    InFlightState,
    StoredBatch,
    StoredWrite,
    WaitingGroup,
)
from kshark.error_names import ERROR_NAMES
from kshark.output.spans import API, DIM, ERROR, GOOD, LABEL, PLAIN, VALUE, WARN, Line, Span, folded
from kshark.output.text_table import Cell, Column, cropped, table
from kshark.units import clock, counted, duration, number, safe

if TYPE_CHECKING:
    from kshark.produced import DeadLetter, Produced

#: Cluster id, group, topic id and partition.
_PartitionKey = tuple[str | None, str | None, str, int]
#: Styles of events and states.
_STYLES: Final = {
    "accepted": GOOD, "acknowledged": GOOD, "acquired": VALUE, "released": WARN, "rejected": ERROR, "gap": WARN,
    "lock_timeout": ERROR,
    "session_released": WARN, "leader_changed": WARN, "offset_reset": WARN, "archived": WARN, "unknown": DIM,
}  # fmt: skip
#: Columns of a change that move below its row in a narrow terminal.
_BELOW: Final = Column("records of", elastic=10), Column("in flight afterwards", elastic=20, drop=1)
_INDENT: Final = 8
#: What shows a start offset that the leader has not stored yet.
_SOURCES: Final = {"seen": "records", "aborted": "aborted records", "passed_over": "offsets passed over"}
#: Most ranges in flight in one row.
_SHOWN: Final = 12
_CHANGES: Final = (
    Column("packet", right=True),
    Column("time"),
    _BELOW[0],
    Column("event"),
    Column("by", elastic=8),
    Column("offsets", elastic=8),
    Column("start", right=True),
    Column("from", drop=2),
    Column("end", right=True),
    _BELOW[1],
)
_RANGES: Final = (
    Column("offsets", right=True),
    Column("records", right=True),
    Column("state"),
    Column("delivered", right=True),
    Column("by"),
)
_HOLDERS: Final = (
    Column("records of", elastic=10),
    Column("held by", elastic=10),
    Column("address", drop=2),
    Column("records", right=True),
    Column("offsets", elastic=10),
    Column("since"),
    Column("for", right=True),
    Column("lock", right=True),
    Column("start offset"),
)


def delivery_lines(
    deliveries: Sequence[Delivery], width: int | None, *, offset: int | None = None, apart: int = 0
) -> Iterator[Line]:
    """Return a row for each change, then their number; with `offset` the history of that record.

    `apart`: the number of leaders' writes that are beside none of all changes.
    """
    names, labels = _names(deliveries), _labels(deliveries)
    if deliveries:
        stored = [[_stored(write) for write in delivery.stored] for delivery in deliveries]
        yield from _changes([_change(delivery, names, labels, offset) for delivery in deliveries], stored, width)
        yield []
    elif offset is not None:
        yield [(f"offset {offset}: the capture has no delivery of it", PLAIN)]
        return
    total: Line = [(f"{counted(len(deliveries), 'change')} in {counted(len(labels), 'share partition')}", API)]
    if apart:
        total.append((f"; {counted(apart, 'WriteShareGroupState')} for changes that the capture does not show", DIM))
    yield total


def _changes(rows: list[list[Cell]], stored: list[list[Line]], width: int | None) -> Iterator[Line]:
    """Return the rows as a table; if it is too wide, its _BELOW columns move below each row.

    `stored`: lines below each row.
    """
    whole = [*table(_CHANGES, rows, width)]
    if width is None or len(whole) == 1 + len(rows):
        yield whole[0]
        for line, below in zip(whole[1:], stored, strict=False):
            yield line
            yield from _folded(below, width)
        return
    kept = [index for index, column in enumerate(_CHANGES) if column not in _BELOW]
    titles, *lines = table([_CHANGES[index] for index in kept], [[row[index] for index in kept] for row in rows], width)
    yield titles
    for index, line in enumerate(lines):  # the table may have a last line about omitted columns
        yield line
        if index < len(rows):
            label, in_flight = (rows[index][_CHANGES.index(column)] for column in _BELOW)
            yield cropped(
                [(f"{' ' * _INDENT}{label}", VALUE), *([("  ", PLAIN), *in_flight] if in_flight else [])], width
            )
            yield from _folded(stored[index], width)


def _folded(lines: Iterable[Line], width: int | None) -> Iterator[Line]:
    for line in lines:
        yield from folded(line, width, 2 * _INDENT)


def _joined(batches: Iterable[StoredBatch]) -> list[tuple[int, int, str, int]]:
    """Return the stored batches; neighbours with one state and delivery count are one."""
    joined: list[tuple[int, int, str, int]] = []
    for batch in batches:
        first, last, of = batch.first_offset, batch.last_offset, (batch.state, batch.delivery_count)
        if joined and joined[-1][1] + 1 == first and joined[-1][2:] == of:
            first = joined.pop()[0]
        joined.append((first, last, *of))
    return joined


def _stored(write: StoredWrite) -> Line:
    """Return a WriteShareGroupState in one line."""
    line: Line = [(f"{' ' * _INDENT}stored ", LABEL), (f"packet {write.packet}", DIM), ("  start ", LABEL)]
    line.append((str(write.start_offset), VALUE))
    batches = _joined(write.batches)
    for first, last, state, count in batches[:_SHOWN]:
        line += [(f"  {_offsets([(first, last)])} ", PLAIN), _styled(state), (f" ×{count}", DIM)]
    if len(batches) > _SHOWN:
        line.append((f"  … {number(len(batches) - _SHOWN)} more", DIM))
    if write.delivery_complete_count is not None:
        line += [("  complete ", LABEL), (number(write.delivery_complete_count), VALUE)]
    if write.error_code is None:
        line.append(("  not answered", WARN))
    elif write.error_code:
        line.append((f"  refused: {write.error_code} {ERROR_NAMES.get(write.error_code, '')}".rstrip(), ERROR))
    return line


def moment_line(now_ns: int, *, at_end: bool) -> Line:
    """Return the time at which the records are shown."""
    return [(f"at {clock(now_ns, 3)}{', the end of the capture' if at_end else ''}", DIM)]


def state_lines(
    states: Sequence[InFlightState],
    holders: Sequence[Holder],
    now_ns: int,
    width: int | None,
    waiting: Sequence[WaitingGroup] = (),
) -> Iterator[Line]:
    """Return a table for each share partition; then a sentence for each group that waits for an open transaction."""
    names, labels = _names(holders), _labels(states)
    for state in states:
        start, end, source = _start(state), _number(state.end_offset), _source(state)
        yield []
        yield [
            (labels[_key(state)], VALUE),
            ("  start offset ", LABEL),
            (start, VALUE),
            ("  end offset ", LABEL),
            (end, VALUE),
            (f"  start offset from {source}" if source else "", DIM),
        ]
        if state.ranges:
            yield from table(_RANGES, [_state(range_, names) for range_ in state.ranges], width, indent=2)
    if not states:
        yield [("no share group has acquired records", PLAIN)]
    if waiting:
        yield []
        yield from _waiting_lines(waiting, now_ns, width)


def holder_lines(
    holders: Sequence[Holder], now_ns: int, width: int | None, waiting: Sequence[WaitingGroup] = ()
) -> Iterator[Line]:
    """Return a row for each member and share partition, the longest holder first; then a sentence for each group that
    waits for an open transaction."""
    if holders:
        yield from _holder_table(holders, now_ns, width)
    else:
        yield [("no member holds records, as far as the capture shows", PLAIN)]
    yield from _waiting_lines(waiting, now_ns, width)


def _waiting_lines(waiting: Sequence[WaitingGroup], now_ns: int, width: int | None) -> Iterator[Line]:
    labels = _labels(waiting)
    for group in waiting:
        yield from folded(_waiting(group, labels[_key(group)], now_ns), width, 2)


def _waiting(group: WaitingGroup, label: str, now_ns: int) -> Line:
    """Return the sentence about a group that waits for an open transaction."""
    level = "share.isolation.level"
    is_known = group.isolation_level is not None
    condition = f"{level} is {safe(group.isolation_level or '')}" if is_known else f"if its {level} is read_committed"
    timeout = "" if group.timeout_ms is None else f", its timeout is {duration(group.timeout_ms * 1_000_000)}"
    return [
        (label, VALUE),
        (f"  waits at offset {group.offset} for the open transaction of {safe(group.producer_named)}", WARN),
        (
            f" since {clock(group.since_ns, 3)} (packet {group.packet}, "
            f"{duration(max(now_ns - group.since_ns, 0))} ago{timeout}): no record from there on is delivered before "
            f"it ends, {condition}",
            PLAIN,
        ),
    ]


def _holder_table(holders: Sequence[Holder], now_ns: int, width: int | None) -> Iterator[Line]:
    names, labels = _names(holders), _labels(holders)
    yield from table(
        _HOLDERS,
        [_holder(holder, names, labels, now_ns) for holder in sorted(holders, key=lambda holder: holder.since_ns)],
        width,
    )


def produced_lines(produced: Sequence[Produced], offset: int, *, clusters: bool = False) -> Iterator[Line]:
    """Return the origin of a record: its Produce. `clusters`: with the name of its cluster."""
    if not produced:
        yield [(f"offset {offset}: its Produce is not in the capture", DIM)]
    for record in produced:
        batch = f"in the batch of offsets {_offsets([(record.base_offset, record.last_offset)])}"
        producer = (
            ""
            if record.producer_id < 0
            else f", producer {record.producer_id} epoch {record.producer_epoch} sequence {record.base_sequence}"
        )
        where = f"{safe(record.topic or record.topic_id or '?')}[{record.partition}]"
        where += _cluster(record.cluster_id) if clusters else ""
        yield [
            (f"offset {offset} of {where} produced by ", PLAIN),
            (f"{safe(record.client_id or record.client)}", VALUE),
            (f" at {clock(record.time_ns, 3)} {batch}{producer} (packet {record.packet})", PLAIN),
        ]


def aborted_lines(aborted: Sequence[tuple[str, Aborted]], offset: int) -> Iterator[Line]:
    """Return, for each partition where a record was aborted, by which producer: groups that read committed records do
    not get it."""
    for partition, batch in aborted:
        yield [
            (f"offset {offset} of {safe(partition)} was ", PLAIN),
            ("aborted", WARN),
            (
                f" with a transaction of producer {batch.producer_id} epoch {batch.epoch} (marker at offset "
                f"{batch.marker}, packet {batch.packet}): only groups with read_uncommitted get it",
                PLAIN,
            ),
        ]


def dead_letter_lines(letters: Sequence[DeadLetter], *, clusters: bool = False) -> Iterator[Line]:
    """Return the dead letter queue positions of a record that its group gave up.

    `clusters`: with the names of the clusters.
    """
    for letter in letters:
        cluster = _cluster(letter.cluster_id) if clusters else ""
        queue = f"{safe(letter.queue or letter.queue_id or '?')}[{letter.queue_partition}]"
        group = f" by group {safe(letter.group_id)}" if letter.group_id else ""
        reason = f": {safe(letter.reason)}" if letter.reason else ""
        yield [
            (
                f"offset {letter.offset} of {safe(letter.topic or '?')}[{letter.partition}] given up{group}, written ",
                PLAIN,
            ),
            (f"to {queue}{cluster} at offset {letter.queue_offset}", VALUE),
            (f" at {clock(letter.time_ns, 3)} (packet {letter.packet}){reason}", PLAIN),
        ]


def _cluster(cluster_id: str | None) -> str:
    return f" · cluster {safe(cluster_id or 'unknown')}"


def _names(deliveries: Iterable[Delivery | Holder]) -> dict[str | None, str]:
    """Return the members' names: the client id, with part of the member id if several members share it."""
    ids: dict[str, set[str | None]] = {}
    client_ids: dict[str | None, str] = {}
    for delivery in deliveries:
        if delivery.client_id is not None:
            ids.setdefault(delivery.client_id, set()).add(delivery.member_id)
            client_ids[delivery.member_id] = delivery.client_id
    return {
        member: safe(client_id) if len(ids[client_id]) == 1 else f"{safe(client_id)}/{safe(member or 'null')[:8]}"
        for member, client_id in client_ids.items()
    }


def _by(member_id: str | None, names: dict[str | None, str]) -> str:
    return "" if member_id is None else names.get(member_id, safe(member_id))


def _change(
    delivery: Delivery, names: dict[str | None, str], labels: dict[_PartitionKey, str], offset: int | None
) -> list[Cell]:
    by = _by(delivery.member_id, names)
    ranges = [
        range_ for range_ in delivery.ranges if offset is None or range_.first_offset <= offset <= range_.last_offset
    ]
    omitted = max(len(ranges) - _SHOWN, 0) + delivery.more_ranges
    return [
        str(delivery.packet),
        clock(delivery.time_ns, 3),
        labels[_key(delivery)],
        [_styled(delivery.event)],
        by,
        _offsets(delivery.offsets) if offset is None else str(offset),
        _start(delivery),
        _source(delivery),
        _number(delivery.end_offset),
        [
            *(
                span
                for index, range_ in enumerate(ranges[:_SHOWN])
                for span in _span(range_, names, "  " if index else "")
            ),
            *([(f"  … {number(omitted)} more", DIM)] if omitted else ()),
        ],
    ]


def _span(range_: InFlightRange, names: dict[str | None, str], separator: str) -> Line:
    count = "" if range_.delivery_count is None else f" ×{range_.delivery_count}"
    by = _by(range_.member_id, names)
    state = _styled(range_.state)
    return [
        (f"{separator}{_offsets([(range_.first_offset, range_.last_offset)])} ", PLAIN),
        state,
        (f"{count} {by}".rstrip(), DIM),
    ]


def _state(range_: InFlightRange, names: dict[str | None, str]) -> list[Cell]:
    return [
        _offsets([(range_.first_offset, range_.last_offset)]),
        number(range_.last_offset - range_.first_offset + 1),
        [_styled(range_.state)],
        "" if range_.delivery_count is None else f"×{range_.delivery_count}",
        _by(range_.member_id, names),
    ]


def _holder(holder: Holder, names: dict[str | None, str], labels: dict[_PartitionKey, str], now_ns: int) -> list[Cell]:
    left_ns = holder.until_ns - now_ns
    lock: Span = (f"{duration(left_ns)} left", PLAIN) if left_ns > 0 else ("expired", ERROR)
    return [
        labels[_key(holder)],
        names.get(holder.member_id, safe(holder.member_id or "null")),
        holder.client,
        number(holder.records),
        _offsets(holder.offsets),
        clock(holder.since_ns, 3),
        duration(now_ns - holder.since_ns),
        [lock],
        [("blocked by it", WARN) if holder.blocks_start else ("", PLAIN)],
    ]


def _key(entry: Delivery | InFlightState | Holder | WaitingGroup) -> _PartitionKey:
    return entry.cluster_id, entry.group_id, entry.topic_id, entry.partition


def _labels(listed: Iterable[Delivery | InFlightState | Holder | WaitingGroup]) -> dict[_PartitionKey, str]:
    """Return a label for each share partition; those of two clusters, or of a recreated topic, get its id."""
    ids: dict[str, set[_PartitionKey]] = {}
    of_key = {_key(entry): of(entry) for entry in listed}
    for key, label in of_key.items():
        ids.setdefault(label, set()).add(key)
    return {key: f"{label}{_apart(key, ids[label])}" for key, label in of_key.items()}


def _apart(key: _PartitionKey, alike: Collection[_PartitionKey]) -> str:
    """Return what tells a share partition from those with the same names."""
    cluster_id, _, topic_id, _ = key
    cluster = _cluster(cluster_id) if len({other[0] for other in alike}) > 1 else ""
    topic = f" {safe(topic_id)[:8]}…" if sum(other[0] == cluster_id for other in alike) > 1 else ""
    return cluster + topic


def of(entry: Delivery | InFlightState | Holder | WaitingGroup) -> str:
    """Return a label: group, topic and partition."""
    return f"{safe(entry.group_id or 'null')} · {safe(entry.topic or entry.topic_id)}[{entry.partition}]"


def _offsets(ranges: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges if first <= last)


def _number(offset: int | None) -> str:
    return "?" if offset is None else str(offset)


def _start(entry: Delivery | InFlightState) -> str:
    """Return the start offset, or the lowest possible one."""
    is_lowest = entry.start_offset is None and entry.start_least is not None
    return f"≥{entry.start_least}" if is_lowest else _number(entry.start_offset)


def _source(entry: Delivery | InFlightState) -> str:
    """Return what shows the start offset."""
    if entry.start_source == "stored":
        return f"packet {entry.start_packet}"
    return {"seen": "records", "aborted": "records, aborted", "passed_over": "offsets passed over"}.get(
        entry.start_source or "", ""
    )


def _styled(word: str) -> Span:
    return word.replace("_", " "), _STYLES.get(word, PLAIN)
