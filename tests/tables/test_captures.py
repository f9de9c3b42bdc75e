"""The table `captures`: a row says of a capture what `kshark check` says, and what its files are."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kshark
from kshark.capture.host import described, host_of
from tests.cli.command import Run, runner
from tests.cli.incident import incident, written
from tests.shared import CAPTURES

#: Findings of every verdict; a name of the host; TLS; bodies cut by the snap length.
NAMES = ("adv-epochs.pcap", "tcp-var-ng.pcapng", "adv-frames.pcap")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def captures_in(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "captures").to_pylist()
    return rows


@pytest.fixture
def rows(run: Run, tmp_path: Path) -> list[dict[str, Any]]:
    assert run("export", *(CAPTURES / name for name in NAMES), "--each", "-o", tmp_path / "tables").code == 0
    return captures_in(tmp_path / "tables")


def test_a_row_says_what_check_says(run: Run, rows: list[dict[str, Any]]) -> None:
    assert [row["capture"] for row in rows] == [*NAMES]
    for name, row in zip(NAMES, rows, strict=True):
        lines = run("check", CAPTURES / name, "-T", "json")
        summary = lines.json[-1]["summary"]
        assert {key: row[key] for key in ("sessions", "exchanges", "violations", "unknown", "notes", "gaps")} == {
            key: summary[key] for key in ("sessions", "exchanges", "violations", "unknown", "notes", "gaps")
        }
        assert (row["ts_ns"], row["until_ts_ns"]) == (summary["covered"]["since_ns"], summary["covered"]["until_ns"])
        assert row["brokers"] == summary["covered"]["brokers"]
        found = Counter((finding["code"], finding["verdict"]) for finding in lines.findings)
        assert {(one["code"], one["verdict"]): one["count"] for one in row["findings"]} == found
        outcomes = ("answered", "unanswered", "one_way", "orphans", "body_cut")
        assert sum(row[outcome] for outcome in outcomes) == row["exchanges"]
        assert row["judged"] <= row["exchanges"]
        assert row["coverage"] == round(row["judged"] / row["exchanges"], 6)


def test_a_row_names_the_files_and_the_engine(rows: list[dict[str, Any]]) -> None:
    for name, row in zip(NAMES, rows, strict=True):
        data = (CAPTURES / name).read_bytes()
        assert (row["files"], row["size_bytes"]) == ([name], len(data))
        assert row["sha256"] == [hashlib.sha256(data).hexdigest()]
        assert row["kshark"] == kshark.__version__
        assert 0 < row["seconds"] < 600
    assert [row["host"] for row in rows] == [None, "AMD EPYC (with SSE4.2); Linux 6.18.44-fc-v669", None]
    assert [row["packets"] for row in rows[:2]] == [354, 2362]
    assert rows[0]["broker_releases"] == ["4.3"]
    assert rows[0]["client_software"] == ["apache-kafka-java 4.3.1", "raw-share-client 1.0"]
    assert rows[1]["clusters"] == ["wDcs_RiNNJrRh4HsGN7jrA"]


def test_weirds_are_counted_as_in_their_table(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    table = pq.read_table(tmp_path / "tables" / "weirds").to_pylist()
    for row in rows:
        counted: Counter[str] = Counter()
        for weird in table:
            if weird["capture"] == row["capture"] and weird["code"] != "STREAM_GAP":
                counted[weird["code"]] += weird["times"]
        assert {one["code"]: one["times"] for one in row["weirds"]} == counted
    assert [row["tls_connections"] for row in rows] == [0, 0, 1]


def test_files_read_as_one_are_one_row(run: Run, tmp_path: Path) -> None:
    packets = incident()
    files = [written(tmp_path, part, name) for name, part in (("1.pcap", packets[:12]), ("2.pcap", packets[12:]))]
    run("export", *files, "-o", tmp_path / "tables")
    (row,) = captures_in(tmp_path / "tables")
    assert (row["capture"], row["files"], row["packets"]) == ("1.pcap+1", ["1.pcap", "2.pcap"], len(packets))
    assert row["sha256"] == [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def test_a_capture_without_connections_has_a_row_without_times(run: Run, tmp_path: Path) -> None:
    run("export", written(tmp_path, [], "empty.pcap"), "-o", tmp_path / "tables")
    (row,) = captures_in(tmp_path / "tables")
    assert (row["ts"], row["ts_ns"], row["until_ts_ns"], row["coverage"], row["exchanges"]) == (*[None] * 4, 0)


def test_a_capture_that_cannot_be_read_is_in_faults_alone(run: Run, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcap.gz"
    damaged.write_bytes(b"\x1f\x8b\x08\x00" + bytes(30))
    done = run("export", CAPTURES / "adv-acks.pcap", damaged, "--each", "-o", tmp_path / "tables")
    assert done.code == 2
    assert [row["capture"] for row in captures_in(tmp_path / "tables")] == ["adv-acks.pcap"]


def test_tables_made_before_get_the_table_with_the_next_capture(run: Run, tmp_path: Path) -> None:
    """An earlier kshark wrote no such table."""
    import json
    import shutil

    tables = tmp_path / "tables"
    run("export", CAPTURES / "adv-acks.pcap", "-o", tables)
    manifest = json.loads((tables / "manifest.json").read_text())
    del manifest["tables"]["captures"]
    (tables / "manifest.json").write_text(json.dumps(manifest))
    shutil.rmtree(tables / "captures")
    assert run("export", CAPTURES / "adv-members.pcap", "--append", "-o", tables).code == 0
    assert [row["capture"] for row in captures_in(tables)] == ["adv-members.pcap"]
    assert len({*pq.read_table(tables / "exchanges")["capture"].to_pylist()}) == 2


@pytest.mark.parametrize(
    "head", [b"", b"\x0a\x0d\x0d\x0a", b"\x0a\x0d\x0d\x0a" + bytes(30), b"\x0a\x0d\x0d\x0a\xff\xff\xff\xff\x4d\x3c\x2b\x1a" + b"\xff" * 40]
)  # fmt: skip
def test_a_damaged_section_names_no_host(head: bytes) -> None:
    assert described(head) is None


def test_a_pipe_names_no_host(tmp_path: Path) -> None:
    assert host_of(["-", str(tmp_path / "absent.pcapng")]) is None
