"""Messages without a capture: bodies go through our encoder and the exact reader, as they would from the wire."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

import kshark
from kshark.codec import interpret
from kshark.model import Message
from kshark.records import make_reader
from kshark.registry import Registry

REGISTRY = Registry()
NOON_NS = 1_795_262_587_412_345_678


def body_of(api: str, version: int, kind: Any, fields: dict[str, Any]) -> Any:
    key = REGISTRY.find(api)
    assert key is not None
    known = REGISTRY.api(key)
    assert known is not None
    data = kshark.encode(key, version, kind, fields)
    records = make_reader(True, True)
    reading = interpret(
        known.request if kind == "request" else known.response, version, data, 0, len(data), records=records
    )
    records.fill()
    assert not reading.faults
    return reading.body


def message(kind: Any, api: str, version: int, packet: int = 41, **fields: Any) -> Message:
    """A message of flow 3 with correlation id 12; fields left out of the body take their defaults."""
    answer = kind == "response"
    return Message(
        packet, UNSET, NOON_NS, 3, "10.0.0.1:50001", "10.0.0.9:9092", kind, REGISTRY.find(api), api, version, 12, "c1",
        packet - 3 if answer else UNSET, 1_250_000 if answer else UNSET, 96, body_of(api, version, kind, fields),
    )  # fmt: skip


def request(api: str, version: int, packet: int = 41, **fields: Any) -> Message:
    return message("request", api, version, packet, **fields)


def response(api: str, version: int, packet: int = 44, **fields: Any) -> Message:
    return message("response", api, version, packet, **fields)


def unreadable(kind: Any = "unknown") -> Message:
    """A frame that nothing is known of."""
    nothing: Any = UNSET
    return Message(
        7, (6, 7), NOON_NS, 3, "10.0.0.1:50001", "10.0.0.9:9092", kind, nothing, nothing, nothing, nothing, nothing,
        nothing, nothing,
        30, None, ["BODY_TOO_SHORT"], "header",
    )  # fmt: skip
