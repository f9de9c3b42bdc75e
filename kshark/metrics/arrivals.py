"""Since when there were records to be had: a fetch that waits for them is not slow.

Records come to be there when a producer's batch is appended, or when a member gives them back or its lock runs out.
What the capture does not tell was there all along, so that nothing is taken for waiting that may be work."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.metrics.counts import PartitionId
from kshark.model import Message

#: Appends to one partition that are remembered: a fetch is answered with the first that it waited for.
_APPENDS: Final = 64

_Topic = tuple[str, int]


class Arrivals:
    """`produced` and `given_back` say what came to be there; `since` is asked of records that an answer hands out.

    Topics go by their names where producers use those; `names` are those of topic ids, as far as they are known by
    then."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        #: Of each partition the time of appends, with the first offset of each.
        self._appends: OrderedDict[_Topic, deque[tuple[int, int]]] = OrderedDict()
        self._back: OrderedDict[tuple[str | None, PartitionId], int] = OrderedDict()

    def produced(self, request: Message, response: Message) -> None:
        """The records of a Produce that were appended: not before the request was there."""
        for topic in getattr(response.body, "responses", ()) or ():
            topic_id: Any = getattr(topic, "topic_id", UNSET)
            name: Any = getattr(topic, "name", UNSET) if topic_id is UNSET else self._names.get(topic_id, topic_id)
            for one in topic.partition_responses or ():
                if one.error_code == 0 and one.base_offset >= 0:
                    self._append((name, one.index), request.time_ns, one.base_offset)

    def given_back(self, group_id: str | None, partition: PartitionId, time_ns: int) -> None:
        """Records that can be acquired again."""
        key = group_id, partition
        self._back[key] = time_ns
        self._back.move_to_end(key)
        if len(self._back) > limits.SHARE_PARTITIONS:
            self._back.popitem(last=False)

    def since(self, group_id: str | None, partition: PartitionId, acquired: Any, asked_ns: int) -> int:
        """The time from which these records were there, not before they were asked for."""
        if acquired.delivery_count > 1:
            return max(asked_ns, self._back.get((group_id, partition), asked_ns))
        topic = self._names.get(partition.topic_id, partition.topic_id), partition.partition
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
