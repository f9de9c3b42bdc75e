"""The export: one task per capture, which writes its part of every table as `kshark export` would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kshark.errors import Error, UnreadableInput
from kshark.face import analysed, pages
from kshark.output.parquet import TableFiles, prepare, write_manifest
from kshark.pipeline import Options
from kshark.tables import Rows
from kshark.tables.captures import capture_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The result of a task: the number of rows of each table, or why it failed.
WRITTEN: Final = "fault string, name string, rows bigint"
_SCHEMA: Final = pa.schema([("fault", pa.string()), ("name", pa.string()), ("rows", pa.int64())])

Batches = Iterator[pa.RecordBatch]


def export(spark: SparkSession, captures: Sequence[Sequence[str]], folder: Path, options: Options, *, records: bool) -> dict[str, int]:
    """Writes the tables into a folder that driver and workers share; gives the number of rows of each.

    Raises kshark.UsageError for a folder that holds something else, UnreadableInput for a capture that cannot be read.
    """
    prepare(folder)
    work = spark.range(0, len(captures), 1, len(captures))
    written = work.mapInArrow(_writer(captures, folder, options, records), WRITTEN).collect()
    faults = [row.fault for row in written if row.fault is not None]
    if faults:
        raise UnreadableInput(faults[0])
    counts = Counter[str]()
    for row in written:
        counts[row.name] += row.rows
    write_manifest(folder, captures, dict(counts))
    return dict(counts)


def _writer(captures: Sequence[Sequence[str]], folder: Path, options: Options, records: bool) -> Callable[[Batches], Batches]:
    """What a worker does with the numbers of its captures."""
    named = list(zip(capture_names(captures), captures, strict=True))

    def write(batches: Batches) -> Batches:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                name, files = named[part]
                try:
                    counts = _write(name, files, folder, part, options, records)
                    told: list[dict[str, Any]] = [{"name": table, "rows": rows} for table, rows in counts.items()]
                except (Error, OSError) as error:
                    told = [{"fault": str(error)}]
                yield pa.RecordBatch.from_pylist(told, schema=_SCHEMA)

    return write


def _write(name: str, files: Sequence[str], folder: Path, part: int, options: Options, records: bool) -> dict[str, int]:
    """One capture's part of every table."""
    tables, rows = TableFiles(folder, records=records, part=part), Rows(name, records=records)
    for page, told in analysed(pages(files, options)):
        tables.add(rows.page(page))
        tables.add(rows.page(told))
    tables.add(rows.rest())
    return tables.close()
