"""What a share session holds: its partitions, and the records that its member has acquired and not yet acknowledged.

Known from an epoch 0 on, as long as no request or answer is missing; after that only what is certain is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kshark import limits
from kshark.analysis.steps import Kind, Partition, Reply, Step

#: Renewing does not end an acquisition; every other type does.
_SHARE_FETCH_WITHOUT_BYTES: Final = 0


class Held(NamedTuple):
    """Records acquired and not acknowledged; their lock runs out at `until_ns`."""

    first: int
    last: int
    until_ns: int


@dataclass(slots=True, eq=False)
class Holdings:
    """`partitions` maps each partition of the session to the step that brought it only to acknowledge (None: to fetch it).

    None in place of the map: not known.
    """

    partitions: dict[Partition, Step | None] | None = None
    held: dict[Partition, list[Held]] = field(default_factory=dict)
    ranges: int = 0

    def take(self, step: Step, reply: Reply) -> None:
        """The effect of a step on partitions and records."""
        if reply in (Reply.UNCLEAR, Reply.SILENT):
            self.partitions = None
        if reply is not Reply.TAKEN:
            return
        if step.kind is Kind.INITIAL:
            self.partitions = {}
        for partition, ranges in step.listed:
            for first, last in ranges:
                self._acknowledge(partition, first, last)
        if step.is_fetch and step.kind is not Kind.FINAL and self.partitions is not None:
            self._update(step, self.partitions)
        if step.answer is not None:
            for partition, (first, last) in step.answer.acquired:
                self._acquire(partition, first, last, step.answer.time_ns + step.answer.lock_ns)

    def _update(self, step: Step, partitions: dict[Partition, Step | None]) -> None:
        """Kafka: ShareSession.update; forgotten after listed, so that a partition may be listed to acknowledge and leave again."""
        for partition, ranges in step.listed:
            if partition not in partitions:
                partitions[partition] = step if ranges and step.version > _SHARE_FETCH_WITHOUT_BYTES else None
            elif not ranges:
                partitions[partition] = None
        for partition in step.forgotten:
            partitions.pop(partition, None)
        if len(partitions) > limits.SESSION_PARTITIONS:
            self.partitions = None

    def _acquire(self, partition: Partition, first: int, last: int, until_ns: int) -> None:
        if first <= last and self.ranges < limits.HELD_RANGES:
            self.held.setdefault(partition, []).append(Held(first, last, until_ns))
            self.ranges += 1

    def _acknowledge(self, partition: Partition, first: int, last: int) -> None:
        """Takes a range out; what remains on either side stays held."""
        found = self.held.get(partition)
        if not found:
            return
        rest = []
        for one in found:
            if one.last < first or one.first > last:
                rest.append(one)
                continue
            if one.first < first:
                rest.append(one._replace(last=first - 1))
            if one.last > last:
                rest.append(one._replace(first=last + 1))
        self.ranges += len(rest) - len(found)
        self.held[partition] = rest

    def unacknowledged(self, partition: Partition, step: Step) -> int:
        """Records of the partition that stay acquired when this step is done."""
        found = [one for one in self.held.get(partition, ()) if one.until_ns > step.time_ns]
        acknowledged = [ranges for listed, ranges in step.listed if listed == partition]
        copy = Holdings(held={partition: found}, ranges=len(found))
        for ranges in acknowledged:
            for first, last in ranges:
                copy._acknowledge(partition, first, last)
        return sum(one.last - one.first + 1 for one in copy.held[partition])

    def release(self) -> None:
        """The session is over: the records of its partitions are released, those of forgotten ones stay locked."""
        self.partitions = None
        self.held.clear()
        self.ranges = 0

    def lose_sight(self) -> None:
        """Something was not seen: neither partitions nor records are known any more."""
        self.release()
