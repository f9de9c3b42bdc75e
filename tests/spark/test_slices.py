"""Tables in slices: each row is in one of them, and is read as it was written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kshark.output.parquet import arrow_schema
from kshark.output.parquet_files import OpenFile
from kshark.tables import TABLES
from kshark_spark import slices
from kshark_spark.slices import read, row_groups, rows_of, slices_of

NAME = "acquired"


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    return [
        {
            "capture": f"c{at // 40}",
            "packet": at,
            "group_id": None if at % 7 == 0 else f"g{at % 3}",
            "first_offset": at if at % 5 else None,
        }
        for at in range(begin, end)
    ]


def file_of(folder: Path, *groups: tuple[int, int]) -> tuple[str, int]:
    file = OpenFile(str(folder), "0", TABLES[NAME])
    for begin, end in groups:
        file.write(pa.Table.from_pylist(rows(begin, end), arrow_schema(TABLES[NAME])).cast(file.schema).to_batches())
    return str(folder / file.close().path), sum(end - begin for begin, end in groups)


@pytest.mark.parametrize("size", [1, 7, 30, 1000])
def test_each_row_is_in_one_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(slices, "ROWS", size)
    files = [file_of(tmp_path, (0, 10), (10, 11), (11, 40)), file_of(tmp_path), file_of(tmp_path, (40, 95), (95, 100))]
    found = slices_of({NAME: files, "acknowledgements": []}, [NAME, "acknowledgements"])
    assert len(found) == -(-100 // size)
    packets = [packet for one in found for packet in read(NAME, one[NAME], ["packet"])["packet"].to_pylist()]
    assert packets == [*range(100)]
    assert slices_of({NAME: []}, [NAME]) == [{NAME: []}]


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    path, number = file_of(tmp_path, (0, 60), (60, 100))
    (only,) = slices_of({NAME: [(path, number)]}, [NAME])
    columns = ["capture", "packet", "group_id", "first_offset", "topic"]
    expected = [tuple(row.get(name) for name in columns) for row in rows(0, 100)]
    assert [row for group in row_groups(NAME, only[NAME]) for row in rows_of(group.read(columns))] == expected
    assert [*rows_of(read(NAME, only[NAME], columns).unify_dictionaries())] == expected
    assert [*rows_of(read(NAME, [], columns))] == []


def test_rows_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_TOGETHER", 9)
    path, number = file_of(tmp_path, (0, 60))
    (only,) = slices_of({NAME: [(path, number)]}, [NAME])
    (found,) = (group.chosen(["group_id", "packet"], np.arange(60) % 17 == 3) for group in row_groups(NAME, only[NAME]))
    assert [*rows_of(found)] == [(row["group_id"], row["packet"]) for row in rows(0, 60) if row["packet"] % 17 == 3]
    (none,) = (group.chosen(["group_id"], np.zeros(60, np.bool_)) for group in row_groups(NAME, only[NAME]))
    assert [*rows_of(none)] == []


def test_what_brokers_say_again_is_left_out() -> None:
    """The first answer of those that are equal stays; and all of a connection whose messages were known late."""
    from kshark_spark.suspects import _repeated

    on_time, late = SimpleNamespace(late=[]), SimpleNamespace(late=[(3, 90)])
    known: Any = {"a": (0, {1: on_time, 2: late}), "b": (1, {1: on_time})}
    said = [
        ("a", "a:1", 10, "one", False),
        ("a", "a:1", 8, "one", True),
        ("a", "a:1", 8, "one", True),
        ("a", "a:1", 12, "two", True),
        ("a", "a:2", 14, "two", True),
        ("b", "b:1", 16, "two", True),
        ("b", "b:7", 15, "two", True),
        ("a", "a:1", 18, "two", False),
    ]
    capture, flow_id, packet, body, stays = zip(*said, strict=True)
    columns = {
        "capture": capture,
        "flow_id": flow_id,
        "response_packet": packet,
        "response_json": body,
        "api_version": [12] * len(said),
    }
    table = pa.table(columns)
    for name in ("capture", "flow_id"):
        table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
    assert (~_repeated(table, np.ones(len(said), np.bool_), known)).tolist() == [*stays]
    assert Counter(_repeated(table, np.zeros(len(said), np.bool_), known).tolist()) == {False: len(said)}


def test_rules_of_one_exchange_are_asked_of_columns() -> None:
    """Of every API and version, whatever columns lack; what a rule names is found, and nothing else of the kind."""
    from kshark.analysis.rules import BOOK
    from kshark.api_keys import SHARE_FETCH, SHARE_GROUP_HEARTBEAT
    from kshark_spark.screen.single import broken

    asked, ruled = (
        {"group_id": "group_id", "member_id": "member_id"},
        {api for rule in BOOK.of_exchanges for api in rule.apis},
    )
    told = [
        (api, version, error_code, group_id, "m")
        for api in sorted({*ruled, 3})
        for version in (0, 1, 2, None)
        for error_code in (None, 0, 42)
        for group_id in (None, "", "g")
    ]
    names = ("api_key", "api_version", "error_code", "group_id", "member_id")
    table = pa.table(dict(zip(names, zip(*told, strict=True), strict=True)))
    found = broken(table, np.array([row[0] for row in told], np.int64), ruled, asked, {})
    suspicious = {row for row, is_broken in zip(told, found, strict=True) if is_broken}
    assert {
        (SHARE_FETCH, 1, 42, "", "m"),
        (SHARE_FETCH, 1, 42, None, "m"),
        (SHARE_FETCH, None, 42, "g", "m"),
    } <= suspicious
    assert not any(api == 3 for api, *_ in suspicious)
    assert (SHARE_GROUP_HEARTBEAT, 1, 0, "g", "m") not in suspicious
    assert not broken(table, np.zeros(len(told), np.int64), ruled, asked, {}).any()
