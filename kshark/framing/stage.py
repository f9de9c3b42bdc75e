"""Turn chunks of bytes into frames: recognise each connection by content, cut each direction, order all in one time
line.

Recognised Kafka connections with known message boundaries are cut together at the end of each batch. All other
connections (not recognised yet, or after a gap) receive their bytes piece by piece, in packet order over all of them.
So no decision depends on where a batch ends.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heapreplace

from kshark import limits
from kshark.endpoints import port_of
from kshark.framing.brokers import Brokers
from kshark.framing.clock import Clock
from kshark.framing.cutting import Cuts
from kshark.framing.judgement import Conversation, judge, judge_cut
from kshark.framing.recognition import BodyChecker
from kshark.framing.rested import Rested
from kshark.framing.streams import Stream, request_limit
from kshark.framing.timeline import Ending, Line, Timeline, TimelineEvent
from kshark.framing.waiting import NEVER
from kshark.model import Closed, Flow, Gap, HalfClosed, Late, Opened, Tick, Weird
from kshark.reassembly import Chunks, Hole, Run, Runs
from kshark.tls import unread

StreamItem = Run | Gap | HalfClosed | Closed
#: An event or run; only the pieces of the run from this index on count.
QueuedItem = tuple[StreamItem, int]


class Framing:
    """The stage that turns chunks into the time line.

    `checker` checks Kafka's messages. `kafka_ports` carry Kafka whatever the bytes show. `max_request_bytes`: the
    longest request that the brokers accept, if the user knows it.

    A connection with a hole that may still be filled waits, and the time line waits with it (Chunks.holes). A forgotten
    connection that continues is recognised by Flow.continues, which reassembly sets.
    """

    def __init__(
        self,
        checker: BodyChecker,
        kafka_ports: frozenset[int] = frozenset(),
        *,
        max_request_bytes: int | None = None,
    ) -> None:
        self._checker = checker
        self._ports = kafka_ports
        self._timeline = Timeline()
        #: Connections that may be Kafka and have bytes or a gap.
        self._conversations: dict[int, Conversation] = {}
        #: Connections that are not recognised yet, or have no known message boundary.
        self._uncertain: dict[int, Conversation] = {}
        #: By flow: a hole that may still be filled, and the items after it.
        self._holes: dict[int, Hole] = {}
        self._waiting: dict[int, list[QueuedItem]] = {}
        self._most = request_limit(max_request_bytes)
        self._rested = Rested(self._most)
        self._brokers = Brokers()
        self._events: list[TimelineEvent] = []
        self._cuts = Cuts()
        #: At the end of a batch, these streams are cut (their boundaries are known) and these connections are closed.
        self._touched: dict[Stream, None] = {}
        self._ended: list[tuple[Conversation, Closed]] = []
        #: Streams that hold the beginning of a frame.
        self._unfinished: dict[Stream, None] = {}
        self._clock = Clock()

    @property
    def brokers(self) -> Brokers:
        """The ends known to be brokers; connections in other parts of the capture may add more."""
        return self._brokers

    def feed(self, chunks: Chunks) -> list[Line]:
        """Return the time line as far as it is certain after this batch."""
        self._take(chunks)
        return self._release(self._horizon())

    def tick(self, chunks: Chunks, clock_ns: int, tick: Tick | None) -> list[Line]:
        """Return the time line as far as it is certain at this time, and the tick itself if nothing is held.

        The order does not depend on ticks: what other connections are not held for any more at this time is late when
        its packet comes, by the clock of that packet.
        """
        self._clock.tick(clock_ns)
        if chunks.items:
            self._take(chunks)
        self._holes = chunks.holes
        horizon = self._horizon()
        lines = self._release(horizon)
        return [*lines, tick] if tick is not None and horizon == NEVER - 1 else lines

    def close(self, chunks: Chunks) -> list[Line]:
        """Return the rest of the time line; `chunks` are the last ones."""
        self._take(chunks)
        return self._release(NEVER)

    def _release(self, horizon: int) -> list[Line]:
        events, self._events = self._events, []
        return self._timeline.release(self._cuts.finished(), events, horizon)

    def _horizon(self) -> int:
        """Return the last packet up to which the time line is complete: nothing earlier can still arrive."""
        if self._timeline.held_bytes > limits.HELD_BYTES:
            self._timeline.let_go()
            return self._clock.packet
        held = [hole.held_from for hole in self._holes.values() if hole.held_from is not None]
        for flow, waits in self._timeline.waits.items():
            hole = self._holes.get(flow)
            held.append(waits.held_from((hole and hole.held_from) or None, self._clock))
        return min(held, default=NEVER) - 1

    def _take(self, chunks: Chunks) -> None:
        self._clock.feed(chunks.packets, chunks.clock_ns)
        self._holes = chunks.holes
        self._timeline.set_holes({flow: hole.packet for flow, hole in self._holes.items()})
        unsettled = {item.flow.id for item in chunks.items if type(item) is Gap}
        unsettled.update(self._uncertain, self._holes, self._waiting)
        piecewise: list[StreamItem] = []
        for item in chunks.items:
            if type(item) is Weird or type(item) is Opened:
                self._events.append(item)
                if type(item) is Opened and (conversation := self._rested.resume(item.flow)) is not None:
                    self._conversations[item.flow.id] = conversation
            elif type(item) is Late:
                self._timeline.of(item.flow).know(item)
            elif type(item) is Runs:
                self._take_runs(item, unsettled, piecewise)
            elif item.flow.service == "kafka" and item.flow.id not in unsettled:
                self._take_settled(item)
            else:
                piecewise.append(item)
        self._take_piecewise(piecewise)
        self._cut_touched()
        ended, self._ended = self._ended, []
        for conversation, closed in ended:
            self._end(conversation, closed)
        self._make_room()

    def _take_runs(self, runs: Runs, unsettled: set[int], piecewise: list[StreamItem]) -> None:
        """Give runs of recognised connections to their streams, and those of unrecognised ones to `piecewise`; drop
        others.
        """
        conversations, touched = self._conversations, self._touched
        for index, (flow, side) in enumerate(zip(runs.flow, runs.side, strict=True)):
            if flow.service == "kafka" and flow.id not in unsettled:
                stream = conversations[flow.id].streams[side]
                stream.take_runs(runs, index)
                touched[stream] = None
            elif flow.service in ("kafka", "unknown"):
                piecewise.append(runs.run(index))

    def _take_settled(self, item: StreamItem) -> None:
        """Apply an item of a recognised Kafka connection that has no gap in this batch."""
        conversation = self._conversations[item.flow.id]
        if type(item) is Run:
            stream = conversation.streams[item.side]
            stream.take(item, 0)
            self._touched[stream] = None
        elif type(item) is Closed:
            self._ended.append((conversation, item))
        else:
            self._events.append(item)

    def _cut_touched(self) -> None:
        """Cut the streams whose boundaries are known, all at once.

        Where a frame's length is unusual, the rest of that connection's bytes is read piece by piece.
        """
        while self._touched:
            touched, self._touched = self._touched, {}
            self._unfinished.update(touched)
            later: list[StreamItem] = []
            for stream, rest in self._cuts.cut_all(touched, self._events.append):
                self._uncertain[stream.flow.id] = self._conversations[stream.flow.id]
                later += rest
            if later:
                self._take_piecewise(later)

    def _make_room(self) -> None:
        """Drop correlation ids that are too old.

        If unfinished frames hold too many bytes, keep only the beginning of the longest ones.
        """
        uncertain = dict.fromkeys(
            stream for conversation in self._uncertain.values() for stream in conversation.streams
        )
        for stream in (*self._unfinished, *uncertain):
            stream.forget_old_ids()
            stream.join_pieces()
        self._unfinished = {stream: None for stream in self._unfinished if stream.size}
        streams = {stream: None for stream in (*self._unfinished, *uncertain) if stream.size}
        held = sum([stream.size for stream in streams])
        for stream in sorted(streams, key=lambda stream: -stream.size) if held > limits.UNFINISHED_BYTES else ():
            if held <= limits.UNFINISHED_BYTES:
                break
            held -= stream.size
            stream.give_up(self._events.append)

    def _take_piecewise(self, items: list[StreamItem]) -> None:
        """Apply events and pieces of runs in packet order, over all connections that are not settled.

        While a connection has a hole that may be filled, everything after the hole waits, in both directions. The
        result must not depend on whether this batch or a later one fills or gives up the hole.
        """
        steps = [step for waiting in self._waiting.values() for step in waiting]
        steps += [(item, 0) for item in items]
        self._waiting = {}
        gapped = {item.flow.id for item, _ in steps if type(item) is Gap}
        queue = [(*self._position(item, index), order, item, index) for order, (item, index) in enumerate(steps)]
        heapify(queue)
        while queue:
            position, packet, order, item, index = queue[0]
            number = item.flow.id
            hole = self._holes.get(number)
            if hole is not None and packet >= hole.packet:
                self._waiting.setdefault(number, []).append((item, index))
                heappop(queue)
            elif type(item) is not Run:
                heappop(queue)
                self._take_event(item, position)
            elif item.flow.service not in ("kafka", "unknown"):
                heappop(queue)
            elif item.flow.service == "kafka" and not (
                number in self._uncertain or number in gapped or number in self._holes
            ):
                # recognised within this batch: the rest is cut at once
                heappop(queue)
                stream = self._conversations[number].streams[item.side]
                stream.take(item, index)
                self._touched[stream] = None
            else:
                self._piece(item, index, position, gapped=number in gapped)
                index += 1
                if index < len(item.ready):
                    heapreplace(queue, (*self._position(item, index), order, item, index))
                else:
                    heappop(queue)

    def _position(self, item: StreamItem, index: int) -> tuple[int, int]:
        """Return the item's position in the time line, and its own packet."""
        packet = item.ready[index] if type(item) is Run else item.packet
        waits = self._timeline.waits.get(item.flow.id)
        if waits is None:
            return packet, packet
        return waits.position(packet, item.side if type(item) is Run or type(item) is Gap else None), packet

    def _piece(self, run: Run, index: int, position: int, *, gapped: bool) -> None:
        """Add one piece to its stream.

        `gapped`: a gap follows in this batch. The bytes before it are cut at once, so that the uncut rest waits from
        there.
        """
        conversation = self._conversation(run.flow)
        stream = conversation.streams[run.side]
        times = run.time_ns[index], run.ready[index], run.ready_ns[index]
        stream.take_piece(run.data[index], run.packet[index], *times, run.knows[index])
        if gapped and conversation.flow.service == "kafka":
            if not conversation.searching:
                self._resume(conversation, stream)
            self._advance(conversation, position)
            return
        self._advance(conversation, position)
        if gapped and conversation.flow.service == "kafka":
            self._resume_both(conversation)
            self._review(conversation, position)

    def _conversation(self, flow: Flow) -> Conversation:
        conversation = self._conversations.get(flow.id)
        if conversation is None:
            conversation = self._conversations[flow.id] = Conversation(flow, self._most)
        return conversation

    def _take_event(self, item: Gap | HalfClosed | Closed, position: int) -> None:
        if type(item) is Gap:
            if item.flow.service in ("kafka", "unknown"):
                self._lose(self._conversation(item.flow), item, position)
        elif type(item) is Closed:
            self._finish(self._conversations.get(item.flow.id), item, position)
        else:
            self._events.append(item)

    def _advance(self, conversation: Conversation, packet: int) -> None:
        """Try to recognise the connection, find its message boundary and cut its frames, after one more piece."""
        service: str = conversation.flow.service
        if service == "unknown":
            judge(conversation, self._checker, self._brokers, self._ports, packet, self._events.append, final=False)
            service = conversation.flow.service
            if service == "kafka":
                if not conversation.holed:
                    self._brokers.learn(conversation.flow.broker, packet)
            elif service == "unknown":
                self._uncertain[conversation.flow.id] = conversation
                self._wait(conversation, packet)
                return
        if service == "kafka":
            self._search(conversation, packet)
        else:
            self._forget(conversation.flow, packet)

    def _search(self, conversation: Conversation, packet: int, final: Closed | None = None) -> None:
        """Search for unknown message boundaries; if all are known, the batch cuts the connection. `final`: no more
        bytes come.
        """
        if conversation.searching:
            self._resume_both(conversation, final)
        self._review(conversation, packet)

    def _review(self, conversation: Conversation, packet: int) -> None:
        """Mark the connection as settled if all its boundaries are known, else as uncertain."""
        if conversation.searching:
            self._uncertain[conversation.flow.id] = conversation
        else:
            self._uncertain.pop(conversation.flow.id, None)
            self._touched.update(dict.fromkeys(conversation.streams))
        self._wait(conversation, packet)

    def _wait(self, conversation: Conversation, packet: int) -> None:
        """Let the bytes that are not understood wait. Bytes that waited and are understood became known with this
        packet.
        """
        since, waits = conversation.unclear(packet), self._timeline.waits.get(conversation.flow.id)
        if waits is not None or since != (NEVER, NEVER):
            (waits or self._timeline.of(conversation.flow.id)).wait(since, packet, self._clock)

    def _resume_both(self, conversation: Conversation, final: Closed | None = None) -> None:
        """Cut the client's bytes first: requests identify the answers."""
        client = conversation.flow.client_side or 0
        for stream in (conversation.streams[client], conversation.streams[1 - client]):
            if stream.size:
                self._resume(conversation, stream, final)

    def _resume(self, conversation: Conversation, stream: Stream, final: Closed | None = None) -> None:
        """Cut one stream's bytes.

        After an impossible length the next boundary is searched, first in the bytes of that packet, then again with
        every later piece. So the same boundary is found however many pieces arrive at once. A long frame is skipped.
        """
        waiting: deque[tuple[bytes, int, int, int, int, int]] = deque()
        other = conversation.streams[1 - stream.side]
        while True:
            for _, rest in self._cuts.cut_one(stream, self._events.append):
                waiting.extendleft(reversed([piece for run in rest for piece in run.pieces()]))
            if (
                stream.searching
                and stream.size
                and stream.find(other, self._checker, final is not None, self._events.append)
            ):
                continue
            if not waiting:
                return
            stream.take_piece(*waiting.popleft())

    def _lose(self, conversation: Conversation, gap: Gap, packet: int) -> None:
        conversation.holed = True
        stream = conversation.streams[gap.side]
        if (
            conversation.flow.service == "kafka" and not conversation.searching
        ):  # else each piece was searched as it came
            self._resume_both(conversation)
        if gap.reason == "snapped" and stream.size:
            self._take_cut(conversation, stream, gap)
        stream.lose(gap, self._events.append)
        self._cuts.take_head(stream)
        self._events.append(gap)
        if conversation.flow.service == "kafka":
            self._review(conversation, packet)
            return
        if stream.searching:
            self._uncertain[conversation.flow.id] = conversation
        self._wait(conversation, packet)

    def _take_cut(self, conversation: Conversation, stream: Stream, gap: Gap) -> None:
        """Recognise the connection, or find its next message boundary, by the packet that the snap length cut."""
        if conversation.flow.service == "unknown":
            judge_cut(conversation, gap.side, gap.size, self._checker)
            if conversation.is_kafka:
                self._resume_both(conversation)
        if conversation.is_kafka and stream.searching and stream.size:
            stream.find_cut(conversation.streams[1 - gap.side], gap.size, self._checker, self._events.append)

    def _finish(self, conversation: Conversation | None, closed: Closed, packet: int) -> None:
        flow = closed.flow
        if conversation is not None and flow.service == "unknown" and conversation.size:
            judge(conversation, self._checker, self._brokers, self._ports, packet, self._events.append, final=True)
        if conversation is not None and flow.service == "kafka":
            if not conversation.holed:
                self._brokers.learn(flow.broker, packet)
            self._search(conversation, packet, closed)
            self._ended.append((conversation, closed))
            return
        if conversation is None and flow.proxied is not None and port_of(flow.broker) in self._ports:
            flow.service = "kafka"  # a header alone: the broker may have refused it
        self._events.append(Ending([self._no_kafka(flow, closed)] if flow.content_bytes else [], closed))
        self._forget(flow, packet)

    def _end(self, conversation: Conversation, closed: Closed) -> None:
        packet, _ = self._position(closed, 0)
        if conversation.searching:
            self._search(conversation, packet, closed)
            self._cut_touched()
        if closed.how == "forgotten":
            self._rested.leave(conversation)
        ending = Ending([], closed)
        for stream in conversation.streams:
            stream.end(closed.how, closed.packet, closed.time_ns, ending.weirds.append)
        self._events.append(ending)
        self._forget(conversation.flow, packet)

    def _no_kafka(self, flow: Flow, closed: Closed) -> Weird:
        named = {"tls": "TLS", "http": "HTTP", "unknown": "not recognised"}.get(flow.service, "another protocol")
        text = f"{named}, {flow.ends.first} - {flow.ends.second}"
        code, broker = "NOT_KAFKA", None
        if flow.service in ("tls", "http"):  # an end that answers in that protocol probably speaks it
            silent = [end for end, sent in zip(flow.ends, flow.stream_bytes, strict=True) if not sent]
            broker = next((end for end in silent if self._brokers.is_broker(end, closed.packet)), None)
        if broker is not None:
            code, text = "FOREIGN_PROTOCOL", f"{text}; {broker} is a Kafka broker"
        elif flow.service == "tls":
            return unread(flow, closed.packet, closed.time_ns, flow.content_bytes)
        return Weird(
            code,
            "framing",
            closed.packet,
            closed.time_ns,
            text,
            flow.id,
            None,
            flow.first_packet,
            flow.content_bytes,
        )

    def _forget(self, flow: Flow, packet: int) -> None:
        """Cut nothing of that connection any more: it is over, or carries another protocol, whose bytes the flow
        counts.
        """
        waits = self._timeline.waits.get(flow.id)
        if waits is not None:
            waits.wait((NEVER, NEVER), packet, self._clock)
        self._uncertain.pop(flow.id, None)
        self._conversations.pop(flow.id, None)
