"""Times since when records were available: a fetch that waits for records is not slow.

Records become available when a producer's batch is appended, when a member releases them, or when their lock expires.
Records whose arrival is not in the capture count as available from the beginning, so that waiting is never
overestimated.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.metrics.counts import GroupKey, PartitionId
from kshark.model import Message

#: Appends to one partition that are remembered: a fetch waits only for the first of them.
_APPENDS: Final = 64

#: Number of the cluster, topic and partition.
_Topic = tuple[int, str, int]


class Arrivals:
    """Times at which records became available.

    `produced` and `given_back` record them; `since` returns them for records that a response delivers. Topics are keyed
    by name if producers use names; `names` maps the topic ids known so far to names.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        #: By partition: times of appends, with the first offset of each.
        self._appends: OrderedDict[_Topic, deque[tuple[int, int]]] = OrderedDict()
        self._back: OrderedDict[tuple[GroupKey, PartitionId], int] = OrderedDict()

    def produced(self, request: Message, response: Message, cluster: int) -> None:
        """Record the appended records of a Produce: available from the time of the request, at the earliest."""
        for topic in getattr(response.body, "responses", ()) or ():
            topic_id: Any = getattr(topic, "topic_id", UNSET)
            name: Any = getattr(topic, "name", UNSET) if topic_id is UNSET else self._names.get(topic_id, topic_id)
            for partition in topic.partition_responses or ():
                if partition.error_code == 0 and partition.base_offset >= 0:
                    self._append((cluster, name, partition.index), request.time_ns, partition.base_offset)

    def given_back(self, group: GroupKey, partition: PartitionId, time_ns: int) -> None:
        """Record that records of a partition can be acquired again."""
        key = group, partition
        self._back[key] = time_ns
        self._back.move_to_end(key)
        if len(self._back) > limits.SHARE_PARTITIONS:
            self._back.popitem(last=False)

    def since(self, group: GroupKey, partition: PartitionId, acquired: Any, asked_ns: int) -> int:
        """Return the time from which these records were available, not before the time of the fetch."""
        if acquired.delivery_count > 1:
            return max(asked_ns, self._back.get((group, partition), asked_ns))
        name = self._names.get(partition.topic_id, partition.topic_id)
        topic = group.cluster, name, partition.partition
        for time_ns, base_offset in reversed(self._appends.get(topic, ())):
            if base_offset <= acquired.first_offset:
                return max(asked_ns, time_ns)
        return asked_ns

    def _append(self, topic: _Topic, time_ns: int, base_offset: int) -> None:
        appends = self._appends.setdefault(topic, deque(maxlen=_APPENDS))
        appends.append((time_ns, base_offset))
        self._appends.move_to_end(topic)
        if len(self._appends) > limits.SHARE_PARTITIONS:
            self._appends.popitem(last=False)
