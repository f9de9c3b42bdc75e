"""The records of each cluster: where one was restored from another's disks, ids of groups, topics and members are the
same in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kshark import limits
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import Partition
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.rules import RuleBook
from kshark.analysis.runners.coverage import Covering
from kshark.analysis.runners.partitions import Deliveries
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.member.situation import Acquisition
from kshark.analysis.states.partition.share_partition import Change, SharePartition


class ClusterDeliveries(dict[int, Deliveries]):
    """Deliveries by the number of their cluster (kshark.clusters), made when they are asked for. Beyond the limit
    clusters share one."""

    def __init__(
        self, book: RuleBook, tell: Callable[[Change], object] | None, covering: Covering | None, *, exact: bool
    ) -> None:
        self._made = partial(Deliveries, book, tell, covering, exact=exact)

    def __missing__(self, cluster: int) -> Deliveries:
        made = self[cluster] = self._made() if len(self) < limits.CLUSTERS else next(iter(self.values()))
        return made

    @property
    def partitions(self) -> list[SharePartition]:
        """By group, topic and number."""
        every = [partition for one in self._each for partition in one.partitions]
        return sorted(every, key=lambda one: (one.group_id or "", one.partition))

    def last_acquisition(self, broker: Broker | None, group_id: str | None, partition: Partition) -> Acquisition | None:
        """Return the last acquisition from a partition in the broker's cluster; None where there was none."""
        known = self[0 if broker is None else broker.cluster].known(group_id, partition)
        return None if known is None or known.window.by is None else Acquisition(known.leader, known.window.by)

    def store(self, step: StateStep) -> None:
        """What a share coordinator was told."""
        broker = step.call.connection.broker
        self[0 if broker is None else broker.cluster].store(step)

    def close(self) -> Sequence[Verdict]:
        """No more is seen."""
        return [verdict for one in self._each for verdict in one.close()]

    @property
    def _each(self) -> list[Deliveries]:
        return [*dict.fromkeys(self.values())]
