"""Ends of partitions: the offset that the next record gets, as responses show it.

Sources: the base offset in a Produce response with the records of its request; the high watermark in a Fetch response;
the answer of ListOffsets to the question for the latest offset. Kafka: UnifiedLog, Partition.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis.facts.reading import is_whole
from kshark.api_keys import FETCH, LIST_OFFSETS, PRODUCE
from kshark.model import Exchange, Message
from kshark.records import RecordsField
from kshark_dissectors.enums import SpecialTimestamp

#: An end that is lower than the one before counts only after this time without a higher one: responses overtake each
#: other, and replicas are late. After it the log was cut, or its topic was created anew.
_LOWER_NS: Final = 10_000_000_000

#: The topic, its partition, and the end.
_Found = Iterator[tuple[str, int, int]]


class LogEnds:
    """The ends of partitions; `feed` takes exchanges, `at` returns the end of one.

    `names`: the names of topics by id, which it reads as they become known. Beyond limits.SHARE_PARTITIONS the
    partitions whose end was shown longest ago are forgotten.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        #: By cluster, topic and partition: the end, and its time.
        self._ends: OrderedDict[tuple[int, str, int], tuple[int, int]] = OrderedDict()

    def feed(self, exchange: Exchange, cluster: int) -> None:
        """Take an exchange with a broker of that cluster."""
        request, response = exchange.request, exchange.response
        if request is None or response is None:
            return
        read = _READERS.get(request.api_key)  # type: ignore[arg-type]  # UNSET is no key
        if read is not None and is_whole(request) and is_whole(response):
            for topic, partition, end in read(request, response):
                self._put((cluster, self._names.get(topic, topic), partition), end, response.time_ns)

    def at(self, cluster: int, topic_id: str, partition: int) -> int | None:
        """Return the end of a partition; None if no response shows it."""
        name = self._names.get(topic_id, topic_id)
        found = self._ends.get((cluster, name, partition)) or self._ends.get((cluster, topic_id, partition))
        return None if found is None else found[0]

    def _put(self, key: tuple[int, str, int], end: int, time_ns: int) -> None:
        before = self._ends.get(key)
        if before is not None and end < before[0] and time_ns < before[1] + _LOWER_NS:
            return
        self._ends[key] = end, time_ns
        self._ends.move_to_end(key)
        if len(self._ends) > limits.SHARE_PARTITIONS:
            self._ends.popitem(last=False)


def _topic(topic: Any) -> str:
    """Return the id or the name of a topic, whichever the structure has."""
    for name in ("topic_id", "name", "topic"):
        value = getattr(topic, name, UNSET)
        if isinstance(value, str):
            return value
    return ""


def _produced(request: Message, response: Message) -> _Found:
    records = {
        (_topic(topic), partition.index): _count(partition.records)
        for topic in request.body.topic_data or ()
        for partition in topic.partition_data or ()
    }
    for topic in response.body.responses or ():
        name = _topic(topic)
        for partition in topic.partition_responses or ():
            if partition.error_code == 0 and partition.base_offset >= 0:
                yield name, partition.index, partition.base_offset + records.get((name, partition.index), 1)


def _count(field: Any) -> int:
    """Return the number of offsets that the batches of a request take; at least 1 if their headers were not read."""
    if not isinstance(field, RecordsField) or field.batches is UNSET:
        return 1
    return sum(getattr(batch, "last_offset_delta", 0) + 1 for batch in field.batches)


def _fetched(_: Message, response: Message) -> _Found:
    for topic in response.body.responses or ():
        name = _topic(topic)
        for partition in topic.partitions or ():
            if partition.error_code == 0 and partition.high_watermark >= 0:
                yield name, partition.partition_index, partition.high_watermark


def _listed(request: Message, response: Message) -> _Found:
    asked = {
        (topic.name, partition.partition_index)
        for topic in request.body.topics or ()
        for partition in topic.partitions or ()
        if partition.timestamp == SpecialTimestamp.LATEST
    }
    for topic in response.body.topics or ():
        for partition in topic.partitions or ():
            end = getattr(partition, "offset", -1)
            if (
                partition.error_code == 0
                and isinstance(end, int)
                and end >= 0
                and (topic.name, partition.partition_index) in asked
            ):
                yield topic.name, partition.partition_index, end


_READERS: Final[dict[int, Callable[[Message, Message], _Found]]] = {
    PRODUCE: _produced,
    FETCH: _fetched,
    LIST_OFFSETS: _listed,
}
