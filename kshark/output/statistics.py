"""`kshark stats` as text: a table for each question, from the counts of kshark.analysis.results.statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kshark.output.sink import Sink
from kshark.output.spans import API, DIM, ERROR, PLAIN, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.units import counted, duration, milliseconds, moment, number, safe, size

Rows = Sequence[Mapping[str, Any]]


#: What the columns of latencies mean.
LATENCY_NOTE: Final = (
    "latency in ms, from the request's last byte to the response's first · wait: held on purpose, in long polls "
    "(Fetch, JoinGroup) and of throttled clients"
)


def print_statistics(statistics: Mapping[str, Any], packets: int | None, sink: Sink) -> None:
    """Print a head of one line, then each table with rows."""
    sink.lines(folded(head(statistics, packets), sink.width, 2))
    _table(sink, "connections", _CONNECTIONS, [_connection(row) for row in statistics["flows"]])
    _table(
        sink,
        "APIs",
        _APIS,
        [_api(row) for row in statistics["apis"]],
        LATENCY_NOTE,
    )
    _table(
        sink,
        "errors",
        _ERRORS,
        [_error(row) for row in statistics["errors"]],
        "every error code of every response, at any depth",
    )
    _table(sink, "clients", _CLIENTS, [_client(row) for row in statistics["clients"]])
    _table(
        sink,
        "producers",
        _PRODUCERS,
        [_producer(row) for row in statistics["clients"] if row["produced"]],
        "a batch has the records of one partition in one Produce, compressed as they were sent",
    )
    _table(
        sink,
        "share groups",
        _GROUPS,
        [_group(row) for row in statistics["share_groups"]],
        "acquired to redelivered are numbers of records",
    )


def head(statistics: Mapping[str, Any], packets: int | None) -> Line:
    """Return a line with the time, and the numbers of packets, messages and exchanges. A log has no packets (None)."""
    in_all = None if packets is None else counted(packets, "packet")
    if statistics["first_time_ns"] is None:
        return [("no Kafka messages", WARN), (f" in {in_all}" if in_all else "", PLAIN)]
    first, last = statistics["first_time_ns"], statistics["last_time_ns"]
    outcomes = [f"{number(count)} {name.replace('_', '-')}" for name, count in statistics["exchanges"].items() if count]
    return [
        (f"{moment(first)} UTC{f', {duration(last - first)}' if last > first else ''}", PLAIN),
        (f"{f' · {in_all}' if in_all else ''} · {counted(statistics['messages'], 'message')}", PLAIN),
        (f" · exchanges: {', '.join(outcomes) or 'none'}", PLAIN),
    ]


def _table(sink: Sink, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], note: str = "") -> None:
    if rows:
        sink.lines([[], *folded([(title, API), (f"  {note}" if note else "", DIM)], sink.width, 2)])
        sink.lines(table(columns, rows, sink.width, indent=2))


_CONNECTIONS = (
    Column("service"),
    Column("connections", right=True),
    Column("bytes", right=True),
    Column("gaps", right=True),
)


def _connection(row: Mapping[str, Any]) -> list[Cell]:
    return [row["service"], number(row["connections"]), size(row["bytes"]), _warned(row["gaps"])]


_APIS = (
    Column("API", elastic=26),
    Column("v", right=True),
    Column("requests", right=True),
    Column("open", right=True, drop=5),
    Column("p50", right=True),
    Column("p95", right=True, drop=1),
    Column("p99", right=True),
    Column("max", right=True, drop=4),
    Column("wait p50", right=True, drop=2),
    Column("wait p99", right=True, drop=6),
    Column("throttled", right=True, drop=7),
    Column("at most", right=True, drop=3),
    Column("errors", elastic=8),
)


def _api(row: Mapping[str, Any]) -> list[Cell]:
    name = row["api"] or f"api {row['api_key']}"
    return [
        name,
        str(row["version"]),
        number(row["requests"]),
        _warned(row["unanswered"]),
        *times(row["work_ms"], "p50", "p95", "p99", "max"),
        *times(row["wait_ms"], "p50", "p99"),
        *throttle(row["throttle_ms"]),
        _codes(row["errors"]),
    ]


def times(latency: Mapping[str, float] | None, *names: str) -> list[Cell]:
    """Return a cell for each percentile; empty without a measurement."""
    return [milliseconds(round(latency[name] * 1e6)) if latency else "" for name in names]


def throttle(throttled: Mapping[str, int] | None) -> list[Cell]:
    """Return cells for the sum of throttle times and the longest; empty without one."""
    return [[(duration(throttled[name] * 1_000_000), WARN)] if throttled else [] for name in ("sum", "max")]


def _codes(errors: Rows) -> Line:
    """Return only the numbers; the table of errors has their names."""
    return [(", ".join(f"{row['error_code']} ×{number(row['count'])}" for row in errors), ERROR)]


_ERRORS = (Column("count", right=True), Column("error"), Column("from", elastic=8))


def _error(row: Mapping[str, Any]) -> list[Cell]:
    apis = ", ".join(f"{name} {number(count)}" for name, count in row["apis"].items())
    return [number(row["count"]), [(f"{row['error_code']} {row['error'] or ''}".rstrip(), ERROR)], apis]


_CLIENTS = (
    Column("client id", elastic=12),
    Column("software", elastic=8),
    Column("address", elastic=8),
    Column("connections", right=True, drop=1),
    Column("requests", right=True),
    Column("sent", right=True),
    Column("received", right=True),
    Column("throttled", right=True),
    Column("at most", right=True, drop=2),
    Column("in", elastic=8, drop=3),
)


def _client(row: Mapping[str, Any]) -> list[Cell]:
    software = " ".join(part for part in (row["software"], row["software_version"]) if part)
    return [
        _nullable(row["client_id"]),
        safe(software),
        row["address"],
        number(row["connections"]),
        number(row["requests"]),
        size(row["request_bytes"]),
        size(row["response_bytes"]),
        *throttle(row["throttle_ms"]),
        ", ".join(f"{name} ×{number(count)}" for name, count in row["throttled_apis"].items()),
    ]


_PRODUCERS = (
    Column("client id", elastic=12),
    Column("address", elastic=8, drop=3),
    Column("requests", right=True, drop=2),
    Column("batches", right=True),
    Column("records", right=True),
    Column("bytes", right=True),
    Column("records a batch p50", right=True),
    Column("p99", right=True, drop=1),
    Column("bytes a batch p50", right=True),
    Column("p99", right=True, drop=1),
)


def _producer(row: Mapping[str, Any]) -> list[Cell]:
    produced = row["produced"]
    records, sizes = produced["records_per_batch"], produced["bytes_per_batch"]
    return [
        _nullable(row["client_id"]),
        row["address"],
        number(produced["requests"]),
        number(produced["batches"]),
        number(produced["records"]),
        size(produced["bytes"]),
        number(records["p50"]),
        number(records["p99"]),
        size(sizes["p50"]),
        size(sizes["p99"]),
    ]


_GROUPS = (
    Column("group", elastic=12),
    Column("members", right=True, drop=2),
    Column("sessions", right=True),
    Column("acquired", right=True),
    Column("accept", right=True),
    Column("release", right=True),
    Column("reject", right=True),
    Column("gap", right=True, drop=3),
    Column("renew", right=True, drop=1),
    Column("redelivered", right=True),
    Column("errors", elastic=8),
)


def _group(row: Mapping[str, Any]) -> list[Cell]:
    types = row["acknowledged"]
    return [
        _nullable(row["group_id"]),
        number(row["members"]),
        number(row["sessions"]),
        number(row["acquired"]),
        *[number(types[name]) for name in ("accept", "release", "reject", "gap", "renew")],
        _warned(row["redelivered"]),
        _codes(row["errors"]),
    ]


def _nullable(text: str | None) -> Cell:
    return [("null", DIM)] if text is None else safe(text)


def _warned(count: int) -> Line:
    return [(number(count), WARN if count else DIM)]
