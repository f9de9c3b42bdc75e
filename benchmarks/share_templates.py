"""Rows of bundled captures, of which tables of many share requests are made (benchmarks/share_tables.py)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from benchmarks.places import CAPTURES
from kshark.face import analysed, pages
from kshark.pipeline import Options
from kshark.tables import TABLES, Rows

Row = dict[str, Any]


class Templates:
    """Rows of bundled captures: a connection, its introduction, what a share consumer says on it, and a refusal."""

    def __init__(self) -> None:
        plain, refused = _rows("share-java-explicit.pcap"), _rows("adv-epochs.pcap")
        self.opening = _edited(_share(plain, 78, 0, 0), "request_json", _of_one_partition)
        self.acknowledging = _edited(_share(plain, 79, 1, 0), "request_json", _all_accepted)
        handed_out = self.opening[0]["response_json"]
        self.fetching = _edited(_share(plain, 78, 2, 0), "response_json", lambda _: handed_out)
        self.closing = _share(plain, 79, -1, 0)
        self.acquired, self.acknowledged = (
            next(
                row
                for row in plain[table]
                if row["exchange"] == one[0]["exchange"] and row["flow_id"] == one[0]["flow_id"]
            )
            for table, one in (("acquired", self.opening), ("acknowledgements", self.acknowledging))
        )
        self.acknowledged["types"] = [1]
        pairs = zip(self.fetching, _share(refused, 78, 3, 123), strict=True)
        self.refused = tuple(
            one
            | {name: other[name] for name in ("error_code", "error_codes", "failed", "response_json") if name in other}
            for one, other in pairs
        )
        flow_id = self.opening[0]["flow_id"]
        self.flow = next(row for row in plain["flows"] if row["flow_id"] == flow_id)
        self.introduction = next(
            row for row in plain["exchanges"] if row["flow_id"] == flow_id and row["api_key"] == 18
        )
        self.metadata = next(row for row in plain["exchanges"] if row["api_key"] == 3)


def _edited(rows: tuple[Row, Row], column: str, edit: Callable[[str], str]) -> tuple[Row, Row]:
    exchange, request = rows
    return exchange | {column: edit(exchange[column])}, request


def _of_one_partition(body: str) -> str:
    return re.sub(r'("partitions":\[\{"partition_index":0,"acknowledgement_batches":\[\]\}),[^\]]*\[\]\}', r"\1", body)


def _all_accepted(body: str) -> str:
    return re.sub(r'"acknowledge_types":\[[^\]]*\]', '"acknowledge_types":[1]', body)


def _rows(capture: str) -> dict[str, list[Row]]:
    """By table, the rows of a bundled capture."""
    rows, found = Rows(capture), dict[str, list[Row]]()
    for page, _ in analysed(pages([str(CAPTURES / capture)], Options())):
        for event in page:
            for table, row in rows.feed(event):
                found.setdefault(table, []).append(
                    dict(zip((column.name for column in TABLES[table].columns), row, strict=True))
                )
    return found


def _share(rows: dict[str, list[Row]], api_key: int, epoch: int, error: int) -> tuple[Row, Row]:
    """The first such request in `exchanges` and in `share_requests`."""
    key = ("flow_id", "exchange", "correlation_id")
    asked = {
        tuple(row[name] for name in key): row
        for row in rows["share_requests"]
        if (row["epoch"], row["error_code"]) == (epoch, error)
    }
    for row in rows["exchanges"]:
        own = asked.get(tuple(row[name] for name in key))
        if row["api_key"] == api_key and own is not None:
            return row, own
    raise SystemExit(f"no request {api_key} with epoch {epoch} and error {error}")
