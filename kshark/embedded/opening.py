"""Decode one bytes value: a structure in one version, a whole message with its header, or a format not of Kafka.

No function raises on damaged bytes: bytes that cannot be read become a code of the catalogue with its detail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from kshark import limits
from kshark.codec import Reader, compile_reader, interpret, plain
from kshark.codec.masking import mask, masks_of
from kshark.embedded.otlp import read_metrics
from kshark.places import Foreign, Whole
from kshark.records.compression import CODEC_COUNT, decompress_into
from kshark.records.faults import DecompressionFailed, RoomExceeded
from kshark.registry import Registry
from kshark.schema import Layout

_KEY_AND_VERSION: Final = Struct(">hh").unpack_from
#: Readers of formats that are not Kafka's: bytes to their value, and the text of the fault ("" for no fault).
_FORMATS: Final[Mapping[str, Callable[[bytes], tuple[Any, str]]]] = {"otlp": read_metrics}


class Opened(NamedTuple):
    """The decoded value; None if nothing could be read.

    `masked`: the bytes hold credentials, which the value does not show.
    """

    value: Any
    code: str | None = None
    detail: str = ""
    masked: bool = False


def read_body(layout: Layout, version: int, data: bytes, position: int, *, secrets: bool = True) -> Opened:
    """Read the body from `position` to the end of the data as plain values, as far as possible.

    Without `secrets`, credentials are masked.
    """
    opened = _read_body(layout, version, data, position)
    masks = () if secrets else masks_of(layout, version)
    if not masks:
        return opened
    hidden = mask(masks, opened.value)
    # Bytes that could not be read may hold credentials too.
    return opened._replace(masked=hidden or opened.code is not None)


def _read_body(layout: Layout, version: int, data: bytes, position: int) -> Opened:
    try:
        body, stop = _reader(layout, version)(data, position)
        if stop == len(data):
            return Opened(plain(body))
    except Exception:  # damaged bytes may raise any error; the exact reader names the fault
        pass
    reading = interpret(layout, version, data, position, len(data))
    if reading.faults and reading.faults[0].code == "LAYOUT_DRIFT":
        return Opened(plain(reading.body), "LAYOUT_DRIFT", layout.name)
    detail = "; ".join(f"{layout.name}.{fault.path}: {fault.detail}" for fault in reading.faults[:3])
    return Opened(plain(reading.body), "EMBEDDED_INVALID" if reading.faults else None, detail)


@lru_cache(maxsize=1024)
def _reader(layout: Layout, version: int) -> Reader:
    return compile_reader(layout, version)


def structure_value(layout: Layout, type: int | None, version: int | None, body: Any) -> dict[str, Any]:
    """Return a structure as users see it."""
    value: dict[str, Any] = {"name": layout.name}
    if type is not None:
        value["type"] = type
    if version is not None:
        value["version"] = version
    value["data"] = body
    return value


def fitting(layout: Layout, data: bytes, position: int) -> Opened:
    """Read the newest version whose layout ends exactly where the data ends."""
    for version in range(layout.versions.high, layout.versions.low - 1, -1):
        body, code, *_ = read_body(layout, version, data, position)
        if code is None:
            return Opened(structure_value(layout, None, version, body))
    return Opened(None, "EMBEDDED_INVALID", f"{layout.name}: no version ends where the bytes end")


def whole(holding: Whole, data: bytes, asked: Any, registry: Registry, *, secrets: bool = True) -> Opened:
    """Read a message with its header.

    For a response, `asked` is its request, as bytes or as it was opened. Without `secrets`, credentials are masked. The
    value is `{"kind": …, "api_key": …, "api": …, "version": …, "header": {…}, "body": {…}}`.
    """
    head = data if holding.kind == "request" else asked
    if isinstance(head, dict):
        key, version = head["api_key"], head["version"]
    elif isinstance(head, bytes) and len(head) >= 4:
        key, version = _KEY_AND_VERSION(head)
    else:
        return Opened(None, "EMBEDDED_INVALID", f"{holding.kind} without a header")
    value: dict[str, Any] = {"kind": holding.kind, "api_key": key}
    api = registry.api(key)
    if api is None:
        return Opened({**value, "version": version}, "EMBEDDED_INVALID", f"{holding.kind} of API {key}")
    nearest = api.versions.nearest(version)
    if holding.kind == "request":
        head_layout, head_version = registry.request_header, api.request_header_version(nearest)
    else:
        head_layout, head_version = registry.response_header, api.response_header_version(nearest)
    header = interpret(head_layout, head_version, data, 0, len(data))
    value |= {"api": api.name, "version": version, "header": plain(header.body)}
    faults = [fault for fault in header.faults if fault.code != "TRAILING_BYTES"]  # the body
    if faults:
        return Opened(value, "EMBEDDED_INVALID", f"{head_layout.name}.{faults[0].path}: {faults[0].detail}")
    layout, laid_out = api.layout(holding.kind, nearest, data[header.position : header.position + 2])
    value["body"], code, detail, hidden = read_body(layout, laid_out, data, header.position, secrets=secrets)
    if nearest != version:
        code, detail = "VERSION_UNKNOWN", f"{api.name} version {version}, read as {nearest}"
    return Opened(value, code, detail, hidden)


def foreign(holding: Foreign, data: bytes, codec: Any) -> Opened:
    """Read bytes in a format that is not Kafka's, compressed with this codec (0 or null: not compressed)."""
    if codec:
        if not isinstance(codec, int) or not 0 < codec < CODEC_COUNT:
            return Opened(None, "CODEC_INVALID", f"codec {codec}")
        room = bytearray(limits.TELEMETRY_BYTES)
        try:
            data = bytes(memoryview(room)[: decompress_into(codec, memoryview(data), memoryview(room))])
        except DecompressionFailed as error:
            return Opened(None, "DECOMPRESSION_FAILED", str(error))
        except RoomExceeded:
            return Opened(None, "DECOMPRESSION_LIMIT", f"more than {limits.TELEMETRY_BYTES} bytes")
    value, fault = _FORMATS[holding.format](data)
    return Opened(None, "EMBEDDED_INVALID", fault) if fault else Opened({"name": holding.format, "data": value})
