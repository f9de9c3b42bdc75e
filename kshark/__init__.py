"""kshark: wire-traffic decoder and protocol analyzer for Apache Kafka.

    for message in kshark.read("a.pcap"): ...           # requests and responses, in the order of their last packets
    for finding in kshark.check("a.pcap"): ...          # who broke which rule, when, and how we know
    kshark.decode(78, 1, "request", data) -> dict       # one body
    kshark.encode(78, 1, "request", value) -> bytes

Importing kshark imports nothing heavy; its functions do when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kshark.errors import DecodeError, EncodeError, Error, SchemaError, UnreadableInput, UsageError

if TYPE_CHECKING:
    from kshark.bodies import decode, encode
    from kshark.face import check, read

__version__ = "0.1.0"
__all__ = [
    "DecodeError",
    "EncodeError",
    "Error",
    "SchemaError",
    "UnreadableInput",
    "UsageError",
    "check",
    "decode",
    "encode",
    "read",
]
_ROOMS = {"read": "kshark.face", "check": "kshark.face", "decode": "kshark.bodies", "encode": "kshark.bodies"}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'kshark' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ROOMS[name]), name)
