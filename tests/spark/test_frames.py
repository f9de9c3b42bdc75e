"""DataFrames for notebooks: the same rows from captures and from their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kshark.cli
from kshark.errors import UsageError
from tests.shared import CAPTURES

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kshark_spark.frames import check, messages, sessions, table

EPOCHS, SESSIONS = CAPTURES / "adv-epochs.pcap", CAPTURES / "adv-sessions-4.2.1.pcap"


@pytest.mark.spark
def test_tables_have_the_rows_of_their_capture(spark: Any, tmp_path: Path) -> None:
    assert kshark.cli.main(["export", str(EPOCHS), "-q", "-o", str(tmp_path)]) == 0
    for function in (check, sessions, messages):
        of_capture, of_tables = function(spark, EPOCHS), function(spark, tmp_path)
        assert of_capture.columns == of_tables.columns
        assert of_capture.collect() == of_tables.collect() != []


@pytest.mark.spark
def test_options_are_the_data_source_s(spark: Any) -> None:
    whole = table(spark, "flows", EPOCHS, SESSIONS)
    assert [row.capture for row in whole.select("capture").distinct().collect()] == ["adv-epochs.pcap+1"]
    assert table(spark, "flows", EPOCHS, SESSIONS, each=True).select("capture").distinct().count() == 2


def test_a_folder_of_tables_is_read_alone_and_has_what_it_has(tmp_path: Path) -> None:
    assert kshark.cli.main(["export", str(EPOCHS), "-q", "-o", str(tmp_path)]) == 0
    spark: Any = None
    with pytest.raises(UsageError, match="is a folder of tables; name no other path with it, and no options"):
        check(spark, tmp_path, EPOCHS)
    with pytest.raises(UsageError, match="is a folder of tables; name no other path with it, and no options"):
        check(spark, tmp_path, each=True)
    with pytest.raises(UsageError, match='has no table "records"; it has exchanges, '):
        table(spark, "records", tmp_path)
