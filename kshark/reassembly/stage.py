"""Segments to bytes in order: TCP connections, each direction joined by sequence number.

A direction whose segments of the batch are in order takes the short way: one vectorised comparison over the whole batch, then a slice a
segment. Both directions of a pair in which anything else happens (SYN, FIN, RST, a hole, a retransmission) go segment by segment, in the
order of the capture (kshark.reassembly.connections). Which way a segment takes changes nothing of what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kshark import limits
from kshark.model import ACK, FIN, RST, SYN, Ends, Flow, Opened, Segments, Side, Weird
from kshark.reassembly.connections import Connection, Item, Run, ahead

_MASK = 0xFFFFFFFF
_HALF = 1 << 31
_SPECIAL = SYN | FIN | RST
_ALL = SYN | FIN | RST | ACK


class Reassembly:
    """Owns the connections of a capture. `feed` gives runs of bytes, gaps, openings and closings; each flow's own are in order.

    `exact`: nothing takes the short way.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self._all_exact = exact
        self._connections: dict[int, Connection] = {}
        self._flows = 0
        self._clock_ns = 0
        self._packet = 0
        self._holed: dict[int, Connection] = {}
        #: Closed ones, oldest first: they are remembered for a while, so that a late segment opens no new connection.
        self._closed: dict[int, Connection] = {}

    def feed(self, segments: Segments, ends: Sequence[Ends]) -> list[Item]:
        out: list[Item] = []
        count = len(segments.packet)
        if not count:
            return out
        clock = np.maximum(np.maximum.accumulate(segments.time_ns), self._clock_ns)
        groups = _Groups(segments)
        slow = self._slow_pairs(groups)
        for index in range(len(groups.first)):
            if groups.paths[index] >> 1 not in slow:
                self._short(segments, groups, index, out)
        if slow:
            rows = np.sort(np.concatenate([groups.rows(i) for i in range(len(groups.first)) if groups.paths[i] >> 1 in slow]))
            self._exact(segments, rows, clock, ends, out)
        self._clock_ns = int(clock[-1])
        self._packet = int(segments.packet[-1])
        for pair, connection in list(self._holed.items()):
            connection.expire(self._clock_ns, out)
            if not connection.holed:
                del self._holed[pair]
        for item in out:
            if isinstance(item, Run):
                item.done()
        if len(self._connections) > limits.FLOWS:
            self._forget(out)
        return out

    def close(self) -> list[Item]:
        """The capture ends: holes become gaps, open connections are closed by it."""
        out: list[Item] = []
        for connection in sorted(self._connections.values(), key=lambda each: each.flow.id):
            connection.end("capture", self._packet, self._clock_ns, None, out)
        self._connections.clear()
        self._holed.clear()
        return out

    def holes(self) -> dict[int, int]:
        """Flows with a hole, and the first packet that waits behind it: what comes later is not certain to be in order yet."""
        return {connection.flow.id: connection.hole_packet() for connection in self._holed.values()}

    def _slow_pairs(self, groups: _Groups) -> set[int]:
        """Pairs of ends of which at least one direction is not simply the next bytes."""
        slow = set()
        connections = self._connections
        for path, plain, first_seq in zip(groups.paths, groups.plain, groups.first_seq, strict=True):
            connection = connections.get(path >> 1)
            if (
                self._all_exact
                or not plain
                or connection is None
                or connection.closed
                or connection.holed
                or connection.sides[path & 1].next != first_seq
                or connection.sides[1 - (path & 1)].next is None
            ):
                slow.add(path >> 1)
        return slow

    def _short(self, segments: Segments, groups: _Groups, index: int, out: list[Item]) -> None:
        """A direction in order: its state moves on at once, its payloads are slices."""
        path = groups.paths[index]
        connection = self._connections[path >> 1]
        side: Side = 1 if path & 1 else 0
        here, there = connection.sides[side], connection.sides[1 - side]
        flow = connection.flow
        last = groups.last[index]
        if last["packet"] > flow.last_packet:
            flow.last_packet, flow.last_time_ns = last["packet"], last["time_ns"]
        if there.next is not None and (there.acked is None or ahead(last["ack"], there.acked) > 0):
            there.acked = last["ack"]
        begin, end = groups.loaded[index], groups.loaded[index + 1]
        if begin == end:
            return
        buffer = segments.buffer
        starts, stops = groups.starts[begin:end], groups.stops[begin:end]
        packets, times = groups.packets[begin:end], groups.times[begin:end]
        out.append(Run(flow, side, [buffer[a:z] for a, z in zip(starts, stops, strict=True)], packets, times, packets, times))
        size = groups.sizes[index]
        here.next = last["next"]
        here.place += size
        flow.stream_bytes[side] += size
        here.last_packet = here.last_ready = packets[-1]
        here.last_ready_ns = times[-1]

    def _exact(self, segments: Segments, rows: NDArray[np.int64], clock: NDArray[np.int64], ends: Sequence[Ends], out: list[Item]) -> None:
        buffer = segments.buffer
        columns = zip(
            segments.path[rows].tolist(),
            segments.packet[rows].tolist(),
            segments.time_ns[rows].tolist(),
            clock[rows].tolist(),
            segments.seq[rows].tolist(),
            segments.ack[rows].tolist(),
            segments.flags[rows].tolist(),
            segments.offset[rows].tolist(),
            segments.length[rows].tolist(),
            segments.missing[rows].tolist(),
            strict=True,
        )
        for path, packet, time_ns, clock_ns, seq, ack, flags, offset, length, missing in columns:
            pair = path >> 1
            side: Side = 1 if path & 1 else 0
            connection = self._connections.get(pair)
            # 1 us instead of 5 for a segment that is simply the next one: short connections consist of little else
            if connection is not None and flags & _ALL == ACK and not missing and connection.next_is(side, seq):
                connection.extend(side, packet, time_ns, ack, buffer[offset : offset + length], out)
                continue
            if connection is None or (flags & SYN and connection.is_another(side, seq, time_ns)):
                if connection is not None:
                    connection.end("reused", packet, time_ns, side, out)
                connection = self._open(pair, packet, time_ns, ends[pair], out)
            connection.feed(side, packet, time_ns, clock_ns, seq, ack, flags, buffer[offset : offset + length], missing, out)
            if connection.closed and pair not in self._closed:
                self._retire(pair, connection)
            if connection.holed:
                self._holed[pair] = connection
            elif pair in self._holed:
                del self._holed[pair]

    def _open(self, pair: int, packet: int, time_ns: int, ends: Ends, out: list[Item]) -> Connection:
        flow = Flow(self._flows, ends, packet, time_ns)
        self._flows += 1
        connection = self._connections[pair] = Connection(flow)
        self._holed.pop(pair, None)
        self._closed.pop(pair, None)
        out.append(Opened(flow, packet, time_ns))
        return connection

    def _retire(self, pair: int, connection: Connection) -> None:
        self._closed[pair] = connection
        if len(self._closed) > limits.CLOSED_FLOWS:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            self._connections.pop(oldest, None)

    def _forget(self, out: list[Item]) -> None:
        """Makes room: closed connections go first, then those idle for longest."""
        ranked = sorted(self._connections.items(), key=lambda item: (not item[1].closed, item[1].flow.last_packet))
        for pair, connection in ranked[: limits.FLOWS // 10]:
            if not connection.closed:
                text = f"{connection.flow.ends.first} - {connection.flow.ends.second}"
                out.append(Weird("FLOWS_FORGOTTEN", "reassembly", self._packet, self._clock_ns, text, connection.flow.id))
                connection.end("forgotten", self._packet, self._clock_ns, None, out)
            del self._connections[pair]
            self._holed.pop(pair, None)


class _Groups:
    """The segments of a batch by path: what the short way needs of each group, computed for all at once."""

    def __init__(self, segments: Segments) -> None:
        order = np.argsort(segments.path, kind="stable")
        path = segments.path[order]
        cut = np.flatnonzero(path[1:] != path[:-1]) + 1
        self.first = np.concatenate(([0], cut))
        self._order = order
        self._last = np.concatenate((cut, [len(path)])) - 1
        self.paths: list[int] = path[self.first].tolist()
        seq, length = segments.seq[order], segments.length[order]
        due = (seq + length) & _MASK
        in_order = np.ones(len(path), bool)
        in_order[1:] = seq[1:] == due[:-1]
        ack = segments.ack[order]
        in_order[1:] &= (ack[1:] - ack[:-1]) & _MASK < _HALF
        in_order[self.first] = True
        flags = segments.flags[order]
        simple = in_order & ((flags & _SPECIAL) == 0) & ((flags & ACK) != 0) & (segments.missing[order] == 0)
        self.plain: list[bool] = np.logical_and.reduceat(simple, self.first).tolist()
        self.first_seq: list[int] = seq[self.first].tolist()
        self.sizes: list[int] = np.add.reduceat(length, self.first).tolist()
        tails = order[self._last]
        names = ("packet", "time_ns", "ack", "next")
        columns = (segments.packet[tails], segments.time_ns[tails], segments.ack[tails], due[self._last])
        self.last = [dict(zip(names, row, strict=True)) for row in zip(*(column.tolist() for column in columns), strict=True)]
        loaded = np.flatnonzero(length > 0)
        rows = order[loaded]
        self.loaded: list[int] = np.searchsorted(loaded, np.append(self.first, len(path))).tolist()
        offset = segments.offset[rows]
        self.starts: list[int] = offset.tolist()
        self.stops: list[int] = (offset + segments.length[rows]).tolist()
        self.packets: list[int] = segments.packet[rows].tolist()
        self.times: list[int] = segments.time_ns[rows].tolist()

    def rows(self, index: int) -> NDArray[np.int64]:
        """The group's rows in the batch."""
        return self._order[self.first[index] : self._last[index] + 1]
