"""`kshark stats --by` and `--every`: what is printed, and the same from DuckDB over the exported tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kshark.analysis.results.breakdown import KEYS
from tests.cli.command import Run
from tests.shared import CAPTURES

RESTART = CAPTURES / "share-restart.pcap"


def test_a_time_stands_once_and_silence_is_shown(kshark: Run) -> None:
    lines = kshark("stats", CAPTURES / "adv-epochs.pcap", "--by", "client,error", "--every", "1s").lines
    assert lines[2].startswith("by client, error  ")
    assert lines[3].split()[:4] == ["UTC", "client", "id", "error"]
    times = [line.split()[0] for line in lines[4:] if line[2] != " "]
    assert times == sorted(set(times))
    assert times[0] == "03:37:41"
    assert any("123 INVALID_SHARE_SESSION_EPOCH" in line for line in lines)


def test_a_filter_applies_before(kshark: Run) -> None:
    done = kshark("stats", CAPTURES / "adv-epochs.pcap", "--by", "error", "-Y", "kafka.error_code == 123", "-T", "json")
    everything = kshark("stats", CAPTURES / "adv-epochs.pcap", "--by", "error", "-T", "json").json
    (row,) = done.json
    assert (row["error_code"], row["error"]) == (123, "INVALID_SHARE_SESSION_EPOCH")
    assert row["requests"] == next(other["requests"] for other in everything if other["error_code"] == 123)


def test_every_alone_counts_all_requests(kshark: Run) -> None:
    rows = kshark("stats", RESTART, "--every", "10s", "-T", "json").json
    assert list(rows[0])[:2] == ["begin_ns", "requests"]
    assert all(row["begin_ns"] % 10_000_000_000 == 0 for row in rows)
    assert sum(row["requests"] for row in rows) == 389


def test_partitions_come_with_their_topic(kshark: Run) -> None:
    (line,) = kshark("stats", RESTART, "--by", "partition", "-Y", "kafka.api == Produce").lines[3:4]
    assert line.split()[:2] == ["topic", "partition"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--by", "clinet"], '--by: no "clinet"; did you mean "client"? (accepted: ' + ", ".join(KEYS) + ")"),
        (["--by", "client,minute"], '--by: no "minute"; time is --every 1m (accepted: ' + ", ".join(KEYS) + ")"),
        (["--by", ","], "--by accepts one or more of " + ", ".join(KEYS)),
        (["--by", "api", "--every", "soon"], '--every: "soon" is not a duration; write 30s, 1m or 1h'),
        (["--every", "0s"], '--every: "0s" is not a duration; write 30s, 1m or 1h'),
        (["--share", "--every", "1m"], "--every is for stats --by; write stats --by client --every 1m"),
    ],
)
def test_bad_usage(kshark: Run, words: list[str], reason: str) -> None:
    done = kshark("stats", RESTART, *words)
    assert (done.code, done.out, done.err) == (2, "", f"kshark: {reason}\n")


# -- the same from DuckDB


@pytest.fixture(params=["share-restart", "zk-old-clients", "produce-mix"])
def both(
    request: pytest.FixtureRequest, kshark: Run, tmp_path: Path
) -> tuple[Callable[..., list[Any]], Callable[[str], list[Any]]]:
    """Rows of `stats --by`, and of SQL over the tables of the same capture."""
    duckdb = pytest.importorskip("duckdb")
    capture = CAPTURES / f"{request.param}.pcap"
    assert kshark("export", capture, "-o", tmp_path / "tables", "-q").code == 0
    connection = duckdb.connect()
    for table in ("exchanges", "record_batches"):
        connection.execute(f"CREATE VIEW {table} AS FROM '{tmp_path}/tables/{table}/**/*.parquet'")
    return (
        lambda *words: kshark("stats", capture, "-T", "json", *words).json,
        lambda sql: connection.execute(sql).fetchall(),
    )


def rows_of(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


def test_counts_and_bytes_are_those_of_the_tables(both: Any) -> None:
    stats, sql = both
    counted = rows_of(
        stats("--by", "client,api", "--every", "1m"),
        *("begin_ns", "client_id", "api", "requests", "responses", "unanswered", "refused"),
        *("request_bytes", "response_bytes"),
    )
    assert counted == sorted(
        sql(
            "SELECT request_ts_ns // 60000000000 * 60000000000, client_id, api, count(*), count(response_packet), "
            "count(*) FILTER (outcome = 'unanswered'), count(*) FILTER (len(error_codes) > 0), "
            "sum(request_bytes)::BIGINT, coalesce(sum(response_bytes), 0)::BIGINT "
            "FROM exchanges WHERE request_packet IS NOT NULL AND api IS NOT NULL GROUP BY ALL"
        ),
        key=repr,
    )


def test_errors_at_any_depth_are_those_of_the_tables(both: Any) -> None:
    stats, sql = both
    counted = rows_of([row for row in stats("--by", "error") if row["error_code"]], "error_code", "requests")
    assert counted == sorted(
        sql(
            "SELECT code, count(*) FROM (SELECT unnest(list_distinct(error_codes)) AS code FROM exchanges "
            "WHERE request_packet IS NOT NULL) GROUP BY code"
        ),
        key=repr,
    )


@pytest.mark.parametrize(("api", "records"), [("Produce", "produced_records"), ("Fetch", "fetched_records")])
def test_records_of_partitions_are_those_of_the_tables(both: Any, api: str, records: str) -> None:
    stats, sql = both
    rows = [row for row in stats("--by", "partition", "-Y", f"kafka.api == {api}") if row[records]]
    assert rows_of(rows, "topic", "partition", records) == sorted(
        sql(
            "SELECT coalesce(topic, topic_id), partition, sum(count)::BIGINT FROM record_batches "
            f"WHERE api = '{api}' GROUP BY ALL HAVING sum(count) > 0"
        ),
        key=repr,
    )


def test_percentiles_are_those_of_the_tables(both: Any) -> None:
    """To half a percent; long polls are not all work."""
    stats, sql = both
    measured = {row["api"]: row["work_ms"] for row in stats("--by", "api") if row["work_ms"] and not row["wait_ms"]}
    exact = sql(
        "SELECT api, quantile_disc(latency_ns, 0.5), quantile_disc(latency_ns, 0.99) FROM exchanges "
        "WHERE latency_ns IS NOT NULL GROUP BY api"
    )
    assert len(measured) > 5
    for api, p50, p99 in exact:
        if api in measured:
            assert [measured[api]["p50"], measured[api]["p99"]] == pytest.approx([p50 / 1e6, p99 / 1e6], rel=0.007)
