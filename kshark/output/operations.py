"""Administrative operations as text: a row for each change of a group; read-only operations are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kshark.analysis.states.operations.listing import (
    READS,
    Operation,
    OperationKind,
    OperationPartition,
    StoredRecord,
)
from kshark.error_names import ERROR_NAMES
from kshark.output.spans import API, DIM, ERROR, GOOD, PLAIN, VALUE, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.units import clock, counted, duration, safe

#: Texts of read-only operations.
_DONE: Final[dict[OperationKind, str]] = {
    "list": "listed",
    "describe": "described",
    "describe_offsets": "offsets described",
}
_STYLES: Final = {"done": GOOD, "refused": ERROR, "partly": ERROR, "unfinished": ERROR}
#: Texts of requests to share coordinators.
_DID: Final = {
    "InitializeShareGroupState": "initialized",
    "DeleteShareGroupState": "deleted",
    "ReadShareGroupStateSummary": "read",
}
_LACKS: Final = {
    "not_told": "the response does not name",
    "not_asked": "its share coordinator got no request for",
    "not_accepted": "its share coordinator did not accept",
    "not_assigned": "no member was assigned",
}
#: Between a partition and its start offset.
_OFFSET: Final[dict[OperationKind, str]] = {"alter_offsets": "→", "describe_offsets": "="}
#: Most state epochs of an operation in a cell.
_EPOCHS: Final = 3
#: Most records of an operation in one partition of a log.
_RECORDS: Final = 12
_OPERATIONS: Final = (
    Column("packet", right=True),
    Column("time"),
    Column("operation"),
    Column("by", elastic=8),
    Column("partitions", elastic=12),
    Column("share coordinators", drop=2),
    Column("took", right=True, drop=1),
    Column("outcome", elastic=16),
)


def operation_lines(
    operations: Sequence[Operation], width: int | None, *, verbose: bool = False, indent: int = 0
) -> Iterator[Line]:
    """Return the operations of one group in their order; `verbose`: also read-only ones."""
    shown = [
        operation
        for operation in operations
        if verbose or operation.operation not in READS or operation.outcome != "done"
    ]
    if shown:
        yield from table(_OPERATIONS, [_operation(operation) for operation in shown], width, indent)
    for operation in shown:
        if operation.records:
            yield from folded(_records(operation, " " * indent), width, indent + 2)
    omitted = Counter(operation.operation for operation in operations if operation not in shown)
    if omitted:
        text = ", ".join(f"{_DONE[kind]} {counted(count, 'time')}" for kind, count in omitted.items())
        yield [(" " * indent + text, DIM)]


def _operation(operation: Operation) -> list[Cell]:
    asked = Counter(
        _DID[row.share_coordinator.api] for row in operation.partitions if row.share_coordinator is not None
    )
    text = ", ".join(f"{count} {verb}" for verb, count in asked.items())
    coordinator_requests: Line = [(f"{text}{_state_epochs(operation)}", PLAIN)]
    return [
        str(operation.packet),
        clock(operation.time_ns, 3),
        [(operation.operation.replace("_", " "), API)],
        safe(operation.client_id or operation.client),
        _partitions(operation),
        [*coordinator_requests, (" not captured", DIM)] if operation.in_sight is False else coordinator_requests,
        "" if operation.latency_ns is None else duration(operation.latency_ns),
        _outcome(operation),
    ]


def _records(operation: Operation, margin: str) -> Line:
    """Return `19126 delete offsets wrote __share_group_state[3]: 150 ShareSnapshot sh[0] tombstone; ...`."""
    topics = {row.topic_id: _topic(row) for row in operation.partitions}
    places: dict[tuple[str, int], list[str]] = {}
    for record in operation.records or ():
        places.setdefault((record.log, record.log_partition), []).append(_record(record, topics))
    text = "; ".join(
        f"{log}[{partition}]: {', '.join(texts[:_RECORDS])}"
        f"{f' and {len(texts) - _RECORDS} more' if len(texts) > _RECORDS else ''}"
        for (log, partition), texts in sorted(places.items())
    )
    name = operation.operation.replace("_", " ")
    return [(f"{margin}packet {operation.packet} ", DIM), (name, API), (" wrote ", PLAIN), (safe(text), DIM)]


def _record(record: StoredRecord, topics: Mapping[str | None, str]) -> str:
    """Return the offset of a record, its type, and what it is about."""
    about = f" {topics.get(record.topic_id, record.topic_id)}[{record.partition}]" if record.topic_id else ""
    epoch = f" state epoch {record.state_epoch}" if record.state_epoch is not None else ""
    return f"{record.offset} {record.type}{about}{epoch}{' tombstone' * record.tombstone}"


def _state_epochs(operation: Operation) -> str:
    """Return how the epochs of stored states changed: `, state epoch 2 → 4`; `, state epoch 2` if they did not."""
    asked = [row.share_coordinator for row in operation.partitions if row.share_coordinator is not None]
    changes = {(one.earlier_state_epoch, one.state_epoch): None for one in asked if one.earlier_state_epoch is not None}
    texts = [str(after) if after == before else f"{before} → {after}" for before, after in changes]
    shown = ", ".join(texts[:_EPOCHS])
    return f", state epoch {shown}{' …' * (len(changes) > _EPOCHS)}" if changes else ""


def _partitions(operation: Operation) -> str:
    """Return `sh:0,1,2`, like Kafka's tools; with start offsets `sh:0→20,1→15`. Topics of one name stay apart.

    A lag follows its offset: `sh:0=20 (lag 3)`.
    """
    separator = _OFFSET.get(operation.operation, "")
    partitions_of: dict[tuple[str, str | None], list[str]] = {}
    for row in operation.partitions:
        offset = f"{separator}{row.start_offset}" if row.start_offset is not None else ""
        offset += f" (lag {row.lag})" if row.lag is not None and row.lag >= 0 else ""
        partitions_of.setdefault((_topic(row), row.topic_id), []).extend(
            [] if row.partition is None else [f"{row.partition}{offset}"]
        )
    return " ".join(
        topic + (f":{','.join(partitions)}" if partitions else "") for (topic, _), partitions in partitions_of.items()
    )


def _outcome(operation: Operation) -> Line:
    style = _STYLES.get(operation.outcome, WARN)
    line: Line = [(operation.outcome, style)]
    if operation.error_code:
        line.append((f" {ERROR_NAMES.get(operation.error_code, '')} ({operation.error_code})", style))
    if operation.because is not None:
        missing = ", ".join(_partition(row) for row in operation.partitions if row.lacking)
        line.append((f": {_LACKS[operation.because]} {missing or 'it'}", VALUE))
    return line


def _partition(row: OperationPartition) -> str:
    return _topic(row) + ("" if row.partition is None else f"[{row.partition}]")


def _topic(row: OperationPartition) -> str:
    return safe(row.topic or row.topic_id or "?")
