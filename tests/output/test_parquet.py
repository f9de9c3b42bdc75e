"""Tables on disk: what was written is read back, unfinished work is not mistaken for whole, foreign folders stay as they are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import UNSET

from kshark.errors import UsageError
from kshark.model import Weird
from kshark.output import parquet
from kshark.output.parquet import ParquetWriter, TableFile, TableFiles, arrow_schema, read_manifest, record_batch
from kshark.tables import COMMON, TABLES, Block, held
from kshark.tables.blocks import Row, Texts, Where
from kshark.tables.types import parse_type

CELLS: dict[str, Any] = {
    "boolean": True,
    "smallint": -7,
    "int": 1 << 30,
    "bigint": -(1 << 62),
    "string": "größer",
    "binary": b"\x00\xff",
}


def cell(text: str) -> Any:
    """A value of any column type, with a null and an empty list somewhere inside."""
    match parse_type(text):
        case str(scalar):
            return CELLS[scalar]
        case array:
            assert not isinstance(array, str)
            element = array[0]
            return [CELLS[element]] if isinstance(element, str) else [tuple(CELLS[t] if t != "binary" else None for _, t in element[0])]


HERE = Where("a.pcap", "a.pcap:7", "10.0.0.1:9092", "10.0.0.2:50000")
NOWHERE = Where("b.pcap", None, None, None)


def rows_of(name: str) -> list[Row]:
    """A row with all cells, one with none, one with empty arrays, one of a body that lacks all fields, and the first again."""
    cells = [cell(column.type) for column in TABLES[name].columns[len(COMMON) :]]
    full, null = (HERE, 3, CELLS["bigint"], 3, *cells), (NOWHERE, 4, 1_999, None, *[None] * len(cells))
    empty = (HERE, 5, -1, None, *[[] if isinstance(one, list) else UNSET for one in cells])
    absent = (HERE, 5, -1, None, *[UNSET] * len(cells))
    return [full, null, empty, absent, full]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_rows_are_read_back_as_they_were_written(name: str, tmp_path: Path) -> None:
    rows = rows_of(name)
    file = TableFile(tmp_path, TABLES[name])
    file.add(Block.of(rows[:1]))
    file.add(Block.of(rows[1:]))
    file.close()

    read = pq.read_table(tmp_path / name)

    assert read.schema == arrow_schema(TABLES[name])
    assert read.schema.metadata == arrow_schema(TABLES[name]).metadata
    assert read.equals(pa.Table.from_batches([record_batch(read.schema, Block.of(rows))]))
    assert read.column("flow_id").to_pylist() == ["a.pcap:7", None, *["a.pcap:7"] * 3]
    assert read.column("ts").cast(pa.int64()).to_pylist() == [CELLS["bigint"] // 1000, 1, -1, -1, CELLS["bigint"] // 1000]
    assert read.column("ts_ns").to_pylist() == [CELLS["bigint"], 1_999, -1, -1, CELLS["bigint"]]
    own = read.column_names[len(COMMON) :]
    assert read.slice(3, 1).select(own).to_pylist() == read.slice(1, 1).select(own).to_pylist() == [dict.fromkeys(own)]


def test_structs_in_lists_keep_their_members() -> None:
    witness = [(3, 11, 38, None, None, None), (4, None, None, None, 39, "closed"), (3, 12, 40, 41, None, None)]
    schema = arrow_schema(TABLES["findings"])
    at = schema.names.index("witness")
    cells: list[Any] = [None] * (len(schema) - len(COMMON))
    cells[at - len(COMMON)] = witness
    read = record_batch(schema, Block.of([(HERE, 1, 1, 1, *cells)])).to_pylist()[0]["witness"]
    assert [tuple(each.values()) for each in read] == witness


def test_bodies_become_text_without_a_string_of_each() -> None:
    told = [{"a": 1}, None, {"größe": "ß"}, UNSET, {}]
    schema = arrow_schema(TABLES["exchanges"])
    cells: list[Any] = [None] * (len(schema) - len(COMMON))
    cells[schema.names.index("request_json") - len(COMMON)] = Texts(told)
    block = Block([HERE] * 5, [1] * 5, [1] * 5, [1] * 5, cells)
    texts = ['{"a":1}', None, '{"größe":"ß"}', None, "{}"]
    assert record_batch(schema, block).column("request_json").to_pylist() == texts
    assert list(Texts(told)) == texts


def test_no_type_is_one_that_spark_cannot_read() -> None:
    for table in TABLES.values():
        for field in arrow_schema(table):
            assert not pa.types.is_unsigned_integer(field.type)
            assert not pa.types.is_timestamp(field.type) or field.type == pa.timestamp("us", "UTC")


def test_the_manifest_says_what_was_read_and_written(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(b"packets")
    writer = ParquetWriter(tmp_path / "out", [[str(capture)]])
    writer.begin()
    writer.feed(Weird("CAPTURE_CUT", "capture", 9, 1_000))
    counts = writer.close()

    manifest = read_manifest(tmp_path / "out")

    assert counts["weirds"] == 1
    assert manifest["tables"]["weirds"] == {"version": 1, "rows": 1}
    digest = hashlib.sha256(b"packets").hexdigest()
    assert manifest["captures"] == [{"name": "a.pcap", "files": [{"file": "a.pcap", "size_bytes": 7, "sha256": digest}]}]
    assert "records" not in manifest["tables"]
    for name in manifest["tables"]:
        assert pq.read_table(tmp_path / "out" / name).num_rows == counts[name]


def test_an_export_that_was_not_finished_has_no_manifest(tmp_path: Path) -> None:
    ParquetWriter(tmp_path, [["a.pcap"]])
    assert list(tmp_path.glob("*/*.parquet")) == []
    with pytest.raises(UsageError, match="not finished"):
        read_manifest(tmp_path)


def test_a_later_part_without_rows_is_no_file(tmp_path: Path) -> None:
    for part in (0, 1):
        TableFiles(tmp_path, part=part).close()
    assert len(list(tmp_path.glob("*/part-00000.parquet"))) == len(TABLES) - 1
    assert list(tmp_path.glob("*/part-00001.parquet")) == []


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    first = ParquetWriter(tmp_path, [["-"]], records=True)
    first.close()
    assert (tmp_path / "records").exists()
    ParquetWriter(tmp_path, [["-"]]).close()
    assert not (tmp_path / "records").exists()
    assert len(list(tmp_path.glob("weirds/*"))) == 1


def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "thesis.doc").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis\.doc"):
        ParquetWriter(tmp_path, [["a.pcap"]])
    assert [path.name for path in tmp_path.rglob("*")] == ["records", "thesis.doc"]


def test_tables_of_a_later_version_are_refused(tmp_path: Path) -> None:
    ParquetWriter(tmp_path, [["-"]]).close()
    path = tmp_path / parquet.MANIFEST
    manifest = json.loads(path.read_text())
    manifest["tables"]["exchanges"]["version"] = 99
    path.write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="upgrade"):
        read_manifest(tmp_path)
    path.write_text("[]")
    with pytest.raises(UsageError, match="no manifest"):
        read_manifest(tmp_path)


def test_many_rows_come_in_groups_and_stay_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "ROWS", 10)
    monkeypatch.setattr(parquet, "GROUP_ROWS", 30)
    writer = ParquetWriter(tmp_path, [["-"]])
    writer.begin()
    for packet in range(95):
        writer.feed(Weird("PACKET_TOO_SHORT", "link", packet, packet * 1_000))
    writer.close()
    file = pq.ParquetFile(next((tmp_path / "weirds").iterdir()))
    assert file.metadata.num_row_groups == 4
    assert file.read().column("packet").to_pylist() == list(range(95))


# -- row groups


def groups(folder: Path, table: str) -> list[int]:
    """Rows of each row group."""
    metadata = pq.ParquetFile(next((folder / table).iterdir())).metadata
    return [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]


def long_weird(packet: int) -> Weird:
    return Weird("PACKET_TOO_SHORT", "link", packet, packet, "x" * 1_000)


def test_long_rows_make_a_group_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group is counted anew."""
    monkeypatch.setattr(held, "ROWS", 10)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 25_000)
    writer = ParquetWriter(tmp_path, [["-"]])
    writer.begin()
    for packet in range(100):
        writer.feed(long_weird(packet))
    writer.close()
    assert groups(tmp_path, "weirds")[:3] == [30, 30, 30]


def test_when_all_tables_together_hold_too_much_the_largest_makes_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "HELD_BYTES", 40_000)
    files = TableFiles(tmp_path)
    short, long = rows_of("findings")[:1] * 10, rows_of("weirds")[:1] * 300
    files.add([("findings", Block.of(short))])
    for _ in range(6):
        files.add([("weirds", Block.of(long))])
    files.close()
    assert groups(tmp_path, "findings") == [10]
    assert len(groups(tmp_path, "weirds")) > 1


# -- folders and manifests


def test_each_capture_has_its_own_name(tmp_path: Path) -> None:
    writer = ParquetWriter(tmp_path, [["a.pcap"], ["b.pcap"]])
    for packet in (1, 2):
        writer.begin()
        writer.feed(Weird("CAPTURE_CUT", "capture", packet, 0))
    writer.close()
    assert pq.read_table(tmp_path / "weirds", columns=["capture", "packet"]).to_pylist() == [
        {"capture": "a.pcap", "packet": 1},
        {"capture": "b.pcap", "packet": 2},
    ]


def test_a_new_export_is_not_whole_because_the_one_before_was(tmp_path: Path) -> None:
    ParquetWriter(tmp_path, [["-"]]).close()
    ParquetWriter(tmp_path, [["-"]])
    with pytest.raises(UsageError, match="not finished"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["mine/part-00000.parquet", "weirds/sub/part-00000.parquet", "weirds.parquet", "weirds/notes.txt"])
def test_files_that_only_look_like_tables_are_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match="is no table"):
        ParquetWriter(tmp_path, [["-"]])
    assert path.read_bytes() == b"mine"


def test_a_manifest_of_a_later_form_is_refused(tmp_path: Path) -> None:
    ParquetWriter(tmp_path, [["-"]]).close()
    path = tmp_path / parquet.MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "format": parquet.FORMAT + 1, "tables": {}}))
    with pytest.raises(UsageError, match="upgrade"):
        read_manifest(tmp_path)


def test_a_long_capture_is_told_by_all_of_its_bytes(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(bytes(100_000) + b"end")
    ParquetWriter(tmp_path / "out", [[str(capture)]]).close()
    (file,) = read_manifest(tmp_path / "out")["captures"][0]["files"]
    assert file == {"file": "a.pcap", "size_bytes": 100_003, "sha256": hashlib.sha256(capture.read_bytes()).hexdigest()}
