"""Requests that wait for their answers: what is kept of each, and which of many has a correlation id."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Final

import msgspec

from kshark.exchange.decoding import Decoder
from kshark.exchange.owner import Owner
from kshark.model import Message

_NUMBER_OF: Final = attrgetter("number")

#: So many numbers of requests that were answered meanwhile may be kept, however few are open.
_STALE: Final = 64


class OpenRequest(msgspec.Struct, gc=False):
    """A request that waits for its answer. Among all that are open on its connection, later ones have higher
    numbers."""

    message: Message
    decoder: Decoder
    correlation_id: int
    owner: Owner | None = None
    number: int = 0


class ByCorrelationId:
    """Finds the oldest open request with a correlation id, however many are open and whatever order their ids are in.

    It is not told what comes and goes. Requests added since the last search are those with higher numbers than it has
    seen; a number that is not in the list any more was answered."""

    __slots__ = ("_added", "_last", "_numbers")

    def __init__(self) -> None:
        self._clear()

    def index_of(self, waiting: list[OpenRequest], correlation_id: int) -> int | None:
        """Where in the list it stands; None where no request with that correlation id is open."""
        if self._added > 2 * len(waiting) + _STALE:
            self._clear()  # most of it was answered
        self._add_new(waiting)
        numbers = self._numbers.get(correlation_id, [])
        while numbers:
            place = bisect_left(waiting, numbers[0], key=_NUMBER_OF)
            if place < len(waiting) and waiting[place].number == numbers[0]:
                return place
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
