"""Share groups in figures, under the names that KIP-932 and KIP-1103 give them: events in, one `ListedMetrics` out.

counting = ShareCounting()
for page in pages: counting.page(page)
listed(counting.close(), names)

`METRICS` are the rows: what each metric is computed of, and from which messages, or why no message shows it.
"""

from __future__ import annotations

from kshark.metrics.counting import APIS, ShareCounting
from kshark.metrics.counts import Counted, Span
from kshark.metrics.listed import ListedGroup, ListedMember, ListedMetrics, ListedPartition, listed
from kshark.metrics.metric import Metric
from kshark.metrics.rows import METRICS

__all__ = [
    "APIS",
    "METRICS",
    "Counted",
    "ListedGroup",
    "ListedMember",
    "ListedMetrics",
    "ListedPartition",
    "Metric",
    "ShareCounting",
    "Span",
    "listed",
]
