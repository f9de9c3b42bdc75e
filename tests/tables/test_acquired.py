"""What a row of `acquired` says of its range: how many of its offsets have no record, and whether it stands where it
may."""

from __future__ import annotations

from typing import Any

from kshark.tables import TABLES, Rows
from tests.analysis.talks import batch_of, handed, opened
from tests.conversation import Conversation, events

COLUMNS = [column.name for column in TABLES["acquired"].columns]


def told(*ranges: tuple[int, ...], records: bytes) -> list[tuple[Any, ...]]:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1).answered(responses=handed(*ranges, records=records))
    rows = Rows("talk")
    found = [row for event in events(talk) for table, row in rows.feed(event) if table == "acquired"]
    names = ("first_offset", "last_offset", "lacking", "misplaced")
    return [tuple(row[COLUMNS.index(name)] for name in names) for row in found]


def test_offsets_without_a_record_are_counted() -> None:
    records = batch_of(0, 9) + batch_of(10, 19, without=[12, 13]) + batch_of(20, 20, control=True)
    assert told((0, 0, 9), (0, 10, 22), records=records) == [(0, 9, 0, False), (10, 22, 13, False)]
    assert told((0, 0, 9), records=b"") == [(0, 9, None, False)]


def test_a_range_that_is_none_or_comes_too_late() -> None:
    ranges = (0, 10, 19), (0, 19, 20), (0, 30, 29), (1, 0, 4)
    assert [misplaced for *_, misplaced in told(*ranges, records=b"")] == [False, True, True, False]
