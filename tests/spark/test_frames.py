"""DataFrames for notebooks: the same rows from captures and from their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kshark.cli
from kshark.errors import UsageError
from kshark.tables import OF_RECORDS, TABLES
from tests.shared import CAPTURES

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kshark_spark.frames import check, messages, sessions, table, tables, write_tables

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
    with pytest.raises(UsageError, match='no table "exchange"; there are exchanges, '):
        table(spark, "exchange", EPOCHS)
    with pytest.raises(UsageError, match='has no table "records"; it has exchanges, '):
        table(spark, "records", tmp_path)


@pytest.mark.spark
def test_all_tables_come_from_one_decode(spark: Any, tmp_path: Path) -> None:
    capture = tmp_path / EPOCHS.name
    capture.write_bytes(EPOCHS.read_bytes())
    alone = {name: table(spark, name, capture).collect() for name in ("findings", "share_requests", "exchanges")}
    every = tables(spark, capture)
    assert [*every] == [name for name in TABLES if name not in OF_RECORDS]
    assert every["findings"].schema == table(spark, "findings", capture).schema
    assert every["weirds"].count() == 0
    capture.unlink()  # a second decode would fail
    assert {name: every[name].collect() for name in alone} == alone
    every.unpersist()
    with pytest.raises(Exception, match="no such file or directory"):
        every["findings"].collect()


@pytest.mark.spark
def test_a_batch_of_a_stream_is_written_by_one_decode_and_again_it_adds_nothing(spark: Any, tmp_path: Path) -> None:
    read = spark.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    blocks = spark.read.format("kshark").option("table", "findings,flows,weirds").load(str(EPOCHS))
    seen = blocks.mapInArrow(counted, blocks.schema)
    written = write_tables(seen, tmp_path, 7)
    assert (read.value, written) == (2, {"findings": 49, "flows": 6}), "a block of each table, once"
    assert write_tables(blocks, tmp_path, 7) == written
    frame = spark.read.parquet(str(tmp_path / "findings"))
    assert sorted(frame.drop("batch").collect()) == sorted(check(spark, EPOCHS).collect())
    assert {row.batch for row in frame.select("batch").collect()} == {7}
    assert not (tmp_path / "weirds").exists()


@pytest.mark.spark
def test_only_some_columns_of_captures_and_of_tables(spark: Any, tmp_path: Path) -> None:
    assert kshark.cli.main(["export", str(EPOCHS), "-q", "-o", str(tmp_path)]) == 0
    asked = ["packet", "code"]
    rows = [table(spark, "findings", path, columns=asked) for path in (EPOCHS, tmp_path)]
    assert [frame.columns for frame in rows] == [asked, asked]
    assert rows[0].collect() == rows[1].collect() != []
    with pytest.raises(UsageError, match='findings has no column "epoch"; it has capture, '):
        table(spark, "findings", EPOCHS, columns=["epoch"])
