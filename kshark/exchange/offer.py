"""Offers of brokers: the APIs and versions in their answers to ApiVersions.

An offer is kept once for all connections that received the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from msgspec import UNSET, msgpack

from kshark import limits
from kshark.api_keys import FETCH, PRODUCE
from kshark.model import Message

#: A broker that offers no lower version of Fetch is 4.0 or later. It accepts Produce from version 3 on, although it
#: offers version 0 for the sake of old clients (KAFKA-18659).
_FETCH_OF_4_0: Final = 4
_PRODUCE_OF_4_0: Final = 3


class Offers:
    """Offers in the answers of one capture.

    Most answers equal one of few, which the decoder reads once (kshark.schema.Api.repeated).
    """

    def __init__(self) -> None:
        #: By the id of the body; the body is kept, so that no other object gets the same id.
        self._by_body: dict[int, tuple[Any, bytes]] = {}

    def __reduce__(self) -> tuple[type[Offers], tuple[()]]:
        return Offers, ()  # this cache saves work and is not state

    def of(self, answer: Message) -> bytes:
        """Return offer_of for the answer's body."""
        body = answer.body
        entry = self._by_body.get(id(body))
        if entry is None:
            entry = body, offer_of(body)
            if answer.size <= limits.REPEATED_BYTES:
                if len(self._by_body) >= limits.REPEATED_ANSWERS:
                    self._by_body.clear()
                self._by_body[id(body)] = entry
        return entry[1]


def offer_of(body: Any) -> bytes:
    """Return the answer's ranges, packed; empty where it lists none: every broker accepts ApiVersions."""
    ranges = getattr(body, "api_keys", UNSET)
    if ranges is UNSET or not ranges:
        return b""
    return _once(msgpack.encode(ranges))


@lru_cache(maxsize=64)
def _once(offer: bytes) -> bytes:
    """Return the one object for equal offers: every connection receives the same."""
    return offer


def is_offered(offer: bytes, api_key: int, version: int) -> bool:
    """True if the broker accepts this version."""
    ranges: dict[int, tuple[int, int]] = {
        api["api_key"]: (api["min_version"], api["max_version"]) for api in msgpack.decode(offer)
    }
    lowest, highest = ranges.get(api_key, (0, -1))
    if api_key == PRODUCE and ranges.get(FETCH, (0, 0))[0] >= _FETCH_OF_4_0:
        lowest = max(lowest, _PRODUCE_OF_4_0)
    return lowest <= version <= highest
