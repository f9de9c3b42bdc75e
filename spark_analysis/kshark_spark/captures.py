"""Check captures: a small one in one task, a large one by ranges, shares and buckets."""

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
from kshark_spark.plan import Sizes, are_split, located, tasks_for
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
    """Return the result of each capture, or why it cannot be read; `coverage`: count the coverage of rules."""
    cores = cores_of(spark)
    is_large = are_split(captures, cores, sizes)
    large = [*compress(captures, is_large)]
    small = [files for files, by_many in zip(captures, is_large, strict=True) if not by_many]
    tasks = tasks_for([file for files in small for file in files], len(small), cores)
    of_large = iter(
        [
            result if isinstance(result, UnreadableInput) else _joined(result)
            for result in analysed(spark, large, options, sizes, coverage=coverage)
        ]
    )
    work = partial(whole, options=options, coverage=coverage)
    of_small = iter(results(spark, small, work, tasks))
    return [next(of_large if by_many else of_small) for by_many in is_large]


def _joined(capture: Analysed) -> Checked:
    """Return the result of a capture that many tasks have read."""
    plan, parts, judged = capture
    if len(plan.files) > 1:
        add_places(judged.findings, partial(located, plan.ranges, dict(zip(plan.files, plan.files, strict=True))))
    checked = Checked.of(judged, parts.names, parts.notes, capture.observed)
    checked.giant = capture.giant
    return checked
