"""The few things that kshark's tasks for large captures ask of Spark, in this process: their code runs as it is, only
the moving is ours.

What it cannot show is what Spark makes of them: that is for the tests with a session. Tasks are pickled as Spark
pickles them, so that none knows of another; rows that Spark gives no order come in any; batches end anywhere."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

Tasks = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_OPERATORS = {"<": operator.lt, ">=": operator.ge}
#: What a row of these types is in Arrow, by Spark's names.
_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}


@dataclass
class Frame:
    """Rows in partitions: a DataFrame that is computed at once."""

    sparkSession: Session
    partitions: list[pa.Table]

    def __getattr__(self, name: str) -> pc.Expression:
        if name not in self.partitions[0].column_names:
            raise AttributeError(name)
        return pc.field(name)

    def _each(self, change: Callable[[pa.Table], pa.Table]) -> Frame:
        return Frame(self.sparkSession, [change(rows) for rows in self.partitions])

    def select(self, *names: str) -> Frame:
        return self._each(lambda rows: rows.select(names))

    def where(self, condition: str | pc.Expression) -> Frame:
        if isinstance(condition, str):
            name, compared, number = condition.split()
            condition = _OPERATORS[compared](pc.field(name), int(number))
        return self._each(lambda rows: rows.filter(condition))

    def unionByName(self, other: Frame) -> Frame:
        names = self.partitions[0].column_names
        return Frame(self.sparkSession, [*self.partitions, *other.select(*names).partitions])

    def repartitionById(self, number: int, at: pc.Expression) -> Frame:
        rows = pa.concat_tables(self.partitions)
        rows = rows.take(self.sparkSession.random.sample(range(len(rows)), len(rows)))
        numbers = dataset.dataset(rows).to_table(columns={"at": at})["at"].to_numpy()
        order = np.argsort(numbers, kind="stable")
        edges = np.searchsorted(numbers[order], np.arange(number + 1))
        assert edges[-1] == len(rows), "a row of no task"
        return Frame(self.sparkSession, [rows.take(order[a:z]) for a, z in pairwise(edges)])

    def sortWithinPartitions(self, *names: str) -> Frame:
        return self._each(lambda rows: rows.sort_by([(name, "ascending") for name in names]))

    def mapInArrow(self, work: Tasks, columns: str) -> Frame:
        from pyspark import cloudpickle

        schema = pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in columns.split(","))])
        pickled = cloudpickle.dumps(work)

        def run(rows: pa.Table) -> pa.Table:
            task: Tasks = cloudpickle.loads(pickled)
            return pa.Table.from_batches(task(self._batches(rows)), schema)

        return self._each(run)

    def _batches(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        at = 0
        while at < len(rows):
            some = self.sparkSession.random.choice([1, 10, 1000])
            yield rows.slice(at, some).combine_chunks().to_batches()[0]
            at += some

    def persist(self, level: object) -> Frame:
        return self

    def toArrow(self) -> pa.Table:
        return pa.concat_tables(self.partitions)


class Session:
    """A SparkSession of two cores."""

    _sc = SimpleNamespace(defaultParallelism=2)

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)

    def range(self, first: int, behind: int, step: int, tasks: int) -> Frame:
        numbers = np.array_split(np.arange(first, behind, step), tasks)
        return Frame(self, [pa.table({"id": pa.array(some, pa.int64())}) for some in numbers])

    def createDataFrame(self, rows: pa.Table) -> Frame:
        return Frame(self, [rows])


def _position(values: list[int], column: pc.Expression) -> Any:
    """From one on; `cast` is to Spark's int."""
    return SimpleNamespace(cast=lambda kind: pc.add(pc.index_in(column, value_set=pa.array(values, _TYPES[kind])), 1))


#: Stands for pyspark.sql.functions.
FUNCTIONS = SimpleNamespace(col=pc.field, lit=lambda value: value, array_position=_position)
