"""Replay `__share_group_state`: the state of each share partition by the records of its log (KIP-932).

A ShareSnapshot replaces the state, a ShareUpdate of the same snapshot epoch changes it, a null value deletes it. Kafka:
ShareCoordinatorShard.replay, ShareGroupOffset, PersisterStateBatchCombiner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from kshark import limits
from kshark.offset_ranges import OffsetRanges
from kshark.records.faults import BatchFault, attach
from kshark.segments.placing import Placing, key_hash
from kshark.segments.stored import SegmentBatch
from kshark_dissectors.enums import DeliveryState

SHARE_STATE_TOPIC: Final = "__share_group_state"
_SNAPSHOT: Final = 0
_UPDATE: Final = 1
STATE_NAMES: Final = {state.value: state.name.lower() for state in DeliveryState}
_LOWEST: Final = -(1 << 63)


class StateRange(NamedTuple):
    """Records with one state (DeliveryState, by STATE_NAMES in words)."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareState(msgspec.Struct, gc=False):
    """A share partition by the log; its fields, in this order, are the JSON line (`kshark deliveries SEGMENT`).

    Numbers are None if no record of the log shows them: a state whose snapshot is in an earlier segment has only what
    updates say. `snapshot_at` and `last_at` are offsets in the log. `updates`: since the snapshot.
    """

    group_id: str
    topic_id: str
    partition: int
    deleted: bool
    snapshot_epoch: int | None
    state_epoch: int | None
    leader_epoch: int | None
    start_offset: int | None
    delivery_complete_count: int | None
    batches: list[StateRange]
    snapshot_at: int | None
    updates: int
    last_at: int
    log: str


class _Kept(NamedTuple):
    delivery_count: int
    delivery_state: int


#: Equal values are one object, so that neighbours become one range.
_kept: Final = lru_cache(maxsize=4_096)(_Kept)
#: Where batches overlap, the one with the higher delivery count stays, then the one with the higher state.
_rank: Final[Callable[[_Kept], tuple[int, int]]] = itemgetter(0, 1)
_Key = tuple[str, str, int]


class _State:
    """The state of one share partition while its log is read."""

    __slots__ = ("deleted", "last_at", "log", "numbers", "ranges", "run", "snapshot_at", "updates")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.ranges: OffsetRanges[_Kept] = OffsetRanges()
        self.deleted = False
        self.snapshot_at: int | None = None
        self.updates = 0
        self.last_at = -1
        self.log = ""
        self.run = 0

    def snapshot(self, value: Mapping[str, Any], offset: int) -> None:
        self.numbers, self.ranges = {}, OffsetRanges()
        self.deleted, self.snapshot_at, self.updates = False, offset, 0
        self._take(value)

    def update(self, value: Mapping[str, Any]) -> None:
        self.updates += 1
        self._take(value)

    def delete(self) -> None:
        self.numbers, self.ranges = {}, OffsetRanges()
        self.deleted, self.snapshot_at, self.updates = True, None, 0

    def _take(self, value: Mapping[str, Any]) -> None:
        """Take the numbers, of which -1 changes nothing, and combine the batches from the start offset on."""
        for name in ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count"):
            number = value.get(name)
            if isinstance(number, int) and (number >= 0 or name not in self.numbers):
                self.numbers[name] = number
        for batch in value.get("state_batches") or ():
            kept = _kept(batch["delivery_count"], batch["delivery_state"])
            self.ranges.improve(batch["first_offset"], batch["last_offset"], kept, _rank)
        self.ranges.drop(_LOWEST, self.numbers.get("start_offset", 0) - 1)

    def shown(self, key: _Key) -> ShareState:
        get = self.numbers.get
        ranges = [StateRange(kept.first, kept.last, kept.value.delivery_state, kept.value.delivery_count)
                  for kept in self.ranges]  # fmt: skip
        return ShareState(
            *key, self.deleted, get("snapshot_epoch"), get("state_epoch"), get("leader_epoch"), get("start_offset"),
            get("delivery_complete_count"), ranges, self.snapshot_at, self.updates, self.last_at, self.log,
        )  # fmt: skip


class ShareReplay:
    """The states of share partitions, by the records of `__share_group_state` in the order of the log.

    `feed` takes batches, of any logs. A batch whose records contradict the state before gets a weird; after offsets
    that are missing from the log nothing contradicts. At most limits.SHARE_PARTITIONS are kept; `forgotten` is the
    number of others. `until_ms`: records of a later timestamp are left out.
    """

    def __init__(self, until_ms: int | None = None) -> None:
        self._until_ms = until_ms
        self._states: dict[_Key, _State] = {}
        #: The offset that follows in each log.
        self._next: dict[str, int] = {}
        #: Number of the present run of batches without missing or damaged ones, by log.
        self._runs: Counter[str] = Counter()
        self.forgotten = 0
        self._placing = Placing()

    def feed(self, stored: SegmentBatch) -> None:
        if stored.topic != SHARE_STATE_TOPIC:
            return
        log = f"{stored.topic}-{'?' if stored.partition is None else stored.partition}"
        first = stored.batch.base_offset
        if self._next.get(log) != first or isinstance(stored.weird, list):
            self._runs[log] += 1  # records before it may be missing
        last = getattr(stored.batch, "last_offset_delta", None)
        records = stored.batch.records
        self._next[log] = (records[-1].offset if last is None and records else first + (last or 0)) + 1
        for record in records:
            if self._until_ms is not None and isinstance(time := record.timestamp, int) and time > self._until_ms:
                continue
            for fault in self._record(record, log, stored.partition):
                attach(fault, stored)

    def states(self) -> Iterator[ShareState]:
        """Yield the state of each share partition, in order of group, topic and partition."""
        for key in sorted(self._states):
            yield self._states[key].shown(key)

    def _record(self, record: Any, log: str, log_partition: int | None) -> Iterable[BatchFault]:
        key, value = getattr(record, "key_decoded", None), getattr(record, "value_decoded", None)
        if not isinstance(key, dict) or key.get("type") not in (_SNAPSHOT, _UPDATE):
            return ()
        fields = key.get("data")
        if not isinstance(fields, dict) or not {"group_id", "topic_id", "partition"} <= fields.keys():
            return ()
        where: _Key = fields["group_id"], fields["topic_id"], fields["partition"]
        state = self._states.get(where)
        if state is None:
            if len(self._states) >= limits.SHARE_PARTITIONS:
                self.forgotten += 1
                return ()
            state = self._states[where] = _State()
        if state.log != log and log_partition is not None and not self._placing.fits(key_hash(*where), log_partition):
            detail = (
                f"record at offset {record.offset}: the key's hash is {key_hash(*where)}, and no number of partitions"
            )
            wrong = BatchFault("STATE_PARTITION_WRONG", f"{detail} fits it and the keys before")
            return (wrong, *self._change(state, record, key["type"], value, log))
        return self._change(state, record, key["type"], value, log)

    def _change(self, state: _State, record: Any, kind: int, value: Any, log: str) -> Iterable[BatchFault]:
        """Change the state of a share partition by a record."""
        data = value.get("data") if isinstance(value, dict) else None
        known = (state.log, state.run) == (log, self._runs[log])
        before = state.numbers.get("snapshot_epoch")
        state.log, state.run, state.last_at = log, self._runs[log], record.offset
        if record.value is None:
            state.delete()
            return ()
        if not isinstance(data, dict):
            return ()
        return _contradictions(state, kind, data, record.offset, before if known else None)


def _contradictions(
    state: _State, kind: int, data: Mapping[str, Any], offset: int, before: int | None
) -> list[BatchFault]:
    """Change the state by a record; return what contradicts the snapshot epoch `before`, None if unknown."""
    epoch = data.get("snapshot_epoch")
    if kind == _SNAPSHOT:
        state.snapshot(data, offset)
        if before is not None and isinstance(epoch, int) and epoch <= before:
            detail = f"record at offset {offset}: ShareSnapshot of snapshot epoch {epoch} after epoch {before}"
            return [BatchFault("TOMBSTONE_MISSING", detail)]
        return []
    if before is not None and epoch != before:
        detail = f"record at offset {offset}: ShareUpdate of snapshot epoch {epoch}, its ShareSnapshot has {before}"
        return [BatchFault("SNAPSHOT_EPOCH_OLD", detail)]
    state.update(data)
    return []
