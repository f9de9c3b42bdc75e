"""Rows of the tables as one DataFrame: those of an export, or decoded from captures by tasks, each with kshark's whole engine.

A row of the DataFrame holds a row of one table, in the column of its name; the other columns are null. A capture's files share
connections and one numbering of packets, so each of its tasks reads all of them and decodes its share of the connections
(spark_analysis.shard). Captures of their own (`--each`) share nothing: each has its own tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kshark.errors import Error
from kshark.output.manifest import read_manifest
from kshark.output.parquet import arrow_schema, record_batch
from kshark.pipeline import Options
from kshark.tables import TABLES, Block, Rows
from kshark.tables.captures import capture_names
from spark_analysis.shard import sharded_pages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The tables that the analysis needs.
NEEDED: Final = ("exchanges", "flows", "weirds")
#: A task decodes about so many bytes of captures.
TASK_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Task:
    """A share of a capture's connections: the `shard`th of `shards`."""

    capture: str
    files: tuple[str, ...]
    shard: int
    shards: int


def struct_of(table: str) -> str:
    """A row of a table as a type of Spark SQL."""
    return f"struct<{', '.join(f'{column.name}: {column.type}' for column in TABLES[table].columns)}>"


def exported(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of an export: those of the files that its manifest lists."""
    from pyspark.sql import functions as F

    frames, tables = [], read_manifest(folder).tables
    for name in NEEDED:
        table = spark.read.schema(TABLES[name].ddl).parquet(*(str(folder / file.path) for file in tables[name].files))
        columns = [F.struct("*") if other == name else F.lit(None) for other in NEEDED]
        frames.append(table.select(*(column.cast(struct_of(other)).alias(other) for column, other in zip(columns, NEEDED, strict=True))))
    return reduce(lambda one, two: one.unionByName(two), frames)


def tasks_of(captures: Sequence[Sequence[str]], parallelism: int) -> list[Task]:
    """One task per file as long as there are cores, more for large files."""
    tasks = []
    for name, files in zip(capture_names(captures), captures, strict=True):
        size = sum(Path(file).stat().st_size for file in files)
        shards = min(max(len(files), -(-size // TASK_BYTES)), max(2, parallelism))
        tasks += [Task(name, tuple(files), shard, shards) for shard in range(shards)]
    return tasks


def decoded(spark: SparkSession, tasks: Sequence[Task], options: Options) -> DataFrame:
    """The rows that tasks decode; `fault` says why a task ended early."""
    columns = ", ".join(f"{name} {struct_of(name)}" for name in NEEDED)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_decoder(list(tasks), options), f"fault string, {columns}")


def _decoder(tasks: list[Task], options: Options) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker does with the numbers of its tasks."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    yield from _decode(tasks[number], options)
                except (Error, OSError) as error:
                    yield packed(fault=str(error))

    return decode


def _decode(task: Task, options: Options) -> Iterator[pa.RecordBatch]:
    rows = Rows(task.capture)
    for page in sharded_pages(task.files, options, task.shard, task.shards):
        yield from _packed(rows.page(page))
    yield from _packed(rows.rest())


def _packed(blocks: Iterable[tuple[str, Block]]) -> Iterator[pa.RecordBatch]:
    return (packed(name, block) for name, block in blocks if name in NEEDED)


def packed(table: str | None = None, block: Block | None = None, fault: str | None = None) -> pa.RecordBatch:
    """Rows of one table, or a fault, in the shape of `decoded`."""
    length = 1 if block is None else len(block)
    columns = [pa.array([fault] * length, pa.string())]
    for name in NEEDED:
        schema = arrow_schema(TABLES[name])
        if block is not None and name == table:
            columns.append(pa.StructArray.from_arrays(record_batch(schema, block).columns, fields=list(schema)))
        else:
            columns.append(pa.nulls(length, pa.struct(list(schema))))
    return pa.RecordBatch.from_arrays(columns, ["fault", *NEEDED])
