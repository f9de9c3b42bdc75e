"""The check of captures: small ones each by one task, large ones by ranges, shares and buckets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Final

from kshark.capture.numbering import add_places
from kshark.errors import UnreadableInput
from kshark.pipeline import Options
from kshark_spark.check import Checked
from kshark_spark.large import Analysed, analysed
from kshark_spark.plan import Sizes, are_shared_out, located, tasks_for
from kshark_spark.rows import results
from kshark_spark.session import cores_of
from kshark_spark.whole import whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT: Final = Sizes()


def checked(
    spark: SparkSession,
    captures: Sequence[Sequence[str]],
    options: Options,
    sizes: Sizes = DEFAULT,
    *,
    coverage: bool = False,
) -> list[Checked | UnreadableInput]:
    """What was found in each capture, or why it could not be read; `coverage`: whether that is counted."""
    cores = cores_of(spark)
    is_large = are_shared_out(captures, cores, sizes)
    large = [*compress(captures, is_large)]
    small = [files for files, one in zip(captures, is_large, strict=True) if not one]
    tasks = tasks_for([file for files in small for file in files], len(small), cores)
    apart = iter(
        [
            one if isinstance(one, UnreadableInput) else _joined(one)
            for one in analysed(spark, large, options, sizes, coverage=coverage)
        ]
    )
    work = partial(whole, options=options, coverage=coverage)
    rest = iter(results(spark, small, work, tasks))
    return [next(apart if one else rest) for one in is_large]


def _joined(capture: Analysed) -> Checked:
    """A capture that many tasks have read."""
    plan, parts, found = capture
    if len(plan.files) > 1:
        add_places(found.findings, partial(located, plan.ranges, dict(zip(plan.files, plan.files, strict=True))))
    checked = Checked.of(found.findings, parts.names, parts.notes, capture.observed)
    checked.giant = capture.giant
    return checked
