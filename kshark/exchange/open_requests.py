"""Requests that wait for their answers, and the search for one by its correlation id."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Final

import msgspec

from kshark.exchange.decoding import Decoder
from kshark.exchange.owner import Owner
from kshark.model import Message

_NUMBER_OF: Final = attrgetter("number")

#: Numbers of answered requests that may be kept, even if only few requests are open.
_STALE: Final = 64


class OpenRequest(msgspec.Struct, gc=False):
    """A request that waits for its answer. Among the open requests of a connection, later ones have higher numbers."""

    message: Message
    decoder: Decoder
    correlation_id: int
    owner: Owner | None = None
    number: int = 0


class ByCorrelationId:
    """Index of open requests: finds the oldest one with a correlation id.

    It is fast for any number of requests and any order of ids. It is not notified of changes: requests added since the
    last search have higher numbers than it has seen; a number that is no longer in the list was answered.
    """

    __slots__ = ("_added", "_last", "_numbers")

    def __init__(self) -> None:
        self._clear()

    def index_of(self, waiting: list[OpenRequest], correlation_id: int) -> int | None:
        """Return the index in the list; None if no request with this correlation id is open."""
        if self._added > 2 * len(waiting) + _STALE:
            self._clear()  # most of these requests were answered
        self._add_new(waiting)
        numbers = self._numbers.get(correlation_id, [])
        while numbers:
            index = bisect_left(waiting, numbers[0], key=_NUMBER_OF)
            if index < len(waiting) and waiting[index].number == numbers[0]:
                return index
            del numbers[0]
        return None

    def _clear(self) -> None:
        self._numbers: dict[int, list[int]] = {}
        self._added = 0
        self._last = -1

    def _add_new(self, waiting: list[OpenRequest]) -> None:
        for request in waiting[bisect_right(waiting, self._last, key=_NUMBER_OF) :]:
            self._numbers.setdefault(request.correlation_id, []).append(request.number)
            self._last = request.number
            self._added += 1
