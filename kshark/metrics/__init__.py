"""Metrics of share groups, with the names of KIP-932 and KIP-1103: events in, one `ListedMetrics` out.

    counting = ShareCounting(names)
    for page in pages: counting.page(page)
    listed(counting.close(), names.known)

`METRICS` has a row for each metric: its value and the messages that it comes from, or why no message shows it.
"""

from __future__ import annotations

from kshark.groups.log_ends import LogEnds
from kshark.metrics.counting import APIS, ShareCounting, ShareEvents
from kshark.metrics.counts import Counted, CountedByGroup, CountedSpan, GroupKey, MemberCounts, PartitionCounts
from kshark.metrics.listed import ListedGroup, ListedMember, ListedMetrics, ListedPartition, listed
from kshark.metrics.metric import Metric
from kshark.metrics.rows import METRICS

__all__ = [
    "APIS",
    "METRICS",
    "Counted",
    "CountedByGroup",
    "CountedSpan",
    "GroupKey",
    "ListedGroup",
    "ListedMember",
    "ListedMetrics",
    "ListedPartition",
    "LogEnds",
    "MemberCounts",
    "Metric",
    "PartitionCounts",
    "ShareCounting",
    "ShareEvents",
    "listed",
]
