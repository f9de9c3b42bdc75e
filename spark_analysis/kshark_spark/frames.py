"""DataFrames for notebooks and jobs: tables of captures, or of a folder of exported tables.

`kshark explain tables` lists the columns.

>>> from kshark_spark.frames import check, table, tables                  # doctest: +SKIP
>>> check(spark, "/captures").groupBy("code").count().show()              # doctest: +SKIP
>>> table(spark, "acquired", "a.pcap", "b.pcap", each=True).count()       # doctest: +SKIP
>>> every = tables(spark, "/captures")                                    # doctest: +SKIP
>>> every["findings"].join(every["flows"], "flow_id").show()              # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from kshark.capture.paths import absolute
from kshark.errors import UsageError
from kshark.output.manifest import is_tables
from kshark.tables import TABLES
from kshark.tables.columns import quoted
from kshark_spark import FILTERS, register
from kshark_spark.selection import EVERY, tables_of
from kshark_spark.tables import one_exported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


#: Sessions with the source.
_REGISTERED: Final[WeakSet[SparkSession]] = WeakSet()


class DecodedTables(dict[str, "DataFrame"]):
    """Tables by name, which Spark keeps after the first action on one of them, until `unpersist`."""

    def __init__(self, blocks: DataFrame) -> None:
        super().__init__(rows_of(blocks.persist()))
        self._blocks = blocks

    def unpersist(self) -> None:
        self._blocks.unpersist()


def check(spark: SparkSession, *paths: str | Path, **options: Any) -> DataFrame:
    """Return the findings, one per row: broken rules, who broke them, the evidence."""
    return table(spark, "findings", *paths, **options)


def sessions(spark: SparkSession, *paths: str | Path, **options: Any) -> DataFrame:
    """Return the share sessions, one per row."""
    return table(spark, "sessions", *paths, **options)


def messages(spark: SparkSession, *paths: str | Path, **options: Any) -> DataFrame:
    """Return the exchanges, one per row: a request with its response, both bodies as JSON."""
    return table(spark, "exchanges", *paths, **options)


def table(
    spark: SparkSession,
    name: str,
    *paths: str | Path,
    columns: Sequence[str] | None = None,
    **options: str | bool,
) -> DataFrame:
    """Return a table of captures, or of one folder of tables. `options` of `format("kshark")` apply to captures only.

    `columns`: only these, None for all; what only other columns need is not computed. Raises kshark.UsageError if
    there is no such table or column, or if other paths or options are given with a folder of tables.
    """
    folder = _folder(paths, options)
    if folder is not None:
        frame = one_exported(spark, folder, name)
        return frame if columns is None else frame.select(*columns)
    reader = _reader(spark, name, options)
    if columns is not None:
        reader = reader.schema(_ddl(name, columns))
    return reader.load([absolute(str(path)) for path in paths])


def tables(
    spark: SparkSession, *paths: str | Path, names: Collection[str] | None = None, **options: str | bool
) -> Mapping[str, DataFrame]:
    """Return tables by name, those of `names` or all but `records`. Captures are decoded once, for all tables.

    The first action on one of them decodes the captures, and Spark keeps all rows, in memory and on disk, until
    `unpersist()` of the result. Raises kshark.UsageError as `table` does.
    """
    chosen = [*names] if names is not None else tables_of(EVERY)
    folder = _folder(paths, options)
    if folder is not None:
        return {name: one_exported(spark, folder, name) for name in chosen}
    return DecodedTables(_reader(spark, ",".join(chosen) + ",", options).load([absolute(str(path)) for path in paths]))


def rows_of(blocks: DataFrame) -> dict[str, DataFrame]:
    """Return the tables of a read of several tables, by name."""
    names = [name for name in blocks.columns if name in TABLES]
    return {name: blocks.where(f"table = '{name}'").selectExpr(f"inline({name})") for name in names}


def write_tables(blocks: DataFrame, folder: str | Path, batch: int | None = None) -> dict[str, int]:
    """Append the rows of a read of several tables to Parquet files in `folder/TABLE/`, and return their numbers.

    The captures are decoded once. `batch`: the number of a stream's micro-batch; its rows are in
    `folder/TABLE/batch=N/`, and replace those of an attempt that failed:
    `stream.writeStream.foreachBatch(lambda blocks, batch: write_tables(blocks, "/tables", batch))`.
    """
    blocks.persist()
    try:
        counts: dict[str, Any] = {
            row["table"]: row["rows"] for row in blocks.groupBy("table").sum("rows").toDF("table", "rows").collect()
        }
        for name, frame in rows_of(blocks).items():
            if name in counts:
                target = f"{folder}/{name}" if batch is None else f"{folder}/{name}/batch={batch}"
                frame.write.mode("append" if batch is None else "overwrite").parquet(target)
        return counts
    finally:
        blocks.unpersist()


def _reader(spark: SparkSession, name: str, options: Mapping[str, str | bool]) -> DataFrameReader:
    """Return a reader of captures; registers the source. Raises UsageError if there is no such table."""
    tables_of(name)
    if spark not in _REGISTERED:
        register(spark)
        _REGISTERED.add(spark)
    has_filters = str(spark.conf.get(FILTERS, "false"))
    return spark.read.format("kshark").options(**{"table": name, "filters": has_filters, **options})


def _folder(paths: Sequence[str | Path], options: Mapping[str, str | bool]) -> str | Path | None:
    """Return the folder of tables; None if captures are named."""
    folders = [path for path in paths if is_tables(path)]
    if not folders:
        return None
    if len(paths) > 1 or options:
        raise UsageError(
            f"{folders[0]} is a folder of tables; name no other path with it, and no options: the export applied them"
        )
    return folders[0]


def _ddl(name: str, columns: Sequence[str]) -> str:
    """Return the schema of these columns in Spark SQL."""
    (table,) = tables_of(name)
    types = {column.name: column for column in TABLES[table].columns}
    wrong = [column for column in columns if column not in types]
    if wrong:
        raise UsageError(f'{name} has no column "{wrong[0]}"; it has {", ".join(types)}')
    return ", ".join(f"{column} {types[column].type} COMMENT {quoted(types[column].about)}" for column in columns)
