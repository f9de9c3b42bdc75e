"""Records of the coordinators' logs, as followers fetch them, beside the operations that wrote them.

An operation on a share group writes records about the group to `__consumer_offsets`, and the states of its share
partitions to `__share_group_state` (KIP-932, "Administration").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis.states.operations.listing import READS, Operation, StoredRecord
from kshark.embedded.decoded import decoded_fields, decoded_name, fetched_batches
from kshark.model import Exchange

_STATES: Final = "__share_group_state"
_GROUPS: Final = "__consumer_offsets"
#: The logs by the first word of a key's name. Updates are not written by operations, but by leaders.
_LOGS: Final = {"ShareSnapshotKey": _STATES, "ShareUpdateKey": _STATES}
_UPDATE: Final = "ShareUpdateKey"
#: The clocks of the broker that wrote a record and of the capture may differ by this.
_APART_NS: Final = 50_000_000
_MS: Final = 1_000_000


class RecordedChanges:
    """Collect records about share groups from Fetch responses, each once, however many fetch it.

    Records must be decoded; without that there are none. Above limits.GROUP_RECORDS the oldest are forgotten.
    """

    def __init__(self) -> None:
        self._records: deque[tuple[str, StoredRecord]] = deque(maxlen=limits.GROUP_RECORDS)
        #: By log and its partition, the offset after the last batch.
        self._next: dict[tuple[str, int], int] = {}

    def feed(self, exchange: Exchange) -> None:
        if exchange.response is not None:
            for partition, batch in fetched_batches(exchange.response):
                self._batch(batch, partition, exchange.response.packet)

    def of(self, operation: Operation) -> list[StoredRecord]:
        """Return the records that an operation wrote, as far as they are in the capture."""
        if operation.operation in READS or not self._records:
            return []
        end_ns = operation.time_ns + (operation.latency_ns or 0)
        mine = [record for group_id, record in self._records if group_id == operation.group_id]
        for apart_ns in (_MS, _APART_NS):
            begin_ns = operation.time_ns - apart_ns
            within = [record for record in mine if begin_ns <= record.time_ns <= end_ns + apart_ns]
            if within:
                break
        if operation.operation in ("create", "assign"):
            within = [record for record in within if record.log == _GROUPS]
        if operation.operation == "assign":
            within += _initialized(operation, [record for record in mine if record.time_ns <= end_ns + _APART_NS])
        return within

    def _batch(self, batch: Any, partition: int, packet: int) -> None:
        names = [decoded_name(record, "key") for record in batch.records[:1]]
        if not names or not (names[0].startswith("ShareGroup") or names[0] in _LOGS):
            return
        log = _LOGS.get(names[0], _GROUPS)
        if batch.base_offset < self._next.get((log, partition), 0):
            return
        self._next[log, partition] = batch.base_offset + getattr(batch, "last_offset_delta", 0) + 1
        for record in batch.records:
            name, key = decoded_name(record, "key"), decoded_fields(record, "key")
            if name == _UPDATE or not isinstance(key.get("group_id"), str) or not isinstance(record.timestamp, int):
                continue
            value = decoded_fields(record, "value")
            stored = StoredRecord(
                packet, record.timestamp * _MS, log, partition, record.offset, name.removesuffix("Key"),
                getattr(record, "value", UNSET) is None, key.get("topic_id"), key.get("partition"),
                value.get("state_epoch"),
            )  # fmt: skip
            self._records.append((key["group_id"], stored))


def _initialized(operation: Operation, before: Sequence[StoredRecord]) -> Iterator[StoredRecord]:
    """Yield the snapshots of partitions that are assigned: a coordinator initializes them before their first member."""
    for row in operation.partitions:
        if row.share_coordinator is not None:
            wanted = row.topic_id, row.partition, row.share_coordinator.state_epoch
            fitting = (it for it in before if (it.topic_id, it.partition, it.state_epoch) == wanted)
            yield from islice(fitting, 1)
