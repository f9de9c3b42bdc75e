"""The results of reassembly: ordered bytes, as pieces with their packets, and the events of connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, final

from msgspec import Struct, field

from kshark.model import Closed, Flow, Gap, HalfClosed, Late, Opened, Side, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s


class Grower(Protocol):
    """The side of a connection whose run is still growing."""

    run: Run | None


@final
class Run(Struct, eq=False):
    """Ordered bytes of one direction: pieces with their packet and time, and the packet and time at which each was
    ready.

    `knows`: the last packet of the other side that the sender of the piece had certainly received when it sent it, by
    the acknowledgement in the same segment (RFC 9293, 3.4): 0 if none, -1 if unknown.
    """

    flow: Flow
    side: Side
    data: list[bytes]
    packet: list[int]
    time_ns: list[int]
    ready: list[int]
    ready_ns: list[int]
    knows: list[int]
    #: The side that may still add pieces; None once the run is delivered.
    grower: Grower | None = None

    def add(self, data: bytes, packet: int, time_ns: int, ready: int, ready_ns: int, knows: int) -> None:
        self.data.append(data)
        self.packet.append(packet)
        self.time_ns.append(time_ns)
        self.ready.append(ready)
        self.ready_ns.append(ready_ns)
        self.knows.append(knows)

    def pieces(self) -> Iterator[tuple[bytes, int, int, int, int, int]]:
        """Yield for each piece the values of its columns, in their order."""
        return zip(self.data, self.packet, self.time_ns, self.ready, self.ready_ns, self.knows, strict=True)

    def done(self) -> None:
        if self.grower is not None:
            self.grower.run = None
            self.grower = None


@final
class Runs(Struct, eq=False):
    """The runs of many directions as columns; each piece was ready at its own packet.

    One value a direction: flow, side, size in bytes, and its pieces `first` to `end` (exclusive). One value a piece:
    `start` and `stop` in `buffer`, packet, time, `knows` as in Run. Some pieces may belong to no direction.
    """

    buffer: bytes
    start: list[int]
    stop: list[int]
    packet: list[int]
    time_ns: list[int]
    knows: list[int]
    flow: list[Flow] = field(default_factory=list)
    side: list[Side] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)

    def add(self, flow: Flow, side: Side, size: int, first: int, end: int) -> None:
        self.flow.append(flow)
        self.side.append(side)
        self.size.append(size)
        self.first.append(first)
        self.end.append(end)

    def pieces(self, first: int, end: int) -> list[bytes]:
        buffer = self.buffer
        return [buffer[a:z] for a, z in zip(self.start[first:end], self.stop[first:end], strict=True)]

    def run(self, index: int) -> Run:
        """Return one direction as a Run."""
        first, end = self.first[index], self.end[index]
        packet, time_ns, knows = self.packet[first:end], self.time_ns[first:end], self.knows[first:end]
        return Run(self.flow[index], self.side[index], self.pieces(first, end), packet, time_ns, packet, time_ns, knows)


class Hole(Struct, frozen=True):
    """A hole that may still be filled.

    `packet` is the first packet that waits after it, in either direction. `held_from` is the packet from which on other
    connections are held for it; None if they are not held (any more).
    """

    packet: int
    held_from: int | None


#: The items of one connection stand in the order of `feed`; a Late may stand anywhere among them.
Item = Run | Runs | Gap | Late | Weird | Opened | HalfClosed | Closed


class Chunks(NamedTuple):
    """The result of one batch of segments, from reassembly through tls to framing.

    `holes`, by flow: the connections that wait for missing bytes after this batch. `packets` and `clock_ns` are columns
    of the batch: its packets, and the clock at each.
    """

    items: list[Item]
    holes: dict[int, Hole]
    packets: Int64s
    clock_ns: Int64s
