"""Convert the JSON of a request log to the bytes of messages, by the registry's layouts.

The JSON is that of Kafka's own converters (generator: JsonConverterGenerator): field names in camelCase, bytes in
base64, UUIDs as text, tagged fields only if they are not the default. Records are left out of it; they are written as
null where they may be, else as empty.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from kshark import limits
from kshark.codec import compile_writer
from kshark.codec.shapes import Shape, Slot, shape_of
from kshark.errors import EncodeError
from kshark.registry import Registry
from kshark.requests.fast_path import NotOrdinary, struct_writer
from kshark.schema import Layout
from kshark_dissectors.history import FIELD_NAMES

_HEADER: Final = struct.Struct(">hhih")
_CORRELATION: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_LONGEST_ID: Final = 32_767
_NOT_ORDINARY: Final = (NotOrdinary, KeyError, TypeError, ValueError, OverflowError, struct.error)
#: Earlier names of fields.
_EARLIER: Final = {
    path.rpartition(".")[2]: names for fields in FIELD_NAMES.values() for path, names in fields.items()
} | {"acceptable_recovery_lag_legacy": ("acceptable_recovery_lag",)}  # 4.4 moved version 0 of the field aside


class Header(msgspec.Struct, rename="camel", gc=False):
    """The header of a request, as the log has it."""

    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None = None


class Frames:
    """Make frames, without their length prefix, of logged requests and responses."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: Bodies that every connection gets alike, by API, version and JSON.
        self._repeated: dict[tuple[int, int, bytes], bytes] = {}

    def request_head(self, header: Header) -> bytes:
        """Return a request up to its body. Raises EncodeError for a header that no request has."""
        key, version = header.request_api_key, header.request_api_version
        client_id = (header.client_id or "").encode()[:_LONGEST_ID]
        length = -1 if header.client_id is None else len(client_id)
        try:
            head = _HEADER.pack(key, version, header.correlation_id, length)
        except struct.error:
            raise EncodeError("requestHeader", "numbers that are too large") from None
        api = self._registry.api(key)
        written = 1 if api is None else api.request_header_version(api.versions.nearest(version))
        return head[:8] if written == 0 else head + client_id + b"\0" * (written == 2)

    def is_kept(self, header: Header, body: bytes) -> bool:
        """True if the broker kept the body: `{}` is one only where the API has no fields."""
        if body != b"{}":
            return body != b"null"
        api, version = self._registry.api(header.request_api_key), header.request_api_version
        return api is not None and version in api.versions and not shape_of(api.request, version).slots

    def request_body(self, header: Header, body: bytes) -> bytes:
        """Return the body of a request; none for an unknown API or version. Raises EncodeError if it does not fit."""
        api = self._registry.api(header.request_api_key)
        if api is None or header.request_api_version not in api.versions:
            return b""
        return _written(api.request, header.request_api_version, body)

    def response_head(self, header: Header) -> bytes:
        """Return a response up to its body."""
        api, version = self._registry.api(header.request_api_key), header.request_api_version
        head = _CORRELATION.pack(header.correlation_id)
        return head + b"\0" * (api is not None and api.response_header_version(api.versions.nearest(version)) == 1)

    def response_body(self, header: Header, body: bytes) -> bytes:
        """Return the body of a response; none for an unknown API or version. Raises EncodeError if it does not fit."""
        api, version = self._registry.api(header.request_api_key), header.request_api_version
        if api is None or version not in api.versions:
            return b""
        key = header.request_api_key, version, body
        if key in self._repeated:
            return self._repeated[key]
        begins = b""
        if api.fallback is not None:
            error = _decoded(body).get("errorCode")
            begins = _INT16.pack(error) if isinstance(error, int) and -32768 <= error < 32768 else b""
        layout, laid_out = api.layout("response", version, begins)
        written = _written(layout, laid_out, body)
        if api.repeated and len(body) <= limits.REPEATED_BYTES:
            if len(self._repeated) >= limits.REPEATED_ANSWERS:
                self._repeated.clear()
            self._repeated[key] = written
        return written

    def is_one_way(self, header: Header, body: bytes) -> bool:
        """True if the request gets no response."""
        api = self._registry.api(header.request_api_key)
        return api is not None and api.one_way is not None and _decoded(body).get(api.one_way[0]) == api.one_way[1]


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError) as error:  # ValueError: no UTF-8
        raise EncodeError("", str(error)) from None
    if not isinstance(value, dict):
        raise EncodeError("", "no JSON object")
    return value


def _written(layout: Layout, version: int, body: bytes) -> bytes:
    shape, value, out = shape_of(layout, version), _decoded(body), bytearray()
    try:
        struct_writer(shape)(value, out)
    except _NOT_ORDINARY:
        return exactly(shape, layout, version, value)
    return bytes(out)


def exactly(shape: Shape, layout: Layout, version: int, value: Mapping[str, Any]) -> bytes:
    """Write any JSON. Raises EncodeError if it does not fit."""
    return compile_writer(layout, version)(_fields(shape, value))


@lru_cache(maxsize=16384)
def _slots(shape: Shape) -> Mapping[str, Slot]:
    """Return the fields of a struct by their names in JSON, in lower case: some of Kafka's begin with a capital.

    Names of earlier releases count too.
    """
    slots = {slot.name: slot for slot in (*shape.slots, *shape.tags.values())}
    earlier = {name: slots[now] for now, names in _EARLIER.items() if now in slots for name in names}
    return {name.replace("_", ""): slot for name, slot in (earlier | slots).items()}


@lru_cache(maxsize=16384)
def _key(name: str) -> str:
    return name.lower()


def _fields(shape: Shape, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a struct's values by the names of the layout; fields that the layout lacks are left out."""
    slots, fields = _slots(shape), {}
    for name, item in value.items():
        slot = slots.get(_key(name))
        if slot is not None:
            fields[slot.name] = _value(slot, item)
    for slot in shape.slots:
        if slot.type == "records" and slot.nullable and not fields.get(slot.name):
            fields[slot.name] = None
        elif slot.name not in fields and slot.type != "records":
            raise EncodeError(slot.name, "is missing")
    return fields


def _value(slot: Slot, value: Any) -> Any:
    if value is None:
        return None
    if slot.shape is not None:
        return _fields(slot.shape, value) if isinstance(value, dict) else value
    if slot.element is not None:
        element = slot.element
        if not isinstance(value, list) or (element.shape is None and element.type not in ("bytes", "records")):
            return value
        return [_value(element, item) for item in value]
    if slot.type == "bytes" and isinstance(value, str):
        try:
            return b64decode(value, validate=True)
        except binascii.Error:
            raise EncodeError(slot.name, "is no base64") from None
    # Kafka writes the size of records, or nothing; a converter of an older tool may write anything.
    return b"" if slot.type == "records" else value
