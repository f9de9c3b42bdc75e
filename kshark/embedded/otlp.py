"""Metrics in OpenTelemetry's protocol (OTLP), which clients send in PushTelemetry (KIP-714): a small protobuf reader,
and tables.

The result is OTLP's messages under the names of its own fields, as dicts; attributes are one dict by key. Fields that
the tables do not name are skipped. Source: opentelemetry-proto, metrics.proto and common.proto (v1); protobuf,
"Encoding"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct, iter_unpack
from typing import Any, Final

import msgspec

from kshark import limits

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field(msgspec.Struct, frozen=True):
    """A field of a message; `repeated` ones become a list, packed or not.

    `kind`: a scalar's, a message's table, `attributes` (a pair of key and value, put into one dict), `any` (one value
    of many kinds)."""

    name: str
    kind: str | Mapping[int, Field]
    repeated: bool = False


_BUCKETS: Final = {1: Field("offset", "sint"), 2: Field("bucket_counts", "uint", True)}
_QUANTILE: Final = {1: Field("quantile", "double"), 2: Field("value", "double")}
_TIMES: Final = {2: Field("start_time_unix_nano", "fixed64"), 3: Field("time_unix_nano", "fixed64")}
_NUMBER: Final = {
    7: Field("attributes", "attributes"),
    **_TIMES,
    4: Field("as_double", "double"),
    6: Field("as_int", "sfixed64"),
    8: Field("flags", "uint"),
}
_HISTOGRAM: Final = {
    9: Field("attributes", "attributes"),
    **_TIMES,
    4: Field("count", "fixed64"),
    5: Field("sum", "double"),
    6: Field("bucket_counts", "fixed64", True),
    7: Field("explicit_bounds", "double", True),
    10: Field("flags", "uint"),
    11: Field("min", "double"),
    12: Field("max", "double"),
}
_EXPONENTIAL: Final = {
    1: Field("attributes", "attributes"),
    **_TIMES,
    4: Field("count", "fixed64"),
    5: Field("sum", "double"),
    6: Field("scale", "sint"),
    7: Field("zero_count", "fixed64"),
    8: Field("positive", _BUCKETS),
    9: Field("negative", _BUCKETS),
    10: Field("flags", "uint"),
    12: Field("min", "double"),
    13: Field("max", "double"),
    14: Field("zero_threshold", "double"),
}
_SUMMARY: Final = {
    7: Field("attributes", "attributes"),
    **_TIMES,
    4: Field("count", "fixed64"),
    5: Field("sum", "double"),
    6: Field("quantile_values", _QUANTILE, True),
    8: Field("flags", "uint"),
}
_TEMPORALITY: Final = {2: Field("aggregation_temporality", "uint")}
_METRIC: Final = {
    1: Field("name", "string"),
    2: Field("description", "string"),
    3: Field("unit", "string"),
    5: Field("gauge", {1: Field("data_points", _NUMBER, True)}),
    7: Field("sum", {1: Field("data_points", _NUMBER, True), **_TEMPORALITY, 3: Field("is_monotonic", "bool")}),
    9: Field("histogram", {1: Field("data_points", _HISTOGRAM, True), **_TEMPORALITY}),
    10: Field("exponential_histogram", {1: Field("data_points", _EXPONENTIAL, True), **_TEMPORALITY}),
    11: Field("summary", {1: Field("data_points", _SUMMARY, True)}),
    12: Field("metadata", "attributes"),
}
_SCOPE: Final = {1: Field("name", "string"), 2: Field("version", "string"), 3: Field("attributes", "attributes")}
_SCOPE_METRICS: Final = {
    1: Field("scope", _SCOPE),
    2: Field("metrics", _METRIC, True),
    3: Field("schema_url", "string"),
}
_RESOURCE_METRICS: Final = {
    1: Field("resource", {1: Field("attributes", "attributes")}),
    2: Field("scope_metrics", _SCOPE_METRICS, True),
    3: Field("schema_url", "string"),
}
_METRICS_DATA: Final = {1: Field("resource_metrics", _RESOURCE_METRICS, True)}

_KEY_VALUE: Final = {1: Field("key", "string"), 2: Field("value", "any")}
_ARRAY: Final = {1: Field("values", "any", True)}
_MAP: Final = {1: Field("values", "attributes")}
_ANY: Final = {
    1: Field("string", "string"),
    2: Field("bool", "bool"),
    3: Field("int", "int"),
    4: Field("double", "double"),
    5: Field("array", _ARRAY),
    6: Field("map", _MAP),
    7: Field("bytes", "bytes"),
}

_WIRE_TYPES: Final = {
    "double": FIXED64,
    "fixed64": FIXED64,
    "sfixed64": FIXED64,
    "uint": VARINT,
    "int": VARINT,
    "sint": VARINT,
    "bool": VARINT,
}
_EIGHT_BYTES: Final = {"double": Struct("<d"), "fixed64": Struct("<Q"), "sfixed64": Struct("<q")}


class _Damaged(Exception):
    """The bytes are no protobuf, or not of these messages."""


def read_metrics(data: bytes) -> tuple[dict[str, Any], str]:
    """A MetricsData message as far as it can be read, and what is wrong with it ("" for nothing)."""
    reader = _Reader(data)
    metrics: dict[str, Any] = {}
    try:
        reader.message(_METRICS_DATA, 0, len(data), metrics)
    except _Damaged as error:
        return metrics, str(error)
    return metrics, ""


class _Reader:
    """Reads messages of one buffer, at most limits.TELEMETRY_VALUES values."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = limits.TELEMETRY_VALUES
        self._depth = 0

    def message(self, table: Mapping[int, Field], position: int, end: int, into: dict[str, Any]) -> dict[str, Any]:
        """The message from `position` to `end`, as a dict."""
        self._depth += 1
        if self._depth > limits.NESTING:
            raise _Damaged(f"byte {position}: messages inside messages, more than {limits.NESTING} deep")
        while position < end:
            number, wire_type, start, stop, position = self._field(position, end)
            field = table.get(number)
            if field is not None:
                self._put(field, wire_type, start, stop, into)
        self._depth -= 1
        return into

    def _field(self, position: int, end: int) -> tuple[int, int, int, int, int]:
        """Number and wire type of the field at `position`, where its content starts and stops, and where the next field
        begins."""
        at = position
        key, position = self._varint(position, end)
        number, wire_type = key >> 3, key & 7
        size = {FIXED64: 8, FIXED32: 4}.get(wire_type, 0)
        if wire_type == BYTES:
            size, position = self._varint(position, end)
        elif wire_type == VARINT:
            _, stop = self._varint(position, end)
            size = stop - position
        elif not size:
            raise _Damaged(f"byte {at}: field {number} of wire type {wire_type}")
        if size > end - position:
            raise _Damaged(f"byte {at}: field {number} of {size} bytes where {end - position} are left")
        return number, wire_type, position, position + size, position + size

    def _put(self, field: Field, wire_type: int, start: int, stop: int, into: dict[str, Any]) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Damaged(f"byte {start}: more than {limits.TELEMETRY_VALUES} values")
        if field.kind == "attributes":
            self._nested(field, wire_type, start)
            pair = self.message(_KEY_VALUE, start, stop, {})
            into.setdefault(field.name, {})[pair.get("key", "")] = pair.get("value")
        elif not field.repeated:
            into[field.name] = self._value(field, wire_type, start, stop, into.get(field.name))
        elif isinstance(field.kind, str) and field.kind in _WIRE_TYPES and wire_type == BYTES:
            values = list(self._packed(field, start, stop))
            self._left -= len(values)
            into.setdefault(field.name, []).extend(values)
        elif isinstance(field.kind, str):
            into.setdefault(field.name, []).append(self._value(field, wire_type, start, stop, None))
        else:
            self._nested(field, wire_type, start)
            message: dict[str, Any] = {}
            into.setdefault(field.name, []).append(message)
            self.message(field.kind, start, stop, message)

    def _nested(self, field: Field, wire_type: int, start: int) -> None:
        if wire_type != BYTES:
            raise _Damaged(f"byte {start}: {field.name} of wire type {wire_type}")

    def _value(self, field: Field, wire_type: int, start: int, stop: int, before: Any) -> Any:
        kind = field.kind
        if not isinstance(kind, str) or kind in ("string", "bytes", "any"):
            self._nested(field, wire_type, start)
            if not isinstance(kind, str):
                return self.message(kind, start, stop, before if before is not None else {})
            if kind == "any":
                return self._any(start, stop)
            raw = self._data[start:stop]
            return raw.decode("utf-8", "backslashreplace") if kind == "string" else raw
        if wire_type != _WIRE_TYPES[kind]:
            raise _Damaged(f"byte {start}: {field.name} of wire type {wire_type}")
        if kind in _EIGHT_BYTES:
            return _EIGHT_BYTES[kind].unpack_from(self._data, start)[0]
        return _number(kind, self._varint(start, stop)[0])

    def _any(self, start: int, stop: int) -> Any:
        """A value of any type; None if none is set."""
        found = self.message(_ANY, start, stop, {})
        for name, value in found.items():
            return value.get("values", [] if name == "array" else {}) if name in ("array", "map") else value
        return None

    def _packed(self, field: Field, start: int, stop: int) -> Iterator[Any]:
        kind = field.kind
        assert isinstance(kind, str)
        if kind in _EIGHT_BYTES:
            if (stop - start) % 8:
                raise _Damaged(f"byte {start}: {field.name} in {stop - start} bytes")
            yield from (value for (value,) in iter_unpack(_EIGHT_BYTES[kind].format, self._data[start:stop]))
        while kind not in _EIGHT_BYTES and start < stop:
            value, start = self._varint(start, stop)
            yield _number(kind, value)

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """An unsigned varint of at most 64 bits, and the position after it."""
        value = shift = 0
        for at in range(position, min(end, position + 10)):
            byte = self._data[at]
            value |= (byte & 127) << shift
            if byte < 128:
                return value & 0xFFFFFFFFFFFFFFFF, at + 1
            shift += 7
        raise _Damaged(f"byte {position}: a varint that does not end")


def _number(kind: str, value: int) -> int | bool:
    """A varint as the number that its field's kind stands for."""
    match kind:
        case "bool":
            return value != 0
        case "sint":
            return (value >> 1) ^ -(value & 1)
        case "int":
            return value - (1 << 64) if value >> 63 else value
        case _:
            return value
