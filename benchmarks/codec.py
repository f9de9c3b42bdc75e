"""Measure microseconds per body: kshark's compiled reader, its interpreter, and kio (compiled Rust since 0.6).

    python -m benchmarks.codec

All three read the same bytes, in turns, best of the rounds; the last column is kio's time over that of the compiled
reader."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.share_fetch.v1.request import ShareFetchRequest
from kio.schema.share_fetch.v1.response import ShareFetchResponse
from kio.serial import entity_reader

from kshark import encode
from kshark.codec import compile_reader, interpret
from kshark.registry import Registry

ROUNDS = 7
ROUND_S = 0.05
TOPIC = "p8nQ3h0lQ0GgHhVtTzVqYQ"


def share_fetch_response(partitions: int, ranges: int) -> dict[str, Any]:
    """Create a response with so many partitions, each with so many acquired ranges and 1 kB of records."""
    rows = [
        {
            "partition_index": index,
            "records": bytes(1000),
            "acquired_records": [
                {"first_offset": i * 10, "last_offset": i * 10 + 9, "delivery_count": 1} for i in range(ranges)
            ],
        }
        for index in range(partitions)
    ]
    return {"acquisition_lock_timeout_ms": 30_000, "responses": [{"topic_id": TOPIC, "partitions": rows}]}


def share_fetch_request() -> dict[str, Any]:
    batch = {"first_offset": 0, "last_offset": 9, "acknowledge_types": [1]}
    partitions = [{"partition_index": index, "acknowledgement_batches": [batch]} for index in range(3)]
    return {
        "group_id": "orders",
        "member_id": TOPIC,
        "share_session_epoch": 7,
        "topics": [{"topic_id": TOPIC, "partitions": partitions}],
    }


def metadata_response() -> dict[str, Any]:
    partitions = [
        {"partition_index": i, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3], "offline_replicas": []}
        for i in range(20)
    ]
    brokers = [{"node_id": i, "host": f"broker-{i}.example", "port": 9092, "rack": None} for i in range(3)]
    topics = [{"name": f"topic-{i}", "topic_id": TOPIC, "partitions": partitions} for i in range(5)]
    return {"brokers": brokers, "cluster_id": "c", "controller_id": 1, "topics": topics}


def fetch_response() -> dict[str, Any]:
    rows = [
        {"partition_index": i, "high_watermark": 100, "aborted_transactions": None, "records": bytes(1000)}
        for i in range(10)
    ]
    return {"session_id": 5, "responses": [{"topic": "orders", "partitions": rows}]}


CASES: list[tuple[str, int, int, Literal["request", "response"], dict[str, Any], Any]] = [
    (
        "ShareFetch v1 response, 10 partitions, 5 ranges each",
        78,
        1,
        "response",
        share_fetch_response(10, 5),
        ShareFetchResponse,
    ),
    (
        "ShareFetch v1 response, 10 partitions, 50 ranges each",
        78,
        1,
        "response",
        share_fetch_response(10, 50),
        ShareFetchResponse,
    ),
    ("ShareFetch v1 request, 3 partitions acknowledged", 78, 1, "request", share_fetch_request(), ShareFetchRequest),
    ("Metadata v12 response, 5 topics, 20 partitions each", 3, 12, "response", metadata_response(), MetadataResponse),
    ("Fetch v12 response, 10 partitions", 1, 12, "response", fetch_response(), FetchResponse),
]


def main() -> None:
    registry = Registry()
    print(f"{'body':54} {'bytes':>7} {'kshark':>9} {'interpreter':>12} {'kio':>9}   kio / kshark")
    for title, key, version, kind, value, entity in CASES:
        data = encode(key, version, kind, value)
        api = registry.api(key)
        assert api is not None
        layout = api.request if kind == "request" else api.response
        times = fastest(
            partial(compile_reader(layout, version), data, 0, len(data)),
            partial(interpret, layout, version, data, 0, len(data)),
            partial(entity_reader(entity), data, 0),
        )
        fast, exact, kio = (seconds * 1e6 for seconds in times)
        print(f"{title:54} {len(data):7} {fast:6.1f} us {exact:9.1f} us {kio:6.1f} us   {kio / fast:.1f}x")


def fastest(*calls: Callable[[], Any]) -> list[float]:
    """Return seconds per call of each function: the best of several rounds, in turn."""
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for index, call in enumerate(calls):
            count, start = 0, time.process_time()
            while (spent := time.process_time() - start) < ROUND_S:
                call()
                count += 1
            best[index] = min(best[index], spent / count)
    return best


if __name__ == "__main__":
    main()
