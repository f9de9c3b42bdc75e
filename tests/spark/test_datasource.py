"""`spark.read.format("kshark")`: the rows are those of an export, with the options of a command line."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kshark
import kshark.cli
from kshark.errors import UnreadableInput, UsageError
from tests.shared import CAPTURES, sample_of

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa

from kshark.output.parquet import arrow_schema
from kshark.tables import TABLES
from kshark_spark.datasource import (
    CaptureReader,
    FilteredReader,
    KsharkDataSource,
    arguments,
    paths,
)
from kshark_spark.selection import Selection
from kshark_spark.tasks import spread

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


def test_captures_share_tasks_and_one_capture_is_one(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"{number:03}.pcap").symlink_to(EPOCHS)
    each = CaptureReader(arguments({"path": str(tmp_path), "each": "true"}), Selection({"flows": []})).partitions()
    assert 1 < len(each) < 400
    assert sorted(name for part in each for name, _ in part.captures) == [f"{number:03}.pcap" for number in range(400)]  # type: ignore[attr-defined]
    for options in ({}, {"each_folder": "true"}):
        (whole,) = CaptureReader(arguments({"path": str(tmp_path), **options}), Selection({"flows": []})).partitions()
        assert [len(files) for _, files in whole.captures] == [400]  # type: ignore[attr-defined]


@pytest.mark.spark
@pytest.mark.parametrize("table", ["exchanges", "findings", "share_requests", "flows"])
def test_spark_finds_it_and_reads_what_an_export_holds(spark: Any, tmp_path: Path, table: str) -> None:
    frame = spark.read.format("kshark").option("table", table).load(str(EPOCHS))
    assert in_order([row.asDict(recursive=True) for row in frame.collect()]) == in_order(
        exported(tmp_path, table, str(EPOCHS))
    )


# -- captures that cannot be read


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    """A folder with a sound capture, and with four that are none, or not to their end."""
    whole = EPOCHS.read_bytes()
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "random.pcap").write_bytes(bytes(range(256)))
    (tmp_path / "short.pcap").write_bytes(whole[:20])
    (tmp_path / "cut.pcap.gz").write_bytes(gzip.compress(whole)[:4000])
    (tmp_path / "sound.pcap").write_bytes(whole)
    return tmp_path


@pytest.mark.parametrize("each", ["true", "false"])
def test_odd_files_are_rows_of_faults_and_the_others_are_read(
    dirty: Path, each: str, capfd: pytest.CaptureFixture[str]
) -> None:
    args = arguments({"path": str(dirty), "each": each})
    odd = {"empty.pcap", "random.pcap", "short.pcap"}
    faults = {row["capture"] for row in rows_of(CaptureReader(args, Selection({"faults": ["capture", "code"]})))}
    assert odd <= faults <= {*odd, "cut.pcap.gz"}
    told = capfd.readouterr().err
    assert all(f"{name}: " in told for name in faults)
    findings = rows_of(CaptureReader(args, Selection({"findings": ["code", "verdict"]})))
    violations = [row for row in findings if row["verdict"] == "violation"]
    alone = sum(finding.verdict == "violation" for finding in kshark.check(EPOCHS))
    assert len(violations) >= alone if each == "true" else violations


def test_with_strict_the_first_odd_file_is_an_error(dirty: Path) -> None:
    args = arguments({"path": str(dirty), "each": "true"})
    with pytest.raises(UnreadableInput, match=r"\.pcap"):
        rows_of(CaptureReader(args, Selection({"findings": ["code"]}), is_strict=True))


def test_nothing_to_read_is_an_error_and_never_an_empty_table(dirty: Path) -> None:
    only = arguments({"path": str(dirty / "short.pcap")})
    with pytest.raises(UnreadableInput, match=r"short.pcap: the pcap file ends after 20 bytes"):
        rows_of(CaptureReader(only, Selection({"exchanges": ["capture"]})))
    for name in ("sound.pcap", "cut.pcap.gz"):
        (dirty / name).unlink()
    with pytest.raises(UnreadableInput, match=r"short.pcap: the pcap file ends after 20 bytes"):
        rows_of(CaptureReader(arguments({"path": str(dirty)}), Selection({"exchanges": ["capture"]})))
    (dirty / "short.pcap").unlink()
    with pytest.raises(UnreadableInput, match=r"no capture \(pcap or pcapng\) in this folder"):
        CaptureReader(arguments({"path": str(dirty)}), Selection({"exchanges": ["capture"]})).partitions()


def rows_of(reader: CaptureReader) -> list[dict[str, Any]]:
    """All rows, as Spark gets them: planned once, and each task pickled."""
    return [
        row
        for part in pickle.loads(pickle.dumps(reader.partitions()))
        for batch in pickle.loads(pickle.dumps(reader)).read(part)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("sizes", [[5], [0, 0], [1] * 500, [31] * 32, [100, 1, 1], [60, 50, 40, 30, 20, 10] * 7])
def test_no_task_has_much_more_than_the_mean(sizes: list[int]) -> None:
    tasks = spread([megabytes << 20 for megabytes in sizes], 2)
    assert sorted(item for task in tasks for item in task) == [*range(len(sizes))]
    loads = [sum(sizes[item] for item in task) for task in tasks]
    longest = loads.index(max(loads))
    assert loads[longest] <= 1.5 * sum(loads) / len(loads) or len(tasks[longest]) == 1


# -- tables and columns

#: For each capture and table, some of its columns: few, of all kinds, in another order.
SOME = {
    "exchanges": (["latency_ns", "api", "capture", "outcome", "broker"], ["ts", "error_code"], ["response_json"]),
    "share_requests": (["epoch", "client", "exchange"],),
    "record_batches": (["packet", "flow_id"],),
    "heartbeats": (["member_id", "ts_ns"],),
    "steps": (["epoch", "flow_id", "packet"],),
    "sessions": (["session", "member_id"],),
    "findings": (["verdict", "code", "packet"],),
    "flows": (["broker", "cluster_id"],),
    "weirds": (["code", "detail"],),
}


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("capture", sample_of(sorted(CAPTURES.glob("*.pcap")), 6, seed=4), ids=lambda path: path.stem)
def test_what_is_left_out_changes_nothing_of_what_is_read(capture: Path) -> None:
    args = arguments({"path": str(capture)})
    every = {name: [column.name for column in TABLES[name].columns] for name in SOME}
    all_at_once: dict[str, list[dict[str, Any]]] = {name: [] for name in every}
    blocks = pa.schema([(name, pa.list_(pa.struct([*arrow_schema(TABLES[name])]))) for name in every])
    for row in rows_of(CaptureReader(args, Selection(every, blocks))):
        (name,) = [name for name, cells in row.items() if cells is not None]
        all_at_once[name] += row[name]
    for name, selections in SOME.items():
        for columns in selections:
            narrow = rows_of(CaptureReader(args, Selection({name: columns})))
            assert narrow == [{column: row[column] for column in columns} for row in all_at_once[name]], (name, columns)


def test_a_schema_that_the_table_does_not_have_is_one_sentence() -> None:
    from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructType

    one = StructType().add("packet", LongType())
    assert Selection.of("findings", one).columns == {"findings": ["packet"]}
    several = StructType().add("findings", ArrayType(one)).add("table", StringType())
    assert Selection.of("*", several).columns == {"findings": ["packet"]}
    for text, schema, said in (
        ("findings", StructType().add("pakcet", LongType()), 'findings has no column "pakcet"; did you mean packet'),
        ("findings", StructType().add("packet", IntegerType()), r"findings.packet is bigint, not int \("),
        ("*", one, 'no column "packet bigint"; blocks have table string, rows int'),
        ("flows,", StructType().add("flows", LongType()), "flows bigint: the rows of a table are an array of structs"),
    ):
        with pytest.raises(UsageError, match=said):
            Selection.of(text, schema)


# -- conditions of `where`


def conditions(rows: list[dict[str, Any]]) -> list[tuple[list[Any], Callable[[dict[str, Any]], bool]]]:
    """Conditions as Spark passes them, each with its meaning: of about the middle of the rows."""
    from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, Not

    row = rows[len(rows) // 2]
    ts, ts_ns, packet, api, broker = (row[name] for name in ("ts", "ts_ns", "packet", "api", "broker"))
    return [
        ([GreaterThanOrEqual(("ts",), ts)], lambda row: row["ts"] >= ts),
        ([LessThan(("ts",), ts)], lambda row: row["ts"] < ts),
        ([EqualTo(("ts",), ts)], lambda row: row["ts"] == ts),
        ([GreaterThan(("ts_ns",), ts_ns)], lambda row: row["ts_ns"] > ts_ns),
        (
            [GreaterThan(("packet",), packet), LessThan(("packet",), packet + 40)],
            lambda row: 0 < row["packet"] - packet < 40,
        ),
        ([In(("api",), (api, "Fetch"))], lambda row: row["api"] in (api, "Fetch")),
        ([Not(EqualTo(("api",), api))], lambda row: row["api"] != api),
        ([EqualTo(("broker",), broker)], lambda row: row["broker"] == broker),
        ([EqualTo(("capture",), "other")], lambda row: False),
        ([LessThan(("ts",), datetime(2001, 1, 1, tzinfo=UTC))], lambda row: False),
    ]


@pytest.mark.parametrize("table", ["exchanges", "record_batches", "share_requests", "findings"])
@pytest.mark.parametrize("capture", [EPOCHS, CAPTURES / "share-restart.pcap"], ids=lambda path: path.stem)
def test_conditions_leave_out_rows_and_never_change_one(capture: Path, table: str) -> None:
    args = arguments({"path": str(capture)})
    selection = Selection({table: [column.name for column in TABLES[table].columns]})
    every = rows_of(CaptureReader(args, selection))
    made = []
    for conditions_of, keeps in conditions([{"api": None, **row} for row in every]):
        if table == "findings" and conditions_of[0].__class__.__name__ in ("In", "Not"):
            continue  # it has no column `api`
        reader = FilteredReader(args, selection)
        assert reader.pushFilters(conditions_of) == conditions_of, "Spark applies them again"
        rows = rows_of(reader)
        assert [row for row in rows if keeps(row)] == [row for row in every if keeps(row)], conditions_of
        made.append(len(rows))
    assert made[-1] == 0
    if table == "exchanges":
        assert sum(made) < 0.7 * len(made) * len(every), "no fewer rows were made"


def test_inline_of_one_table_makes_rows_of_that_table_only() -> None:
    from pyspark.sql.datasource import IsNotNull

    columns = {"findings": ["code"], "flows": ["broker"]}
    blocks = pa.schema([(name, pa.list_(pa.struct([(names[0], pa.string())]))) for name, names in columns.items()])
    reader = FilteredReader(arguments({"path": str(EPOCHS)}), Selection(columns, blocks))
    assert {row["flows"] is None for row in rows_of(reader)} == {True, False}
    reader.pushFilters([IsNotNull(("flows",))])
    assert {row["flows"] is None for row in rows_of(reader)} == {False}


@pytest.mark.spark
def test_spark_passes_conditions_to_the_source_and_keeps_the_same_rows(spark: Any) -> None:
    from pyspark.sql import functions as F

    frame = spark.read.format("kshark").option("each", "true").load([str(EPOCHS), str(SESSIONS)])
    rows = frame.collect()
    middle = rows[len(rows) // 2]
    condition = (F.col("ts") >= middle.ts) & F.col("api").isin("ShareFetch", middle.api) & (F.col("packet") < 900)
    kept = [row for row in rows if row.ts >= middle.ts and row.api in ("ShareFetch", middle.api) and row.packet < 900]
    assert sorted(frame.where(condition).collect()) == sorted(kept) != []
    assert {row.capture for row in frame.where(F.col("capture") == SESSIONS.name).collect()} == {SESSIONS.name}


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
