"""What workers do, as functions from rows to rows: Spark gives and takes Arrow batches."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from kshark.errors import Error, UnreadableInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


class Fault(NamedTuple):
    """Why a file could not be read; it stands where a result would."""

    text: str


def by_row(schema: pa.Schema, work: Callable[[Iterator[Row]], Iterator[Row]]) -> Callable[[Batches], Batches]:
    """For mapInArrow: all rows of a partition through `work`, one by one in both directions."""

    def run(batches: Batches) -> Batches:
        few_collections()
        held: list[Row] = []
        size = 0
        for row in work(_rows(batches)):
            held.append(row)
            size += sum(len(cell) for cell in row if isinstance(cell, bytes))
            if size > _BATCH_BYTES or len(held) >= _BATCH_ROWS:
                yield batch_of(schema, held)
                held, size = [], 0
        yield batch_of(schema, held)

    return run


def few_collections() -> None:
    """For workers that make very many objects; what is left of earlier tasks goes first."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 50, 100)


def results(spark: SparkSession, items: Sequence[Item], work: Callable[[Item], Result], tasks: int) -> list[Result | Fault]:
    """What workers make of each item, in their order."""
    if not items:
        return []

    def each(rows: Iterator[Row]) -> Iterator[Row]:
        for (number,) in rows:
            try:
                result: Result | Fault = work(items[number])
            except (Error, OSError) as error:
                result = Fault(str(error))
            yield number, pickle.dumps(result, 5)

    found = spark.range(0, len(items), 1, tasks).mapInArrow(by_row(_RESULTS, each), _RESULT).collect()
    return [pickle.loads(row.result) for row in sorted(found, key=lambda row: row.number)]


def read_all(found: Sequence[Result | Fault]) -> list[Result]:
    """The results, where no file was at fault. Raises UnreadableInput for the first that was."""
    for one in found:
        if isinstance(one, Fault):
            raise UnreadableInput(one.text)
    return [one for one in found if not isinstance(one, Fault)]


def _rows(batches: Batches) -> Iterator[Row]:
    for batch in batches:
        for at in range(0, batch.num_rows, _AT_ONCE):  # not all at once: a batch may hold many megabytes
            yield from zip(*(column.to_pylist() for column in batch.slice(at, _AT_ONCE).columns), strict=True)


def batch_of(schema: pa.Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as one batch, which may be empty."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays([pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)], schema=schema)
