"""Convert single bodies, without header: bytes to plain values and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from struct import Struct
from typing import Any, Final, Literal

from kshark.anomaly import CATALOGUE
from kshark.codec import Reader, compile_reader, compile_writer, interpret, plain
from kshark.errors import DecodeError, UsageError
from kshark.registry import Registry
from kshark.schema import Api, Layout

Direction = Literal["request", "response"]

_INT16: Final = Struct(">h")


@cache
def _registry() -> Registry:
    return Registry()


def decode(
    key: int | str, version: int, kind: Direction, data: bytes, *, registry: Registry | None = None
) -> dict[str, Any]:
    """Return the body of a message without header as a dict of plain values.

    Bytes stay bytes, records too; a uuid becomes its text. `key` is the API's number or its name, as in ShareFetch.
    Raises DecodeError where the body does not fit the layout to its last byte, UsageError for an unknown API or
    version.
    """
    api = _api(key, version, registry)
    data = bytes(data)
    layout, version = api.layout(_kind(kind), version, data)
    body: dict[str, Any] = plain(_read(layout, version, data))
    return body


def encode(
    key: int | str, version: int, kind: Direction, value: Mapping[str, Any], *, registry: Registry | None = None
) -> bytes:
    """Return the bytes of a body; `value` is a dict as `decode` returns it. Fields left out get their default.

    Raises EncodeError where a value does not fit, UsageError for an unknown API or version.
    """
    api = _api(key, version, registry)
    error = value.get("error_code") if isinstance(value, Mapping) else None
    start = _INT16.pack(error) if isinstance(error, int) and -32768 <= error < 32768 else b""
    layout, version = api.layout(_kind(kind), version, start)
    return compile_writer(layout, version)(value)


def _read(layout: Layout, version: int, data: bytes) -> Any:
    try:
        body, end = _reader(layout, version)(data, 0)
        if end == len(data):
            return body
    except Exception:  # damaged bytes may raise any error; the exact reader names the fault
        pass
    reading = interpret(layout, version, data, 0, len(data))
    for fault in reading.faults:
        if CATALOGUE[fault.code].severity != "note":
            raise DecodeError(fault.code, fault.offset, fault.path, fault.detail)
    return reading.body


@lru_cache(maxsize=1024)
def _reader(layout: Layout, version: int) -> Reader:
    return compile_reader(layout, version)


def _api(key: int | str, version: int, registry: Registry | None) -> Api:
    registry = registry or _registry()
    number = registry.find(key) if isinstance(key, str) else key
    if number is None:
        raise UsageError(f'no API "{key}" (names and keys are Kafka\'s)')
    api = registry.api(number)
    if api is None:
        name = registry.name(number)
        raise UsageError(f"no dissector for {name} (API {number})" if name else f"no API {key} in any Kafka release")
    if version not in api.versions:
        raise UsageError(f"{api.name} has versions {api.versions}, not {version}")
    return api


def _kind(kind: str) -> str:
    if kind not in ("request", "response"):
        raise UsageError(f"a message is a request or a response, not {kind!r}")
    return kind
