"""A capture with a request and a response of every API in every version, their values random and always the same."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.wire import Connection, Wire
from kshark.bodies import encode
from kshark.codec.shapes import Shape, Slot, shape_of
from kshark.registry import Registry
from kshark.schema import FIXED, Api

CLIENT, BROKER = "10.0.0.1", "10.0.0.9:9092"
TEXTS = ("", "a", "orders", "größer", "日本語", "\U0001f600", 'quote " and \\', "x" * 300)


def write_every(path: Path, registry: Registry, seed: int = 0) -> int:
    """Write the capture; return the number of its messages."""
    count = 0
    with path.open("wb") as file:
        wire = Wire(file)
        for number, (api, version) in enumerate(_versions(registry)):
            random = Random(f"{seed} {api.key} {version}")
            connection = Connection(wire, f"{CLIENT}:{20_000 + number}", BROKER)
            connection.open()
            request, response = (_body(api, kind, version, random, registry) for kind in ("request", "response"))
            head = struct.pack(">hhi", api.key, version, number)
            if api.request_header_version(version):
                head += struct.pack(">h", 6) + b"client" + b"\0" * (api.request_header_version(version) == 2)
            _send(connection, 0, head + request)
            head = struct.pack(">i", number) + b"\0" * api.response_header_version(version)
            _send(connection, 1, head + response)
            connection.close()
            count += 2
        wire.flush()
    return count


def _versions(registry: Registry) -> Iterator[tuple[Api, int]]:
    for key in sorted(registry.names()):
        api = registry.api(key)
        assert api is not None
        for version in range(api.versions.low, api.versions.high + 1):
            yield api, version


def _send(connection: Connection, side: int, message: bytes) -> None:
    connection.send(side, struct.pack(">i", len(message)) + message)


def _body(api: Api, kind: str, version: int, random: Random, registry: Registry) -> bytes:
    value = _struct(shape_of(api.request if kind == "request" else api.response, version), random, 0)
    if kind == "request" and api.one_way is not None:
        value[api.one_way[0]] = 1  # a response follows
    if kind == "response" and api.fallback is not None and value["error_code"] == api.fallback[0]:
        value["error_code"] = 0
    return encode(api.key, version, kind, value, registry=registry)


def _struct(shape: Shape, random: Random, depth: int) -> dict[str, Any]:
    value = {slot.name: _value(slot, random, depth) for slot in shape.slots}
    value |= {slot.name: _value(slot, random, depth) for slot in shape.tags.values() if random.random() < 0.7}
    if shape.flexible and random.random() < 0.2:
        value["_tagged"] = {"9999": random.randbytes(random.randrange(200))}
    return value


def _value(slot: Slot, random: Random, depth: int) -> Any:
    if slot.nullable and random.random() < 0.2:
        return None
    if slot.shape is not None:
        return _struct(slot.shape, random, depth + 1)
    if slot.element is not None:
        many = random.choice((0, 1, 2, 3) if depth < 3 else (0, 1))
        return [_value(slot.element, random, depth + 1) for _ in range(many)]
    match slot.type:
        case "bool":
            return random.random() < 0.5
        case "string":
            return random.choice(TEXTS)
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 60, 200)))
        case "uuid":
            return base64.urlsafe_b64encode(random.randbytes(16))[:22].decode()
        case "float64":
            return random.uniform(-1e9, 1e9)
    bits, signed = 8 * FIXED[slot.type][1], slot.type.startswith("int")
    low, high = (-1 << (bits - 1), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return random.choice((low, high, 0, 1, random.randint(low, high), random.randint(0, 130) & high))
