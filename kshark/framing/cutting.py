"""Cut streams into frames: int32 length, then the message. Many streams are cut together, over one buffer.

Source: Kafka protocol guide, "Common Request and Response Structure".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.framing.streams import Report, Stream
from kshark.model import Frames
from kshark.reassembly import Run

if TYPE_CHECKING:
    from kshark.model import Int64s, UInt8s

#: A stream with an unusual frame length, and the bytes that are read again from there.
Broken = tuple[Stream, list[Run]]

_LENGTH: Final = Struct(">i").unpack_from
_UINT32: Final = Struct(">I").unpack_from


class Cuts:
    """The frames of one batch, in the order in which they were cut.

    `cut_all` cuts many streams at once; `cut_one` cuts a single stream that is searched piece by piece. Making columns
    costs as much for one frame as for many, so frames of single streams are kept as rows until `finished` makes columns
    of them.
    """

    def __init__(self) -> None:
        self._done: list[Frames] = []
        self._buffer: list[bytes] = []
        self._size = 0
        #: Streams that have rows, with their number in `Frames.flows`.
        self._streams: dict[Stream, int] = {}
        #: Stream, start, end, first packet and its time, last packet and its time, `knows`, True if marked RESYNC,
        #: `cut`, `dropped`, `long`.
        self._rows: list[tuple[int, int, int, int, int, int, int, int, bool, int, int, bool]] = []

    def cut_all(self, streams: Iterable[Stream], report: Report) -> list[Broken]:
        """Cut all these streams at once."""
        for stream in streams:
            if stream.skip:
                stream.can_be_cut(report)
                self.take_head(stream)
        self._make_columns()
        frames, broken = cut(streams, report)
        if frames is not None:
            self._done.append(frames)
        return broken

    def cut_one(self, stream: Stream, report: Report) -> list[Broken]:
        """Cut one stream."""
        can_be_cut = stream.can_be_cut(report)
        self.take_head(stream)
        if not can_be_cut:
            return []
        data = stream.joined()
        ends: list[int] = []
        at, invalid = _frames(stream, data, 0, len(data), ends)
        if ends:
            self._add(stream, data[:at], [4, *[end + 4 for end in ends[:-1]]], ends)
        stream.drop(at)
        return [] if invalid is None else [(stream, stream.break_off(invalid, report))]

    def take_head(self, stream: Stream) -> None:
        """Add the message that is over and of which only the head is kept, if the stream has one."""
        head = stream.ended_head
        if head is None:
            return
        stream.ended_head = None
        number, before = self._streams.setdefault(stream, len(self._streams)), self._size
        ends = before + 4, before + len(head.data)
        packets = head.packet, head.time_ns, head.last_packet, head.last_time_ns
        self._rows.append(
            (number, *ends, *packets, head.knows, bool(stream.confirm(1)), head.cut, head.dropped, head.long)
        )
        data = bytes(head.data)
        id_at = 8 if stream.by_client else 4
        ids = [head.last_packet << 32 | _UINT32(data, id_at)[0]] if len(data) >= id_at + 4 else []
        stream.remember(ids, data, [4] if head.names_client else [])
        self._buffer.append(data)
        self._size += len(head.data)

    def finished(self) -> list[Frames]:
        """Return all frames and keep none."""
        self._make_columns()
        done, self._done = self._done, []
        return done

    def _add(self, stream: Stream, data: bytes, starts: list[int], ends: list[int]) -> None:
        number = self._streams.setdefault(stream, len(self._streams))
        packet, time_ns, ready, ready_ns = stream.packet, stream.time_ns, stream.ready, stream.ready_ns
        knows = stream.knows
        edges, before = stream.edges() if len(packet) > 1 else None, self._size
        ids: list[int] = []
        unsure = stream.confirm(len(starts))
        for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
            first, last = (bisect_right(edges, start - 4) - 1, bisect_right(edges, end - 1) - 1) if edges else (0, 0)
            row = before + start, before + end, packet[first], time_ns[first], ready[last], ready_ns[last], knows[first]
            self._rows.append((number, *row, index < unsure, 0, 0, False))
            id_at = start + 4 if stream.by_client else start
            if id_at + 4 <= end:
                ids.append(ready[last] << 32 | _UINT32(data, id_at)[0])
        whole = ends[-1] - starts[-1] >= 4
        stream.remember(ids if stream.by_client else ids[-1:] if whole else [], data, starts)
        self._buffer.append(data)
        self._size += len(data)

    def _make_columns(self) -> None:
        if not self._rows:
            return
        *columns, unsure, cut_off, dropped, long = np.array(self._rows).T.copy()
        flows = [stream.flow for stream in self._streams]
        by_client = [stream.by_client for stream in self._streams]
        columns += unsure.astype(bool), cut_off, dropped, long.astype(bool)
        self._done.append(Frames(b"".join(self._buffer), flows, by_client, *columns))
        self._buffer, self._size, self._streams, self._rows = [], 0, {}, []


def cut(streams: Iterable[Stream], report: Report) -> tuple[Frames | None, list[Broken]]:
    """Cut whole frames off streams whose boundaries are known; the rest stays in the streams.

    A stream breaks where a frame's length is unusual. The bytes from there on are returned, to be read piece by piece.
    """
    ready = [stream for stream in streams if stream.can_be_cut(report)]
    if not ready:
        return None, []
    pieces = list(chain.from_iterable([stream.data for stream in ready]))
    packet = _column([stream.packet for stream in ready], len(pieces))
    time_ns = _column([stream.time_ns for stream in ready], len(pieces))
    came = _column([stream.ready for stream in ready], len(pieces))
    came_ns = _column([stream.ready_ns for stream in ready], len(pieces))
    knows = _column([stream.knows for stream in ready], len(pieces))
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    begins: list[int] = []
    ends: list[int] = []
    counts: list[int] = []
    broken: list[Broken] = []
    begin = 0
    for stream in ready:
        before, size, stop = len(ends), stream.size, begin + stream.size
        at, invalid = _frames(stream, data, begin, stop, ends)
        stream.drop(at - begin)
        if invalid is not None:
            broken.append((stream, stream.break_off(invalid, report)))
        counts.append(len(ends) - before)
        begins.append(begin)
        begin += size
    if not ends:
        return None, broken
    end, nothing = np.array(ends), np.zeros(len(ends), np.int64)
    start = _starts(begins, counts, end)
    edges = np.cumsum([0, *map(len, pieces)])[:-1]
    first, last = np.searchsorted(edges, start - 4, "right") - 1, np.searchsorted(edges, end - 1, "right") - 1
    done = Frames(
        buffer=data,
        flows=[stream.flow for stream in ready],
        by_client=[stream.by_client for stream in ready],
        stream=np.repeat(np.arange(len(ready)), counts),
        start=start,
        end=end,
        first_packet=packet[first],
        first_time_ns=time_ns[first],
        last_packet=came[last],
        last_time_ns=came_ns[last],
        knows=knows[first],
        resync=np.zeros(len(start), bool),
        cut=nothing,
        dropped=nothing,
        long=np.zeros(len(start), bool),
    )
    _remember(ready, counts, done)
    return done, broken


def _column(parts: list[list[int]], size: int) -> Int64s:
    return np.fromiter(chain.from_iterable(parts), np.int64, size)


def _starts(begins: list[int], counts: list[int], end: Int64s) -> Int64s:
    """Return where the messages begin: after the length that follows the message before, or begins their stream."""
    after = np.empty_like(end)
    after[1:] = end[:-1]
    count = np.array(counts)
    first = np.cumsum(count) - count
    after[first[count > 0]] = np.array(begins)[count > 0]
    return after + 4


def _frames(stream: Stream, data: bytes, at: int, stop: int, ends: list[int]) -> tuple[int, int | None]:
    """Append the ends of the whole frames from `at` on; return the last end, and the length there if it is unusual."""
    limit, need, last, add = stream.limit, 4, stop - 4, ends.append
    while at <= last:
        length = _LENGTH(data, at)[0]
        end = at + 4 + length
        if not 0 <= length <= limit:
            if not stream.allows(length):
                return at, length
            if end <= stop:
                stream.sound = 0
        if end > stop:
            need = 4 + length
            break
        add(end)
        at = end
    stream.need = need
    return at, None


def _remember(streams: list[Stream], counts: list[int], frames: Frames) -> None:
    """Keep in each stream the ids needed to find a boundary after a gap; mark frames after a searched boundary
    (RESYNC).
    """
    header_bytes = np.where(np.array([bool(side) for side in frames.by_client])[frames.stream], 4, 0)
    id_at = frames.start + header_bytes
    whole = id_at + 4 <= frames.end
    ids = (
        (frames.last_packet << 32) | _uint32(np.frombuffer(frames.buffer, np.uint8), np.where(whole, id_at, 0))
    ).tolist()
    short = set(np.flatnonzero(~whole).tolist())  # frames too short for a correlation id
    at = 0
    for stream, count in zip(streams, counts, strict=True):
        if count:
            if stream.unsure:
                frames.resync[at : at + stream.confirm(count)] = True
            rows = range(at if stream.by_client else at + count - 1, at + count)
            whole_ids = [ids[row] for row in rows if row not in short] if short else ids[rows.start : rows.stop]
            stream.remember(whole_ids, frames.buffer, map(int, frames.start[at : at + count]))
            at += count


def _uint32(view: UInt8s, position: Int64s) -> Int64s:
    value: Int64s = view[position].astype(np.int64)
    for byte in range(1, 4):
        value = value << 8 | view[position + byte]
    return value
