"""Turn packets into TCP segments: ordinary packets as columns, the others one by one, and every packet counted.

Checksums are not verified: offloading makes them wrong in many captures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.link.clock import Clock
from kshark.link.columns import KEY_WORDS, Columns, Ordinary, Others, ordinary
from kshark.link.ends import EndsTable
from kshark.link.fragments import Fragments, Lost, Whole
from kshark.link.ip import UDP, other_protocol
from kshark.link.layers import read_datagram, read_packet
from kshark.link.packet import Fault, Fragment, Other, ReadResult, Segment
from kshark.link.ticks import Ticks
from kshark.link.unread import Unread
from kshark.model import BEGIN, Moment, PacketBatch, Segments, Tick, Weird
from kshark.rate_limit import WeirdLimit

if TYPE_CHECKING:
    from kshark.model import Int64s


#: Depth of fragmented IP packets inside fragments of others.
FRAGMENTS_IN_FRAGMENTS: Final = 4


class Link:
    """The stage between capture and reassembly. Segments are in capture order, including those without payload.

    `packets` counts all; `tcp` those that became segments; `fragments` those that wait for the rest of their IP packet
    or became part of one; `other` those without TCP by kind; `unread` those with a fault by its code. The last four add
    up to the first. `exact`: each packet is read by itself. `end` is the position of the
    last packet so far. `pieces`, if it is a list, gets the numbers
    of packets that are IP fragments.
    """

    def __init__(self, *, exact: bool = False, pieces: list[int] | None = None) -> None:
        self.end = BEGIN
        self.pieces = pieces
        self._exact = exact
        self.packets = 0
        self.tcp = 0
        self.fragments = 0
        self.unread: Counter[str] = Counter()
        self._kinds = Unread()
        self._fragments = Fragments()
        self._table = EndsTable()
        self._clock = Clock()
        self._ticks = Ticks()
        #: Weirds of the capture, which may concern packets of the next batch.
        self._of_capture: list[Weird] = []
        self._given_up: list[Weird] = []
        self._limit = WeirdLimit()

    @property
    def other(self) -> Counter[str]:
        """Packets without TCP, by kind."""
        return self._kinds.counts

    @property
    def ends(self) -> EndsTable:
        """The ends of each pair, by path >> 1; empty for a forgotten pair, whose path does not occur again."""
        return self._table

    def feed(self, batch: PacketBatch | Weird) -> tuple[Segments | None, list[Weird]]:
        """Return the batch's TCP segments (None if it has none), and the faults of its packets.

        A Weird of the capture is passed on with the next batch.
        """
        if isinstance(batch, Weird):
            self._of_capture.append(batch)
            self._ticks.note(batch)
            return None, []
        weirds, self._of_capture = self._of_capture, []
        self.packets += len(batch.number)
        if len(batch.number) == 0:
            return None, weirds
        clock = np.maximum(np.maximum.accumulate(batch.time_ns), self.end.clock_ns)
        self.end = Moment.at(int(batch.number[-1]), int(clock[-1]), int(batch.time_ns[-1]))
        self._ticks.packets(self.end)
        parts, others, left = ordinary(batch) if not self._exact else Ordinary([], [], np.arange(len(batch.number)))
        for other in others:
            self._others(batch, other)
        buffer = batch.buffer
        if len(left):
            one_by_one = _OneByOne(batch, clock)
            for row, result in one_by_one.read(left):
                if isinstance(result, Segment) and not result.short:
                    one_by_one.segments.append((row, result))
                else:
                    weirds.extend(self._count(one_by_one, row, result))
            parts.append(_columns(one_by_one.segments))
            buffer = one_by_one.buffer
        columns = _in_order(parts)
        weirds += self._clock.feed(batch, buffer, columns)
        self.tcp += len(columns.row)
        if len(columns.row) == 0:
            return None, weirds
        forgotten = self._table.forgotten
        segments = Segments(
            buffer=buffer,
            ends=self._table,
            packet=batch.number[columns.row],
            time_ns=batch.time_ns[columns.row],
            clock_ns=clock[columns.row],
            path=self._table.paths(columns.key),
            seq=columns.seq,
            ack=columns.ack,
            flags=columns.flags,
            window=columns.window,
            offset=columns.offset,
            length=columns.length,
            missing=columns.missing,
        )
        weirds.extend(self._snapped(segments))
        if self._table.forgotten > forgotten:
            detail = f"{self._table.forgotten - forgotten} pairs of ends"
            weirds.append(Weird("ENDS_FORGOTTEN", "link", int(segments.packet[-1]), int(segments.time_ns[-1]), detail))
        return segments, weirds

    def tick(self, tick: Tick) -> tuple[Tick | None, list[Weird]]:
        """Return the time up to which nothing more comes, and the weirds of the capture; let its clock go on.

        None: the tick proves nothing. After packets were dropped, it proves nothing of what they had.
        """
        weirds, self._of_capture = self._of_capture, []
        if not self.end.packet:
            return None, weirds
        clock_ns = self._ticks.tick(tick.time_ns, self.end.clock_ns)
        if clock_ns == self.end.clock_ns:
            return None, weirds
        self.end = Moment.at(self.end.packet, clock_ns, self.end.time_ns)
        return Tick(clock_ns) if self._ticks.is_whole else None, weirds

    def close(self) -> Iterator[Weird]:
        """Yield the weirds held back by their limit, and the packets that were not read."""
        yield from self._unfinished()
        yield from self._limit.close()
        yield from self._kinds.close()

    def _others(self, batch: PacketBatch, others: Others) -> None:
        """Count packets without TCP by protocol."""
        for protocol in np.flatnonzero(np.bincount(others.protocol)).tolist():
            rows = others.row[others.protocol == protocol]
            first, last = int(rows.min()), int(rows.max())
            kind = Other("UDP") if protocol == UDP else other_protocol(protocol)
            at = int(batch.number[last]), int(batch.time_ns[last])
            self._kinds.add(kind, *at, len(rows), int(batch.length[rows].sum()), int(batch.number[first]))

    def _count(self, rows: _OneByOne, row: int, result: ReadResult) -> Iterator[Weird]:
        """Process the result of a packet read by itself; yield its faults."""
        batch = rows.batch
        source, base = batch.buffer, 0
        for _ in range(FRAGMENTS_IN_FRAGMENTS):
            if not isinstance(result, Fragment):
                break
            whole = self._piece(rows, row, result, source)
            if whole is None:
                return
            source, base = whole.payload, rows.room
            result = read_datagram(whole.datagram, whole.payload, whole.size)
        match result:
            case Segment() as segment:
                if base:
                    segment = segment._replace(offset=segment.offset + base)
                    rows.beside(source)
                rows.segments.append((row, segment))
                if segment.short:
                    detail = f"{segment.short} bytes fewer than its IP header says"
                    yield from self._weird(batch, row, "PACKET_TOO_SHORT", detail, segment.short)
            case Other() as other:
                self._kinds.add(other, int(batch.number[row]), int(batch.time_ns[row]), 1, int(batch.length[row]))
            case Fault(code, detail):
                self.unread[code] += 1
                yield from self._weird(batch, row, code, detail, int(batch.length[row]))
            case Fragment():
                self.unread["HEADERS_LIMIT"] += 1
                yield from self._weird(batch, row, "HEADERS_LIMIT", "fragments in fragments", int(batch.length[row]))

    def _piece(self, rows: _OneByOne, row: int, piece: Fragment, source: bytes) -> Whole | None:
        """Add a piece of an IP packet; return the packet if this completes it."""
        self.fragments += 1
        number, time_ns = int(rows.batch.number[row]), int(rows.batch.time_ns[row])
        if self.pieces is not None:
            self.pieces.append(number)
        data = source[piece.offset : piece.offset + piece.length]
        whole, lost = self._fragments.add(piece, data, number, time_ns, int(rows.clock[row]))
        self._lost(lost)
        self.fragments -= whole is not None
        return whole

    def _lost(self, lost: Iterable[Lost]) -> None:
        """Count packets whose fragments were given up.

        The packet at which that shows depends on other packets, so they are reported at the end.
        """
        for datagram in lost:
            self.fragments -= datagram.fragments
            self.unread["IP_FRAGMENT"] += datagram.fragments
            size = datagram.size
            detail = f"{datagram.fragments} fragments of {size} bytes: {datagram.why}"
            weird = Weird(
                "IP_FRAGMENT", "link", datagram.number, datagram.time_ns, detail, size=size, times=datagram.fragments
            )
            self._given_up += self._limit.take(weird)

    def _unfinished(self) -> Iterator[Weird]:
        yield from self._of_capture
        self._of_capture.clear()
        self._lost(self._fragments.close())
        yield from self._given_up
        self._given_up.clear()

    def _weird(self, batch: PacketBatch, row: int, code: str, detail: str, size: int) -> Iterator[Weird]:
        return self._limit.take(Weird(code, "link", int(batch.number[row]), int(batch.time_ns[row]), detail, size=size))

    def _snapped(self, segments: Segments) -> Iterator[Weird]:
        """Report the first cut packet by itself, those after it together."""
        rows = np.flatnonzero(segments.missing)
        for part in (rows[:1], rows[1:]):
            if len(part):
                size = int(segments.missing[part].sum())
                packet, time_ns = int(segments.packet[part[-1]]), int(segments.time_ns[part[-1]])
                detail = f"{int(segments.missing[part[-1]])} bytes of its payload"
                first = int(segments.packet[part[0]])
                weird = Weird(
                    "SNAP_LENGTH_CUT", "link", packet, time_ns, detail, first_packet=first, size=size, times=len(part)
                )
                yield from self._limit.take(weird)


class _OneByOne:
    """Rows of a batch that are read one by one: the segments found, and the buffer with the reassembled packets."""

    def __init__(self, batch: PacketBatch, clock: Int64s) -> None:
        self.batch = batch
        self.clock = clock
        self.segments: list[tuple[int, Segment]] = []
        self._beside: list[bytes] = []
        #: Position of the next reassembled packet.
        self.room = len(batch.buffer)

    def read(self, rows: Int64s) -> Iterator[tuple[int, ReadResult]]:
        """Yield the result of each row."""
        batch = self.batch
        columns = (column[rows].tolist() for column in (batch.offset, batch.length, batch.wire_length, batch.link_type))
        for row, *location in zip(rows.tolist(), *columns, strict=True):
            yield row, read_packet(batch.buffer, *location)

    def beside(self, payload: bytes) -> None:
        """Append a reassembled payload to the buffer."""
        self._beside.append(payload)
        self.room += len(payload)

    @property
    def buffer(self) -> bytes:
        return b"".join([self.batch.buffer, *self._beside]) if self._beside else self.batch.buffer


def _columns(segments: list[tuple[int, Segment]]) -> Columns:
    keys = np.frombuffer(b"".join(segment.key for _, segment in segments), "<u8").reshape(-1, KEY_WORDS)
    rows = np.array([(row, *segment[1:8]) for row, segment in segments], np.int64).reshape(-1, 8)
    row, seq, ack, flags, window, offset, length, missing = np.ascontiguousarray(rows.T)
    return Columns(row, np.ascontiguousarray(keys.T), seq, ack, flags.astype(np.uint8), window, offset, length, missing)


def _in_order(parts: list[Columns]) -> Columns:
    """Join all parts, ordered by row."""
    filled = [part for part in parts if len(part.row)] or parts[:1]
    if len(filled) == 1:
        return filled[0]
    order = np.argsort(np.concatenate([part.row for part in filled]), kind="stable")

    def column(name: str) -> Int64s:
        joined: Int64s = np.concatenate([getattr(part, name) for part in filled])[order]
        return joined

    return Columns(
        row=column("row"),
        key=np.concatenate([part.key for part in filled], axis=1)[:, order],
        seq=column("seq"),
        ack=column("ack"),
        flags=column("flags").astype(np.uint8),
        window=column("window"),
        offset=column("offset"),
        length=column("length"),
        missing=column("missing"),
    )
