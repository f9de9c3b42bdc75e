"""The process that workers are forked from: what it looks through for modules, and that they come from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kshark_spark.daemon import unpacked
from kshark_spark.rows import read_all, results


def test_pyspark_is_taken_from_its_folder_where_there_is_one(tmp_path: Path) -> None:
    installed, elsewhere = tmp_path / "site-packages" / "pyspark", tmp_path / "spark"
    archives = [str(folder / "python" / "lib" / "pyspark.zip") for folder in (installed, elsewhere)]
    installed.mkdir(parents=True)
    (installed / "daemon.py").touch()
    assert unpacked(["", archives[0], str(installed.parent)]) == ["", str(installed.parent)]
    assert unpacked(["", archives[1]]) == ["", archives[1]]


@pytest.mark.spark
def test_workers_are_forked_with_what_they_need(spark: Any) -> None:
    def told(_: int) -> tuple[str, bool]:
        import pyspark

        return sys.modules["__main__"].__spec__.name, ".zip" in pyspark.__file__  # type: ignore[union-attr]

    assert read_all(results(spark, [1, 2], told, 2, "ask workers")) == [("kshark_spark.daemon", False)] * 2
