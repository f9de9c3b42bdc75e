"""Subscriptions and assignments of consumers, inside the bytes of JoinGroup and SyncGroup."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kshark.embedded.decoded import decoded
from kshark.embedded.opening import read_body
from kshark.schema import Layout
from kshark_dissectors.embedded.consumer_protocol import CONSUMER_PROTOCOL_ASSIGNMENT, CONSUMER_PROTOCOL_SUBSCRIPTION

#: The version before the structure.
_VERSION: Final = 2


class Subscription(Struct, frozen=True):
    """The topics of a member, and the partitions that it says it has."""

    topics: frozenset[str]
    owned: frozenset[tuple[str, tuple[int, ...]]]


def subscription_of(request: Any) -> Subscription | None:
    """Return what a JoinGroup subscribes to; None if it is not of a consumer, or cannot be read."""
    if request.protocol_type != "consumer":
        return None
    for protocol in request.protocols or ():
        value = _value(protocol, "metadata", CONSUMER_PROTOCOL_SUBSCRIPTION)
        if value is not None and isinstance(value.get("topics"), list):
            owned = value.get("owned_partitions") or ()
            return Subscription(
                frozenset(value["topics"]), frozenset((it["topic"], tuple(it["partitions"])) for it in owned)
            )
    return None


def has_partitions(answer: Any) -> bool:
    """True if a SyncGroup gives its member partitions, or something that is not of a consumer."""
    value = _value(answer, "assignment", CONSUMER_PROTOCOL_ASSIGNMENT)
    if value is not None and isinstance(value.get("assigned_partitions"), list):
        return any(it["partitions"] for it in value["assigned_partitions"])
    return bool(getattr(answer, "assignment", None))


def _value(owner: Any, name: str, layout: Layout) -> dict[str, Any] | None:
    value = decoded(owner, name)
    data = getattr(owner, name, None)
    if value is None and isinstance(data, bytes) and len(data) > _VERSION:
        version = int.from_bytes(data[:_VERSION], "big", signed=True)
        if layout.versions.low <= version:
            opened = read_body(layout, min(version, layout.versions.high), data, _VERSION)
            value = opened.value if opened.code is None else None
    return value if isinstance(value, dict) else None
