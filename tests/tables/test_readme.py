"""Following kshark/tables/README.md literally ends with a working column."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kshark.tables import TABLES
from kshark.tables.columns import Column, table
from kshark.tables.readers import asked, its
from tests.following import blocks, insert, project, python
from tests.shared import CAPTURES, ROOT

#: The second test reads the tables that the first one writes.
pytestmark = pytest.mark.xdist_group("page of tables")
README = (ROOT / "kshark/tables/README.md").read_text()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the row of the page below the last column of its table."""
    (row,) = blocks("kshark/tables/README.md")
    (name, file), *_ = re.findall(r"here of `(\w+)`, in `(\w+\.py)`", README)
    folder = project(tmp_path_factory.mktemp("copy"))
    insert(folder / "kshark/tables" / file, rf"(^{name}: Final = table\(\n.*?\n)(\)\n)", row)
    return folder


def kshark(copy: Path, *words: str) -> str:
    return python(copy, "-m", "kshark", *words)


def test_the_new_column_has_its_values(copy: Path) -> None:
    kshark(copy, "export", "-q", str(CAPTURES / "share-loss.pcap"), "-o", "tables")
    requests = pq.read_table(copy / "tables/share_requests").to_pylist()
    bodies = {
        (row["flow_id"], row["exchange"]): json.loads(row["request_json"])
        for row in pq.read_table(copy / "tables/exchanges").to_pylist()
        if row["api"] in ("ShareFetch", "ShareAcknowledge")
    }
    found = [row["min_bytes"] for row in requests]
    assert found == [bodies[row["flow_id"], row["exchange"]].get("min_bytes") for row in requests]
    assert {type(value) for value in found} == {int, type(None)}  # ShareAcknowledge has no such field


def test_the_new_column_is_explained_and_makes_a_new_version(copy: Path) -> None:
    explained = kshark(copy, "explain", "tables").partition("\nshare_requests ")[2].partition("\n\n")[0]
    assert re.search(r"^  min_bytes +int +least bytes that the broker may wait for$", explained, re.M)
    (file, *_) = (copy / "tables/share_requests").glob("*.parquet")
    metadata = pq.read_schema(file).metadata
    assert metadata[b"kshark.table_version"] == str(TABLES["share_requests"].version + 1).encode()
    assert "min_bytes" in metadata[b"org.apache.spark.sql.parquet.row.metadata"].decode()
    manifest = json.loads((copy / "tables/manifest.json").read_text())
    assert manifest["tables"]["share_requests"]["version"] == TABLES["share_requests"].version + 1


def test_the_page_names_the_values_of_every_table() -> None:
    listed = re.findall(r"^\| (\w+) \| `(\w+\.py)` \| (.+) \|$", README, re.M)
    assert {name: tuple(values.split(", ")) for name, _, values in listed} == {
        name: table.values for name, table in TABLES.items()
    }
    for name, file, _ in listed:
        assert f'"{name}",' in (ROOT / "kshark/tables" / file).read_text()


def test_a_column_that_reads_what_its_rows_do_not_have_is_refused() -> None:
    wrong = table("t", "row", "message", Column("a", "int", "field of a body", asked("a")))
    with pytest.raises(ValueError, match="a column reads 'asked', but a row has only message"):
        wrong.row_maker()
    with pytest.raises(ValueError, match="a column of t has no reader"):
        table("t", "row", "message", Column("a", "int", "nothing")).row_maker()


def test_a_column_without_a_cell_costs_nothing() -> None:
    columns = table("t", "row", "a b", Column("a", "int", "all null", its("a")), Column("b", "int", "zero", its("b")))
    assert columns.columns_maker()([None, None], [0, None]) == [None, [0, None]]
