"""Packets to TCP segments: the columns of ordinary packets, the others one by one, and every packet accounted for.

Checksums are not verified: offloading makes them wrong in every second capture. IP fragments are not put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kshark.link.columns import KEY_WORDS, Columns, Ordinary, ordinary
from kshark.link.disorder import Disorder
from kshark.link.ends import EndsTable
from kshark.link.layers import Fault, Other, Segment, other_protocol, read_packet
from kshark.model import BEGIN, Moment, PacketBatch, Segments, Weird
from kshark.ration import Ration

if TYPE_CHECKING:
    from kshark.model import Int64s


class Link:
    """The stage between capture and reassembly. Segments come in capture order, those without payload included.

    `packets` counts all, `tcp` those that became segments, `other` those without TCP by kind, `unread` those with a fault by its code:
    the last three add up to the first. `exact`: no packet counts as ordinary, each is read by itself. `begin`: where the packets begin, of
    one range of a capture; `end` is the last one so far.
    """

    def __init__(self, *, exact: bool = False, begin: Moment = BEGIN) -> None:
        self.end = begin
        self._exact = exact
        self.packets = 0
        self.tcp = 0
        self.other: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self._table = EndsTable()
        self._disorder = Disorder()
        self._ration = Ration()

    @property
    def ends(self) -> EndsTable:
        """By path >> 1, the ends of each pair; empty for one forgotten, whose path does not occur again."""
        return self._table

    def feed(self, batch: PacketBatch) -> tuple[Segments | None, list[Weird]]:
        """The batch's TCP segments, None where it has none, and what is wrong with its packets."""
        self.packets += len(batch.number)
        if len(batch.number) == 0:
            return None, []
        clock = np.maximum(np.maximum.accumulate(batch.time_ns), self.end.clock_ns)
        self.end = Moment(int(batch.number[-1]), int(clock[-1]))
        parts, others, left = ordinary(batch) if not self._exact else Ordinary([], Counter(), np.arange(len(batch.number)))
        for protocol, count in others.items():
            self.other[other_protocol(protocol).kind] += count
        weirds = [*self._disorder.told(batch, clock)]
        if len(left):
            parts.append(self._one_by_one(batch, left, weirds))
        columns = _in_order(parts)
        self.tcp += len(columns.row)
        if len(columns.row) == 0:
            return None, weirds
        forgotten = self._table.forgotten
        segments = Segments(
            buffer=batch.buffer,
            packet=batch.number[columns.row],
            time_ns=batch.time_ns[columns.row],
            clock_ns=clock[columns.row],
            path=self._table.paths(columns.key),
            seq=columns.seq,
            ack=columns.ack,
            flags=columns.flags,
            offset=columns.offset,
            length=columns.length,
            missing=columns.missing,
        )
        weirds.extend(self._snapped(segments))
        if self._table.forgotten > forgotten:
            detail = f"{self._table.forgotten - forgotten} pairs of ends"
            weirds.append(Weird("ENDS_FORGOTTEN", "link", int(segments.packet[-1]), int(segments.time_ns[-1]), detail))
        return segments, weirds

    def close(self) -> Iterator[Weird]:
        """What was held back because it came too often."""
        yield from self._ration.close()

    def held(self) -> Iterator[Weird]:
        """The same of one range of a capture, for a Ration of the whole."""
        return self._ration.held()

    def _one_by_one(self, batch: PacketBatch, rows: Int64s, weirds: list[Weird]) -> Columns:
        where = zip(
            rows.tolist(),
            *(column[rows].tolist() for column in (batch.offset, batch.length, batch.wire_length, batch.link_type)),
            strict=True,
        )
        found: list[tuple[int, Segment]] = []
        for row, offset, length, wire_length, link_type in where:
            match read_packet(batch.buffer, offset, length, wire_length, link_type):
                case Segment() as segment:
                    found.append((row, segment))
                    if segment.short:
                        detail = f"{segment.short} bytes fewer than its IP header says"
                        weirds.extend(self._weird(batch, row, "PACKET_TOO_SHORT", detail, segment.short))
                case Other(kind):
                    self.other[kind] += 1
                case Fault(code, detail):
                    self.unread[code] += 1
                    weirds.extend(self._weird(batch, row, code, detail, length))
        return _columns(found)

    def _weird(self, batch: PacketBatch, row: int, code: str, detail: str, size: int) -> Iterator[Weird]:
        return self._ration.take(Weird(code, "link", int(batch.number[row]), int(batch.time_ns[row]), detail, size=size))

    def _snapped(self, segments: Segments) -> Iterator[Weird]:
        """The first packet by itself, those behind it together."""
        rows = np.flatnonzero(segments.missing)
        for part in (rows[:1], rows[1:]):
            if len(part):
                size = int(segments.missing[part].sum())
                packet, time_ns = int(segments.packet[part[-1]]), int(segments.time_ns[part[-1]])
                detail = f"{int(segments.missing[part[-1]])} bytes of its payload"
                first = int(segments.packet[part[0]])
                weird = Weird("SNAP_LENGTH_CUT", "link", packet, time_ns, detail, first_packet=first, size=size, times=len(part))
                yield from self._ration.take(weird)


def _columns(found: list[tuple[int, Segment]]) -> Columns:
    keys = np.frombuffer(b"".join(segment.key for _, segment in found), "<u8").reshape(-1, KEY_WORDS)
    rows = np.array([(row, *segment[1:7]) for row, segment in found], np.int64).reshape(-1, 7)
    row, seq, ack, flags, offset, length, missing = np.ascontiguousarray(rows.T)
    return Columns(row, np.ascontiguousarray(keys.T), seq, ack, flags.astype(np.uint8), offset, length, missing)


def _in_order(parts: list[Columns]) -> Columns:
    """All parts as one, by row."""
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
        offset=column("offset"),
        length=column("length"),
        missing=column("missing"),
    )
