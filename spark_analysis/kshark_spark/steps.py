"""Name the jobs of kshark in Spark's UI: the work, and its step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DESCRIPTION: Final = "spark.job.description"
_WORK: Final = ContextVar("_WORK", default="kshark")


@contextmanager
def working(work: str) -> Iterator[None]:
    """Name the work of the steps in this context, such as "Check 12 captures"."""
    before = _WORK.set(work)
    try:
        yield
    finally:
        _WORK.reset(before)


@contextmanager
def step(spark: SparkSession, name: str) -> Iterator[None]:
    """Describe Spark's jobs in this context, such as "Check 12 captures: find suspicious members".

    With Spark Connect, the description is a tag of the operation: the server describes its jobs itself.
    """
    description = f"{_WORK.get()}: {name}"
    context = getattr(spark, "_sc", None)
    if context is None:
        tag = description.replace(",", "")  # a tag has no commas
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(description)
    try:
        yield
    finally:
        context.setJobDescription(before)


def table_of(frame: DataFrame, name: str) -> pa.Table:
    """Return all rows of a frame; `name`: the step."""
    with step(frame.sparkSession, name):
        return frame.toArrow()
