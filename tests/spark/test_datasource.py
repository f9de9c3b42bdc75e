"""`spark.read.format("kshark")`: the rows are those of an export, with the options of a command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kshark
import kshark.cli
from kshark.errors import UnreadableInput, UsageError
from tests.shared import CAPTURES

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kshark_spark.datasource import CaptureReader, KsharkDataSource, arguments, paths

EPOCHS, SESSIONS = CAPTURES / "adv-epochs.pcap", CAPTURES / "adv-sessions-4.2.1.pcap"


def exported(tmp_path: Path, table: str, *words: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    assert kshark.cli.main(["export", *words, "-q", "-o", str(tmp_path)]) == 0
    return list(pq.read_table(tmp_path / table).to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """`ts` is `ts_ns` once more, and comes to Python with or without its zone."""
    return sorted(json.dumps({**row, "ts": None}, sort_keys=True, default=str) for row in rows)


# -- options


def test_secrets_of_tls_are_read_by_the_driver(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"CLIENT_RANDOM {'0a' * 32} {'0b' * 48}\n")
    args = arguments({"path": "a.pcap", "tls_keys": str(tmp_path / "keys")})
    assert args.tls_keys == (tmp_path / "keys").read_bytes()


def test_options_are_the_words_of_a_command_line() -> None:
    args = arguments(
        {
            "path": "a.pcap",
            "each": "true",
            "since": "+1s",
            "decode_as": "9093, 9094",
            "no_payload": "True",
            "table": "flows",
        }
    )
    assert (args.files, args.each, args.since, args.until, args.payload) == (["a.pcap"], "file", "+1s", None, False)
    assert args.decode_as == ["tcp.port==9093,kafka", "tcp.port==9094,kafka"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "a", "tabel": "flows"}, 'no option "tabel"; there are decode_as, dissector, each'),
        ({"path": "a", "each": "yes"}, 'each is true or false, not "yes"'),
        ({}, r"no captures named; load\(PATH\)"),
    ],
)
def test_a_mistake_is_one_sentence(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        arguments(options)


def test_there_is_no_such_table() -> None:
    with pytest.raises(UsageError, match='no table "exchange"; there are exchanges, '):
        KsharkDataSource({"path": "a", "table": "exchange"}).schema()


def test_several_paths_come_as_json() -> None:
    assert paths({"paths": '["file:///a", "b"]'}) == ["file:///a", "b"]


# -- rows


def test_small_captures_share_a_task_and_one_capture_is_one() -> None:
    both = {"paths": json.dumps([str(EPOCHS), str(SESSIONS)])}
    each = CaptureReader(arguments({**both, "each": "true"}), "flows", []).partitions()
    assert [[name for name, _ in part.captures] for part in each] == [["adv-epochs.pcap", "adv-sessions-4.2.1.pcap"]]  # type: ignore[attr-defined]
    (whole,) = CaptureReader(arguments(both), "flows", []).partitions()
    assert [len(files) for _, files in whole.captures] == [2]  # type: ignore[attr-defined]


@pytest.mark.spark
@pytest.mark.parametrize("table", ["exchanges", "findings", "share_requests", "flows"])
def test_spark_finds_it_and_reads_what_an_export_holds(spark: Any, tmp_path: Path, table: str) -> None:
    frame = spark.read.format("kshark").option("table", table).load(str(EPOCHS))
    assert in_order([row.asDict(recursive=True) for row in frame.collect()]) == in_order(
        exported(tmp_path, table, str(EPOCHS))
    )


def test_a_capture_that_cannot_be_read_is_an_error_and_a_row_of_faults(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(EPOCHS.read_bytes()[:20])
    options = arguments({"paths": json.dumps([str(cut), str(EPOCHS)]), "each": "true"})
    reader = CaptureReader(options, "faults", ["capture", "code", "stage"])
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows == [{"capture": "cut.pcap", "code": "damaged", "stage": "read"}]
    others = CaptureReader(options, "exchanges", ["capture"])
    with pytest.raises(UnreadableInput, match=r"cut.pcap: the pcap file ends after 20 bytes"):
        list(others.read(others.partitions()[0]))


@pytest.mark.spark
def test_only_the_columns_that_are_asked_for_come(spark: Any) -> None:
    frame = (
        spark.read.format("kshark").schema("code string, verdict string").option("table", "findings").load(str(EPOCHS))
    )
    assert frame.columns == ["code", "verdict"]
    assert frame.where("verdict = 'violation'").count() == sum(
        one.verdict == "violation" for one in kshark.check(EPOCHS)
    )


@pytest.mark.spark
def test_captures_of_their_own_and_a_period(spark: Any, tmp_path: Path) -> None:
    reader = spark.read.format("kshark").option("each", "true").option("since", "+2s")
    rows = [row.asDict(recursive=True) for row in reader.load([str(EPOCHS), str(SESSIONS)]).collect()]
    assert {row["capture"] for row in rows} == {"adv-epochs.pcap", "adv-sessions-4.2.1.pcap"}
    assert in_order(rows) == in_order(
        exported(tmp_path, "exchanges", str(EPOCHS), str(SESSIONS), "--each", "--since", "+2s")
    )
