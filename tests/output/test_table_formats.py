"""Tables with a log of Delta or Iceberg, small files that are merged, and tables of an earlier version."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kshark.cli
from kshark.errors import UsageError
from kshark.output.export import Export
from kshark.output.manifest import read_manifest, whole_captures
from kshark.output.parquet_merge import merged, merges_of
from kshark.tables import TABLES
from tests.output.exporting import made_earlier
from tests.output.querying import needs_duckdb, statements
from tests.shared import CAPTURES

EPOCHS, LOSS, ACKS = (str(CAPTURES / name) for name in ("adv-epochs.pcap", "share-loss.pcap", "adv-acks.pcap"))


def export(folder: Path, *words: str) -> Path:
    assert kshark.cli.main(["export", *words, "--each", "-q", "-o", str(folder)]) == 0
    return folder


def in_order(table: pa.Table, name: str) -> list[str]:
    """Rows as texts; pyiceberg reads a null list as an empty one."""
    names = [column.name for column in TABLES[name].columns if (name, column.name) != ("captures", "seconds")]
    cells = (
        {key: None if value == [] else value for key, value in row.items()} for row in table.select(names).to_pylist()
    )
    return sorted(json.dumps(row, default=str) for row in cells)


def of_parquet(folder: Path, name: str) -> pa.Table:
    return pq.read_table([folder / file.path for file in read_manifest(folder).tables[name].files], partitioning=None)


def of_delta(folder: Path, name: str) -> pa.Table:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    return deltalake.DeltaTable(str(folder / name)).to_pyarrow_table()


def of_iceberg(folder: Path, name: str) -> pa.Table:
    catalog = pytest.importorskip("pyiceberg.catalog", reason="pyiceberg is not installed")
    opened = catalog.load_catalog("kshark", type="sql", uri=f"sqlite:///{folder / 'catalog.db'}")
    table: pa.Table = opened.load_table((folder.name.replace(" ", "_"), name)).scan().to_arrow()
    return table


LOGS = [pytest.param("delta", of_delta, id="delta"), pytest.param("iceberg", of_iceberg, id="iceberg")]
QUICK = [LOGS[0], pytest.param("iceberg", of_iceberg, id="iceberg", marks=pytest.mark.slow)]
Reader = Callable[[Path, str], pa.Table]


def equal(folder: Path, read: Reader, expected: Path) -> None:
    for name in read_manifest(expected).tables:
        assert (name, in_order(read(folder, name), name)) == (name, in_order(of_parquet(expected, name), name))


def compacted(folder: Path) -> None:
    with Export(folder, mode="append") as opened:
        merges = merges_of(opened.manifest)
        files = [merged(merge, str(folder), opened.attempt) for merge in merges]
        opened.rewrite(files, {merge.table: merge.paths for merge in merges})


@pytest.mark.parametrize(("table_format", "read"), LOGS)
def test_a_log_has_the_rows_of_the_parquet_files_after_each_commit(
    tmp_path: Path, table_format: str, read: Reader
) -> None:
    folder, expected = tmp_path / "the öne log", export(tmp_path / "plain", EPOCHS, LOSS)
    read(export(folder, EPOCHS, "--format", table_format), "findings")
    for _ in range(2):  # the second time, nothing is added
        export(folder, EPOCHS, LOSS, "--resume")
    equal(folder, read, expected)
    compacted(folder)
    assert {len(table.files) for table in read_manifest(folder).tables.values()} == {1}
    equal(folder, read, expected)


@pytest.mark.parametrize(("table_format", "read"), QUICK)
def test_a_log_that_an_export_did_not_write_follows_with_the_next(
    tmp_path: Path, table_format: str, read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the manifest was replaced."""
    read(export(tmp_path / "log", EPOCHS, "--format", table_format), "findings")
    child = os.fork()
    if child == 0:
        with monkeypatch.context() as patch:
            patch.setattr(f"kshark.output.{table_format}.Log._follow", lambda *_: os._exit(9))
            export(tmp_path / "log", LOSS, "--append")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert kshark.cli.main(["export", EPOCHS, LOSS, "--each", "-q", "-o", str(tmp_path / "log"), "--resume"]) == 0
    equal(tmp_path / "log", read, export(tmp_path / "plain", EPOCHS, LOSS))


def test_tables_with_a_log_are_replaced(tmp_path: Path) -> None:
    of_delta(export(tmp_path / "log", EPOCHS, "--format", "delta"), "findings")
    export(tmp_path / "log", LOSS)
    equal(tmp_path / "log", of_delta, export(tmp_path / "plain", LOSS))


def test_a_plain_folder_gets_a_log_and_a_log_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(tmp_path, EPOCHS)
    of_delta(export(tmp_path, LOSS, "--append", "--format", "delta"), "findings")
    equal(tmp_path, of_delta, tmp_path)
    assert kshark.cli.main(["export", ACKS, "-o", str(tmp_path), "--format", "parquet"]) == 2
    assert "has tables of delta; leave out --format, or name another folder with -o" in capsys.readouterr().err


def test_partitions_are_those_of_delta(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(tmp_path / "log", EPOCHS, "--format", "delta", "--partition-by", "date,cluster")
    table = of_delta(tmp_path / "log", "exchanges")
    assert {str(day) for day in table["date"].to_pylist()} == {"2026-11-21"}
    assert in_order(table, "exchanges") == in_order(of_parquet(tmp_path / "log", "exchanges"), "exchanges")
    export(tmp_path / "log", LOSS, "--append")
    compacted(tmp_path / "log")
    files = read_manifest(tmp_path / "log").tables["exchanges"].files
    assert len({file.path.rpartition("/")[0] for file in files}) == len(files)
    equal(tmp_path / "log", of_delta, export(tmp_path / "plain", EPOCHS, LOSS))
    code = kshark.cli.main(
        ["export", EPOCHS, "-o", str(tmp_path / "x"), "--format", "iceberg", "--partition-by", "date"]
    )
    assert code == 2
    assert "as Iceberg requires; leave out --partition-by" in capsys.readouterr().err


def test_a_folder_that_iceberg_cannot_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")
    assert kshark.cli.main(["export", EPOCHS, "-o", str(tmp_path / "a#b"), "--format", "iceberg"]) == 2
    assert "Iceberg cannot have a folder whose path has #, ? or %" in capsys.readouterr().err
    assert not (tmp_path / "a#b").exists()


@pytest.mark.parametrize(("table_format", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_missing_package_is_one_sentence(
    tmp_path: Path,
    table_format: str,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import sys

    for name in [name for name in sys.modules if name == f"kshark.output.{table_format}"]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == package] or [package]:
        monkeypatch.setitem(sys.modules, name, None)
    assert kshark.cli.main(["export", EPOCHS, "-o", str(tmp_path / "t"), "--format", table_format]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"kshark: --format {table_format} needs {package} (")
    assert said.endswith(f"): pip install 'kshark[{table_format}]'\n")
    assert not (tmp_path / "t").exists()


# -- commits every N captures


def test_captures_are_published_every_so_many_and_the_rest_can_be_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    words = ["export", EPOCHS, LOSS, ACKS, "--each", "-q", "-o", str(tmp_path / "t"), "--commit-every", "1"]
    with monkeypatch.context() as patch:
        count = iter(range(2))
        commit = Export.commit
        patch.setattr(Export, "commit", lambda *given: interrupted() if next(count, None) is None else commit(*given))
        assert kshark.cli.main(words) == 130
    assert [capture.name for capture in read_manifest(tmp_path / "t").captures] == [
        "adv-epochs.pcap",
        "share-loss.pcap",
    ]
    export(tmp_path / "t", EPOCHS, LOSS, ACKS, "--resume")
    equal(tmp_path / "t", of_parquet, export(tmp_path / "plain", EPOCHS, LOSS, ACKS))


def test_an_export_that_is_replaced_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    commits = read_manifest(export(tmp_path, EPOCHS)).commits
    export(tmp_path, LOSS, ACKS, "--commit-every", "1")
    assert read_manifest(tmp_path).commits == commits + 1


# -- tables of an earlier version


def test_an_export_adds_to_tables_of_an_earlier_version(tmp_path: Path) -> None:
    folder = made_earlier(export(tmp_path, EPOCHS), {"exchanges": 2, "findings": 2})
    export(folder, LOSS, "--append")
    content = read_manifest(folder).tables["exchanges"]
    assert [content.version_of(file) for file in content.files] == [2, 3]
    compacted(folder)
    assert [content.version_of(file) for file in read_manifest(folder).tables["exchanges"].files] == [2, 3]
    whole_captures(folder)


def test_a_check_names_the_column_that_it_lacks(tmp_path: Path) -> None:
    folder = made_earlier(export(tmp_path, EPOCHS), {"share_requests": 2})
    with pytest.raises(UsageError, match="whose table share_requests has no column acquire_mode, which a check needs"):
        whole_captures(folder)


@needs_duckdb
def test_views_have_columns_that_files_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    folder = made_earlier(export(tmp_path / "t", EPOCHS), {"exchanges": 1, "findings": 1, "flows": 1})
    export(folder, LOSS, "--append")
    monkeypatch.chdir(folder)
    views, queries = statements("duckdb")
    engine = duckdb.connect()
    for statement in (*views, *queries):
        engine.execute(statement)
    found = engine.execute("SELECT capture, count(*), count(error_codes), count(cluster_id) FROM exchanges x "
                           "JOIN flows f USING (capture, flow_id) GROUP BY 1 ORDER BY 1").fetchall()  # fmt: skip
    assert [row[0] for row in found] == ["adv-epochs.pcap", "share-loss.pcap"]
    assert found[0][2:] == (0, 0)
    assert found[1][2] > 0


@needs_duckdb
def test_the_key_of_the_manual_is_one(tmp_path: Path) -> None:
    import duckdb

    folder = export(tmp_path, EPOCHS, LOSS, ACKS)
    request = ("capture", "flow_id", "exchange", "correlation_id")
    keys = {
        **dict.fromkeys(("exchanges", "share_requests", "steps", "heartbeats"), request),
        **dict.fromkeys(("acquired", "acknowledgements"), (*request[:3], "topic_id", "partition", "first_offset")),
        "flows": ("capture", "flow_id"),
        "sessions": ("capture", "session_key", "session"),
    }
    for name, key in keys.items():
        rows = duckdb.sql(f"SELECT count(*), count(DISTINCT ({', '.join(key)})) FROM '{folder}/{name}/*.parquet'")
        ((every, different),) = rows.fetchall()
        assert (name, different) == (name, every)
        assert every > 0


@pytest.mark.parametrize(("table_format", "read"), QUICK)
def test_a_log_of_an_earlier_version_gets_the_columns_that_were_added(
    tmp_path: Path, table_format: str, read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"exchanges": 2, "flows": 2}
    folder = made_earlier(export(tmp_path / "t", EPOCHS), old)
    with monkeypatch.context() as patch:
        earlier = {name: table.of_version(old.get(name, table.version)) for name, table in TABLES.items()}
        package = pytest.importorskip(f"kshark.output.{table_format}", reason=f"no package for {table_format}")
        patch.setattr(package, "TABLES", earlier)
        with Export(folder, mode="append", table_format=table_format) as opened:
            opened.rewrite([], {})
    assert "proxy" not in read(folder, "exchanges").column_names
    export(folder, LOSS, "--append")
    for name in old:
        table = read(folder, name)
        assert [column.name for column in TABLES[name].columns if column.name not in table.column_names] == []
        assert len(table) == read_manifest(folder).tables[name].rows
