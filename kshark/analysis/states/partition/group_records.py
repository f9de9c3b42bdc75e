"""All share partitions of a group: lock durations, full windows, fetches with lost records."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from kshark import limits
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import ACCEPTED, FAILED_LATER, INVALID_EPOCH, Partition, ShareStep
from kshark.analysis.states.partition.records_in_flight import Locked
from kshark.analysis.states.partition.share_partition import SharePartition
from kshark.analysis.states.partition.situations import Starving
from kshark.analysis.states.partition.window import LEAST
from kshark.analysis.states.session.state import SessionState


class LockTimes:
    """The share partitions of a group, by the lock duration in the last acquisition of each."""

    def __init__(self) -> None:
        self._partitions: dict[int, dict[SharePartition, None]] = {}

    def other(self, partition: SharePartition, lock_ns: int | None) -> Locked | None:
        """Return an acquisition with another lock duration, or None.

        It is the last one of the partition, or else of another partition in its cluster.

        """
        own = partition.locked
        if lock_ns is None or (own is not None and own.lock_ns == lock_ns):
            return None
        if own is not None:
            return own
        cluster = partition.leader.cluster
        others = (
            other for lasts_ns, partitions in self._partitions.items() if lasts_ns != lock_ns for other in partitions
        )
        return next((other.locked for other in others if other.leader.cluster == cluster), None)

    def acquired(self, partition: SharePartition, before: Locked | None) -> None:
        """Note that the lock duration of the partition changed."""
        last = partition.locked
        if last is not None and last is not before:
            self.drop(partition, before)
            self._partitions.setdefault(last.lock_ns, {})[partition] = None

    def drop(self, partition: SharePartition, last: Locked | None) -> None:
        """Remove the partition."""
        if last is not None:
            partitions = self._partitions[last.lock_ns]
            del partitions[partition]
            if not partitions:
                del self._partitions[last.lock_ns]


class WidePartitions:
    """Partitions with a wide window, by group.

    One whose window is narrow again is removed at the next fetch without records.
    """

    def __init__(self) -> None:
        self.groups: dict[str | None, dict[Partition, SharePartition]] = {}

    def add(self, partition: SharePartition) -> None:
        self.groups.setdefault(partition.group_id, {})[partition.partition] = partition

    def drop(self, group_id: str | None, partition: Partition) -> None:
        of_group = self.groups.get(group_id, {})
        if of_group.pop(partition, None) is not None and not of_group:
            del self.groups[group_id]

    def starving(self, step: ShareStep, session: SessionState) -> Iterator[Starving]:
        """Yield the situations of a fetch without records that could have received some."""
        session_partitions, answer = session.in_flight.partitions, step.answer
        if (
            not session_partitions
            or answer is None
            or answer.throttled
            or step.reply is not ACCEPTED
            or step.is_renewal
        ):
            return
        for partition in [*self.groups[step.group_id].values()]:
            if partition.partition not in session_partitions or partition.leader is not session.broker:
                continue
            partition.meets(step, session.broker)
            first_left = partition.window.first_left(partition.records)
            if first_left is None or partition.window.width < LEAST:
                self.drop(step.group_id, partition.partition)
            else:
                first_left = partition.between(
                    first_left, step.time_ns, answer.time_ns + step.connection.clock.disorder_ns
                )
                yield Starving(step, session, partition, first_left)


#: Highest number of fetches that are kept for a group at a broker.
_MOST: Final = 16
#: No client waits longer for a fetch (request.timeout.ms). The broker waits as long as the client asked, even if the
#: client is gone.
_LONGEST_WAIT_NS: Final = 30_000_000_000


class LostFetches:
    """Fetches whose records may be lost, by group and broker."""

    def __init__(self) -> None:
        self._fetches: dict[tuple[str | None, Broker], deque[ShareStep]] = {}

    def of(self, group_id: str | None, broker: Broker) -> Sequence[ShareStep]:
        return self._fetches.get((group_id, broker), ())

    def add(self, step: ShareStep, session: SessionState) -> bool:
        """Add a fetch without records. Return True if its records may be lost.

        Such a fetch was not answered, or it was throttled, overtaken, or counted and then failed. A topic that does not
        exist fails the whole answer (UNKNOWN_SERVER_ERROR), and the acquired records of other topics stay locked: seen
        on 4.1.2 and 4.3.1.
        """
        answer, last = step.answer, session.last
        overtaken = step.reply is INVALID_EPOCH and last is not None and last.packet > step.packet
        if answer is not None and not answer.throttled and not overtaken and step.reply is not FAILED_LATER:
            return False
        self._fetches.setdefault((step.group_id, session.broker), deque(maxlen=_MOST)).append(step)
        if len(self._fetches) > limits.SHARE_PARTITIONS:
            del self._fetches[next(iter(self._fetches))]
        return True


def may_have_acquired(fetch: ShareStep, packet: int, time_ns: int) -> bool:
    """True if the fetch may have acquired records after that packet, at that time."""
    return fetch.end > packet or (fetch.answer is None and fetch.end_ns + _LONGEST_WAIT_NS > time_ns)
