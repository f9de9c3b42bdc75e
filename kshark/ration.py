"""Weirds that may repeat with every packet: the first ones are passed on, the rest is counted (as Zeek does)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kshark.limits import WEIRDS_PER_FLOW
from kshark.model import Weird

#: One of these is as good as many.
_ONCE: Final = frozenset({"SNAP_LENGTH_CUT"})


class Ration:
    """Passes the first `limit` weirds of each code; `close` gives one more per code, which stands for all others.

    Rations can be joined: what those of a capture's ranges pass, and `held`, one range after the other, is taken by one
    for the whole."""

    def __init__(self, limit: int = WEIRDS_PER_FLOW) -> None:
        self._limit = limit
        self._seen: dict[str, int] = {}
        self._held: dict[str, Weird] = {}

    def take(self, weird: Weird) -> Iterator[Weird]:
        """The weird, unless there were too many of its code; it may stand for several, from its `first_packet` to its
        `packet`."""
        seen = self._seen.get(weird.code, 0)
        self._seen[weird.code] = seen + weird.times
        if seen < (1 if weird.code in _ONCE else self._limit):
            yield weird
            return
        held = self._held.get(weird.code)
        begin = weird.packet if weird.first_packet is None else weird.first_packet
        first, size, times = (held.first_packet, held.size, held.times) if held is not None else (begin, 0, 0)
        self._held[weird.code] = replace(weird, first_packet=first, size=size + weird.size, times=times + weird.times)

    def held(self) -> Iterator[Weird]:
        """By code, what stands for all that were not passed, in the order of the last of them."""
        yield from sorted(self._held.values(), key=lambda weird: (weird.packet, weird.code))
        self._held.clear()

    def close(self) -> Iterator[Weird]:
        for held in self.held():
            yield replace(held, detail=f"{held.times} more, the last one: {held.detail}")
