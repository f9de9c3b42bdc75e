"""What a broker offers: the APIs and versions of its answer to ApiVersions, kept once for all connections that were
given the same."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from msgspec import UNSET, msgpack

from kshark import limits
from kshark.api_keys import FETCH, PRODUCE
from kshark.model import Message

#: Who offers no lower Fetch is 4.0 or later, and takes Produce from version 3 on, though it offers 0 for old clients'
#: sake (KAFKA-18659).
_FETCH_OF_4_0: Final = 4
_PRODUCE_OF_4_0: Final = 3


class Offers:
    """What the answers of one capture offer: most are one of few, which the decoder reads once
    (kshark.schema.Api.repeated)."""

    def __init__(self) -> None:
        #: By the number of its body, which is kept, so that no other gets it.
        self._known: dict[int, tuple[Any, bytes]] = {}

    def __reduce__(self) -> tuple[type[Offers], tuple[()]]:
        return Offers, ()  # what is remembered spares work, and is no state

    def of(self, answer: Message) -> bytes:
        """offer_of its body."""
        body = answer.body
        known = self._known.get(id(body))
        if known is None:
            known = body, offer_of(body)
            if answer.size <= limits.REPEATED_BYTES:
                if len(self._known) >= limits.REPEATED_ANSWERS:
                    self._known.clear()
                self._known[id(body)] = known
        return known[1]


def offer_of(body: Any) -> bytes:
    """The answer's ranges; nothing where it lists none: every broker takes ApiVersions."""
    ranges = getattr(body, "api_keys", UNSET)
    if ranges is UNSET or not ranges:
        return b""
    return _once(msgpack.encode(ranges))


@lru_cache(maxsize=64)
def _once(offer: bytes) -> bytes:
    """Every connection is offered the same: it is kept once."""
    return offer


def is_offered(offer: bytes, api_key: int, version: int) -> bool:
    """Whether the broker takes that version."""
    ranges: dict[int, tuple[int, int]] = {
        one["api_key"]: (one["min_version"], one["max_version"]) for one in msgpack.decode(offer)
    }
    lowest, highest = ranges.get(api_key, (0, -1))
    if api_key == PRODUCE and ranges.get(FETCH, (0, 0))[0] >= _FETCH_OF_4_0:
        lowest = max(lowest, _PRODUCE_OF_4_0)
    return lowest <= version <= highest
