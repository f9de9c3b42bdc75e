"""Counts by client, topic, error and other keys, also over time."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark import limits
from kshark.analysis.results.breakdown import KEYS, Breakdown
from kshark.analysis.results.histograms import Histograms
from kshark.analysis.results.observed import OTHERS
from kshark.analysis.results.statistics import Statistics
from kshark.model import Event, Exchange
from kshark.pipeline import Options
from kshark.records.writer import write_batch
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, TOPIC, Connection, Conversation, events, registry
from tests.records.opening import people

COUNTED = Options(records="counted", payload=False)
SECOND = 1_000_000_000
OTHER_TOPIC = "AAAAAAAAAAAAAAAAAAAACA"


def broken_down(talk: Conversation, *keys: str, every_ns: int | None = None) -> list[dict[str, Any]]:
    breakdown = Breakdown(registry(), keys, every_ns)
    breakdown.page(events(talk, COUNTED))
    return breakdown.rows()


def of(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def produce(connection: Connection, topics: dict[str, dict[int, int]], error: int = 0) -> None:
    """A Produce with so many records for each partition of each topic; `error` is that of the first."""
    data = [
        {
            "topic_id": topic,
            "partition_data": [
                {"index": index, "records": write_batch(people(count))} for index, count in parts.items()
            ],
        }
        for topic, parts in topics.items()
    ]
    asked = connection.ask(0, "Produce", 13, {"acks": -1, "timeout_ms": 30_000, "topic_data": data})
    responses = [
        {"topic_id": topic, "partition_responses": [{"index": index, "base_offset": 0} for index in parts]}
        for topic, parts in topics.items()
    ]
    responses[0]["partition_responses"][0]["error_code"] = error  # type: ignore[index]
    asked.answered(None, responses=responses)


def fetch(connection: Connection, max_wait_ms: int, after_s: float, **body: Any) -> None:
    asked = connection.ask(1, "Fetch", 16, {"max_wait_ms": max_wait_ms, "min_bytes": 1, "topics": [], **body})
    connection.talk.pause(after_s)
    asked.answered(throttle_time_ms=0)


def test_refusals_of_each_client_over_time() -> None:
    talk = Conversation()
    a, b = talk.member("a", connection=talk.connection(host="10.0.0.1")), talk.member("b")
    a.share_fetch(0).answered()
    b.share_fetch(0).answered()
    talk.pause(60)
    a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(9).answered(INVALID_SHARE_SESSION_EPOCH)
    rows = broken_down(talk, "address", "error", every_ns=60 * SECOND)
    share = [row for row in rows if row["error_code"] == 123]
    assert of(share, "address", "error", "requests", "refused") == [("10.0.0.1", "INVALID_SHARE_SESSION_EPOCH", 2, 2)]
    begins = {row["begin_ns"] for row in rows}
    assert len(begins) == 2
    assert all(begin % (60 * SECOND) == 0 for begin in begins)


def test_a_request_counts_in_each_of_its_topics_with_their_records_only() -> None:
    talk = Conversation()
    connection = talk.connection()
    produce(connection, {TOPIC: {0: 3, 1: 4}, OTHER_TOPIC: {0: 5}}, error=6)
    rows = [row for row in broken_down(talk, "topic", "api") if row["api"] == "Produce"]
    assert of(rows, "topic", "requests", "refused", "produced_records", "request_bytes") == [
        (TOPIC, 1, 1, 7, None),
        (OTHER_TOPIC, 1, 0, 5, None),
    ]
    assert sum(row["produced_bytes"] for row in rows) == sum(len(write_batch(people(count))) for count in (3, 4, 5))
    parts = [row for row in broken_down(talk, "topic", "partition", "error") if row["topic"] is not None]
    assert sorted(of(parts, "topic", "partition", "error_code", "produced_records"), key=str) == sorted(
        [(TOPIC, 0, 6, 3), (TOPIC, 1, None, 4), (OTHER_TOPIC, 0, None, 5)], key=str
    )


def test_rows_of_a_topics_id_and_of_its_name_are_one() -> None:
    """The name comes last."""
    talk = Conversation()
    connection = talk.connection()
    produce(connection, {TOPIC: {0: 3}})
    connection.ask(3, "Metadata", 12, {"topics": [{"name": "t"}]}).answered(
        None, topics=[{"name": "t", "topic_id": TOPIC, "partitions": []}]
    )
    rows = [row for row in broken_down(talk, "topic") if row["topic"] is not None]
    assert of(rows, "topic", "requests", "produced_records") == [("t", 2, 3)]
    assert rows[0]["work_ms"]["count"] == 2


def test_long_polls_are_told_from_work() -> None:
    talk = Conversation()
    connection = talk.connection()
    fetch(connection, 500, 0.506)  # no records came: 500 ms are the client's wish
    fetch(connection, 500, 0.2)  # something came, at any time
    fetch(connection, 0, 0.007)  # does not wait
    (row,) = [row for row in broken_down(talk, "api") if row["api"] == "Fetch"]
    assert row["work_ms"]["count"] == 2
    assert 5 <= row["work_ms"]["p50"] <= row["work_ms"]["p99"] <= 9
    assert (row["wait_ms"]["count"], row["wait_ms"]["p99"]) == (2, 500)
    statistics = Statistics(registry())
    for event in events(talk):
        statistics.feed(event)
    (api,) = [api for api in statistics.summary()["apis"] if api["api"] == "Fetch"]
    assert api["latency_ms"]["max"] > 500
    assert api["work_ms"]["max"] < 10
    assert api["wait_ms"]["max"] == 500


def test_what_a_throttled_client_sends_waits() -> None:
    """The broker answers at once, and then does not read for a second (KIP-219)."""
    talk = Conversation()
    connection = talk.connection()
    connection.ask(0, "Produce", 9, {"acks": 1, "topic_data": []}).answered(None, throttle_time_ms=1000)
    asked = connection.ask(0, "Produce", 9, {"acks": 1, "topic_data": []})
    talk.pause(1.004)
    asked.answered(None)
    talk.pause(1)
    connection.ask(0, "Produce", 9, {"acks": 1, "topic_data": []}).answered(None)
    (row,) = [row for row in broken_down(talk, "api") if row["api"] == "Produce"]
    assert row["throttle_ms"] == {"count": 1, "sum": 1000, "max": 1000}
    assert row["work_ms"]["count"] == 3
    assert row["work_ms"]["p99"] < 10
    assert row["wait_ms"]["count"] == 1
    assert 990 < row["wait_ms"]["p50"] <= 1000


def test_groups_of_a_request() -> None:
    talk = Conversation()
    connection = talk.connection()
    connection.ask(9, "OffsetFetch", 8, {"groups": [{"group_id": "g"}, {"group_id": "h"}]}).answered(None)
    connection.ask(15, "DescribeGroups", 5, {"groups": ["g"]}).answered(None)
    rows = [row for row in broken_down(talk, "group") if row["group_id"] is not None]
    assert of(rows, "group_id", "requests") == [("g", 2), ("h", 1)]


def test_rows_beyond_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BREAKDOWN_ROWS", 2)
    talk = Conversation()
    for number in range(6):
        talk.connection(host=f"10.0.1.{number}")
    breakdown = Breakdown(registry(), ["address"])
    breakdown.page(events(talk, COUNTED))
    rows = breakdown.rows()
    assert [row["address"] for row in rows][2:] == [OTHERS]
    assert breakdown.others() == rows[-1]["requests"] > 0


@pytest.mark.parametrize("keys", [(), ("api", "error"), ("client", "topic", "group"), tuple(KEYS)])
def test_parts_of_a_capture_add_up(keys: tuple[str, ...]) -> None:
    """Each exchange in any part: no client is throttled here, which is known from earlier ones."""
    talk = Conversation()
    a = talk.member("a")
    for epoch in range(5):
        a.share_fetch(epoch).answered(acks=None)
        talk.pause(0.4)
    produce(a.connection, {TOPIC: {0: 3}, OTHER_TOPIC: {1: 4}}, error=3)
    everything = events(talk, COUNTED)
    whole = Breakdown(registry(), keys, SECOND)
    whole.page(everything)
    dice = random.Random(len(keys))
    parts: list[list[Event]] = [[], [], []]
    for event in everything:
        if isinstance(event, Exchange):
            dice.choice(parts).append(event)
    joined = Breakdown(registry(), keys, SECOND)
    for part in parts:
        counted = Breakdown(registry(), keys, SECOND)
        counted.page(part)
        joined.update(counted)
    assert joined.rows() == whole.rows()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**13)), min_size=1), st.sampled_from([1, 50, 99, 100]))
def test_percentiles_of_rows_are_right_to_three_digits(durations: list[tuple[int, int]], percent: int) -> None:
    histograms, other = Histograms(), Histograms()
    for index, (row, ns) in enumerate(durations):
        (histograms if index % 2 else other).add(row, ns)
    histograms.update(other, range(6))
    measured = histograms.percentiles([percent], range(6))
    for row in range(6):
        exact = sorted(ns for number, ns in durations if number == row)
        if not exact:
            assert row not in measured
            continue
        count, (found,) = measured[row]
        expected = exact[max(1, -(-len(exact) * percent // 100)) - 1]
        assert count == len(exact)
        assert abs(found - expected) <= expected * 0.007 + 1


def test_bins_get_wider_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BREAKDOWN_CELLS", 300)
    histograms = Histograms()
    for number in range(100_000):
        histograms.add(number % 3, number * 1000)
    _, (p50,) = histograms.percentiles([50], [1])[1]
    assert len(histograms._cells) <= 300
    assert abs(p50 - 50_000_000) < 5_000_000


def test_a_breakdown_travels() -> None:
    talk = Conversation()
    produce(talk.connection(), {TOPIC: {0: 3}})
    breakdown = Breakdown(registry(), ["api", "topic"])
    breakdown.page(events(talk, COUNTED))
    assert pickle.loads(pickle.dumps(breakdown)).rows() == breakdown.rows()
