"""The table of coordinators' records, from the packets of consumers of these logs, beside the brokers' own files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kshark.face import pages
from kshark.pipeline import Options
from kshark.registry import Registry
from kshark.segments import Segment, SegmentBatch
from kshark.tables import TABLES, Rows
from tests.shared import CAPTURES

FOLDER = CAPTURES / "segments"


def from_packets(*, records: bool = True, alone: bool = False) -> list[dict[str, Any]]:
    names = [column.name for column in TABLES["coordinator_records"].columns]
    rows = Rows("fetched", records=records, columns={"coordinator_records": names} if alone else None)
    options = Options(records=True if records else "headers", embedded=True)
    blocks = [rows.page(page) for page in pages((FOLDER / "fetched.pcap.gz",), options)]
    return [
        dict(zip(names, row, strict=True))
        for filled in (*blocks, rows.rest())
        for name, block in filled
        if name == "coordinator_records"
        for row in block.rows()
    ]


@pytest.mark.parametrize("log", ["__share_group_state-0", "__consumer_offsets-1", "__transaction_state-1"])
def test_rows_from_packets_are_the_records_of_the_file(log: str) -> None:
    topic, _, partition = log.rpartition("-")
    stored: dict[int, Any] = {
        record.offset: record
        for page in Segment(str(FOLDER / log / "00000000000000000000.log"), Registry())
        for item in page
        if isinstance(item, SegmentBatch)
        for record in item.batch.records
    }
    rows = [
        row
        for row in from_packets()
        if (row["log"], row["log_partition"]) == (topic, int(partition)) and row["offset"] in stored
    ]
    assert [row["offset"] for row in rows] == [*stored]
    for row in rows:
        record = stored[row["offset"]]
        assert row["timestamp"] == record.timestamp
        assert f"{row['record_type']}Key" == record.key_decoded["name"]
        assert row["tombstone"] == (record.value is None)
        shown = json.loads(row["key_json"])
        assert shown == record.key_decoded["data"]
        assert row["group_id"] == shown.get("group_id", shown.get("group"))
        assert (row["value_json"] is None) == (record.value is None)


def test_records_that_are_not_opened_have_no_rows() -> None:
    assert from_packets(records=False) == []


def test_the_table_is_read_without_others() -> None:
    assert from_packets(alone=True) == from_packets()
