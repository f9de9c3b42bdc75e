"""A share group of many members on many partitions, on the wire: each fetches, and acknowledges with that what it was
handed before.

    python -m benchmarks.crowd REQUESTS FILE [MEMBERS PARTITIONS]

Two exchanges are encoded once, by kshark's own writers; what differs from member to member and from turn to turn stands
at known places."""

from __future__ import annotations

import sys
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from struct import pack_into
from typing import Any, Final

from benchmarks.conversations import frame
from benchmarks.wire import Connection, Wire

SHARE_FETCH: Final = 78
BROKER: Final = "10.0.0.9:9092"
#: Records of one acquisition.
_RECORDS: Final = 10
#: Unique values that mark positions in a message, which are replaced by other values.
_EPOCH: Final = 0x11121314
_PARTITION: Final = 0x21222324
_FIRST: Final = 0x3132333435363738
_LAST: Final = 0x4142434445464748
_ACQUIRED_FIRST: Final = 0x5152535455565758
_ACQUIRED_LAST: Final = 0x6162636465666768
_MEMBER: Final = "MMMMMMMMMMMMMMMMMMMMMM"
_TOPIC: Final = "AAAAAAAAAAAAAAAAAAAAMQ"


@dataclass(frozen=True)
class Template:
    """A message, and the positions of its values."""

    data: bytes
    places: dict[int, tuple[str, int]]
    id_at: int
    member_at: int

    @classmethod
    def of(cls, kind: Any, body: dict[str, Any], *values: int) -> Template:
        made = frame(SHARE_FETCH, 1, kind, body)
        found = {}
        for value in values:
            size = 4 if value < 1 << 32 else 8
            at = made.data.find(value.to_bytes(size, "big"))
            if at >= 0:
                found[value] = (">i" if size == 4 else ">q", at)
        return cls(made.data, found, made.id_at, made.data.find(_MEMBER.encode()))

    def filled(self, correlation_id: int, member: bytes, values: dict[int, int]) -> bytes:
        data = bytearray(self.data)
        pack_into(">i", data, self.id_at, correlation_id)
        if self.member_at >= 0:
            data[self.member_at : self.member_at + len(member)] = member
        for value, (packing, at) in self.places.items():
            pack_into(packing, data, at, values[value])
        return bytes(data)


def _request(batches: list[dict[str, Any]]) -> Template:
    partition = {"partition_index": _PARTITION, "acknowledgement_batches": batches}
    body = {
        "group_id": "crowd", "member_id": _MEMBER, "share_session_epoch": _EPOCH, "max_wait_ms": 500, "min_bytes": 1,
        "max_bytes": 50 << 20, "max_records": 500, "batch_size": 500,
        "topics": [{"topic_id": _TOPIC, "partitions": [partition]}],
        "forgotten_topics_data": [],
    }  # fmt: skip
    return Template.of("request", body, _EPOCH, _PARTITION, _FIRST, _LAST)


def _response() -> Template:
    acquired = {"first_offset": _ACQUIRED_FIRST, "last_offset": _ACQUIRED_LAST, "delivery_count": 1}
    partition = {
        "partition_index": _PARTITION, "error_code": 0, "acknowledge_error_code": 0,
        "current_leader": {"leader_id": 1, "leader_epoch": 0}, "acquired_records": [acquired],
    }  # fmt: skip
    body = {
        "error_code": 0, "acquisition_lock_timeout_ms": 30_000,
        "responses": [{"topic_id": _TOPIC, "partitions": [partition]}],
        "node_endpoints": [],
    }  # fmt: skip
    return Template.of("response", body, _PARTITION, _ACQUIRED_FIRST, _ACQUIRED_LAST)


def crowd(wire: Wire, requests: int, members: int = 10_000, partitions: int = 1_000) -> None:
    """Write members in turn, each with its own connection and partition; at the end all connections are closed."""
    first, later, answer = (
        _request([]),
        _request([{"first_offset": _FIRST, "last_offset": _LAST, "acknowledge_types": [1]}]),
        _response(),
    )
    connections = [
        Connection(wire, f"10.1.{n >> 8 & 255}.{n & 255}:{40_000 + (n >> 16)}", BROKER) for n in range(members)
    ]
    ids = [urlsafe_b64encode(n.to_bytes(16, "big"))[:22] for n in range(members)]
    held = [0] * members
    free = [0] * partitions
    for connection in connections:
        connection.open()
    for turn in range(-(-requests // members)):
        for n in range(min(members, requests - turn * members)):
            partition = n % partitions
            values = {_EPOCH: turn, _PARTITION: partition, _FIRST: held[n], _LAST: held[n] + _RECORDS - 1}
            connections[n].send(0, (later if turn else first).filled(turn + 1, ids[n], values))
            held[n] = free[partition]
            free[partition] += _RECORDS
            values = {_PARTITION: partition, _ACQUIRED_FIRST: held[n], _ACQUIRED_LAST: held[n] + _RECORDS - 1}
            connections[n].send(1, answer.filled(turn + 1, ids[n], values))
    for connection in connections:
        connection.close()
    wire.flush()


def main() -> None:
    requests, file, *many = sys.argv[1:]
    with Path(file).open("wb") as out:
        crowd(Wire(out), int(requests), *map(int, many))


if __name__ == "__main__":
    main()
