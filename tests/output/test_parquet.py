"""Rows as columns and as Parquet files: what was written is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import UNSET

from kshark.model import Weird
from kshark.output import parquet_files
from kshark.output.parquet import arrow_schema, record_batch
from kshark.output.parquet_files import PartFiles, TableFiles
from kshark.output.parquet_partitions import Partitions
from kshark.tables import COMMON, TABLES, Block, pending
from kshark.tables.blocks import Row, Texts, Where
from kshark.tables.types import parse_type
from tests.output.exporting import exported

CELLS: dict[str, Any] = {
    "boolean": True,
    "smallint": -7,
    "int": 1 << 30,
    "bigint": -(1 << 62),
    "double": 0.1,
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
            return (
                [CELLS[element]]
                if isinstance(element, str)
                else [tuple(CELLS[t] if t != "binary" else None for _, t in element[0])]
            )


HERE = Where("a.pcap", "a.pcap:7", "10.0.0.1:9092", "10.0.0.2:50000")
NOWHERE = Where("b.pcap", None, None, None)


def rows_of(name: str) -> list[Row]:
    """A row with all cells, one with none, one with empty arrays, one of a body that lacks all fields, and the first
    again."""
    cells = [cell(column.type) for column in TABLES[name].columns[len(COMMON) :]]
    full, null = (HERE, 3, CELLS["bigint"], 3, *cells), (NOWHERE, 4, 1_999, None, *[None] * len(cells))
    empty = (HERE, 5, -1, None, *[[] if isinstance(one, list) else UNSET for one in cells])
    absent = (HERE, 5, -1, None, *[UNSET] * len(cells))
    return [full, null, empty, absent, full]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_rows_are_read_back_as_they_were_written(name: str, tmp_path: Path) -> None:
    rows = rows_of(name)
    files = TableFiles(str(tmp_path), "0", TABLES[name], Partitions(()))
    files.add(Block.of(rows[:1]), None)
    files.add(Block.of(rows[1:]), None)
    (file,) = files.close()

    read = pq.read_table(tmp_path / file.path)

    assert (file.rows, file.size_bytes) == (5, (tmp_path / file.path).stat().st_size)

    assert read.schema == arrow_schema(TABLES[name])
    assert read.schema.metadata == arrow_schema(TABLES[name]).metadata
    assert [field.metadata[b"comment"].decode() for field in read.schema] == [
        column.about for column in TABLES[name].columns
    ]
    assert read.equals(pa.Table.from_batches([record_batch(read.schema, Block.of(rows))]))
    assert read.column("flow_id").to_pylist() == ["a.pcap:7", None, *["a.pcap:7"] * 3]
    assert read.column("ts").cast(pa.int64()).to_pylist() == [
        CELLS["bigint"] // 1000,
        1,
        -1,
        -1,
        CELLS["bigint"] // 1000,
    ]
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


def test_many_rows_come_in_groups_and_stay_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "ROWS", 10)
    monkeypatch.setattr(parquet_files, "GROUP_ROWS", 30)
    exported(tmp_path, {"-": (Weird("PACKET_TOO_SHORT", "link", packet, packet * 1_000) for packet in range(95))})
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
    monkeypatch.setattr(pending, "ROWS", 10)
    monkeypatch.setattr(parquet_files, "GROUP_BYTES", 25_000)
    exported(tmp_path, {"-": map(long_weird, range(100))})
    assert groups(tmp_path, "weirds")[:3] == [30, 30, 30]


def test_a_file_that_is_full_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "ROWS", 10)
    monkeypatch.setattr(parquet_files, "GROUP_ROWS", 30)
    monkeypatch.setattr(parquet_files, "FILE_BYTES", 1_500)
    exported(tmp_path, {"-": map(long_weird, range(95))})
    rows = [pq.read_metadata(path).num_rows for path in sorted((tmp_path / "weirds").iterdir())]
    assert rows == [60, 35]
    assert pq.read_table(tmp_path / "weirds").column("packet").to_pylist() == list(range(95))


def test_when_all_tables_together_hold_too_much_the_largest_makes_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "HELD_BYTES", 40_000)
    files = PartFiles(str(tmp_path), "0", Partitions(()))
    short, long = rows_of("findings")[:1] * 10, rows_of("weirds")[:1] * 300
    files.add([("findings", Block.of(short))])
    for _ in range(6):
        files.add([("weirds", Block.of(long))])
    files.close()
    assert groups(tmp_path, "findings") == [10]
    assert len(groups(tmp_path, "weirds")) > 1
