"""Metrics of share groups as structs: their fields, in this order, are the JSON of `kshark stats --share -T json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from kshark.metrics.counts import (
    OUTCOMES,
    Counted,
    CountedSpan,
    GroupCounts,
    GroupKey,
    MemberCounts,
    PartitionCounts,
    PartitionId,
)
from kshark.metrics.metric import Metric, Number
from kshark.metrics.rows import ALL, GROUP, MEMBER, PARTITION, AllTotals, GroupTotals
from kshark.metrics.trouble import trouble_of, waiting_of

C = TypeVar("C")
Metrics = dict[str, Number | None]


class ListedMember(msgspec.Struct):
    """A member.

    `present`: it is in the group at the end; null: unknown. `trouble`: why it gets no records; null if it gets them,
    or needs none. `fetches`: its fetches by outcome (records, failed, idle, empty, unanswered, unread). `work_ms`,
    `idle_ms`: their time with records or an error, and their time waiting for records; each with p50, p95, p99 and max.
    `errors`: failed fetches by error. `heartbeat_errors`: failed heartbeats by error. `sessions`: its share sessions by
    their end.
    """

    member_id: str | None
    client_id: str | None
    address: str | None
    present: bool | None
    last_records_ns: int | None
    trouble: str | None
    fetches: dict[str, int]
    work_ms: dict[str, float] | None
    idle_ms: dict[str, float] | None
    errors: dict[str, int]
    heartbeat_errors: dict[str, int]
    sessions: dict[str, int]
    metrics: Metrics


class ListedPartition(msgspec.Struct):
    """A share partition.

    `start_offset`, `end_offset` (exclusive): the records in flight at the end; null if unknown. `held`: records that
    each member has acquired at that time. `errors`: fetches that could not read it.
    """

    topic_id: str
    topic: str | None
    partition: int
    start_offset: int | None
    end_offset: int | None
    held: dict[str, int]
    errors: dict[str, int]
    metrics: Metrics


class ListedGroup(msgspec.Struct):
    """A share group.

    `members_metrics`: the members' metrics for all members together. `cluster_id`: null without a Metadata response.
    `begins`: a sentence about partitions that begin at the end of the log; null if none does. `waits`: a sentence about
    partitions that wait for open transactions at the end; null if none does.
    """

    group_id: str | None
    metrics: Metrics
    members_metrics: Metrics
    members: list[ListedMember]
    partitions: list[ListedPartition]
    cluster_id: str | None = None
    begins: str | None = None
    waits: str | None = None


class ListedMetrics(msgspec.Struct):
    """All share groups of a capture, and the time span of the rates."""

    first_time_ns: int | None
    last_time_ns: int | None
    metrics: Metrics
    groups: list[ListedGroup]


def listed(counted: Counted, names: Mapping[str, str]) -> ListedMetrics:
    """Return the metrics: groups by id, members in the order of appearance, partitions by topic.

    `names`: topic names by id.
    """
    members: dict[GroupKey, dict[str | None, MemberCounts]] = {group: {} for group in counted.groups}
    for (group, member_id), member in counted.members.items():
        if member.client.time_ns is not None:  # otherwise only its sessions are known, which are not listed
            members.setdefault(group, {})[member_id] = member
    partitions: dict[GroupKey, dict[PartitionId, PartitionCounts]] = {group: {} for group in counted.groups}
    for (group, partition_id), partition in counted.partitions.items():
        partitions.setdefault(group, {})[partition_id] = partition
    groups = [
        _group(group, counted, members[group], partitions[group], names)
        for group in sorted(counted.groups, key=lambda group_key: (group_key.group_id or "", group_key.cluster))
    ]
    stable = sum(any(member.present is not False for member in group.members) for group in groups)
    return ListedMetrics(
        counted.span.first_ns,
        counted.span.last_ns,
        _metrics(ALL, AllTotals(stable, len(groups) - stable), counted.span),
        groups,
    )


def _group(
    group: GroupKey,
    counted: Counted,
    members: Mapping[str | None, MemberCounts],
    partitions: Mapping[PartitionId, PartitionCounts],
    names: Mapping[str, str],
) -> ListedGroup:
    span = counted.span
    together = MemberCounts()
    for member in members.values():
        together.update(member)
    asked = together.asked_for | partitions.keys()
    totals = GroupTotals(counted.groups[group], together, len(asked))
    return ListedGroup(
        group.group_id,
        _metrics(GROUP, totals, span),
        _metrics(MEMBER, together, span),
        [_member(member_id, member, partitions, members, names, span) for member_id, member in members.items()],
        [
            _partition(partition_id, partition, names, span)
            for partition_id, partition in sorted(
                partitions.items(), key=lambda item: (names.get(item[0].topic_id, item[0].topic_id), item[0].partition)
            )
        ],
        counted.clusters.get(group.cluster),
        _begins(counted.groups[group]),
        waiting_of(partitions, partitions, names),
    )


def _begins(group: GroupCounts) -> str | None:
    """Return where partitions without a stored start offset begin, unless that is the log's beginning.

    A value that the capture shows only after they began may be another one than they began with.
    """
    count, known_ns, began_ns = len(group.unset), group.reset.time_ns, group.unset_last.time_ns
    if not count or began_ns is None:
        return None
    many = f"{count:,} {'share partition' if count == 1 else 'share partitions'}"
    one = count == 1
    if known_ns is None or known_ns > began_ns:
        return (
            f"{many} had no stored start offset: by Kafka's default {'it begins' if one else 'they begin'} at the end "
            "of the log, but the capture does not show share.auto.offset.reset of the group"
        )
    if group.reset.value != "latest":
        return None
    return f"{many} {'begins' if one else 'begin'} at the end of the log: share.auto.offset.reset is latest"


def _member(
    member_id: str | None,
    counts: MemberCounts,
    partitions: Mapping[PartitionId, PartitionCounts],
    others: Mapping[str | None, MemberCounts],
    names: Mapping[str, str],
    span: CountedSpan,
) -> ListedMember:
    client_id, address = counts.client.value
    return ListedMember(
        member_id,
        client_id,
        address,
        counts.present.value,
        counts.drought.since_ns,
        trouble_of(member_id, counts, partitions, others, names),
        {outcome: counts.fetches[outcome] for outcome in OUTCOMES},
        counts.work.summary(),
        counts.idle.summary(),
        _by_error(counts.failed),
        _by_error(counts.refused),
        dict(counts.sessions),
        _metrics(MEMBER, counts, span),
    )


def _partition(
    partition_id: PartitionId, counts: PartitionCounts, names: Mapping[str, str], span: CountedSpan
) -> ListedPartition:
    return ListedPartition(
        partition_id.topic_id,
        names.get(partition_id.topic_id),
        partition_id.partition,
        counts.start.value,
        counts.end.value,
        {member_id or "": records for member_id, records in counts.held.items()},
        _by_error(counts.failed),
        _metrics(PARTITION, counts, span),
    )


def _by_error(counts: Counter[int]) -> dict[str, int]:
    return {str(error): count for error, count in counts.most_common()}


def _metrics(rows: Sequence[Metric[C]], counts: C, span: CountedSpan) -> Metrics:
    return {metric.name: metric.of(counts, span) for metric in rows if metric.value is not None}
