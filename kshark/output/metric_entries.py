"""`kshark explain metrics` and `kshark explain METRIC`: metrics of `kshark stats --share`, and metrics without a
message.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from kshark.metrics import METRICS, Metric
from kshark.metrics.metric import OURS
from kshark.output.spans import API, CODE, DIM, LABEL, PLAIN, WARN, Line

_WIDTH: Final = 120


def metrics_lines() -> Iterator[Line]:
    """Return all metrics, by the kind of thing that they describe."""
    for index, (described, metrics) in enumerate(METRICS.items()):
        if index:
            yield []
        yield [(f"of {described}" if described == "all groups" else f"of a {described}", API)]
        width = max(len(metric.name) for metric in metrics)
        for kind, rows in groupby(sorted(metrics, key=_shelf), key=_shelf):
            yield [(f"  {' · '.join(filter(None, kind[1:]))}", LABEL)]
            yield from _rows([*rows], width)
    yield []
    yield [
        ("no message: no captured message shows it; -T json has all others. kshark: the name is not from a KIP", DIM)
    ]


def metric_named(name: str) -> list[tuple[str, Metric[Any]]]:
    """Return the metrics with that name, each with its kind of thing.

    Ignores case; the part in braces is optional.
    """
    wanted = name.lower()
    return [
        (described, metric)
        for described, metrics in METRICS.items()
        for metric in metrics
        if wanted in (metric.name.lower(), metric.name.lower().split("{")[0])
    ]


def named_lines(metrics: list[tuple[str, Metric[Any]]]) -> Iterator[Line]:
    """Return the descriptions of these metrics."""
    for described, metric in metrics:
        yield [
            (metric.name, CODE),
            (f"  of a {described} · {' · '.join(filter(None, (*_shelf(metric)[1:], metric.unit)))}", DIM),
        ]
        yield from (
            [("  " + line, PLAIN if metric.value is not None else WARN)]
            for line in textwrap.wrap(metric.source, _WIDTH - 2)
        )


def _shelf(metric: Metric[Any]) -> tuple[bool, str, str]:
    """Return the sort key: metrics of KIPs first."""
    return metric.kip == OURS, metric.kip, metric.kind


def _rows(metrics: list[Metric[Any]], width: int) -> Iterator[Line]:
    previous = ""
    for metric in metrics:
        source = "the same" if metric.source == previous else metric.source
        previous = metric.source
        first, *rest = textwrap.wrap(source, _WIDTH - width - 6)
        style = DIM if source == "the same" else PLAIN if metric.value is not None else WARN
        yield [("    " + metric.name.ljust(width + 2), PLAIN if metric.value is not None else DIM), (first, style)]
        yield from ([(" " * (width + 6) + line, style)] for line in rest)
