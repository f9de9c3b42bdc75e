"""Analyze large captures from packets to findings: plan, decode by shares, judge by buckets."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kshark.analysis import Observed
from kshark.errors import UnreadableInput
from kshark.facts import Fact
from kshark.pipeline import Options
from kshark.tables.events import PositionedEvent
from kshark.units import size
from kshark_spark.buckets import Bucketed, JudgedCapture, Lister, judged
from kshark_spark.plan import Plan, Sizes, planned
from kshark_spark.session import cores_of
from kshark_spark.shares import MakePageReader, Parts, decoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Makes the Lister of a capture from its plan, its facts and its common events.
MakeLister = Callable[[Plan, list[Fact], list[PositionedEvent]], Lister]


class Analysed(NamedTuple):
    """A capture: its plan, the results of its shares, and its findings."""

    plan: Plan
    parts: Parts
    judged: JudgedCapture

    @property
    def observed(self) -> Observed:
        """The statistics of the capture."""
        observed = self.parts.observed
        observed.join(self.judged.observed)
        return observed

    @property
    def giant(self) -> str | None:
        """A sentence on a connection with more than half of the bytes: one task had most of the work; else None."""
        if self.parts.largest is None or self.plan.shares == 1:
            return None
        flow, total = self.parts.largest
        own = sum(flow.stream_bytes)
        if own <= total / 2:
            return None
        return (
            f"one connection ({flow.client} to {flow.broker}) has {size(own)} of {size(total)}: one task read it while "
            f"others had little"
        )


def analysed(
    spark: SparkSession,
    captures: Sequence[Sequence[str]],
    options: Options,
    sizes: Sizes,
    beside: MakePageReader | None = None,
    lister: MakeLister | None = None,
    *,
    coverage: bool = False,
) -> list[Analysed | UnreadableInput]:
    """Return the result of each capture, or why it cannot be read.

    `beside`, `lister`: make other readers of its shares and buckets. `coverage`: count the coverage of rules.
    """
    if not captures:
        return []
    cores = cores_of(spark)
    plans = planned(spark, captures, cores, sizes)
    readable = [plan for plan in plans if isinstance(plan, Plan)]
    exchanges, parts = decoded(spark, readable, options, cores, beside)
    given = sum((part.given for part in parts if isinstance(part, Parts)), Counter[int]())
    sound = [
        _bucketed(plan, part, lister) for plan, part in zip(readable, parts, strict=True) if isinstance(part, Parts)
    ]
    judged_captures = iter(judged(exchanges, sound, given, coverage=coverage))
    decoded_captures = iter(parts)
    analysed_captures: list[Analysed | UnreadableInput] = []
    for plan in plans:
        if isinstance(plan, UnreadableInput):
            analysed_captures.append(plan)
        else:
            part = next(decoded_captures)
            analysed_captures.append(
                part if isinstance(part, UnreadableInput) else Analysed(plan, part, next(judged_captures))
            )
    return analysed_captures


def _bucketed(plan: Plan, parts: Parts, lister: MakeLister | None) -> Bucketed:
    make = None if lister is None else partial(lister, plan, parts.facts)
    return Bucketed(plan.bucket, plan.buckets, pickle.dumps(parts.common, 5), make)
