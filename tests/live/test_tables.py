"""`live --export`: rows as `kshark export` writes them, whole at any time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kshark.cli import main
from kshark.errors import UsageError
from kshark.live.files.tables import Tables
from kshark.model import Tick
from kshark.output.manifest import read_manifest
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from kshark.run import Run
from tests.live.batches import live_batches, status
from tests.shared import CAPTURES

EPOCHS = CAPTURES / "adv-epochs.pcap"
OPTIONS = Options(records="headers", embedded=True)


class Exporting:
    """A running capture whose tables are written."""

    def __init__(self, folder: Path) -> None:
        self.notes: list[str] = []
        self.engine = Engine(OPTIONS, Registry())
        self.run = Run(Registry(), keeps=False, listing=True)
        self.tables = Tables(str(folder), "eth0", {}, self.run, note=self.notes.append)
        self.seconds = 0

    def play(self, path: Path) -> None:
        """Judge the packets of a file; a minute passes after each batch."""
        self.tables.start()
        for batch in live_batches(path):
            self.tables.packets(batch)
            for item in (batch, Tick(int(batch.time_ns[-1]))):
                for page in self.engine.feed(item):
                    self.tables.page(page, self.run.page(page))
            self.tables.status(status(self.seconds))
            self.seconds += 60

    def end(self) -> None:
        for page in self.engine.close():
            self.tables.page(page, self.run.page(page))
        self.tables.close(self.run.close())


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of all listed files of a table, without what only files have, and the seconds of the work."""
    files = read_manifest(folder).tables[table].files
    found = [row for file in files for row in pq.read_table(folder / file.path).to_pylist()]
    for row in found:
        del row["capture"]
        for name in ("files", "sha256", "size_bytes", "seconds"):
            row.pop(name, None)
        row["flow_id"] = row["flow_id"] and row["flow_id"].rpartition(":")[2]
    return sorted(found, key=str)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "tables"
    assert main(["export", str(EPOCHS), "-o", str(folder), "-q"]) == 0
    return folder


def test_the_tables_are_those_of_export(tmp_path: Path, exported: Path) -> None:
    live = Exporting(tmp_path / "t")
    live.play(EPOCHS)
    live.end()
    expected = read_manifest(exported).tables
    for table in expected:
        assert rows(tmp_path / "t", table) == rows(exported, table), table
    assert len(read_manifest(tmp_path / "t").tables["exchanges"].files) > 2
    assert live.notes == [f"wrote {sum(it.rows for it in expected.values()):,} rows of tables to {tmp_path}/t"]
    assert [(it.name, it.files[0].file, it.files[0].sha256) for it in read_manifest(tmp_path / "t").captures] == [
        ("eth0", "eth0", None)
    ]


def test_later_captures_are_added(tmp_path: Path) -> None:
    for _ in range(2):
        live = Exporting(tmp_path / "t")
        live.play(EPOCHS)
        live.end()
    names = [capture.name for capture in read_manifest(tmp_path / "t").captures]
    assert len({*names}) == 2
    exchanges = read_manifest(tmp_path / "t").tables["exchanges"]
    assert exchanges.rows % 2 == 0


def test_a_killed_capture_leaves_the_minutes_before(tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        try:
            live = Exporting(tmp_path / "t")
            live.play(EPOCHS)
            os.kill(os.getpid(), 9)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    assert len(rows(tmp_path / "t", "exchanges")) > 100
    assert rows(tmp_path / "t", "findings")
    live = Exporting(tmp_path / "t")  # the next one removes what was not complete
    live.tables.start()
    live.end()
    assert not [*(tmp_path / "t").glob(".kshark-*")]


def test_tables_are_there_before_the_first_packet(tmp_path: Path) -> None:
    live = Exporting(tmp_path / "t")
    live.tables.start()
    assert rows(tmp_path / "t", "exchanges") == []
    live.end()


def test_a_full_disk_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = Exporting(tmp_path / "t")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        live.tables.start()
        patched.setattr("kshark.output.table_folder.os.rename", full)
        live.seconds = 1000
        live.tables.start = lambda: None  # type: ignore[method-assign]
        live.play(EPOCHS)
    live.end()
    assert live.notes == [
        f"{tmp_path}/t: No space left on device; no more rows are written, those of the last minute are lost, "
        "and packets are judged as before"
    ]
    assert rows(tmp_path / "t", "exchanges") == []


def test_a_folder_with_other_content_is_answered(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    live = Exporting(tmp_path)
    with pytest.raises(UsageError, match="it is not a folder of tables"):
        live.tables.start()
