"""Exports into a folder: whole or not there, one at a time, added to and resumed; what kshark did not write stays."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kshark.errors import UsageError
from kshark.model import Weird
from kshark.output.export import Export, Mode
from kshark.output.manifest import FORMAT, MANIFEST, read_manifest
from kshark.output.parquet_part import Part
from kshark.tables import OF_RECORDS, TABLES
from tests.output.exporting import exported, written

MODES: tuple[Mode, ...] = ("replace", "append", "resume")


def weirds(*packets: int) -> list[Weird]:
    return [Weird("CAPTURE_CUT", "capture", packet, packet * 1_000) for packet in packets]


def shown(folder: Path) -> list[int]:
    """The packets of the rows that a glob finds."""
    return sorted(pq.read_table(folder / "weirds").column("packet").to_pylist())


def listed(folder: Path) -> list[int]:
    """The packets of the rows that the manifest lists."""
    files = read_manifest(folder).tables["weirds"].files
    return sorted(packet for file in files for packet in pq.read_table(folder / file.path).column("packet").to_pylist())


def held(folder: Path) -> set[str]:
    """All files of a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def captures(tmp_path: Path) -> list[str]:
    """Three files; an export is made in the folder beside."""
    files = [tmp_path / name for name in ("a.pcap", "b.pcap", "c.pcap")]
    for file in files:
        file.write_text(f"packets of {file.name}")
    return list(map(str, files))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tables"


# -- the manifest


def test_the_manifest_says_what_was_read_and_written(captures: list[str], folder: Path) -> None:
    exported(folder, {captures[0]: weirds(9)}, no_payload=True)
    manifest = read_manifest(folder)

    (capture,) = manifest.captures
    assert (capture.name, capture.options) == ("a.pcap", {"no_payload": True})
    digest = hashlib.sha256(b"packets of a.pcap").hexdigest()
    assert [(file.file, file.size_bytes, file.sha256) for file in capture.files] == [("a.pcap", 17, digest)]
    assert list(manifest.tables) == [name for name in TABLES if name not in OF_RECORDS]
    assert {name: table.rows for name, table in manifest.tables.items() if table.rows} == {"weirds": 1}
    for name, table in manifest.tables.items():
        assert table.version == TABLES[name].version
        assert sum(file.rows for file in table.files) == pq.read_table(folder / name).num_rows == table.rows
    assert {(folder / path).stat().st_size for path in manifest.paths} == {
        file.size_bytes for table in manifest.tables.values() for file in table.files
    }
    assert manifest.paths == held(folder) - {MANIFEST}


def test_a_long_capture_is_told_by_all_of_its_bytes(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(bytes(100_000) + b"end")
    (file,) = read_manifest(exported(tmp_path / "out", {str(capture): []})).captures[0].files
    assert (file.size_bytes, file.sha256) == (100_003, hashlib.sha256(capture.read_bytes()).hexdigest())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": FORMAT + 1, "tables": {}}, "upgrade"),
        ({"tables": {"weirds": {"version": 99, "rows": 0, "files": []}}}, "upgrade"),
        ({"tables": {"dreams": {"version": 1, "rows": 0, "files": []}}}, "upgrade"),
        ({"format": FORMAT - 1, "captures": [{"name": "a.pcap"}]}, "an earlier kshark"),
        ({"captures": 7}, "not a manifest"),
    ],
)
def test_manifests_of_other_versions_are_refused(folder: Path, change: dict[str, object], said: str) -> None:
    path = exported(folder, {}) / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UsageError, match=said):
        read_manifest(folder)
    with pytest.raises(UsageError, match=said):
        Export(folder)
    assert [path.name for path in folder.glob(".*")] == []


# -- whole or not there


def test_nothing_is_seen_of_an_export_before_it_is_committed(folder: Path) -> None:
    with Export(folder) as export:
        part = written(export, {"-": weirds(1)})
        assert list(folder.glob("*/*.parquet")) == []
        with pytest.raises(UsageError, match="did not finish"):
            read_manifest(folder)
        export.commit([part])
        assert shown(folder) == listed(folder) == [1]


def test_an_earlier_export_is_replaced(folder: Path) -> None:
    exported(folder, {"-": weirds(1)}, records=True)
    exported(folder, {"-": weirds(2)})
    assert shown(folder) == listed(folder) == [2]
    assert not (folder / "records").exists()
    assert read_manifest(folder).paths == held(folder) - {MANIFEST}


@pytest.mark.parametrize("mode", MODES)
def test_an_export_that_fails_leaves_the_earlier_one_as_it_was(folder: Path, mode: Mode) -> None:
    exported(folder, {"-": weirds(1)})
    before = held(folder)

    def interrupted() -> Iterator[Weird]:
        yield from weirds(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exported(folder, {"-": interrupted()}, mode=mode)
    assert held(folder) == before
    assert shown(folder) == listed(folder) == [1]


def test_a_folder_that_was_made_for_an_export_that_fails_is_gone(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Export(folder):
        raise KeyboardInterrupt
    assert not folder.exists()


@pytest.mark.parametrize("moved", range(3))
def test_a_commit_that_breaks_off_changes_nothing(folder: Path, moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when so many files were moved into their places."""
    exported(folder, {"-": weirds(1)})
    before, moves = held(folder), iter(range(moved))

    def failing(source: Path, target: Path) -> None:
        if next(moves, None) is None:
            raise OSError(28, "No space left on device")
        os.replace(source, target)

    monkeypatch.setattr("kshark.output.table_folder.os.rename", failing)
    with Export(folder, mode="append") as export:
        parts = [written(export, {"-": weirds(packet)}) for packet in (2, 3, 4)]
        with pytest.raises(OSError, match="No space"):
            export.commit(parts)
    assert held(folder) == before
    assert shown(folder) == listed(folder) == [1]


def killed(folder: Path, mode: Mode, call: str) -> int:
    """The exit code of a process whose export ends for good at that call."""
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as patch, Export(folder, mode=mode) as export:
                part = written(export, {"-": weirds(2)})
                patch.setattr(f"kshark.output.{call}", lambda *_: os._exit(9))
                export.commit([part])
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize(
    ("mode", "call", "whole"),
    [
        ("replace", "table_folder.os.rename", [1]),
        ("replace", "table_folder.os.replace", [1]),
        ("replace", "table_folder.LocalFolder.remove", [2]),
        ("replace", "export._tidy", [2]),
        ("append", "table_folder.os.rename", [1]),
        ("append", "table_folder.os.replace", [1]),
        ("append", "export._tidy", [1, 2]),
    ],
)
def test_wherever_an_export_is_killed_the_set_is_whole_and_the_next_one_tidies_up(
    folder: Path, mode: Mode, call: str, whole: list[int]
) -> None:
    exported(folder, {"-": weirds(1)})
    assert killed(folder, mode, call) == 9
    assert listed(folder) == whole
    exported(folder, {"-": weirds(3)}, mode="append")
    assert shown(folder) == listed(folder) == [*whole, 3]
    assert read_manifest(folder).paths == held(folder) - {MANIFEST}


# -- several at once


def test_a_second_export_into_the_same_folder_is_refused(folder: Path) -> None:
    with Export(folder) as first:
        with pytest.raises(UsageError, match=r"another export into .* has not ended"):
            Export(folder, mode="append")
        first.commit([written(first, {"-": weirds(1)})])
    exported(folder, {"-": weirds(2)}, mode="append")
    assert shown(folder) == listed(folder) == [1, 2]


def test_what_a_task_wrote_that_was_tried_again_is_not_seen(folder: Path) -> None:
    """Each attempt has its own files; the driver commits those of one."""
    with Export(folder) as export:
        parts = [written(export, {"-": weirds(packet)}) for packet in (1, 1, 2)]
        export.commit(parts[1:])
    assert shown(folder) == listed(folder) == [1, 2]
    assert read_manifest(folder).paths == held(folder) - {MANIFEST}


def test_a_part_can_be_sent(folder: Path) -> None:
    import msgspec

    with Export(folder) as export:
        part = written(export, {"-": weirds(1)})
        export.commit([msgspec.json.decode(msgspec.json.encode(part), type=Part)])
    assert listed(folder) == [1]


# -- what is not kshark's


@pytest.mark.parametrize("name", ["thesis.doc", "findings/x.parquet"])
def test_a_folder_with_anything_else_is_left_alone(folder: Path, name: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_text("years of work")
    with pytest.raises(UsageError, match=r"holds (thesis\.doc|findings), but no manifest"):
        Export(folder)
    assert held(folder) == {name}


@pytest.mark.parametrize("name", ["findings/x.parquet", "weirds/sub/part-00000.parquet", "weirds/notes.txt"])
@pytest.mark.parametrize("mode", MODES)
def test_a_file_among_the_tables_that_no_export_wrote_is_never_deleted(folder: Path, name: str, mode: Mode) -> None:
    exported(folder, {"-": weirds(1)})
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match=f"holds {name}, which is not a file of kshark's tables"):
        Export(folder, mode=mode)
    assert path.read_bytes() == b"mine"
    assert listed(folder) == [1]


def test_a_file_beside_the_tables_stays(folder: Path) -> None:
    exported(folder, {"-": weirds(1)})
    (folder / "queries.sql").write_text("mine")
    exported(folder, {"-": weirds(2)})
    assert shown(folder) == [2]
    assert (folder / "queries.sql").read_text() == "mine"


@pytest.mark.parametrize("name", ["file:/tables", "https://host/tables", "s3://key:secret@bucket/tables"])
def test_only_local_folders_and_known_stores_are_written_to(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"is not a folder of this machine|cannot be opened|a password in a path"):
        Export(name)
    assert held(tmp_path) == set()


# -- adding and resuming


def test_captures_are_added_each_with_a_name_of_its_own(captures: list[str], folder: Path) -> None:
    exported(folder, {captures[0]: weirds(1)})
    exported(folder, {captures[0]: weirds(2), captures[1]: weirds(3)}, mode="append")
    rows = pq.read_table(folder / "weirds", columns=["capture", "packet"]).to_pylist()
    again = f"{Path(captures[0]).parent.name}/a.pcap"
    assert sorted((row["packet"], row["capture"]) for row in rows) == [(1, "a.pcap"), (2, again), (3, "b.pcap")]
    assert [capture.name for capture in read_manifest(folder).captures] == ["a.pcap", again, "b.pcap"]


def test_resuming_leaves_out_captures_that_are_there_with_the_same_options(captures: list[str], folder: Path) -> None:
    a, b, c = captures
    exported(folder, {a: weirds(1), b: weirds(2)})
    exported(folder, {a: weirds(1), b: weirds(2), c: weirds(3)}, mode="resume")
    assert shown(folder) == listed(folder) == [1, 2, 3]

    exported(folder, {a: weirds(1), b: weirds(2)}, mode="resume", since="+1s")
    assert listed(folder) == [1, 1, 2, 2, 3]
    Path(a).write_text("other packets")
    exported(folder, {a: weirds(4), b: weirds(2)}, mode="resume")
    assert listed(folder) == [1, 1, 2, 2, 3, 4]


def test_standard_input_is_never_there_already(folder: Path) -> None:
    for _ in range(2):
        exported(folder, {"-": weirds(1)}, mode="resume")
    assert listed(folder) == [1, 1]


def test_what_was_committed_between_is_there_when_the_rest_fails(captures: list[str], folder: Path) -> None:
    with Export(folder, mode="resume") as export:
        export.commit([written(export, {captures[0]: weirds(1)})])
        export.commit([written(export, {captures[1]: weirds(2)})])
        written(export, {captures[2]: weirds(3)})
    assert shown(folder) == listed(folder) == [1, 2]
    exported(folder, {file: weirds(packet) for packet, file in enumerate(captures, 1)}, mode="resume")
    assert shown(folder) == listed(folder) == [1, 2, 3]


# -- partitions

_DAY = 86_400_000_000_000


def test_rows_of_each_day_have_a_folder(folder: Path) -> None:
    days = [Weird("CAPTURE_CUT", "capture", packet, 20_000 * _DAY + packet * _DAY // 2) for packet in range(5)]
    exported(folder, {"-": days}, partition_by=["date"])
    read = pq.read_table(folder / "weirds").to_pylist()
    assert [(row["packet"], str(row["date"])) for row in sorted(read, key=lambda row: row["packet"])] == [
        (0, "2024-10-04"),
        (1, "2024-10-04"),
        (2, "2024-10-05"),
        (3, "2024-10-05"),
        (4, "2024-10-06"),
    ]
    assert sorted(path.name for path in (folder / "weirds").iterdir()) == [
        "date=2024-10-04",
        "date=2024-10-05",
        "date=2024-10-06",
    ]
    assert [path.name for path in (folder / "flows").iterdir()] == ["date=__HIVE_DEFAULT_PARTITION__"]
    assert read_manifest(folder).paths == held(folder) - {MANIFEST}

    exported(folder, {"-": days[:1]}, mode="append")
    assert len(listed(folder)) == 6
    with pytest.raises(UsageError, match="has partitions by date; leave out --partition-by"):
        Export(folder, mode="append", partition_by=["date", "cluster"])
    exported(folder, {"-": days[:1]})
    assert [path.suffix for path in (folder / "weirds").iterdir()] == [".parquet"]
