"""What a capture holds, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark import limits
from kshark.analysis.results.observed import OTHERS
from kshark.analysis.results.statistics import Percentiles, Statistics
from kshark.pipeline import Options
from kshark.records import Opening
from kshark.registry import Registry
from tests.analysis.talks import batch_of
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    TOPIC,
    Asked,
    Connection,
    Conversation,
    Thinned,
    events,
)

#: Ethernet, IPv4, TCP with its timestamps.
HEADERS = 14 + 20 + 20 + 12

REGISTRY = Registry()


def counted(talk: Conversation | Thinned) -> Statistics:
    statistics = Statistics(REGISTRY)
    for event in events(talk):
        statistics.feed(event)
    return statistics


def test_percentiles_are_the_nearest_rank() -> None:
    measured = Percentiles()
    for milliseconds in range(1, 101):
        measured.add(milliseconds * 1_000_000)
    assert measured.summary() == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


def test_nothing_measured_has_no_percentiles() -> None:
    assert Percentiles().summary() is None


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=300), st.sampled_from([1, 50, 95, 99, 100]))
def test_percentiles_are_right_to_three_digits(durations: list[int], percent: int) -> None:
    measured = Percentiles()
    for duration in durations:
        measured.add(duration)
    exact = sorted(durations)[max(1, -(-len(durations) * percent // 100)) - 1]
    (found,) = measured.at(percent)
    assert abs(found - exact) <= exact * 0.005 + 1
    assert found <= measured.greatest == max(durations)


@given(st.lists(st.integers(0, 10**13), max_size=300))
def test_memory_does_not_grow_with_the_number_of_durations(durations: list[int]) -> None:
    measured = Percentiles()
    for duration in durations:
        measured.add(duration)
    assert len(measured._counts) <= 14 * 1000


def records(first: int, last: int, deliveries: int) -> dict[str, Any]:
    return {"first_offset": first, "last_offset": last, "delivery_count": deliveries}


def handed(*acquired: dict[str, Any], error: int = 0) -> dict[str, Any]:
    """One topic with two partitions; the records and the error are the second's."""
    partitions = [
        {"partition_index": 0, "acquired_records": [], "records": b""},
        {"partition_index": 1, "error_code": error, "acquired_records": list(acquired), "records": b""},
    ]
    return {"responses": [{"topic_id": TOPIC, "partitions": partitions}]}


def talk_of_two_members() -> Conversation:
    """Two clients, one of which says who it is; every exchange takes a millisecond, or two."""
    talk = Conversation()
    a = talk.member("a", connection=talk.connection(host="10.0.0.1"))
    b = talk.member("b", connection=talk.connection(host="10.0.0.2", introduced=False))
    a.share_fetch(0, [0, 1]).answered(**handed(records(0, 9, 1), records(20, 20, 3)))
    b.share_fetch(0, [0])
    a.share_fetch(1).answered(**handed(error=6))
    a.share_acknowledge(2, [(0, 4, 1), (5, 5, 2)]).answered()
    a.share_fetch(9).answered(INVALID_SHARE_SESSION_EPOCH)
    b.connection.close()
    a.connection.close()
    return talk


def test_all_that_is_counted() -> None:
    """By hand: the sizes are what tests.conversation put on the wire, less the length of each frame."""
    talk = talk_of_two_members()
    found = counted(talk).summary()
    times = [packet.time_ns for _, packet in talk.packets()]
    assert (found["first_time_ns"], found["last_time_ns"]) == (times[3], times[-7])
    assert (found["messages"], found["exchanges"]) == (15, {"answered": 7, "unanswered": 1, "one_way": 0, "orphan": 0})
    total = sum(len(packet.data) - HEADERS for _, packet in talk.packets())
    assert found["flows"] == [{"service": "kafka", "connections": 2, "bytes": total, "gaps": 0}]
    latency = {"p50": 1.0, "p95": 1.0, "p99": 1.0, "max": 1.0}
    rows = [
        (row["api_key"], row["api"], row["version"], row["requests"], row["responses"], row["unanswered"])
        for row in found["apis"]
    ]
    assert rows == [
        (18, "ApiVersions", 3, 1, 1, 0),
        (76, "ShareGroupHeartbeat", 1, 2, 2, 0),
        (78, "ShareFetch", 1, 4, 3, 1),
        (79, "ShareAcknowledge", 1, 1, 1, 0),
    ]
    assert [row["latency_ms"] for row in found["apis"]] == [latency] * 4
    refused = {"error_code": 123, "error": "INVALID_SHARE_SESSION_EPOCH", "count": 1}
    partition = {"error_code": 6, "error": "NOT_LEADER_OR_FOLLOWER", "count": 1}
    assert [row["errors"] for row in found["apis"]] == [[], [], [partition, refused], []]
    assert found["errors"] == [{**partition, "apis": {"ShareFetch": 1}}, {**refused, "apis": {"ShareFetch": 1}}]
    java = {
        "software": "apache-kafka-java",
        "software_version": "4.3.1",
        "address": "10.0.0.1",
        "connections": 1,
        "requests": 6,
    }
    other = {"software": None, "software_version": None, "address": "10.0.0.2", "connections": 1, "requests": 2}
    told = [{name: row[name] for name in ("client_id", *other)} for row in found["clients"]]
    assert told == [{"client_id": "c1", **java}, {"client_id": "c1", **other}]
    for name in ("request_bytes", "response_bytes"):
        assert sum(row[name] for row in found["clients"]) == sum(row[name] for row in found["apis"])
    assert all(row["throttle_ms"] is None for row in (*found["clients"], *found["apis"]))
    assert found["share_groups"] == [
        {
            "group_id": "g",
            "members": 2,
            "sessions": 1,
            "fetches": 4,
            "acknowledges": 1,
            "acquired": 11,
            "redelivered": 1,
            "greatest_delivery_count": 3,
            "acknowledged": {"gap": 0, "accept": 5, "release": 1, "reject": 0, "renew": 0},
            "errors": [refused],
        }
    ]


def test_bytes_of_each_api() -> None:
    """Frames without their length, in which a request's packet and an answer's differ."""
    talk = talk_of_two_members()
    asked: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    sizes = {number: len(packet.data) - HEADERS - 4 for number, packet in talk.packets()}
    for exchange in talk.exchanges:
        asked[exchange.api] += sum(sizes[number] for number in exchange.packets)
        answered[exchange.api] += sum(sizes[number] for number in exchange.answer_packets)
    found = counted(talk).summary()["apis"]
    assert {row["api"]: (row["request_bytes"], row["response_bytes"]) for row in found} == {
        api: (asked[api], answered[api]) for api in asked
    }


def test_nothing_counted() -> None:
    assert Statistics(REGISTRY).summary() == {
        "first_time_ns": None,
        "last_time_ns": None,
        "messages": 0,
        "exchanges": {"answered": 0, "unanswered": 0, "one_way": 0, "orphan": 0},
        "flows": [],
        "apis": [],
        "errors": [],
        "clients": [],
        "share_groups": [],
    }


def test_errors_are_counted_over_all_apis_the_frequent_first() -> None:
    talk = Conversation()
    a = talk.member("a")
    for _ in range(2):
        a.share_fetch(5).answered(SHARE_SESSION_NOT_FOUND)
    a.share_acknowledge(5).answered(SHARE_SESSION_NOT_FOUND)
    a.share_acknowledge(0).answered(INVALID_SHARE_SESSION_EPOCH)
    found = counted(talk).summary()["errors"]
    assert [(row["error_code"], row["count"], row["apis"]) for row in found] == [
        (122, 3, {"ShareFetch": 2, "ShareAcknowledge": 1}),
        (123, 1, {"ShareAcknowledge": 1}),
    ]


def test_a_closed_connection_counts_again() -> None:
    talk = Conversation()
    for _ in range(3):
        connection = talk.connection()
        talk.member("a", connection=connection)
        connection.close()
    (client,) = counted(talk).summary()["clients"]
    assert (client["connections"], client["requests"]) == (3, 6)


def test_a_request_without_an_answer_takes_no_time() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0])
    a.connection.close()
    (fetch,) = [api for api in counted(talk).summary()["apis"] if api["api"] == "ShareFetch"]
    assert (fetch["requests"], fetch["responses"], fetch["unanswered"], fetch["latency_ms"]) == (1, 0, 1, None)


def test_each_type_of_acknowledgement_counts_records() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    a.share_acknowledge(1, [(0, 9, 1), (10, 10, 2), (11, 12, 3), (13, 13, 0), (20, 18, 1)]).answered()
    a.share_acknowledge(2, [(30, 33, 4)], version=2).answered()
    (group,) = counted(talk).summary()["share_groups"]
    assert group["acknowledged"] == {"gap": 1, "accept": 10, "release": 1, "reject": 2, "renew": 4}


def test_each_offset_may_have_its_own_type() -> None:
    talk = Conversation()
    a = talk.member("a")
    batches = [{"first_offset": 0, "last_offset": 3, "acknowledge_types": [1, 2, 1, 3]}]
    topics = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acknowledgement_batches": batches}]}]
    a.share_fetch(1, topics=topics).answered()
    (group,) = counted(talk).summary()["share_groups"]
    assert group["acknowledged"] == {"gap": 0, "accept": 2, "release": 1, "reject": 1, "renew": 0}


def test_a_message_that_could_not_be_read_to_its_end_counts_for_no_group() -> None:
    talk = Conversation()
    a = talk.member("a")
    fetch = a.share_fetch(0, [0]).answered()
    rows = talk.packets()
    number, packet = rows[fetch.packets[0] - 1]
    group = packet.data.index(b"\x02g")
    rows[number - 1] = number, replace(packet, data=packet.data[:group] + b"\x7f" + packet.data[group + 1 :])
    found = counted(Thinned(rows)).summary()
    assert found["share_groups"] == []
    assert [row["requests"] for row in found["apis"] if row["api"] == "ShareFetch"] == [1]


def test_tables_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STATISTICS_ROWS", 2)
    talk = Conversation()
    for number in range(5):
        connection = talk.connection(host=f"10.0.0.{number}")
        talk.member("a", group=f"g{number}", connection=connection).share_fetch(0, [0]).answered()
        connection.close()
    for name in "bcd":
        talk.member(name, group="g0").share_fetch(0, [0]).answered()
    found = counted(talk).summary()
    assert {group["group_id"]: (group["fetches"], group["members"]) for group in found["share_groups"]} == {
        "g0": (4, 2),
        "g1": (1, 1),
        OTHERS: (3, 1),
    }
    assert {client["address"]: client["connections"] for client in found["clients"]} == {
        "10.0.0.0": 1,
        "10.0.0.1": 4,
        OTHERS: 3,
    }
    assert {(row["api_key"], row["version"]): (row["api"], row["requests"]) for row in found["apis"]} == {
        (-1, -1): (OTHERS, 8),
        (18, 3): ("ApiVersions", 8),
        (76, 1): ("ShareGroupHeartbeat", 8),
    }


def produce(connection: Connection, *counts: int) -> Asked:
    """A Produce with so many records for each partition, and its answer, which throttles for 40 ms."""
    rows = [
        {"index": number, "records": batch_of(0, count - 1) if count else None} for number, count in enumerate(counts)
    ]
    body = {
        "transactional_id": None,
        "acks": 1,
        "timeout_ms": 1,
        "topic_data": [{"topic_id": TOPIC, "partition_data": rows}],
    }
    answers = [{"index": number, "error_code": 0, "base_offset": 0} for number in range(len(counts))]
    responses = [{"topic_id": TOPIC, "partition_responses": answers}]
    return connection.ask(0, "Produce", 13, body).answered(None, responses=responses, throttle_time_ms=40)


@pytest.mark.parametrize("opened", ["counted", "headers", True])
def test_the_batches_of_a_producer(opened: Opening) -> None:
    talk = Conversation()
    connection = talk.connection()
    produce(connection, 3, 0)
    produce(connection, 5, 10)
    statistics = Statistics(REGISTRY)
    for event in events(talk, Options(records=opened)):
        statistics.feed(event)
    (client,) = statistics.summary()["clients"]
    sizes = [len(batch_of(0, count - 1)) for count in (3, 5, 10)]
    assert client["produced"] == {
        **{"requests": 2, "batches": 3, "records": 18, "bytes": sum(sizes)},
        "records_per_batch": {"p50": 5, "p95": 10, "p99": 10, "max": 10},
        "bytes_per_batch": {"p50": sizes[1], "p95": sizes[2], "p99": sizes[2], "max": sizes[2]},
    }
    assert client["throttled_apis"] == {"Produce": 2}


def test_a_client_that_produces_nothing_has_no_batches() -> None:
    talk = Conversation()
    talk.member("a").heartbeat(1).answered()
    (client,) = counted(talk).summary()["clients"]
    assert (client["produced"], client["throttled_apis"]) == (None, {})


def test_batches_that_were_not_read_are_not_counted() -> None:
    talk = Conversation()
    produce(talk.connection(), 3)
    statistics = Statistics(REGISTRY)
    for event in events(talk, Options(records=False)):
        statistics.feed(event)
    assert statistics.summary()["clients"][0]["produced"] is None
