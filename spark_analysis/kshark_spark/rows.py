"""What workers do, as functions from rows to rows: Spark gives and takes Arrow batches."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from kshark.errors import Error, UnreadableInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]
Row = tuple[Any, ...]
Item = TypeVar("Item")
Result = TypeVar("Result")

#: Rows with so many bytes of binary columns go out together.
_BATCH_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 2_000
#: Rows that are taken out of a batch together.
_AT_ONCE: Final = 64
#: Objects that may be made before the garbage collector looks at the young ones: messages form no cycles.
_YOUNG: Final = 200_000

_RESULT: Final = "number bigint, result binary"
_RESULTS: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def by_row(schema: pa.Schema, work: Callable[[Iterator[Row]], Iterator[Row]]) -> Callable[[Batches], Batches]:
    """For mapInArrow: all rows of a partition through `work`, one by one in both directions."""

    return lambda batches: in_batches(schema, work(_rows(batches)))


def in_batches(schema: pa.Schema, rows: Iterator[Row]) -> Batches:
    """For tasks that make many rows."""
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
    """For workers that make very many objects; what is left of earlier tasks goes first."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 50, 100)


def results(
    spark: SparkSession, items: Sequence[Item], work: Callable[[Item], Result], tasks: int
) -> list[Result | UnreadableInput]:
    """What workers make of each item, in their order; where a file could not be read the error stands in its place."""
    if not items:
        return []

    def each(rows: Iterator[Row]) -> Iterator[Row]:
        for (number,) in rows:
            try:
                result: Result | UnreadableInput = work(items[number])
            except (Error, OSError) as error:
                result = fault_of(error)
            yield number, pickle.dumps(result, 5)

    found = collected(spark.range(0, len(items), 1, tasks).mapInArrow(by_row(_RESULTS, each), _RESULT))
    return [pickle.loads(result) for _, result in sorted(found)]


def frame_of(spark: SparkSession, schema: pa.Schema, rows: Sequence[Row]) -> DataFrame:
    """Rows as a frame. Spark takes a table as it is, lists of rows by Python workers that it starts for this alone."""
    return spark.createDataFrame(pa.Table.from_batches([batch_of(schema, rows)]))


def collected(frame: DataFrame) -> Iterator[Row]:
    """All rows of a frame. DataFrame.collect holds them several times in Java, and gives a part of them when it runs
    out of memory."""
    return _rows(iter(frame.toArrow().to_batches()))


def fault_of(error: Error | OSError) -> UnreadableInput:
    """Whatever stops a task, as an error of what it read."""
    return error if isinstance(error, UnreadableInput) else UnreadableInput(str(error))


def read_all(found: Sequence[Result | UnreadableInput]) -> list[Result]:
    """The results, where no file was at fault. Raises the error of the first that was."""
    for one in found:
        if isinstance(one, UnreadableInput):
            raise one
    return [one for one in found if not isinstance(one, UnreadableInput)]


def _rows(batches: Batches) -> Iterator[Row]:
    for batch in batches:
        for at in range(0, batch.num_rows, _AT_ONCE):  # not all at once: a batch may hold many megabytes
            yield from zip(*(column.to_pylist() for column in batch.slice(at, _AT_ONCE).columns), strict=True)


def batch_of(schema: pa.Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as one batch, which may be empty."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)], schema=schema
    )
