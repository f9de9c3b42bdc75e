"""Create the archive of Spark's classes: a JVM runs small samples of kshark's jobs and writes the archive at exit."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshark_spark.class_archive import archive, recording
from kshark_spark.session import open_session
from kshark_spark.settings import JAVA_OPTIONS

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

_ROWS = "id bigint, data binary"


def prepare() -> Path:
    """Create the archive, which takes half a minute. Raises OSError if it cannot be written."""
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fresh = Path(folder, path.name)
        options = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {recording(fresh)}"}
        spark = open_session("local[2]", options, source=False)
        gateway: Any = spark.sparkContext._gateway
        try:
            _exercise(spark, folder)
        finally:
            spark.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
        shutil.move(fresh, path)
    return path


def _exercise(spark: SparkSession, folder: str) -> None:
    """Load the classes for rows through Python, a shuffle, a sort, Parquet and a join."""

    def same(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return batches

    rows = spark.range(0, 100, 1, 2).selectExpr("id", "unhex(hex(id)) as data").mapInArrow(same, _ROWS)
    rows = rows.repartitionById(2, rows.id.cast("int") % 2).sortWithinPartitions("id").mapInArrow(same, _ROWS)
    rows.write.parquet(f"{folder}/table")
    table = spark.read.parquet(f"{folder}/table")
    table.persist().where("id > 5").groupBy("id").count().join(table, "id").collect()
