"""Counts of exchanges that put rules about bytes to the test, for rules about some exchanges only
(kshark.analysis.rules.rule.Read)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET

from kshark.analysis.rules.record_batches import MAGIC_2_ONLY
from kshark.analysis.rules.rule import Read
from kshark.api_keys import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    SASL_HANDSHAKE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
)
from kshark.codec.paths import Names, values
from kshark.model import Message

#: The version of share-group APIs in Kafka 4.0. KIP-932.
EARLY_ACCESS: Final = 0
_PRODUCED: Final = ("topic_data", "partition_data", "records")
_FETCHED: Final = ("responses", "partitions", "records")

_Tried = Counter[Read]
Tries = Callable[[Message, Message | None, _Tried], None]


def _versions(request: Message, response: Message | None, tried: _Tried) -> None:
    tried["api_versions"] += response is not None


def _authentication(request: Message, response: Message | None, tried: _Tried) -> None:
    tried["authentications"] += 1


def _shared(request: Message, response: Message | None, tried: _Tried) -> None:
    tried["share_requests"] += request.version != EARLY_ACCESS


def _produced(request: Message, response: Message | None, tried: _Tried) -> None:
    """Count produced batches: their headers count the records, too."""
    if (opened := _opened(request, _PRODUCED)) is not None:
        is_new = isinstance(request.version, int) and request.version >= MAGIC_2_ONLY
        tried.update({"batches": 1, "produced": is_new, "counted": is_new or opened, "opened": opened})


def _fetched(request: Message, response: Message | None, tried: _Tried) -> None:
    if response is not None and (opened := _opened(response, _FETCHED)) is not None:
        tried.update({"batches": 1, "counted": opened, "opened": opened})


def _share_fetched(request: Message, response: Message | None, tried: _Tried) -> None:
    _shared(request, response, tried)
    _fetched(request, response, tried)


def _opened(message: Message, way: Names) -> bool | None:
    """True if the records in a message were opened; None if it has none."""
    field = next((field for field in values(message.body, way) if getattr(field, "size", 0)), None)
    return None if field is None else field.batches is not UNSET


#: APIs of share groups that early access had.
SHARED: Final = (SHARE_GROUP_HEARTBEAT, SHARE_GROUP_DESCRIBE, SHARE_FETCH, SHARE_ACKNOWLEDGE)
#: By API key: count what a request puts to the test, with its answer if there is one.
TRIES: Final[dict[Any, Tries]] = {
    API_VERSIONS: _versions,
    SASL_HANDSHAKE: _authentication,
    **dict.fromkeys(SHARED, _shared),
    SHARE_FETCH: _share_fetched,
    PRODUCE: _produced,
    FETCH: _fetched,
}
