"""Share partitions of which so many offsets are in flight that there may be room for no more, and who is handed nothing
because of that."""

from __future__ import annotations

from collections.abc import Iterator

from kshark.analysis.facts.calls import ACCEPTED, Partition, Step
from kshark.analysis.states.partition.share_partition import SharePartition
from kshark.analysis.states.partition.situations import Starving
from kshark.analysis.states.partition.window import LEAST
from kshark.analysis.states.session.state import SessionState


class WidePartitions:
    """`groups` has them by group; those whose window is narrow by now go when somebody is handed nothing."""

    def __init__(self) -> None:
        self.groups: dict[str | None, dict[Partition, SharePartition]] = {}

    def add(self, partition: SharePartition) -> None:
        self.groups.setdefault(partition.group_id, {})[partition.partition] = partition

    def drop(self, group_id: str | None, partition: Partition) -> None:
        of_group = self.groups.get(group_id, {})
        if of_group.pop(partition, None) is not None and not of_group:
            del self.groups[group_id]

    def starving(self, step: Step, session: SessionState) -> Iterator[Starving]:
        """What a fetch without records met, where it could have been handed any."""
        mine, answer = session.in_flight.partitions, step.answer
        if not mine or answer is None or answer.throttled or step.reply is not ACCEPTED or step.is_renewal:
            return
        for partition in [*self.groups[step.group_id].values()]:
            if partition.partition not in mine or partition.leader is not session.broker:
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
