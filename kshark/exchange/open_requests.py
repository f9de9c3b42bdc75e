"""Requests that wait for their answers, and the search for one by its correlation id."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from itertools import islice
from operator import attrgetter
from typing import Final, SupportsIndex

import msgspec

from kshark.exchange.decoding import Decoder
from kshark.exchange.owner import Owner
from kshark.model import Message

_NUMBER_OF: Final = attrgetter("number")

#: Numbers of answered requests that may be kept, even if only few requests are open.
_STALE: Final = 64


class OpenRequest(msgspec.Struct, gc=False):
    """A request that waits for its answer. Among the open requests of a connection, later ones have higher numbers.

    `one_way`: it asks for no answer, as far as its beginning shows. `cost`: the bytes that count for limits.OPEN_BYTES;
    0 if no other request was open.
    """

    message: Message
    decoder: Decoder
    correlation_id: int
    owner: Owner | None = None
    number: int = 0
    cost: int = 0
    one_way: bool = False


class ManyOpen(deque[OpenRequest]):
    """The open requests of a connection with very many of them: the oldest one is removed in constant time."""

    def pop(self, index: SupportsIndex = -1) -> OpenRequest:
        """Remove a request, as from a list."""
        if index == 0:
            return self.popleft()
        request = self[index]
        del self[index]
        return request


OpenRequests = list[OpenRequest] | ManyOpen


class ByCorrelationId:
    """Index of open requests: finds the oldest one with a correlation id.

    It is fast for any number of requests and any order of ids. It is not notified of changes: requests added since the
    last search have higher numbers than it has seen; a number that is no longer in the list was answered.
    """

    __slots__ = ("_added", "_last", "_numbers")

    def __init__(self) -> None:
        self._clear()

    def index_of(self, waiting: OpenRequests, correlation_id: int) -> int | None:
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

    def _add_new(self, waiting: OpenRequests) -> None:
        for request in islice(waiting, bisect_right(waiting, self._last, key=_NUMBER_OF), None):
            self._numbers.setdefault(request.correlation_id, []).append(request.number)
            self._last = request.number
            self._added += 1
