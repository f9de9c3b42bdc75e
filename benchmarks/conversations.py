"""Producers and consumers that talk to a broker for as long as the file shall be: Produce and Fetch with record
batches.

Some exchanges are encoded once, by kshark's own writers; then they go over the wire again and again with new
correlation ids and base offsets, which no checksum covers, so that every message differs and the file is made at the
speed of copying."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from struct import pack_into
from typing import Any, Final

import kshark
from benchmarks.contents import Contents
from benchmarks.wire import Connection, Order, Wire, in_order
from kshark.codec import compile_writer
from kshark.records.writer import write_batch
from kshark.registry import Registry

PRODUCE: Final = 0
FETCH: Final = 1
API_VERSIONS: Final = 18
BROKER: Final = "10.0.0.9:9092"


@dataclass(frozen=True)
class Shape:
    """API versions, and contents of messages: partitions per message, records per batch, sizes of values, codecs."""

    api_versions: int
    produce: int
    fetch: int
    partitions: tuple[int, int]
    records: tuple[int, int]
    value_bytes: tuple[int, ...]
    codecs: tuple[str, ...]
    #: Different exchanges of each API before they repeat.
    pool: int
    connections: int = 8


#: What tshark 4.0 reads to the last field: Produce v3, Fetch v4, and the codecs that it opens.
OLD_VERSIONS: Final = Shape(
    1,
    3,
    4,
    (1, 2),
    (1, 9),
    (60, 120, 250, 500, 500, 1_000, 2_000),
    ("none", "none", "none", "snappy", "lz4", "gzip"),
    300,
)
#: As current clients send them under load: full batches, compressed with zstd (Produce from v7, Fetch from v10:
#: KIP-110).
ZSTD: Final = Shape(3, 10, 12, (1, 2), (100, 500), (120, 250, 500, 1_000, 1_000, 2_000, 4_000), ("zstd",), 40)


@dataclass(frozen=True)
class Frame:
    """A message with its length prefix, and the positions of its correlation id and of its batches' base offsets."""

    data: bytes
    id_at: int
    offsets_at: tuple[int, ...]

    def with_id(self, correlation_id: int, base_offset: int) -> bytes:
        data = bytearray(self.data)
        pack_into(">i", data, self.id_at, correlation_id)
        for at in self.offsets_at:
            pack_into(">q", data, at, base_offset)
        return bytes(data)


def converse(wire: Wire, shape: Shape, until_bytes: int, order: Order = in_order) -> None:
    """Write connections: half produce, the others fetch; a single one does both.

    Each begins with ApiVersions and ends with a FIN in both directions.
    """
    exchanges = {key: cycle(list(made)) for key, made in ((PRODUCE, _produce(shape)), (FETCH, _fetch(shape)))}
    connections = [Connection(wire, f"10.0.0.{10 + n}:{50_000 + n}", BROKER, order) for n in range(shape.connections)]
    for connection in connections:
        connection.open()
        for side, message in enumerate(_api_versions(shape)):
            connection.send(side, message.data)
    turn = 1
    while wire.written < until_bytes:
        for n, connection in enumerate(connections):
            request, response = next(exchanges[(n + turn if shape.connections == 1 else n) % 2])
            connection.send(0, request.with_id(turn, 0))
            connection.send(1, response.with_id(turn, turn * 10))
        turn += 1
    for connection in connections:
        connection.close()
    wire.flush()


def _api_versions(shape: Shape) -> tuple[Frame, Frame]:
    request = {"client_software_name": "benchmark", "client_software_version": "1"} if shape.api_versions >= 3 else {}
    known = ((PRODUCE, shape.produce), (FETCH, shape.fetch), (API_VERSIONS, shape.api_versions))
    response = {
        "error_code": 0,
        "api_keys": [{"api_key": key, "min_version": 0, "max_version": most} for key, most in known],
    }
    version = shape.api_versions
    return frame(API_VERSIONS, version, "request", request), frame(API_VERSIONS, version, "response", response)


def _produce(shape: Shape) -> Iterator[tuple[Frame, Frame]]:
    contents = Contents(seed=PRODUCE)
    for _ in range(shape.pool):
        batches = _batches(contents, shape)
        partitions = [{"index": n, "records": batch} for n, batch in enumerate(batches)]
        request = {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": "orders", "partition_data": partitions}]}
        answers = [{"index": n, "error_code": 0, "base_offset": 1_000} for n in range(len(batches))]
        response = {"responses": [{"name": "orders", "partition_responses": answers}]}
        yield (
            frame(PRODUCE, shape.produce, "request", request, batches),
            frame(PRODUCE, shape.produce, "response", response),
        )


def _fetch(shape: Shape) -> Iterator[tuple[Frame, Frame]]:
    contents = Contents(seed=FETCH)
    for _ in range(shape.pool):
        batches = _batches(contents, shape)
        asked = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for n in range(len(batches))]
        request = {
            "replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 1,
            "topics": [{"topic": "orders", "partitions": asked}],
        }  # fmt: skip
        rows = [
            {
                "partition_index": n,
                "high_watermark": 10_000,
                "last_stable_offset": 10_000,
                "aborted_transactions": [],
                "records": batch,
            }
            for n, batch in enumerate(batches)
        ]
        response = {"responses": [{"topic": "orders", "partitions": rows}]}
        yield frame(FETCH, shape.fetch, "request", request), frame(FETCH, shape.fetch, "response", response, batches)


def _batches(contents: Contents, shape: Shape) -> list[bytes]:
    """Create one batch for each partition."""
    return [
        write_batch(
            contents.records(contents.between(*shape.records), shape.value_bytes), codec=contents.choose(shape.codecs)
        )
        for _ in range(contents.between(*shape.partitions))
    ]


def frame(key: int, version: int, kind: Any, body: dict[str, Any], batches: list[bytes] | None = None) -> Frame:
    """Return a message with its length prefix and the positions of `batches` in it."""
    registry = Registry()
    api = registry.api(key)
    assert api is not None
    if kind == "request":
        layout, of = registry.request_header, api.request_header_version(version)
        header = {"request_api_key": key, "request_api_version": version, "correlation_id": 0, "client_id": "benchmark"}
    else:
        layout, of, header = registry.response_header, api.response_header_version(version), {"correlation_id": 0}
    message = compile_writer(layout, of)(header) + kshark.encode(key, version, kind, body)
    data = len(message).to_bytes(4, "big") + message
    found, at = [], 0
    for batch in batches or ():
        at = data.index(batch, at)
        found.append(at)
    return Frame(data, 8 if kind == "request" else 4, tuple(found))
