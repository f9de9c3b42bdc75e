"""`kshark stats --by` as text: a table, whose rows stand under the beginning of their interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kshark.output.spans import API, DIM, ERROR, LABEL, PLAIN, WARN, Line, folded
from kshark.output.statistics import LATENCY_NOTE, head, throttle, times
from kshark.output.text_table import Cell, Column, table
from kshark.units import clock, moment, number, safe, size

Row = Mapping[str, Any]

_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
#: Columns of the keys; texts may be shortened.
_KEYS: Final = {
    "client": Column("client id", elastic=10),
    "address": Column("address", elastic=9),
    "software": Column("software", elastic=8),
    "api": Column("API", elastic=12),
    "broker": Column("broker", elastic=15),
    "group": Column("group", elastic=10),
    "topic": Column("topic", elastic=10),
    "partition": Column("partition", right=True),
    "error": Column("error", elastic=31),
}
_COUNTS: Final = (
    Column("requests", right=True),
    Column("open", right=True, drop=6),
    Column("refused", right=True, drop=9),
)
_BYTES: Final = (Column("sent", right=True, drop=4), Column("received", right=True, drop=5))
_RECORDS: Final = (Column("produced", right=True, drop=2), Column("fetched", right=True, drop=3))
_TIMES: Final = (
    Column("p50", right=True, drop=10),
    Column("p99", right=True),
    Column("wait p50", right=True, drop=1),
    Column("wait p99", right=True, drop=7),
    Column("throttled", right=True, drop=8),
)


def breakdown_lines(
    summary: Mapping[str, Any],
    packets: int | None,
    keys: Sequence[str],
    every_ns: int | None,
    rows: Sequence[Row],
    width: int | None,
) -> Iterator[Line]:
    """Return a head of one line, then the table. `every_ns`: the length of an interval, None without intervals."""
    yield from folded(head(summary, packets), width, 2)
    if not rows:
        return
    yield []
    divided = rows[0]["request_bytes"] is None
    of_bytes = "sent, received: bytes of the topic's records · " if divided else ""
    title = f"by {', '.join(keys)}" if keys else "all requests"
    note = f"{of_bytes}produced, fetched: records · {LATENCY_NOTE}"
    yield from folded([(title, API), (f"  {note}", DIM)], width, 2)
    columns = [*(_KEYS[key] for key in keys), *_COUNTS, *_BYTES, *_RECORDS, *_TIMES]
    if every_ns is not None:
        columns.insert(0, Column("UTC"))
    yield from table(columns, [*_lines(rows, keys, every_ns)], width, indent=2)


def _lines(rows: Sequence[Row], keys: Sequence[str], every_ns: int | None) -> Iterator[list[Cell]]:
    if every_ns is None:
        for row in rows:
            yield _cells(row, keys)
        return
    begins = [row["begin_ns"] for row in rows if row["begin_ns"] is not None]
    spans_days = bool(begins) and begins[0] // _DAY != begins[-1] // _DAY
    before: int | None = None
    for row in rows:
        begin_ns = row["begin_ns"]
        if before is not None and begin_ns is not None and begin_ns > before + every_ns:
            yield _silence(before + every_ns, begin_ns - every_ns, len(keys), every_ns, spans_days)
        time = "later" if begin_ns is None else _time(begin_ns, every_ns, spans_days)
        yield [[] if begin_ns == before else [(time, LABEL)], *_cells(row, keys)]
        before = begin_ns


def _silence(first_ns: int, last_ns: int, keys: int, every_ns: int, spans_days: bool) -> list[Cell]:
    """Return a row for intervals without a request."""
    until = f" to {_time(last_ns, every_ns, spans_days)}" if last_ns > first_ns else ""
    empty: list[Cell] = [[] for _ in range(keys + len(_COUNTS) + len(_BYTES) + len(_RECORDS) + len(_TIMES))]
    empty[keys] = [("0", DIM)]
    return [[(f"{_time(first_ns, every_ns, spans_days)}{until}", DIM)], *empty]


def _time(time_ns: int, every_ns: int, spans_days: bool) -> str:
    """Return the time of day, with its date if the table has several days, and as exact as the interval."""
    digits = next((digits for digits in (0, 3, 6) if every_ns % 10 ** (9 - digits) == 0), 9)
    time = clock(time_ns, max(1, digits))
    return f"{moment(time_ns)[:11] if spans_days else ''}{time if digits else time[:-2]}"


def _cells(row: Row, keys: Sequence[str]) -> list[Cell]:
    divided = row["request_bytes"] is None
    sent, received = (
        (row["produced_bytes"], row["fetched_bytes"]) if divided else (row["request_bytes"], row["response_bytes"])
    )
    return [
        *(_key(row, key) for key in keys),
        number(row["requests"]),
        _worry(row["unanswered"]),
        _worry(row["refused"]) if "error" not in keys else [],
        size(sent) if sent else "",
        size(received) if received else "",
        number(row["produced_records"]) if row["produced_records"] else "",
        number(row["fetched_records"]) if row["fetched_records"] else "",
        *times(row["work_ms"], "p50", "p99"),
        *times(row["wait_ms"], "p50", "p99"),
        throttle(row["throttle_ms"])[0],
    ]


def _key(row: Row, key: str) -> Cell:
    match key:
        case "error":
            if row["error_code"] is None:
                return _text(row["error"] or "none", known=row["error"] is not None)
            return [(f"{row['error_code']} {row['error'] or ''}".rstrip(), ERROR)]
        case "api":
            return row["api"] or f"api {row['api_key']}"
        case "software":
            return safe(" ".join(part for part in (row["software"], row["software_version"]) if part))
        case "partition":
            return "" if row["partition"] is None else str(row["partition"])
        case "client" | "group":
            text = row[f"{key}_id"]
            return _text("null" if text is None and key == "client" else text or "", known=text is not None)
        case _:
            return _text(row[key] or "none", known=row[key] is not None)


def _text(text: str, *, known: bool) -> Line:
    return [(safe(text), PLAIN if known else DIM)]


def _worry(count: int) -> Line:
    return [(number(count), WARN)] if count else []
