"""Offsets of groups and their lag, as OffsetCommit, OffsetFetch and DescribeShareGroupOffsets show them.

The lag is the answer's where it has one; else the end of the partition, as last shown, less the offset: the real end
may be higher.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from kshark import limits
from kshark.api_keys import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_GROUPS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    FETCH,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from kshark.groups.listed import GroupOffset, OffsetSource
from kshark.groups.log_ends import LogEnds
from kshark.groups.table import GroupExchange
from kshark_dissectors.enums import ErrorCode

#: APIs whose bodies show the offsets of groups, and the ends of partitions.
OFFSET_APIS: Final = frozenset(
    {
        OFFSET_COMMIT,
        OFFSET_FETCH,
        OFFSET_DELETE,
        TXN_OFFSET_COMMIT,
        DESCRIBE_SHARE_GROUP_OFFSETS,
        ALTER_SHARE_GROUP_OFFSETS,
        DELETE_SHARE_GROUP_OFFSETS,
        DELETE_GROUPS,
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
    }
)


class _Shown(Struct, frozen=True):
    """An offset of a group. `offset` None: it is unknown since then. `lag`: of the answer; None if it has none."""

    group_id: str
    topic: str
    partition: int
    offset: int | None
    lag: int | None = None


class GroupOffsets:
    """The offsets of the groups of one cluster; beyond limits.SHARE_PARTITIONS the oldest are forgotten."""

    def __init__(self) -> None:
        #: By group, topic (its name or id) and partition.
        self._offsets: OrderedDict[tuple[str, str, int], GroupOffset] = OrderedDict()

    def feed(self, exchange: GroupExchange) -> None:
        for group_id in _changed(exchange):
            for key in [key for key in self._offsets if key[0] == group_id]:
                del self._offsets[key]
        read = _READERS.get(exchange.api_key)
        if read is None:
            return
        for shown in read(exchange.request, exchange.answer):
            key = shown.group_id, shown.topic, shown.partition
            self._offsets.pop(key, None)
            if shown.offset is None:
                continue
            self._offsets[key] = GroupOffset(
                None,
                shown.topic,
                shown.partition,
                shown.offset,
                None,
                shown.lag,
                exchange.at.packet,
                exchange.at.time_ns,
                _SOURCES[exchange.api_key],
            )
            if len(self._offsets) > limits.SHARE_PARTITIONS:
                self._offsets.popitem(last=False)

    def of(self, group_id: str, ends: LogEnds, cluster: int, names: Mapping[str, str]) -> list[GroupOffset]:
        """Return the offsets of a group by topic and partition. `names`: topic names by id."""
        listed: dict[tuple[str, int], GroupOffset] = {}
        for (group, topic, partition), shown in self._offsets.items():
            if group != group_id:
                continue
            end, name = ends.at(cluster, topic, partition), names.get(topic, topic)
            lag = shown.lag
            if lag is None and end is not None and end >= shown.offset:
                lag = end - shown.offset
            topic_id = topic if topic in names else None
            listed[name, partition] = GroupOffset(
                topic_id, name, partition, shown.offset, end, lag, shown.packet, shown.time_ns, shown.source
            )
        return [listed[key] for key in sorted(listed)]


def _changed(exchange: GroupExchange) -> Sequence[str]:
    """Return the groups whose offsets an administrator changed or deleted, or may have."""
    if exchange.api_key in (ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS):
        return () if exchange.error else [exchange.request.group_id]
    if exchange.api_key != DELETE_GROUPS:
        return ()
    results = {row.group_id: row.error_code for row in getattr(exchange.answer, "results", None) or ()}
    return [group_id for group_id in exchange.request.groups_names or () if not results.get(group_id)]


def _topic(topic: Any) -> str:
    """Return the id or the name of a topic, whichever the version has."""
    for name in ("name", "topic_name", "topic_id"):
        value = getattr(topic, name, None)
        if isinstance(value, str) and value:
            return value
    return ""


def _committed(request: Any, answer: Any) -> Iterator[_Shown]:
    """Yield accepted commits. One without an answer leaves the offset unknown; a refused one changes nothing."""
    results = {
        (_topic(topic), partition.partition_index): partition.error_code
        for topic in getattr(answer, "topics", None) or ()
        for partition in topic.partitions or ()
    }
    for topic in request.topics or ():
        for partition in topic.partitions or ():
            number = partition.partition_index
            error = results.get((_topic(topic), number))
            if not error:
                offset = None if error is None else partition.committed_offset
                yield _Shown(request.group_id, _topic(topic), number, offset)


def _in_transaction(request: Any, _: Any) -> Iterator[_Shown]:
    """Yield offsets of a transaction: whether they count is known only when it ends."""
    for topic in request.topics or ():
        for partition in topic.partitions or ():
            yield _Shown(request.group_id, _topic(topic), partition.partition_index, None)


def _fetched(request: Any, answer: Any) -> Iterator[_Shown]:
    groups = getattr(answer, "groups", None)
    named = [(request.group_id, answer)] if groups is None and answer is not None else []
    for group_id, group in named or [(group.group_id, group) for group in groups or ()]:
        if getattr(group, "error_code", 0):
            continue
        for topic in group.topics or ():
            for partition in topic.partitions or ():
                if partition.error_code == 0:
                    offset = partition.committed_offset
                    yield _Shown(group_id, _topic(topic), partition.partition_index, offset if offset >= 0 else None)


def _described(_: Any, answer: Any) -> Iterator[_Shown]:
    for group in getattr(answer, "groups", None) or ():
        for topic in group.topics or () if not group.error_code else ():
            for partition in topic.partitions or ():
                if partition.error_code == 0:
                    lag, start = getattr(partition, "lag", -1), partition.start_offset
                    yield _Shown(
                        group.group_id,
                        topic.topic_id,
                        partition.partition_index,
                        start if start >= 0 else None,
                        lag if lag >= 0 else None,
                    )


def _deleted(request: Any, answer: Any) -> Iterator[_Shown]:
    for topic in getattr(answer, "topics", None) or ():
        for partition in topic.partitions or ():
            if partition.error_code == ErrorCode.NONE:
                yield _Shown(request.group_id, _topic(topic), partition.partition_index, None)


_READERS: Final[dict[int, Callable[[Any, Any], Iterator[_Shown]]]] = {
    OFFSET_COMMIT: _committed,
    OFFSET_FETCH: _fetched,
    OFFSET_DELETE: _deleted,
    TXN_OFFSET_COMMIT: _in_transaction,
    DESCRIBE_SHARE_GROUP_OFFSETS: _described,
}
_SOURCES: Final[dict[int, OffsetSource]] = {
    OFFSET_COMMIT: "committed",
    OFFSET_FETCH: "fetched",
    DESCRIBE_SHARE_GROUP_OFFSETS: "described",
}
