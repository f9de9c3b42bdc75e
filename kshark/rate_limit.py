"""Limits for events that may repeat with every packet: report the first ones, count the rest (as Zeek does)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

from msgspec.structs import replace

from kshark import limits
from kshark.model import Weird

#: Codes of which one weird is as informative as many.
_ONCE: Final = frozenset({"SNAP_LENGTH_CUT"})
#: Codes whose `times` are packets: each weird has its own place, however many packets it stands for.
_OF_PACKETS: Final = frozenset({"PACKETS_DROPPED"})


class RateLimit:
    """Count events by key; the keys unused for longest restart at 0."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Hashable, int] = OrderedDict()

    def count(self, key: Hashable, times: int = 1) -> int:
        """Add to the key's count; return the count before."""
        before = self._counts.pop(key, 0)
        self._counts[key] = before + times
        if len(self._counts) > limits.RATIONED:
            self._counts.popitem(last=False)
        return before

    def is_due(self, key: Hashable, first: int = 1) -> bool:
        """Count an event; true if it is one of the `first`, or the tenth, the hundredth, and so on."""
        count = self.count(key) + 1
        return count <= first or str(count).rstrip("0") == "1"


class WeirdLimit(RateLimit):
    """Pass the first `limit` weirds of each code; `close` gives one more per code, which stands for the others."""

    def __init__(self, limit: int = limits.WEIRDS_PER_FLOW) -> None:
        super().__init__()
        self._limit = limit
        self._held: dict[str, Weird] = {}

    def take(self, weird: Weird) -> Iterator[Weird]:
        """Yield the weird, unless there were too many of its code.

        It may stand for several, from its `first_packet` to its `packet`.
        """
        times = 1 if weird.code in _OF_PACKETS else weird.times
        if self.count(weird.code, times) < (1 if weird.code in _ONCE else self._limit):
            yield weird
            return
        held = self._held.get(weird.code)
        begin = weird.packet if weird.first_packet is None else weird.first_packet
        first, size, times = (held.first_packet, held.size, held.times) if held is not None else (begin, 0, 0)
        self._held[weird.code] = replace(weird, first_packet=first, size=size + weird.size, times=times + weird.times)

    def close(self) -> Iterator[Weird]:
        """Yield one weird per code for all that were not passed, in the order of the last of them."""
        held_weirds = sorted(self._held.values(), key=lambda weird: (weird.packet, weird.code))
        self._held.clear()
        for held in held_weirds:
            yield replace(held, detail=f"{held.times} more, the last one: {held.detail}")
