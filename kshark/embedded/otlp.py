"""Metrics in OpenTelemetry's protocol (OTLP), which clients send in PushTelemetry (KIP-714).

They become OTLP's messages under the names of its own fields, as dicts; attributes are one dict by key. The classes of
the messages are those of `opentelemetry-proto`, which the extra `otlp` installs; without it metrics stay bytes."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from functools import cache
from typing import Any, Final

from kshark import limits

#: Attributes are repeated pairs, and become one dict.
_PAIR: Final = "opentelemetry.proto.common.v1.KeyValue"


class _TooMany(Exception):
    """There are more values than the limit allows."""


@cache
def is_installed() -> bool:
    """True if metrics can be read here."""
    try:
        import opentelemetry.proto.metrics.v1.metrics_pb2  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def read_metrics(data: bytes) -> tuple[dict[str, Any] | None, str]:
    """Read a MetricsData message; return its value and the text of the fault.

    The value is None if the message cannot be read; the text is "" if there is no fault.
    """
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    if len(data) > limits.TELEMETRY_BYTES:
        return None, f"more than {limits.TELEMETRY_BYTES} bytes"
    try:
        return _Plain().message(MetricsData.FromString(data)), ""
    except (DecodeError, _TooMany) as error:
        return None, f"no OTLP metrics: {error}"


class _Plain:
    """Turn protobuf messages into plain values, at most limits.TELEMETRY_VALUES of them."""

    def __init__(self) -> None:
        self._left = limits.TELEMETRY_VALUES

    def message(self, message: Any) -> dict[str, Any]:
        """Return the fields that are set, by name."""
        return {field.name: self._field(field.message_type, value) for field, value in message.ListFields()}

    def _field(self, message_type: Any, value: Any) -> Any:
        repeated = isinstance(value, MutableSequence)
        self._count(len(value) if repeated else 1)
        if message_type is None:
            return list(value) if repeated else value
        if message_type.full_name == _PAIR:
            return self._pairs(value)
        return [self.message(element) for element in value] if repeated else self.message(value)

    def _pairs(self, pairs: Iterable[Any]) -> dict[str, Any]:
        return {pair.key: self._any(pair.value) for pair in pairs}

    def _any(self, value: Any) -> Any:
        """Return a value of any type; None if none is set."""
        kind = value.WhichOneof("value")
        if kind is None:
            return None
        content: Any = getattr(value, kind)
        if kind not in ("array_value", "kvlist_value"):
            return content
        self._count(len(content.values))
        return (
            [self._any(element) for element in content.values] if kind == "array_value" else self._pairs(content.values)
        )

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise _TooMany(f"more than {limits.TELEMETRY_VALUES} values")
