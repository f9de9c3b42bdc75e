"""`kshark explain metrics`, and of one metric: the rows that `kshark stats --share` computes, and those that no message
shows."""

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
    """All of them, by what they are of."""
    for index, (of, metrics) in enumerate(METRICS.items()):
        if index:
            yield []
        yield [(f"of {of}" if of == "all groups" else f"of a {of}", API)]
        width = max(len(metric.name) for metric in metrics)
        for kind, rows in groupby(sorted(metrics, key=_shelf), key=_shelf):
            yield [(f"  {' · '.join(filter(None, kind[1:]))}", LABEL)]
            yield from _rows([*rows], width)
    yield []
    yield [("no message: the wire cannot show it; -T json has all others. kshark: no KIP names it", DIM)]


def metric_named(name: str) -> list[tuple[str, Metric[Any]]]:
    """Metrics with that name, upper or lower case, with or without what stands in braces, each with what it is of."""
    wanted = name.lower()
    return [
        (of, one)
        for of, metrics in METRICS.items()
        for one in metrics
        if wanted in (one.name.lower(), one.name.lower().split("{")[0])
    ]


def named_lines(found: list[tuple[str, Metric[Any]]]) -> Iterator[Line]:
    """What is said of them."""
    for of, metric in found:
        yield [
            (metric.name, CODE),
            (f"  of a {of} · {' · '.join(filter(None, (*_shelf(metric)[1:], metric.unit)))}", DIM),
        ]
        yield from (
            [("  " + line, PLAIN if metric.value is not None else WARN)]
            for line in textwrap.wrap(metric.told, _WIDTH - 2)
        )


def _shelf(metric: Metric[Any]) -> tuple[bool, str, str]:
    """KIPs before what none names."""
    return metric.kip == OURS, metric.kip, metric.kind


def _rows(metrics: list[Metric[Any]], width: int) -> Iterator[Line]:
    before = ""
    for metric in metrics:
        told = "the same" if metric.told == before else metric.told
        before = metric.told
        first, *more = textwrap.wrap(told, _WIDTH - width - 6)
        style = DIM if told == "the same" else PLAIN if metric.value is not None else WARN
        yield [("    " + metric.name.ljust(width + 2), PLAIN if metric.value is not None else DIM), (first, style)]
        yield from ([(" " * (width + 6) + line, style)] for line in more)
