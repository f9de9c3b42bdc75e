"""Numbers with Kafka's names for them."""

from __future__ import annotations

from typing import Any

from kshark.schema import Field


def named(value: Any, field: Field | None) -> str:
    """Return `123 INVALID_SHARE_SESSION_EPOCH`; a bit set with all its names, `264 READ, DESCRIBE`.

    Only the number if it has no name.
    """
    name = name_of(value, field)
    return f"{value} {name}" if name else str(value)


def name_of(value: Any, field: Field | None) -> str:
    """Return only the name; empty if there is none."""
    inner = field and (field.element or field)
    if inner is None or inner.enum is None or not isinstance(value, int):
        return ""
    if inner.bits:
        return ", ".join(member.name for member in inner.enum if value > 0 and value >> member.value & 1)
    return inner.enum(value).name if value in inner.enum._value2member_map_ else ""
