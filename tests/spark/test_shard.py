"""Shares of a capture: together they are the whole, each connection in one of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kshark.face import pages
from kshark.model import Event
from kshark.pipeline import Options
from kshark.tables import TABLES, Rows
from spark_analysis.shard import sharded_pages
from tests.shared import CAPTURES

OPTIONS = Options(records=False)


#: What one connection tells of another; the check does not look at it.
ELSEWHERE = ("topic", "node_id", "listener")


def rows_of(happened: list[Event]) -> Counter[tuple[Any, ...]]:
    rows = Rows("c")
    kept = {name: [at for at, column in enumerate(table.columns) if column.name not in ELSEWHERE] for name, table in TABLES.items()}
    return Counter((name, *(str(row[at]) for at in kept[name])) for event in happened for name, row in rows.feed(event))


@pytest.mark.parametrize("name", ["share-restart", "adv-sessions-4.2.1", "tcp-hostile", "share-loss", "tcp-var-missed", "tcp-var-mid"])
def test_shares_add_up_to_the_whole(name: str) -> None:
    files = [str(CAPTURES / f"{name}.pcap")]
    whole = [event for page in pages(tuple(files), OPTIONS) for event in page]
    shares = [[event for page in sharded_pages(files, OPTIONS, shard, 3) for event in page] for shard in range(3)]
    told = rows_of(whole)
    again = sum((rows_of(share) for share in shares), Counter[tuple[Any, ...]]())
    assert again - told == told - again == Counter()
