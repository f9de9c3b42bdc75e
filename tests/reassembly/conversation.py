"""Conversations of segments: what each side sends with which numbers, and what reassembly makes of it.

talk = Talk().open()
talk.client(b"abc")
talk.client(b"ghi", at=6)
assert talk.heard().client == [b"abc", Hole(3, "at_close"), b"ghi"]
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kshark.model import (
    ACK,
    BEGIN,
    FIN,
    RST,
    SYN,
    Closed,
    Ends,
    Flow,
    Gap,
    HalfClosed,
    Late,
    Moment,
    Opened,
    Segments,
    Weird,
)
from kshark.reassembly import Item, Reassembly, Run, Runs

CLIENT, BROKER = 0, 1
ENDS = [Ends(f"10.0.0.{number}:50000", "10.0.0.9:9092") for number in range(1, 21)]
START_NS = 1_795_231_172_000_000_000
MILLISECOND = 1_000_000


class Piece(NamedTuple):
    """Bytes of one packet, in order, and the packet with which they were ready."""

    flow: int
    side: int
    data: bytes
    packet: int
    ready: int
    time_ns: int
    ready_ns: int
    #: The last packet of the other side that its sender had received.
    knows: int


class Hole(NamedTuple):
    """A gap as tests say it."""

    size: int
    reason: str


def pieces(item: Item) -> Iterator[Piece]:
    """The bytes that an item brings: the one place that knows in which forms they come."""
    if isinstance(item, Runs):
        for index in range(len(item.flow)):
            yield from pieces(item.run(index))
    elif isinstance(item, Run):
        columns = zip(item.data, item.packet, item.ready, item.time_ns, item.ready_ns, item.knows, strict=True)
        yield from (Piece(item.flow.id, item.side, *column) for column in columns)


@dataclass
class Row:
    packet: int
    time_ns: int
    path: int
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int
    window: int = 1


def columns(rows: Iterable[Row], clock_ns: int = 0) -> Segments:
    """Rows as the link stage hands them on; the clock stood at `clock_ns` before."""
    some = list(rows)
    lengths = np.array([len(row.payload) for row in some], np.int64)

    def column(name: str) -> Any:
        return np.array([getattr(row, name) for row in some], np.int64)

    return Segments(
        buffer=b"".join(row.payload for row in some),
        ends=ENDS,
        packet=column("packet"),
        time_ns=column("time_ns"),
        clock_ns=np.maximum(np.maximum.accumulate(column("time_ns")), clock_ns),
        path=column("path"),
        seq=column("seq"),
        ack=column("ack"),
        flags=column("flags").astype(np.uint8),
        offset=np.cumsum(lengths) - lengths,
        length=lengths,
        missing=column("missing"),
        window=column("window"),
    )


@dataclass
class Heard:
    """What came out: by flow and side the pieces and gaps, by flow all else, each in its order; and what was known
    late, in any order."""

    flows: list[Flow] = field(default_factory=list)
    streams: dict[tuple[int, int], list[Piece | Gap]] = field(default_factory=dict)
    events: list[Opened | HalfClosed | Closed | Weird] = field(default_factory=list)
    late: list[tuple[int, int, int]] = field(default_factory=list)

    def take(self, item: Item) -> None:
        for piece in pieces(item):
            self.streams.setdefault((piece.flow, piece.side), []).append(piece)
        if isinstance(item, Gap):
            self.streams.setdefault((item.flow.id, item.side), []).append(item)
        elif isinstance(item, (Opened, HalfClosed, Closed, Weird)):
            self.events.append(item)
            if isinstance(item, Opened):
                self.flows.append(item.flow)
        elif isinstance(item, Late):
            self.late.append((item.flow, item.since, item.packet))

    @property
    def client(self) -> list[bytes | Hole]:
        return self.of(CLIENT)

    @property
    def broker(self) -> list[bytes | Hole]:
        return self.of(BROKER)

    def of(self, side: int, flow: int = 0) -> list[bytes | Hole]:
        """A side's stream: bytes as long as they go on, and holes."""
        out: list[bytes | Hole] = []
        for part in self.streams.get((flow, side), []):
            if isinstance(part, Gap):
                out.append(Hole(part.size, part.reason))
            elif out and isinstance(out[-1], bytes):
                out[-1] += part.data
            else:
                out.append(part.data)
        return out

    def ready(self, side: int, flow: int = 0) -> list[tuple[bytes, int, int]]:
        """A side's pieces, the packet that carried each, and the one with which it was ready."""
        return [
            (part.data, part.packet, part.ready)
            for part in self.streams.get((flow, side), [])
            if isinstance(part, Piece)
        ]

    def knows(self, side: int, flow: int = 0) -> list[int]:
        """For each piece of a side, the last packet of the other side that its sender had received."""
        return [part.knows for part in self.streams.get((flow, side), []) if isinstance(part, Piece)]

    @property
    def gaps(self) -> list[tuple[int, int, int, int, int]]:
        """Side, size, the packets around each gap, and the one with which it was told; by flow and side."""
        parts = [part for stream in self.streams.values() for part in stream if isinstance(part, Gap)]
        return [(gap.side, gap.size, gap.first_packet, gap.last_packet, gap.packet) for gap in parts]

    @property
    def ends(self) -> list[tuple[Any, ...]]:
        """Openings and closings: ("opened", packet), ("half closed", packet, side), ("closed", packet, how, side)."""
        out: list[tuple[Any, ...]] = []
        for event in self.events:
            match event:
                case Opened():
                    out.append(("opened", event.packet))
                case HalfClosed():
                    out.append(("half closed", event.packet, event.side))
                case Closed():
                    out.append(("closed", event.packet, event.how, event.side))
        return out

    @property
    def weirds(self) -> list[tuple[str, int, int]]:
        """Code, packet and size of what is odd."""
        return [(event.code, event.packet, event.size) for event in self.events if isinstance(event, Weird)]

    def comparable(self) -> Any:
        """All of it as plain values; what happens to different connections has no order among them."""

        def value(thing: Any) -> Any:
            if isinstance(thing, tuple):
                return thing
            names = getattr(thing, "__struct_fields__", None) or thing.__slots__
            return {
                name: thing.flow.id if name == "flow" and not isinstance(thing, Weird) else getattr(thing, name)
                for name in names
            }

        events = [
            [(type(event).__name__, value(event)) for event in self.events if _flow_of(event) == number]
            for number in range(len(self.flows))
        ]
        flows = [{name: getattr(flow, name) for name in Flow.__slots__} for flow in self.flows]
        return {key: list(map(value, parts)) for key, parts in self.streams.items()}, events, flows, sorted(self.late)


def _flow_of(event: Opened | HalfClosed | Closed | Weird) -> int | None:
    return event.flow if isinstance(event, Weird) else event.flow.id


@dataclass
class Talk:
    """Segments in the order of the capture, a millisecond apart. `at` is a place in a side's stream (0: its first
    byte), `acked` in the other's; left out, each side goes on where it is and has received all."""

    isn: tuple[int, int] = (1_000, 5_000)
    rows: list[Row] = field(default_factory=list)
    time_ns: int = START_NS
    pair: int = 0
    sent: list[int] = field(default_factory=lambda: [0, 0])

    def send(
        self,
        side: int,
        payload: bytes = b"",
        *,
        at: int | None = None,
        acked: int | None = None,
        flags: int = ACK,
        missing: int = 0,
        window: int = 1,
    ) -> int:
        """Puts a segment on the wire; returns its packet's number."""
        place = self.sent[side] if at is None else at
        received = self.sent[1 - side] if acked is None else acked
        seq, ack = (self.isn[side] + 1 + place) & 0xFFFFFFFF, (self.isn[1 - side] + 1 + received) & 0xFFFFFFFF
        number = len(self.rows) + 1
        self.rows.append(
            Row(
                number,
                self.time_ns,
                self.pair << 1 | side,
                seq,
                ack if flags & ACK else 0,
                flags,
                payload,
                missing,
                window,
            )
        )
        self.time_ns += MILLISECOND
        self.sent[side] = max(self.sent[side], place + len(payload) + missing + bool(flags & (SYN | FIN)))
        return number

    def open(self, isn: tuple[int, int] | None = None) -> Talk:
        """The handshake; a new one with other numbers where the ports were used before."""
        if isn is not None:
            self.isn, self.sent = isn, [0, 0]
        self.send(CLIENT, at=-1, flags=SYN)
        self.send(BROKER, at=-1, flags=SYN | ACK)
        self.send(CLIENT)
        return self

    def client(self, payload: bytes = b"", **how: Any) -> int:
        return self.send(CLIENT, payload, **how)

    def broker(self, payload: bytes = b"", **how: Any) -> int:
        return self.send(BROKER, payload, **how)

    def fin(self, side: int, payload: bytes = b"", **how: Any) -> int:
        return self.send(side, payload, flags=FIN | ACK, **how)

    def rst(self, side: int, **how: Any) -> int:
        return self.send(side, flags=RST, **how)

    def pause(self, seconds: float) -> None:
        self.time_ns += int(seconds * 1e9)

    def and_again(self, later_s: float, *, without: Container[int] = (), missed: Container[int] = ()) -> Talk:
        """The same, captured a second time by a clock that is ahead: the first capture without these packets, the
        second missed those."""
        again = [
            replace(row, time_ns=row.time_ns + int(later_s * 1e9)) for row in self.rows if row.packet not in missed
        ]
        both = sorted([row for row in self.rows if row.packet not in without] + again, key=lambda row: row.time_ns)
        return replace(self, rows=[replace(row, packet=number) for number, row in enumerate(both, 1)])

    def fed(self, sizes: Iterable[int], *, exact: bool = False) -> Heard:
        """What is heard when the rows come in feeds of these sizes, the last of which takes the rest."""
        edges = [0]
        for size in sizes:
            edges.append(min(edges[-1] + size, len(self.rows)))
        edges.append(len(self.rows))
        stage, heard, end = Reassembly(exact=exact), Heard(), BEGIN
        for a, z in pairwise(edges):
            if a < z:
                segments = columns(self.rows[a:z], end.clock_ns)
                end = Moment(self.rows[z - 1].packet, int(segments.clock_ns[-1]))
                for item in stage.feed(segments).items:
                    heard.take(item)
        for item in stage.close(end).items:
            heard.take(item)
        return heard

    def heard(self) -> Heard:
        """What is heard; the same however the rows are fed, and by the exact way."""
        heard = self.fed([])
        expected = heard.comparable()
        assert self.fed([], exact=True).comparable() == expected
        assert self.fed([1] * len(self.rows)).comparable() == expected
        assert self.fed([len(self.rows) // 2]).comparable() == expected
        return heard
