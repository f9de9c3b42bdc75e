"""Large captures from packets to findings: planned, decoded by shares, judged by buckets."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kshark.analysis import Observed
from kshark.errors import UnreadableInput
from kshark.facts import Fact
from kshark.output.units import size
from kshark.pipeline import Options
from kshark.tables.events import PositionedEvent
from kshark_spark.buckets import Bucketed, Found, Lister, judged
from kshark_spark.plan import Plan, Sizes, planned
from kshark_spark.session import cores_of
from kshark_spark.shares import MakeBeside, Parts, decoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Makes who takes the sessions of a capture; he is told what its connections teach, and what is common to all buckets.
MakeLister = Callable[[Plan, list[Fact], list[PositionedEvent]], Lister]


class Analysed(NamedTuple):
    """A capture: how it was laid out, what its shares told, and what was found."""

    plan: Plan
    parts: Parts
    found: Found

    @property
    def observed(self) -> Observed:
        """What the capture holds."""
        observed = self.parts.observed
        observed.join(self.found.observed)
        return observed

    @property
    def giant(self) -> str | None:
        """A connection that has more than half of the bytes, so that one task had most of the work, as a sentence."""
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
    beside: MakeBeside | None = None,
    lister: MakeLister | None = None,
    *,
    coverage: bool = False,
) -> list[Analysed | UnreadableInput]:
    """What came of each capture, or why it could not be read. `beside`, `lister`: who else takes what its shares and
    buckets have;
    `coverage`: whether that is counted.
    """
    if not captures:
        return []
    cores = cores_of(spark)
    plans = planned(spark, captures, cores, sizes)
    known = [plan for plan in plans if isinstance(plan, Plan)]
    exchanges, parts = decoded(spark, known, options, cores, beside)
    given = sum((part.given for part in parts if isinstance(part, Parts)), Counter[int]())
    sound = [_bucketed(plan, part, lister) for plan, part in zip(known, parts, strict=True) if isinstance(part, Parts)]
    found = iter(judged(exchanges, sound, given, coverage=coverage))
    each = iter(parts)
    came: list[Analysed | UnreadableInput] = []
    for plan in plans:
        if isinstance(plan, UnreadableInput):
            came.append(plan)
        else:
            part = next(each)
            came.append(part if isinstance(part, UnreadableInput) else Analysed(plan, part, next(found)))
    return came


def _bucketed(plan: Plan, parts: Parts, lister: MakeLister | None) -> Bucketed:
    make = None if lister is None else partial(lister, plan, parts.facts)
    return Bucketed(plan.bucket, plan.buckets, pickle.dumps(parts.common, 5), make)
