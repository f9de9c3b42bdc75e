"""Administrative operations for a person: a row for each change of a group; what was only read is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kshark.analysis.states.operations.listing import READS, Operation, OperationKind, OperationPartition
from kshark.output.spans import API, DIM, ERROR, GOOD, PLAIN, VALUE, WARN, Line
from kshark.output.text_table import Cell, Column, table
from kshark.output.units import clock, counted, duration, safe
from kshark_dissectors.enums import ErrorCode

#: What was done with a group that was only read.
_DONE: Final[dict[OperationKind, str]] = {
    "list": "listed",
    "describe": "described",
    "describe_offsets": "offsets described",
}
_STYLES: Final = {"done": GOOD, "refused": ERROR, "partly": ERROR, "unfinished": ERROR}
#: What share coordinators did.
_DID: Final = {
    "InitializeShareGroupState": "initialized",
    "DeleteShareGroupState": "deleted",
    "ReadShareGroupStateSummary": "read",
}
_LACKS: Final = {
    "not_told": "the answer says nothing of",
    "not_asked": "its share coordinator was not asked for",
    "not_accepted": "its share coordinator did not accept",
    "not_assigned": "no member was assigned",
}
#: Between a partition and its start offset.
_OFFSET: Final[dict[OperationKind, str]] = {"alter_offsets": "→", "describe_offsets": "="}
_ERRORS: Final[dict[int, str]] = {error.value: error.name for error in ErrorCode}
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
    """The operations of one group in their order; `verbose`: also those that read only."""
    shown = [one for one in operations if verbose or one.operation not in READS or one.outcome != "done"]
    if shown:
        yield from table(_OPERATIONS, [_operation(one) for one in shown], width, indent)
    left = Counter(one.operation for one in operations if one not in shown)
    if left:
        told = ", ".join(f"{_DONE[kind]} {counted(count, 'time')}" for kind, count in left.items())
        yield [(" " * indent + told, DIM)]


def _operation(one: Operation) -> list[Cell]:
    asked = Counter(_DID[row.share_coordinator.api] for row in one.partitions if row.share_coordinator is not None)
    storing: Line = [(", ".join(f"{count} {did}" for did, count in asked.items()), PLAIN)]
    return [
        str(one.packet),
        clock(one.time_ns, 3),
        [(one.operation.replace("_", " "), API)],
        safe(one.client_id or one.client),
        _partitions(one),
        [*storing, (" out of sight", DIM)] if one.in_sight is False else storing,
        "" if one.latency_ns is None else duration(one.latency_ns),
        _outcome(one),
    ]


def _partitions(one: Operation) -> str:
    """`sh:0,1,2`, as Kafka's own tools write it; with start offsets `sh:0→20,1→15`."""
    between = _OFFSET.get(one.operation, "")
    told: dict[str, list[str]] = {}
    for row in one.partitions:
        offset = f"{between}{row.start_offset}" if row.start_offset is not None else ""
        told.setdefault(_topic(row), []).extend([] if row.partition is None else [f"{row.partition}{offset}"])
    return " ".join(topic + (f":{','.join(partitions)}" if partitions else "") for topic, partitions in told.items())


def _outcome(one: Operation) -> Line:
    style = _STYLES.get(one.outcome, WARN)
    line: Line = [(one.outcome, style)]
    if one.error_code:
        line.append((f" {_ERRORS.get(one.error_code, '')} ({one.error_code})", style))
    if one.because is not None:
        lacking = ", ".join(_partition(row) for row in one.partitions if row.lacking)
        line.append((f": {_LACKS[one.because]} {lacking or 'it'}", VALUE))
    return line


def _partition(row: OperationPartition) -> str:
    return _topic(row) + ("" if row.partition is None else f"[{row.partition}]")


def _topic(row: OperationPartition) -> str:
    return safe(row.topic or row.topic_id or "?")
