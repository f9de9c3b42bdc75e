"""Tables in an S3 bucket: the manifest is the commit, one export at a time, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kshark.cli
from kshark.errors import Error, UsageError
from kshark.model import Weird
from kshark.output.export import Export
from kshark.output.manifest import MANIFEST, read_manifest, whole_captures
from kshark.output.parquet_files import columns_of
from tests.output.exporting import exported, written
from tests.shared import CAPTURES, pythonpath
from tests.store import ENVIRONMENT, Bucket, bucket

__all__ = ["bucket"]

EPOCHS, LOSS, ACKS = (str(CAPTURES / name) for name in ("adv-epochs.pcap", "share-loss.pcap", "adv-acks.pcap"))


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def weirds(packet: int) -> list[Weird]:
    return [Weird("CAPTURE_CUT", "capture", packet, packet * 1_000)]


def listed(folder: str) -> list[int]:
    """The packets of the rows that the manifest lists."""
    from kshark.capture.paths import inside

    files = read_manifest(folder).tables["weirds"].files
    return sorted(
        packet for file in files for packet in columns_of(inside(folder, file.path)).read()["packet"].to_pylist()
    )


def rows_of(folder: str) -> dict[str, Counter[str]]:
    from kshark.capture.paths import inside

    return {
        name: Counter(
            str({**row, "seconds": None})
            for file in table.files
            for row in columns_of(inside(folder, file.path)).read().to_pylist()
        )
        for name, table in read_manifest(folder).tables.items()
    }


def test_an_export_is_the_same_as_on_this_machine(
    bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bucket.signed("same")
    assert kshark.cli.main(["export", EPOCHS, "--each", "-q", "-o", folder]) == 0
    for _ in range(2):  # the second time, nothing is added
        assert kshark.cli.main(["export", EPOCHS, LOSS, "--each", "-q", "-o", folder, "--resume"]) == 0
    assert kshark.cli.main(["export", EPOCHS, LOSS, "--each", "-q", "-o", str(tmp_path)]) == 0
    assert rows_of(folder) == rows_of(str(tmp_path))
    assert [capture.name for capture in whole_captures(folder).captures] == ["adv-epochs.pcap", "share-loss.pcap"]
    assert bucket.held("same") == {*read_manifest(folder).paths, MANIFEST}


def test_an_earlier_export_is_replaced(bucket: Bucket) -> None:
    folder = bucket.signed("replaced")
    for packet in (1, 2):
        exported(folder, {"-": weirds(packet)})
        assert listed(folder) == [packet]
    assert bucket.held("replaced") == {*read_manifest(folder).paths, MANIFEST}


def test_a_reader_by_the_manifest_sees_a_whole_commit_or_nothing(bucket: Bucket) -> None:
    folder = bucket.signed("seen")
    with Export(folder) as export:
        part = written(export, {"-": weirds(1)})
        with pytest.raises(UsageError, match="did not finish"):
            read_manifest(folder)
        export.commit([part])
        written(export, {"-": weirds(2)})
        assert listed(folder) == [1]
    assert bucket.held("seen") == {*read_manifest(folder).paths, MANIFEST}


def test_what_a_killed_export_left_is_removed_by_the_next(bucket: Bucket) -> None:
    folder = bucket.signed("killed")
    exported(folder, {"-": weirds(1)})
    killed = Export(folder, mode="append")
    written(killed, {"-": weirds(2)})
    left = bucket.held("killed") - {*read_manifest(folder).paths, MANIFEST}
    assert len(left) == 3  # its file, its mark, the lock
    exported(folder, {"-": weirds(3)}, mode="append")
    assert listed(folder) == [1, 3]
    assert bucket.held("killed") == {*read_manifest(folder).paths, MANIFEST}


def test_an_export_that_another_one_overtook_may_not_commit(bucket: Bucket) -> None:
    folder = bucket.signed("overtaken")
    with Export(folder) as first:
        part = written(first, {"-": weirds(1)})
        exported(folder, {"-": weirds(2)})
        with pytest.raises(UsageError, match=r"another export into s3://bucket/overtaken began while this one ran"):
            first.commit([part])
    assert listed(folder) == [2]
    assert bucket.held("overtaken") == {*read_manifest(folder).paths, MANIFEST}


@pytest.mark.parametrize("name", ["thesis.doc", "findings/x.parquet"])
def test_a_folder_with_anything_else_is_left_alone(bucket: Bucket, name: str) -> None:
    bucket.put(f"others/{name}", b"years of work")
    with pytest.raises(UsageError, match="but no manifest"):
        Export(bucket.signed("others"))
    assert name in bucket.held("others")


def test_a_bucket_that_is_not_there_is_one_sentence(bucket: Bucket) -> None:
    with pytest.raises(Error, match=r"^s3://gone/tables/.*: there is no such bucket$"):
        Export(bucket.signed("tables").replace("//bucket/", "//gone/"))


#: In its own process, since deltalake would keep this one from answering as a server.
_READ_BACK = """
import json, sys
import kshark.cli
table_format, folder, endpoint, *captures = sys.argv[1:]
for given in (captures[:1], captures, captures):
    words = ["export", *given, "--each", "-q", "-o", folder, "--resume", "--format", table_format]
    assert kshark.cli.main(words) == 0
if table_format == "delta":
    from deltalake import DeltaTable
    options = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    rows = DeltaTable("s3://bucket/delta/exchanges", storage_options=options).to_pyarrow_table()
else:
    from pyiceberg.catalog import load_catalog
    catalog = load_catalog("kshark", **{"s3.endpoint": endpoint, "s3.region": "us-east-1"})
    rows = catalog.load_table("iceberg.exchanges").scan().to_arrow()
import duckdb
sql = "select capture, count(*), sum(hash(flow_id, packet, request_json, response_json))::text from rows group by 1"
print(json.dumps(sorted(duckdb.sql(sql).fetchall())))
"""


@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)])
def test_logs_in_a_store(bucket: Bucket, tmp_path: Path, table_format: str) -> None:
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[table_format], reason="not installed")
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    assert kshark.cli.main(["export", EPOCHS, ACKS, "--each", "-q", "-o", str(tmp_path / "t")]) == 0
    sql = "select capture, count(*), sum(hash(flow_id, packet, request_json, response_json))::text from '{}' group by 1"
    expected: list[Any] = duckdb.sql(sql.format(tmp_path / "t/exchanges/*.parquet")).fetchall()
    done = subprocess.run(
        [sys.executable, "-c", _READ_BACK, table_format, bucket.signed(table_format), bucket.endpoint, EPOCHS, ACKS],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": pythonpath(),
            "PYICEBERG_CATALOG__KSHARK__URI": f"sqlite:///{tmp_path / 'catalog.db'}",
            **ENVIRONMENT,
        },
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == sorted(map(list, expected))


def test_iceberg_in_a_store_needs_a_catalog(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")
    assert kshark.cli.main(["export", EPOCHS, "-o", bucket.signed("none"), "--format", "iceberg"]) == 2
    assert "Iceberg tables in a store need a catalog; set PYICEBERG_CATALOG__KSHARK__URI" in capsys.readouterr().err
    assert bucket.held("none") == set()
