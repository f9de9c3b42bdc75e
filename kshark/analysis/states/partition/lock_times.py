"""How long a group's locks last, which is as long in all of its share partitions unless somebody changes that."""

from __future__ import annotations

from kshark.analysis.states.partition.records_in_flight import Locked
from kshark.analysis.states.partition.share_partition import SharePartition


class LockTimes:
    """The share partitions of a group by how long their locks last, as the last acquisition of each told."""

    def __init__(self) -> None:
        self._partitions: dict[int, dict[SharePartition, None]] = {}

    def other(self, partition: SharePartition, lock_ns: int | None) -> Locked | None:
        """The last acquisition of the partition, or else of another one in its cluster, whose locks were to last
        longer, or not as long."""
        mine = partition.locked
        if lock_ns is None or (mine is not None and mine.lock_ns == lock_ns):
            return None
        if mine is not None:
            return mine
        cluster = partition.leader.cluster
        others = (one for lasts_ns, found in self._partitions.items() if lasts_ns != lock_ns for one in found)
        return next((one.locked for one in others if one.leader.cluster == cluster), None)

    def acquired(self, partition: SharePartition, before: Locked | None) -> None:
        """Its locks last longer than with the acquisition before, or not as long."""
        now = partition.locked
        if now is not None and now is not before:
            self.drop(partition, before)
            self._partitions.setdefault(now.lock_ns, {})[partition] = None

    def drop(self, partition: SharePartition, last: Locked | None) -> None:
        """It is one of those no more."""
        if last is not None:
            found = self._partitions[last.lock_ns]
            del found[partition]
            if not found:
                del self._partitions[last.lock_ns]
