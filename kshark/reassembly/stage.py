"""Turn segments into ordered bytes: TCP connections, each direction joined by sequence number.

If both directions of a connection are in order, its segments take the fast path: one vectorised comparison over the
whole batch (kshark.reassembly.fast_path). All others (a SYN, a FIN, a hole, a retransmission) are read one by one, in
capture order (kshark.reassembly.connections). The path of a segment does not change the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark import limits
from kshark.model import ACK, FIN, RST, SYN, Ends, EndsOf, Flow, Moment, Opened, Segments, Side, Weird
from kshark.reassembly.connections import TcpConnection
from kshark.reassembly.copies import Copies
from kshark.reassembly.directions import NONE, Direction, Segment
from kshark.reassembly.fast_path import FastPath, Stretches
from kshark.reassembly.past import Past
from kshark.reassembly.runs import Chunks, Hole, Item, Run, Runs
from kshark.reassembly.stalls import PacketTimes, Stalls, closed_windows

if TYPE_CHECKING:
    from kshark.model import Int64s
    from kshark.reassembly.measuring import Measuring

_ALL: Final = SYN | FIN | RST | ACK
_NO_ROWS: Final = np.empty(0, np.int64)


class Reassembly:
    """Owns the connections of a capture.

    `feed` and `close` return runs of bytes, gaps, openings and closings; the items of each flow are in order. Weirds of
    earlier stages are passed on before them. `exact`: no segment takes the fast path. `measuring`: fill Flow.transport.
    """

    def __init__(self, *, exact: bool = False, measuring: bool = False) -> None:
        self._all_exact = exact
        self._measuring: Measuring | None = None
        if measuring:
            from kshark.reassembly.measuring import Measuring  # imported only on request

            self._measuring = Measuring()
        self._connections: dict[int, TcpConnection] = {}
        self._flows = 0
        self._clock_ns = 0
        self._packet = 0
        self._holed: dict[int, TcpConnection] = {}
        self._past = Past()
        #: The connections with trouble (kshark.reassembly.stalls), and the paths of the batch's packets that close a
        #: window: these connections do not take the fast path.
        self._stalled: set[int] = set()
        self._closing: dict[int, int] = {}
        self._times = PacketTimes()
        #: Segments since unacknowledged packets were counted last.
        self._uncounted = 0

    def feed(self, segments: Segments | None, weirds: Iterable[Weird] = ()) -> Chunks:
        """Return the chunks of a batch; `segments` None means that it has no TCP."""
        out: list[Item] = [*weirds]
        if segments is None or not len(segments.packet):
            return Chunks(out, self._holes(), _NO_ROWS, _NO_ROWS)
        self._take(segments, out)
        return Chunks(out, self._holes(), segments.packet, segments.clock_ns)

    def _take(self, segments: Segments, out: list[Item]) -> None:
        self._times.add(segments)
        rows = closed_windows(segments)
        self._closing = (
            {} if rows is None else dict(zip(segments.packet[rows].tolist(), segments.path[rows].tolist(), strict=True))
        )
        if self._all_exact:
            self._exact(segments, np.arange(len(segments.packet)), out)
        else:
            fast = FastPath(segments, self._connections)
            self._exact(segments, fast.before, out)
            stretches = fast.stretches()
            failed = set() if stretches is None else self._fast(segments.buffer, stretches, out)
            self._exact(segments, fast.after(failed), out)
        if self._measuring is not None:
            self._measuring.feed(segments)
        self._clock_ns = int(segments.clock_ns[-1])
        self._packet = int(segments.packet[-1])
        self._expire(self._clock_ns, out)
        self._make_room(out)
        self._uncounted += len(segments.packet)
        if self._uncounted > limits.UNACKED_PACKETS:
            self._forget_unacked()
        for item in out:
            if type(item) is Run:
                item.done()
        if len(self._connections) > limits.FLOWS:
            self._forget(out)

    def tick(self, clock_ns: int, weirds: Iterable[Weird] = ()) -> Chunks:
        """Return the chunks that are certain because no packet came until then."""
        out: list[Item] = [*weirds]
        self._clock_ns = max(self._clock_ns, clock_ns)
        self._expire(self._clock_ns, out)
        for item in out:
            if type(item) is Run:
                item.done()
        return Chunks(out, self._holes(), _NO_ROWS, _NO_ROWS)

    @property
    def copies(self) -> Copies:
        """The connections captured twice; complete after `close`."""
        return self._past.copies

    def close(self, end: Moment, weirds: Iterable[Weird] = ()) -> Chunks:
        """End the capture: holes become gaps, open connections are closed."""
        out: list[Item] = [*weirds]
        self._expire(end.clock_ns, out)
        for connection in sorted(self._connections.values(), key=lambda connection: connection.flow.id):
            connection.end("capture", end.packet, end.time_ns, None, out)
            self._past.count(connection)
        self._connections.clear()
        self._holed.clear()
        self._past.close()
        out += self.copies.weirds(end)
        return Chunks(out, {}, np.array([end.packet]), np.array([end.clock_ns]))

    def _expire(self, clock_ns: int, out: list[Item]) -> None:
        """Give up the holes whose time has passed."""
        for pair, connection in list(self._holed.items()):
            connection.expire(clock_ns, out)
            self._settle(pair, connection)

    def _make_room(self, out: list[Item]) -> None:
        """Give up holes of the connections with the most waiting bytes, if too many bytes wait in all."""
        held = sum([connection.late_bytes for connection in self._holed.values()])
        if held > limits.LATE_BYTES:
            for pair, connection in sorted(self._holed.items(), key=lambda entry: -entry[1].late_bytes):
                if held > limits.LATE_BYTES:
                    held -= connection.late_bytes
                    connection.give_up(Moment(self._packet, self._clock_ns), out)
                    self._settle(pair, connection)

    def _forget_unacked(self) -> None:
        """Forget the unacknowledged packets of the directions with the most of them, if there are too many in all."""
        self._uncounted = 0
        sides = [side for connection in self._connections.values() for side in connection.sides if side.unacked]
        held = sum([len(side.unacked) for side in sides])
        for side in sorted(sides, key=lambda side: -len(side.unacked)):
            if held <= limits.UNACKED_PACKETS:
                break
            held -= side.forget_unacked()

    def _holes(self) -> dict[int, Hole]:
        """Return the flows with a hole: bytes after it may still change their order."""
        return {connection.flow.id: connection.hole(self._clock_ns) for connection in self._holed.values()}

    def _fast(self, buffer: bytes, fast: Stretches, out: list[Item]) -> set[int]:
        """Advance each direction, all as one item of `out`; return the pairs that do not continue earlier batches."""
        connections, failed = self._connections, self._failing(fast)
        runs = Runs(buffer, fast.start, fast.stop, fast.packet, fast.time_ns, fast.knows)
        columns = zip(
            fast.path,
            fast.due,
            fast.ack,
            fast.size,
            fast.last_packet,
            fast.last_time_ns,
            fast.first,
            fast.end,
            fast.older,
            fast.heard,
            fast.unacked,
            strict=True,
        )
        sent: list[tuple[Direction, int, int]] = []
        for path, due, ack, size, packet, time_ns, first, end, older, heard, unacked in columns:
            if failed and path >> 1 in failed:
                continue
            connection = connections[path >> 1]
            side: Side = 1 if path & 1 else 0
            here, there = connection.sides[side], connection.sides[1 - side]
            if older:
                fast.knows[first : first + older] = there.received_by_each(fast.acks[first : first + older])
            if heard >= 0:
                there.unacked, there.acked_packet = NONE, fast.packet[heard]
            elif there.unacked:
                there.received_by(ack, is_here=True)
            if unacked < end:
                sent.append((here, unacked, end))
            connection.advance(side, due, ack, size, packet, time_ns)
            if size:
                runs.add(connection.flow, side, size, first, end)
                here.last_packet = here.last_ready = fast.packet[end - 1]
                here.last_ready_ns = fast.time_ns[end - 1]
        for here, first, end in sent:  # after both directions, which look at the packets of earlier batches
            here.sent_all(fast.entries[first:end].tolist())
        if runs.flow:
            out.append(runs)
        return failed

    def _failing(self, fast: Stretches) -> set[int]:
        """Return the pairs that do not continue earlier batches."""
        connections, moving = self._connections, set(fast.path)
        failed = self._stalled.union([path >> 1 for path in self._closing.values()])
        for path, seq, ack in zip(fast.path, fast.seq, fast.ack, strict=True):
            connection = connections.get(path >> 1)
            silent = path ^ 1 not in moving
            if (
                connection is None
                or not connection.is_in_order(path & 1, seq)
                or (silent and connection.sides[~path & 1].lacks(ack))
            ):
                failed.add(path >> 1)
        return failed

    def _exact(self, segments: Segments, rows: Int64s, out: list[Item]) -> None:
        if not len(rows):
            return
        buffer, ends, stalled, closing = segments.buffer, segments.ends, self._stalled, self._closing
        columns = zip(
            segments.path[rows].tolist(),
            segments.packet[rows].tolist(),
            segments.time_ns[rows].tolist(),
            segments.clock_ns[rows].tolist(),
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
            # 1 us instead of 5 for the next expected segment: short connections consist mostly of these
            due = flags & _ALL == ACK and not missing and connection is not None and connection.next_is(side, seq)
            payload = buffer[offset : offset + length]
            if due and connection is not None and not self._all_exact:
                connection.extend(side, packet, time_ns, ack, payload, out)
                if connection.closed:
                    self._settle(pair, connection)
            else:
                segment = Segment(side, packet, time_ns, clock_ns, seq, ack, flags, payload, missing, length + missing)
                self._segment(pair, connection, segment, ends, out, due=due)
            if (stalled or closing) and (pair in stalled or packet in closing):
                self._see(pair, side, packet, time_ns, out, is_plain_ack=due and not length)

    def _see(self, pair: int, side: Side, packet: int, time_ns: int, out: list[Item], *, is_plain_ack: bool) -> None:
        """Take a segment of a connection with trouble, or one that closes a window, after it was applied."""
        connection, is_closed = self._connections.get(pair), packet in self._closing
        if connection is None:
            return
        other: Side = 0 if side else 1
        stalls = connection.stalls = connection.stalls or Stalls(connection.flow.id)
        stalls.acknowledge(other, None if is_plain_ack else connection.sides[other].acked, packet, time_ns, out)
        stalls.window(side, packet, time_ns, out, is_closed=is_closed)
        if stalls.are_over:
            connection.stalls = None
            self._stalled.discard(pair)
        else:
            self._stalled.add(pair)

    def _segment(
        self, pair: int, connection: TcpConnection | None, segment: Segment, ends: EndsOf, out: list[Item], *, due: bool
    ) -> None:
        """Apply any segment. An expected one (`due`) belongs to the open connection, whatever earlier ones carried."""
        if connection is not None and pair in self._holed:
            connection.expire(segment.clock_ns, out)
            self._settle(pair, connection)
            connection = self._connections.get(pair)
        if not due and pair in self._past.by_pair and self._past.claims(pair, segment, connection, out):
            return
        if connection is None:
            connection = self._open(pair, segment, ends[pair], out)
        elif segment.flags & SYN and connection.is_another(segment.side, segment.seq):
            connection.clock_ns = segment.clock_ns
            connection.end("reused", segment.packet, segment.time_ns, segment.side, out)
            self._settle(pair, connection)
            connection = self._open(pair, segment, ends[pair], out)
        connection.feed(segment, out)
        if connection.repeated == segment.packet and not connection.closed:
            connection.repeat(segment, self._times, out)
            if connection.stalls is not None:
                self._stalled.add(pair)
        if connection.closed or pair in self._holed or connection.holed:
            self._settle(pair, connection)

    def _open(self, pair: int, segment: Segment, ends: Ends, out: list[Item]) -> TcpConnection:
        flow = Flow(self._flows, ends, segment.packet, segment.time_ns)
        self._flows += 1
        connection = self._connections[pair] = TcpConnection(flow)
        self._past.resume(pair, segment, connection)
        out.append(Opened(flow, segment.packet, segment.time_ns))
        if self._measuring is not None:
            self._measuring.open(pair, flow)
        return connection

    def _settle(self, pair: int, connection: TcpConnection) -> None:
        """Update the state of a connection: ended, with a hole, or neither."""
        if connection.closed:
            del self._connections[pair]
            self._holed.pop(pair, None)
            self._stalled.discard(pair)
            self._past.remember(pair, connection)
        elif connection.holed:
            self._holed[pair] = connection
        elif pair in self._holed:
            del self._holed[pair]

    def _forget(self, out: list[Item]) -> None:
        """Forget the connections idle for longest, also if one batch opened many more than fit."""
        connections, pairs = self._connections, list(self._connections)
        idle = np.argsort([connection.flow.last_packet for connection in connections.values()], kind="stable")
        for at in idle[: max(limits.FLOWS // 10, len(pairs) - limits.FLOWS)].tolist():
            pair = pairs[at]
            connection = connections[pair]
            text = f"{connection.flow.ends.first} - {connection.flow.ends.second}"
            out.append(Weird("FLOWS_FORGOTTEN", "reassembly", self._packet, self._clock_ns, text, connection.flow.id))
            self._past.rest(pair, connection)
            connection.end("forgotten", self._packet, self._clock_ns, None, out)
            self._settle(pair, connection)
