"""One list of columns, the same schema and descriptions on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kshark.output.parquet import arrow_schema
from kshark.output.parquet_files import empty_file
from kshark.tables import TABLES

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", sorted(TABLES))
def test_spark_reads_the_schema_that_arrow_writes(spark: Any, name: str, tmp_path: Path) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    declared = spark.createDataFrame([], TABLES[name].ddl).schema
    assert from_arrow_schema(arrow_schema(TABLES[name])).simpleString() == declared.simpleString()
    assert {field.name: field.metadata["comment"] for field in declared} == {
        column.name: column.about for column in TABLES[name].columns
    }

    empty_file(str(tmp_path), "0", TABLES[name], ())
    assert spark.read.parquet(str(tmp_path / name)).schema == declared
