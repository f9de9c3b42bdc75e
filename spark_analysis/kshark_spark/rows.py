"""Functions from rows to rows for Spark's workers, which exchange Arrow batches."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from kshark.errors import Error, UnreadableInput
from kshark_spark.steps import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]
Row = tuple[Any, ...]
Item = TypeVar("Item")
Result = TypeVar("Result")

#: Limits of an output batch: bytes of binary columns, and rows.
_BATCH_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 2_000
#: Rows that are converted from a batch at a time.
_AT_ONCE: Final = 64
#: Objects allocated before the garbage collector visits the youngest generation; messages form no cycles.
_YOUNG: Final = 200_000

_RESULT: Final = "number bigint, result binary"
_RESULTS: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def by_row(schema: pa.Schema, work: Callable[[Iterator[Row]], Iterator[Row]]) -> Callable[[Batches], Batches]:
    """Return a function for mapInArrow that passes all rows of a partition through `work`."""

    return lambda batches: in_batches(schema, work(_rows(batches)))


def in_batches(schema: pa.Schema, rows: Iterator[Row]) -> Batches:
    """Yield rows as batches of limited size, in tasks with many rows."""
    few_collections()
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += sum(len(cell) for cell in row if isinstance(cell, bytes))
        if size > _BATCH_BYTES or len(held) >= _BATCH_ROWS:
            yield batch_of(schema, held)
            held, size = [], 0
    yield batch_of(schema, held)


def few_collections() -> None:
    """Collect the garbage of earlier tasks, then collect rarely: for workers that create many objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 50, 100)


def results(
    spark: SparkSession, items: Sequence[Item], work: Callable[[Item], Result], tasks: int, step: str
) -> list[Result | UnreadableInput]:
    """Return the result of `work` for each item, computed by workers; for an unreadable file, return its error.

    `step`: what it does, for Spark's UI (kshark_spark.steps).
    """
    if not items:
        return []

    def each(rows: Iterator[Row]) -> Iterator[Row]:
        for (number,) in rows:
            try:
                result: Result | UnreadableInput = work(items[number])
            except (Error, OSError) as error:
                result = fault_of(error)
            yield number, pickle.dumps(result, 5)

    pickled = collected(spark.range(0, len(items), 1, tasks).mapInArrow(by_row(_RESULTS, each), _RESULT), step)
    return [pickle.loads(result) for _, result in sorted(pickled)]


def frame_of(spark: SparkSession, schema: pa.Schema, rows: Sequence[Row]) -> DataFrame:
    """Return rows as a frame. They go as an Arrow table: for lists of rows, Spark would start Python workers."""
    return spark.createDataFrame(pa.Table.from_batches([batch_of(schema, rows)]))


def collected(frame: DataFrame, step: str) -> Iterator[Row]:
    """Yield all rows of a frame; `step`: what it does, for Spark's UI (kshark_spark.steps).

    DataFrame.collect copies them several times in Java, and returns only a part of them when it runs out of memory.
    """
    return _rows(iter(table_of(frame, step).to_batches()))


def fault_of(error: Error | OSError) -> UnreadableInput:
    """Convert an error that stops a task to UnreadableInput."""
    return error if isinstance(error, UnreadableInput) else UnreadableInput(str(error))


def read_all(outcomes: Sequence[Result | UnreadableInput]) -> list[Result]:
    """Return the results. Raises the first error, if there is one."""
    for outcome in outcomes:
        if isinstance(outcome, UnreadableInput):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, UnreadableInput)]


def _rows(batches: Batches) -> Iterator[Row]:
    for batch in batches:
        for at in range(0, batch.num_rows, _AT_ONCE):  # in small slices: a batch may have many megabytes
            yield from zip(*(column.to_pylist() for column in batch.slice(at, _AT_ONCE).columns), strict=True)


def batch_of(schema: pa.Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as one batch, which may be empty."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)], schema=schema
    )
