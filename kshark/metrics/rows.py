"""A row for every metric of KIP-932 and KIP-1103: its source on the wire. `kshark stats --share` has no others.

Sources: KIP-932 "Metrics", KIP-1103; Kafka: ShareFetchMetricsManager, ShareRebalanceMetricsManager,
KafkaShareConsumerMetrics, ShareGroupMetrics, SharePartitionMetrics, ShareSessionCache, ShareCoordinatorMetrics.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from kshark.analysis.results.statistics import Percentiles
from kshark.metrics.counts import (
    EMPTY,
    FAILED,
    IDLE,
    RECORDS,
    UNANSWERED,
    Acknowledged,
    GroupCounts,
    MemberCounts,
    PartitionCounts,
    accepted_records,
)
from kshark.metrics.metric import KIP_932, KIP_1103, OURS, Metric, again, counted, rate_alone
from kshark_dissectors.enums import AcknowledgeType


class GroupTotals(NamedTuple):
    """A group with all its members and partitions."""

    counts: GroupCounts
    members: MemberCounts
    partitions: int

    @property
    def acknowledged(self) -> Acknowledged:
        return self.members.acknowledged


class AllTotals(NamedTuple):
    """All groups: the number of groups with members, and without members."""

    stable: int
    empty: int


class Acknowledging(Protocol):
    """Counts with acknowledgements: of a member, a partition or a group."""

    @property
    def acknowledged(self) -> Acknowledged: ...


def _ms(times: Percentiles) -> float | None:
    return None if times.average is None else times.average / 1e6


def _most_ms(times: Percentiles) -> float | None:
    return times.greatest / 1e6 if times.count else None


def _most(values: Percentiles) -> int | None:
    return values.greatest if values.count else None


def _percentile_ms(times: Percentiles, percent: float) -> float | None:
    return times.at(percent)[0] / 1e6 if times.count else None


def _refused(counts: Acknowledging) -> int:
    return sum(count for (_, error), count in counts.acknowledged.items() if error)


def _redelivered(counts: MemberCounts | PartitionCounts) -> int:
    return sum(records for count, records in counts.acquired.items() if count > 1)


def _accepted(kind: int | None, counts: Acknowledging) -> int:
    return accepted_records(counts.acknowledged, kind)


def _deliveries(counts: MemberCounts | PartitionCounts) -> int | None:
    return max(counts.acquired, default=None)


def _lost(event: str, counts: MemberCounts | PartitionCounts) -> int:
    return counts.lost[event]


def _outcome(outcome: str, counts: MemberCounts) -> int:
    return counts.fetches[outcome]


def _in_flight(counts: PartitionCounts) -> int | None:
    start, end = counts.start.value, counts.end.value
    return None if start is None or end is None else end - start


def _rebalances(group: GroupTotals) -> int | None:
    epochs = group.counts.epochs
    return None if epochs.highest is None or epochs.lowest is None else epochs.highest - epochs.lowest


_FETCHES = "consumer-share-fetch-manager-metrics"
_COORDINATOR = "consumer-share-coordinator-metrics"
_POLLS = "consumer-share-metrics"
_POLL = "poll() is a call inside the client, no message shows it; clients may push this metric (PushTelemetry, KIP-714)"
_LATENCY = "ShareFetch: from the request's last byte to the response's first, including the wait for records"
_WORK = (
    "ShareFetch with records or an error in the response: the part of its latency during which records were available "
    "(from Produce, releases and lock timeouts); all of it if unknown"
)
_BATCHES = "ShareFetch responses with records: bytes of the records fields on the wire, compressed"
_ACQUIRED = "ShareFetch responses: offsets of acquired_records, also offsets without a record (acknowledged as gaps)"
_AGAIN = "ShareFetch responses: offsets of acquired_records with a delivery_count above 1"
_SENT = "ShareFetch and ShareAcknowledge: offsets of acknowledgement_batches"
_REFUSED = f"{_SENT}, if the response has an error for the request or the partition"
_ACCEPTED = f"{_SENT}, if the response has no error"
_LOCKS = "ShareFetch, ShareAcknowledge: records not acknowledged within acquisition_lock_timeout_ms"
_ENDS = (
    "ShareFetch, ShareAcknowledge, ends of connections: records that were certainly acquired when their session ended"
)
_BEATS = "ShareGroupHeartbeat"

_GROUPS = "group-coordinator-metrics"
#: Accepted acknowledgements by type, for a member, a partition or a group. Gaps are not records; brokers do not count
#: them.
_TYPES: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)
ACKNOWLEDGED: Final[tuple[Metric[Any], ...]] = tuple(
    Metric(
        f"record-acknowledgement-count{{ack-type={kind.name.lower()}}}",
        KIP_932,
        _GROUPS,
        "",
        _ACCEPTED,
        partial(_accepted, kind),
    )
    for kind in _TYPES
)

MEMBER: Final[tuple[Metric[MemberCounts], ...]] = (
    *counted("fetch-total", "fetch-rate", KIP_932, _FETCHES, "ShareFetch responses", lambda m: m.latency.count),
    Metric("fetch-latency-avg", KIP_932, _FETCHES, "ms", _LATENCY, lambda m: _ms(m.latency)),
    Metric("fetch-latency-max", KIP_932, _FETCHES, "ms", _LATENCY, lambda m: _most_ms(m.latency)),
    Metric(
        "fetches-with-records",
        OURS,
        "",
        "",
        "ShareFetch: the response has acquired_records",
        partial(_outcome, RECORDS),
    ),
    Metric(
        "fetches-failed",
        OURS,
        "",
        "",
        "ShareFetch: the response has an error and no records",
        partial(_outcome, FAILED),
    ),
    Metric(
        "fetches-idle",
        OURS,
        "",
        "",
        "ShareFetch: no records within max_wait_ms, the long poll timed out",
        partial(_outcome, IDLE),
    ),
    Metric(
        "fetches-empty",
        OURS,
        "",
        "",
        "ShareFetch: no records, and the response did not wait for max_wait_ms",
        partial(_outcome, EMPTY),
    ),
    Metric("fetches-unanswered", OURS, "", "", "ShareFetch without a response", partial(_outcome, UNANSWERED)),
    Metric("fetch-work-avg", OURS, "", "ms", _WORK, lambda m: _ms(m.work)),
    Metric("fetch-work-p99", OURS, "", "ms", _WORK, lambda m: _percentile_ms(m.work, 99)),
    Metric("fetch-work-max", OURS, "", "ms", _WORK, lambda m: _most_ms(m.work)),
    Metric(
        "fetch-idle-time",
        OURS,
        "",
        "ms",
        "ShareFetch: the rest of all latencies, when no records were available",
        lambda m: m.idle.total / 1e6,
    ),
    Metric(
        "fetch-throttle-time-avg",
        KIP_932,
        _FETCHES,
        "ms",
        "ShareFetch responses: throttle_time_ms",
        lambda m: m.throttled.average,
    ),
    Metric(
        "fetch-throttle-time-max",
        KIP_932,
        _FETCHES,
        "ms",
        "ShareFetch responses: throttle_time_ms",
        lambda m: _most(m.throttled),
    ),
    *counted(
        "records-fetched-total", "records-fetched-rate", KIP_932, _FETCHES, _ACQUIRED, lambda m: m.acquired.total()
    ),
    Metric("records-redelivered", OURS, "", "", _AGAIN, _redelivered),
    Metric("delivery-count-max", OURS, "", "", "ShareFetch responses: delivery_count", _deliveries),
    Metric(
        "records-per-request-avg",
        KIP_932,
        _FETCHES,
        "",
        f"{_ACQUIRED}; average over responses with records",
        lambda m: m.records.average,
    ),
    Metric(
        "records-per-request-max",
        KIP_932,
        _FETCHES,
        "",
        f"{_ACQUIRED}; maximum of a response",
        lambda m: _most(m.records),
    ),
    *counted(
        "bytes-consumed-total", "bytes-consumed-rate", KIP_932, _FETCHES, _BATCHES, lambda m: m.bytes.total, "bytes"
    ),
    Metric("fetch-size-avg", KIP_932, _FETCHES, "bytes", _BATCHES, lambda m: m.bytes.average),
    Metric("fetch-size-max", KIP_932, _FETCHES, "bytes", _BATCHES, lambda m: _most(m.bytes)),
    *counted(
        "acknowledgements-send-total",
        "acknowledgements-send-rate",
        KIP_932,
        _FETCHES,
        _SENT,
        lambda m: m.acknowledged.total(),
    ),
    *counted(
        "acknowledgements-error-total",
        "acknowledgements-error-rate",
        KIP_932,
        _FETCHES,
        _REFUSED,
        lambda m: _refused(m),
    ),
    *ACKNOWLEDGED,
    Metric("lock-timeouts", OURS, "", "", _LOCKS, partial(_lost, "lock_timeout")),
    Metric("session-releases", OURS, "", "", _ENDS, partial(_lost, "session_released")),
    *counted(
        "heartbeat-total", "heartbeat-rate", KIP_932, _COORDINATOR, f"{_BEATS} responses", lambda m: m.heartbeats.count
    ),
    Metric("heartbeat-response-time-max", KIP_932, _COORDINATOR, "ms", _BEATS, lambda m: _most_ms(m.heartbeats)),
    Metric(
        "last-heartbeat-seconds-ago",
        KIP_932,
        _COORDINATOR,
        "s ago",
        f"{_BEATS}: the last in the capture",
        lambda m: m.last_heartbeat,
    ),
    *counted(
        "rebalance-total",
        "rebalance-rate-per-hour",
        KIP_932,
        _COORDINATOR,
        f"{_BEATS} responses with a changed assignment",
        lambda m: m.rebalances,
        per="/h",
    ),
    Metric("last-poll-seconds-ago", KIP_932, _POLLS, "s ago", _POLL),
    Metric("time-between-poll-avg", KIP_932, _POLLS, "ms", _POLL),
    Metric("time-between-poll-max", KIP_932, _POLLS, "ms", _POLL),
    Metric("poll-idle-ratio-avg", KIP_932, _POLLS, "", _POLL),
)

_PARTITIONS = "SharePartitionMetrics"
_LOCK = "the time for which a broker locks a share partition to fetch from it is internal: no message shows it"
_RANGES = "ShareFetch responses: ranges of acquired_records with a delivery_count of 1"
_BETWEEN = (
    "ShareFetch, ShareAcknowledge, and the state that leaders store: from the start to the end offset, at the "
    "end of the capture"
)
PARTITION: Final[tuple[Metric[PartitionCounts], ...]] = (
    Metric("records-acquired", OURS, "", "", _ACQUIRED, lambda p: p.acquired.total()),
    Metric("records-redelivered", OURS, "", "", _AGAIN, _redelivered),
    Metric("delivery-count-max", OURS, "", "", "ShareFetch responses: delivery_count", _deliveries),
    *ACKNOWLEDGED,
    Metric("acknowledgements-refused", OURS, "", "", _REFUSED, _refused),
    Metric(
        "fetches-failed",
        OURS,
        "",
        "",
        "ShareFetch responses: an error_code of the partition",
        lambda p: p.failed.total(),
    ),
    *rate_alone(
        "lock-timeouts", "AcquisitionLockTimeoutPerSec", KIP_1103, _PARTITIONS, _LOCKS, partial(_lost, "lock_timeout")
    ),
    Metric("session-releases", OURS, "", "", _ENDS, partial(_lost, "session_released")),
    Metric("InFlightMessageCount", KIP_1103, _PARTITIONS, "", _BETWEEN, _in_flight),
    Metric(
        "records-held", OURS, "", "", f"{_BETWEEN}: only records that members have acquired", lambda p: p.held.total()
    ),
    Metric("InFlightBatchMessageCount.Mean", KIP_1103, _PARTITIONS, "", _RANGES, lambda p: p.ranges.average),
    Metric("InFlightBatchMessageCount.Max", KIP_1103, _PARTITIONS, "", _RANGES, lambda p: _most(p.ranges)),
    Metric(
        "InFlightBatchCount",
        KIP_1103,
        _PARTITIONS,
        "",
        "the batches in a broker's memory are internal: no message shows them",
    ),
    Metric("FetchLockTimeMs", KIP_1103, _PARTITIONS, "ms", _LOCK),
    Metric("FetchLockRatio", KIP_1103, _PARTITIONS, "", _LOCK),
)

_STORE = "share-coordinator-metrics"
_TOPICS = "BrokerTopicMetrics"
_SHARES = "ShareGroupMetrics"
_CACHE = "ShareSessionCache"
_PURGATORY = "DelayedOperationPurgatory"
_WRITES = "WriteShareGroupState, if the capture has requests of brokers to share coordinators"
_LOADS = "ReadShareGroupState, if the capture has requests of brokers to share coordinators"
_EPOCHS = f"{_BEATS} responses: increase of the member epoch (no response shows that the last member left)"
_ACKS = "ShareFetch and ShareAcknowledge with acknowledgements"
_OWN_LOG = "a share coordinator reads its log from its own disk: no message shows it"
_THREAD = "internal to a share coordinator's thread: no message shows it"
_OPEN = "share sessions that were opened and have not ended, as in kshark sessions"
GROUP: Final[tuple[Metric[GroupTotals], ...]] = (
    *counted("rebalance-count", "rebalance-rate", KIP_932, _GROUPS, _EPOCHS, _rebalances),
    Metric(
        "num-partitions",
        KIP_932,
        _GROUPS,
        "",
        "share partitions in ShareFetch and ShareAcknowledge",
        lambda g: g.partitions,
    ),
    *counted(
        "share-acknowledgement-count",
        "share-acknowledgement-rate",
        KIP_932,
        _GROUPS,
        f"{_ACCEPTED}; no gaps",
        partial(_accepted, None),
    ),
    *ACKNOWLEDGED,
    *(
        again(
            f"record-acknowledgement-rate{{ack-type={kind.name.lower()}}}",
            KIP_932,
            _GROUPS,
            "/s",
            of.name,
            partial(_accepted, kind),
        )
        for kind, of in zip(_TYPES, ACKNOWLEDGED, strict=True)
    ),
    *(
        again(
            f"RecordAcknowledgementsPerSec{{ackType={kind.name.capitalize()}}}",
            KIP_1103,
            _SHARES,
            "/s",
            of.name,
            partial(_accepted, kind),
        )
        for kind, of in zip(_TYPES, ACKNOWLEDGED, strict=True)
    ),
    Metric("partition-load-time-avg", KIP_932, _GROUPS, "ms", _LOADS, lambda g: _ms(g.counts.loads)),
    Metric("partition-load-time-max", KIP_932, _GROUPS, "ms", _LOADS, lambda g: _most_ms(g.counts.loads)),
    again(
        "PartitionLoadTimeMs.Mean", KIP_1103, _SHARES, "ms", "partition-load-time-avg", lambda g: _ms(g.counts.loads)
    ),
    again(
        "PartitionLoadTimeMs.Max",
        KIP_1103,
        _SHARES,
        "ms",
        "partition-load-time-max",
        lambda g: _most_ms(g.counts.loads),
    ),
    *counted("write-total", "write-rate", KIP_932, _STORE, _WRITES, lambda g: g.counts.writes.count),
    Metric(
        "write-latency-avg",
        KIP_932,
        _STORE,
        "ms",
        f"{_WRITES}: from request to response",
        lambda g: _ms(g.counts.writes),
    ),
    Metric(
        "write-latency-max",
        KIP_932,
        _STORE,
        "ms",
        f"{_WRITES}: from request to response",
        lambda g: _most_ms(g.counts.writes),
    ),
    *rate_alone(
        "fetch-requests",
        "TotalShareFetchRequestsPerSec",
        KIP_1103,
        _TOPICS,
        "ShareFetch",
        lambda g: g.members.fetches.total(),
    ),
    again(
        "FailedShareFetchRequestsPerSec", KIP_1103, _TOPICS, "/s", "fetches-failed", lambda g: g.members.fetches[FAILED]
    ),
    *rate_alone(
        "acknowledgement-requests",
        "TotalShareAcknowledgementRequestsPerSec",
        KIP_1103,
        _TOPICS,
        _ACKS,
        lambda g: g.members.acknowledging,
    ),
    *rate_alone(
        "acknowledgement-requests-failed",
        "FailedShareAcknowledgementRequestsPerSec",
        KIP_1103,
        _TOPICS,
        f"{_ACKS}, if the response has an error for them",
        lambda g: g.members.acknowledging_failed,
    ),
    again(
        "ExpiresPerSec", KIP_1103, "DelayedShareFetchMetrics", "/s", "fetches-idle", lambda g: g.members.fetches[IDLE]
    ),
    Metric(
        "NumDelayedOperations{delayedOperation=ShareFetch}",
        KIP_1103,
        _PURGATORY,
        "",
        "ShareFetch that the broker may still hold at the end of the capture",
        lambda g: g.members.waiting,
    ),
    Metric("ShareSessionsCount", KIP_1103, _CACHE, "", _OPEN, lambda g: g.members.sessions["open"]),
    Metric(
        "SharePartitionsCount",
        KIP_1103,
        _CACHE,
        "",
        f"{_OPEN}: number of their partitions",
        lambda g: g.members.session_partitions,
    ),
    *rate_alone(
        "session-evictions",
        "ShareSessionEvictionsPerSec",
        KIP_1103,
        _CACHE,
        "share sessions that were evicted for others, as in kshark sessions",
        lambda g: g.members.sessions["evicted"],
    ),
    Metric(
        "PurgatorySize{delayedOperation=ShareFetch}",
        KIP_1103,
        _PURGATORY,
        "",
        "counts a fetch once for each key that it waits for, also completed ones: no message shows it",
    ),
    Metric(
        "RequestTopicPartitionsFetchRatio",
        KIP_1103,
        _SHARES,
        "",
        f"{_LOCK}, nor the number of partitions of a request that it can lock",
    ),
    Metric("TopicPartitionsAcquireTimeMs", KIP_1103, _SHARES, "ms", f"{_LOCK}, nor the wait for the lock"),
    Metric("thread-idle-ratio-min", KIP_932, _STORE, "", _THREAD),
    Metric("thread-idle-ratio-avg", KIP_932, _STORE, "", _THREAD),
    Metric("partition-load-time-avg", KIP_932, _STORE, "ms", _OWN_LOG),
    Metric("partition-load-time-max", KIP_932, _STORE, "ms", _OWN_LOG),
)

_STATES = f"{_BEATS} responses: whether a member is in the group at the end of the capture"
ALL: Final[tuple[Metric[AllTotals], ...]] = (
    Metric(
        "group-count",
        KIP_932,
        _GROUPS,
        "",
        f"groups of {_BEATS}, ShareFetch and ShareAcknowledge",
        lambda a: a.stable + a.empty,
    ),
    Metric("group-count{state=stable}", KIP_932, _GROUPS, "", _STATES, lambda a: a.stable),
    Metric("group-count{state=empty}", KIP_932, _GROUPS, "", _STATES, lambda a: a.empty),
    Metric(
        "group-count{state=dead}",
        KIP_932,
        _GROUPS,
        "",
        "a broker forgets a dead group at once (kshark groups shows deleted groups)",
    ),
)

#: The rows by the kind of thing that they describe.
METRICS: Final[dict[str, tuple[Metric[Any], ...]]] = {
    "member": MEMBER,
    "share partition": PARTITION,
    "group": GROUP,
    "all groups": ALL,
}
