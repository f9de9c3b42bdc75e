"""The rows: each is computed or says why not, and all that the KIPs name are there."""

from __future__ import annotations

import re

from kshark.metrics import METRICS
from kshark.metrics.metric import OURS
from tests.shared import shared

#: KIP-932, "Client metrics"; Kafka: ShareFetchMetricsRegistry, ShareRebalanceMetricsManager, HeartbeatMetricsManager.
CLIENT = {
    "last-poll-seconds-ago",
    "time-between-poll-avg",
    "time-between-poll-max",
    "poll-idle-ratio-avg",
    "heartbeat-response-time-max",
    "heartbeat-rate",
    "heartbeat-total",
    "last-heartbeat-seconds-ago",
    "rebalance-total",
    "rebalance-rate-per-hour",
    "fetch-size-avg",
    "fetch-size-max",
    "bytes-consumed-rate",
    "bytes-consumed-total",
    "records-per-request-avg",
    "records-per-request-max",
    "records-fetched-rate",
    "records-fetched-total",
    "acknowledgements-send-rate",
    "acknowledgements-send-total",
    "acknowledgements-error-rate",
    "acknowledgements-error-total",
    "fetch-latency-avg",
    "fetch-latency-max",
    "fetch-rate",
    "fetch-total",
    "fetch-throttle-time-avg",
    "fetch-throttle-time-max",
}
#: KIP-1103, "Public Interfaces".
BROKER = {
    "TotalShareFetchRequestsPerSec",
    "FailedShareFetchRequestsPerSec",
    "TotalShareAcknowledgementRequestsPerSec",
    "FailedShareAcknowledgementRequestsPerSec",
    "RecordAcknowledgementsPerSec",
    "PartitionLoadTimeMs",
    "RequestTopicPartitionsFetchRatio",
    "TopicPartitionsAcquireTimeMs",
    "AcquisitionLockTimeoutPerSec",
    "InFlightMessageCount",
    "InFlightBatchCount",
    "InFlightBatchMessageCount",
    "FetchLockTimeMs",
    "FetchLockRatio",
    "ShareSessionEvictionsPerSec",
    "SharePartitionsCount",
    "ShareSessionsCount",
    "ExpiresPerSec",
    "PurgatorySize",
    "NumDelayedOperations",
}
ROWS = [metric for metrics in METRICS.values() for metric in metrics]


def test_all_that_the_kips_name_is_there_and_nothing_else_under_their_names() -> None:
    named = {re.sub(r"[.{].*", "", metric.name) for metric in ROWS if metric.kip != OURS}
    drafted = re.findall(r"name=([a-z-]+)", shared("drafts", "003_8ac41351a8cf10a8.txt").read_text())
    assert named == CLIENT | BROKER | {*drafted}


def test_what_no_message_shows_says_why() -> None:
    for metric in ROWS:
        assert metric.source
        assert metric.value is not None or re.search(r"no message|forgets a dead group at once", metric.source), (
            metric.name
        )


def test_names_are_told_apart() -> None:
    for metrics in METRICS.values():
        computed = [metric.name for metric in metrics if metric.value is not None]
        assert len(computed) == len(set(computed))


def test_what_says_the_same_as_another_names_it() -> None:
    for metric in ROWS:
        assert not metric.same_as or any(other.name == metric.same_as and other.value is not None for other in ROWS), (
            metric.name
        )
