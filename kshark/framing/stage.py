"""Runs of bytes to frames: each connection recognised by its content, each direction cut into frames, all put into one time line.

Connections that are known as Kafka, with known message boundaries, are cut at the end of each batch, all together. All others (not
recognised yet, or after a gap) take their bytes piece by piece in the order of packets over all of them, so that no decision depends on
where a batch ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace

from kshark import limits
from kshark.framing.brokers import Brokers
from kshark.framing.clock import Clock
from kshark.framing.cutting import Broken, cut
from kshark.framing.judgement import Conversation, judge, no_kafka
from kshark.framing.recognition import Witness
from kshark.framing.streams import Stream
from kshark.framing.timeline import NEVER, Line, Timeline, Told
from kshark.model import Closed, EndsOf, Frames, Gap, HalfClosed, Moment, Opened, Segments, Weird
from kshark.reassembly import Copies, Item, Reassembly, Run, Runs
from kshark.tls import KeyLog, TlsStage

Happening = Run | Gap | Opened | HalfClosed | Closed
#: Its place in the time line, what happens, of a run from which piece on, and the packet that none of it stands before.
Step = tuple[int, Happening, int, int]


class Framing:
    """From segments to the time line. `witness` knows Kafka's messages; `kafka_ports` carry Kafka whatever the bytes say.

    `tls_keys`: the text of a TLS key log. `measuring`: each flow gets its `transport`. `exact`: every segment is reassembled one by one.
    `asking`: only some of the capture's connections come here.
    """

    def __init__(
        self,
        witness: Witness,
        kafka_ports: frozenset[int] = frozenset(),
        tls_keys: bytes = b"",
        *,
        measuring: bool = False,
        exact: bool = False,
        asking: bool = False,
    ) -> None:
        self._witness = witness
        self._ports = kafka_ports
        self._reassembly = Reassembly(exact=exact, measuring=measuring)
        self._tls = TlsStage(tls_keys)
        self._timeline = Timeline()
        self._conversations: dict[int, Conversation] = {}
        #: Connections not recognised yet, or without a known message boundary. The time line waits for them, HELD_NS at most.
        self._uncertain: dict[int, Conversation] = {}
        #: By flow: what came after a hole that may still be filled, and the packet from which on that hole is waited for, None: it is not.
        self._waiting: dict[int, list[Step]] = {}
        self._holes: dict[int, int | None] = {}
        self._brokers = Brokers(asking=asking)
        self._told: list[Told] = []
        self._cuts: list[Frames] = []
        #: At the end of a batch, these streams are cut (their boundaries are known) and these connections are closed.
        self._touched: dict[Stream, None] = {}
        self._ended: list[tuple[Conversation, Closed]] = []
        #: Streams that hold the beginning of a frame.
        self._unfinished: dict[Stream, None] = {}
        self._clock = Clock()

    @property
    def copies(self) -> Copies:
        """What was captured twice; complete after `close`."""
        return self._reassembly.copies

    @property
    def brokers(self) -> Brokers:
        """The ends known to be brokers, of which connections of other parts of the capture may tell."""
        return self._brokers

    @property
    def tls_keys(self) -> KeyLog:
        """The secrets with which TLS is decrypted; those of a capture are added when they come."""
        return self._tls.keys

    def tell(self, weirds: Iterable[Weird]) -> None:
        """Puts weirds of earlier stages into their place in the time line."""
        for weird in weirds:
            self._tell(weird)

    def _tell(self, weird: Weird) -> None:
        conversation = None if weird.flow is None else self._conversations.get(weird.flow)
        floor = 0 if conversation is None else conversation.floor
        self._told.append(Told(max(weird.packet, floor), False, weird.flow or 0, [weird]))

    def _tell_event(self, event: Gap | Opened | HalfClosed | Closed, *weirds: Weird) -> None:
        """`weirds`: what only the end of a connection shows."""
        known = max(event.packet, self._conversations[event.flow.id].floor)
        self._told.append(Told(known, isinstance(event, (HalfClosed, Closed)), event.flow.id, [*weirds, event]))

    def feed(self, segments: Segments | None, ends: EndsOf) -> list[Line]:
        """The time line as far as it is certain after this batch; None: no segment of it was TCP, but weirds may wait."""
        if segments is not None:
            self._clock.feed(segments)
            self._take(self._tls.feed(self._reassembly.feed(segments, ends)))
        return self._release(self._horizon())

    def close(self, end: Moment, *, whole: bool = True) -> list[Line]:
        """The capture ends there. `whole` False: these were not all its connections, and `copies` will be told with those of the others."""
        self._take(self._tls.feed(self._reassembly.close(end)))
        if whole:
            self.tell(self.copies.told(end))
        return self._release(NEVER)

    def _release(self, horizon: int) -> list[Line]:
        cuts, self._cuts = self._cuts, []
        told, self._told = self._told, []
        return self._timeline.release(cuts, told, horizon)

    def _horizon(self) -> int:
        """The last packet up to which the time line is complete: nothing can come in before it any more."""
        too_old = self._clock.now_ns - limits.HELD_NS
        waiting = [each.held_from for each in self._uncertain.values() if each.held_from and each.since_ns >= too_old]
        waiting += [packet for packet in self._holes.values() if packet is not None]
        if self._timeline.held_bytes > limits.HELD_BYTES:
            for conversation in self._uncertain.values():
                conversation.held_from, conversation.late = 0, True
            return self._clock.packet
        return min(waiting, default=NEVER) - 1

    def _take(self, items: list[Item]) -> None:
        self._holes = self._reassembly.holes()
        unsettled = {item.flow.id for item in items if isinstance(item, Gap)}
        unsettled.update(self._uncertain, self._holes, self._waiting)
        piecewise: list[Happening] = []
        for item in items:
            if isinstance(item, Weird):
                self._tell(item)
            elif isinstance(item, Runs):
                self._take_runs(item, unsettled, piecewise)
            elif item.flow.service == "kafka" and item.flow.id not in unsettled:
                self._take_settled(item)
            else:
                if isinstance(item, Opened):
                    self._conversations[item.flow.id] = Conversation(item.flow)
                piecewise.append(item)
        self._take_piecewise(piecewise)
        self._cut_touched()
        ended, self._ended = self._ended, []
        for conversation, closed in ended:
            self._end(conversation, closed)
        self._make_room()

    def _take_runs(self, runs: Runs, unsettled: set[int], piecewise: list[Happening]) -> None:
        """Runs of recognised connections go to their streams, those not recognised yet to `piecewise`; others are dropped."""
        conversations, touched = self._conversations, self._touched
        for index, (flow, side) in enumerate(zip(runs.flow, runs.side, strict=True)):
            if flow.service == "kafka" and flow.id not in unsettled:
                stream = conversations[flow.id].streams[side]
                stream.take_runs(runs, index)
                touched[stream] = None
            elif flow.service in ("kafka", "unknown"):
                piecewise.append(runs.run(index))

    def _take_settled(self, item: Happening) -> None:
        """What happens to a connection that is known as Kafka and has no gap in this batch."""
        conversation = self._conversations[item.flow.id]
        if isinstance(item, Run):
            stream = conversation.streams[item.side]
            stream.take(item, 0)
            self._touched[stream] = None
        elif isinstance(item, Closed):
            self._ended.append((conversation, item))
        else:
            self._tell_event(item)

    def _cut_touched(self) -> None:
        """Cuts the streams whose boundaries are known, all at once. Where a frame's length is impossible, the rest of that connection's
        bytes is searched for the next boundary, piece by piece.
        """
        while self._touched:
            touched, self._touched = self._touched, {}
            self._unfinished.update(touched)
            later: list[Happening] = []
            for stream, packet, rest in sorted(self._cut(touched), key=lambda each: (each[1], not each[0].by_client)):
                self._search(self._conversations[stream.flow.id], packet)
                later += rest
            if later:
                self._take_piecewise(later)

    def _make_room(self) -> None:
        """Drops correlation ids that are too old; if unfinished frames take too many bytes, the longest are given up."""
        uncertain = dict.fromkeys(stream for conversation in self._uncertain.values() for stream in conversation.streams)
        for stream in (*self._unfinished, *uncertain):
            stream.forget_old_ids()
            stream.join_pieces()
        self._unfinished = {stream: None for stream in self._unfinished if stream.size}
        streams = {stream: None for stream in (*self._unfinished, *uncertain) if stream.size}
        held = sum([stream.size for stream in streams])
        for stream in sorted(streams, key=lambda each: -each.size) if held > limits.UNFINISHED_BYTES else ():
            if held <= limits.UNFINISHED_BYTES:
                break
            held -= stream.size
            stream.give_up(self._tell)

    def _cut(self, streams: Iterable[Stream]) -> list[Broken]:
        frames, broken = cut(streams, self._tell)
        if frames is not None:
            self._cuts.append(frames)
        return broken

    def _take_piecewise(self, items: list[Happening]) -> None:
        """Events and pieces of runs in the order of their packets, over all connections that are not settled.

        As long as a connection has a hole that may be filled, what comes after the hole waits, in both directions: whether it was
        filled or given up within this batch or a later one must make no difference.
        """
        steps = [step for waiting in self._waiting.values() for step in waiting]
        steps += self._placed(items)
        self._waiting = {}
        gapped = {item.flow.id for _, item, _, _ in steps if isinstance(item, Gap)}
        queue = [(place, order, item, index, floor) for order, (place, item, index, floor) in enumerate(steps)]
        heapify(queue)
        while queue:
            place, order, item, index, floor = queue[0]
            number = item.flow.id
            hole = self._holes.get(number)
            if hole is not None and place >= hole:
                self._waiting.setdefault(number, []).append((place, item, index, floor))
                heappop(queue)
            elif not isinstance(item, Run):
                heappop(queue)
                self._take_event(item)
            elif item.flow.service not in ("kafka", "unknown"):
                heappop(queue)
            elif item.flow.service == "kafka" and not (number in self._uncertain or number in gapped or number in self._holes):
                # recognised a moment ago: the rest of the batch is cut at once
                heappop(queue)
                stream = self._conversations[number].streams[item.side]
                stream.take(item, index)
                self._touched[stream] = None
            else:
                self._piece(item, index, place)
                index += 1
                if index < len(item.ready):
                    heapreplace(queue, (max(item.ready[index], floor), order, item, index, floor))
                else:
                    heappop(queue)

    def _placed(self, items: Iterable[Happening]) -> Iterator[Step]:
        """Where each belongs; what follows a gap of its connection that was known late stands behind that."""
        floors: dict[int, int] = {}
        for item in items:
            number = item.flow.id
            if isinstance(item, Gap) and item.known:
                floors[number] = max(item.known, floors.get(number, 0))
            floor = floors.get(number, 0)
            yield max(item.ready[0] if isinstance(item, Run) else item.packet, floor), item, 0, floor

    def _piece(self, run: Run, index: int, place: int) -> None:
        conversation = self._conversations[run.flow.id]
        piece = run.data[index], run.packet[index], run.time_ns[index], run.ready[index], run.ready_ns[index]
        conversation.streams[run.side].take_piece(*piece)
        self._advance(conversation, place)

    def _take_event(self, item: Gap | Opened | HalfClosed | Closed) -> None:
        conversation = self._conversations[item.flow.id]
        if isinstance(item, Gap):
            self._lose(conversation, item)
        elif isinstance(item, Closed):
            self._finish(conversation, item)
        else:
            self._tell_event(item)

    def _advance(self, conversation: Conversation, packet: int) -> None:
        """One more piece came: try to recognise the connection, find its message boundary, cut its frames."""
        service: str = conversation.flow.service
        if service == "unknown":
            self._judge(conversation, packet, final=False)
            service = conversation.flow.service
            if service == "kafka":
                if not conversation.holed:
                    self._brokers.learn(conversation.flow.broker, packet)
            elif service == "unknown":
                self._hold_time_line(conversation, packet)
                return
        if service == "kafka":
            self._search(conversation, packet)
        else:
            self._uncertain.pop(conversation.flow.id, None)
            conversation.drop_all()

    def _judge(self, conversation: Conversation, packet: int, *, final: bool) -> None:
        """Looks whether the bytes tell by now what they are. If that took too long, it is known from here on."""
        conversation.lose_patience(packet, self._clock)
        if conversation.late:
            conversation.raise_floor(packet)
        judge(conversation, self._witness, self._brokers, self._ports, packet, self._tell, final=final)

    def _search(self, conversation: Conversation, packet: int, final: Closed | None = None) -> None:
        """Searches for unknown message boundaries; without any the connection is cut with the batch. `final`: no more bytes come."""
        client = conversation.flow.client_side or 0
        streams = (conversation.streams[client], conversation.streams[1 - client])
        if streams[0].searching or streams[1].searching:
            conversation.lose_patience(packet, self._clock)
            for stream in streams:
                self._resume(conversation, stream, final)
        self._review(conversation, packet)

    def _review(self, conversation: Conversation, packet: int) -> None:
        """Sorts the connection in again: settled when all its boundaries are known, else uncertain."""
        streams = conversation.streams
        if any(stream.searching and stream.size for stream in streams):
            self._hold_time_line(conversation, packet)
        elif any(stream.searching for stream in streams):
            self._uncertain[conversation.flow.id] = conversation
            conversation.held_from = 0
        else:
            self._uncertain.pop(conversation.flow.id, None)
            conversation.held_from = 0
            conversation.late = False
            self._touched.update(dict.fromkeys(streams))

    def _resume(self, conversation: Conversation, stream: Stream, final: Closed | None = None) -> None:
        """Cuts one stream's bytes. After an impossible length the next boundary is searched, first in what came with that packet, then
        again with every later piece: the same boundary is found however many pieces came at once.
        """
        waiting = deque[tuple[bytes, int, int, int, int]]()
        while True:
            for _, _, rest in self._cut([stream]):
                waiting.extendleft(reversed(list(_pieces(rest))))
            if stream.searching and stream.size:
                packet = final.packet if final else stream.ready[-1]
                conversation.lose_patience(packet, self._clock)
                if conversation.late:
                    conversation.raise_floor(packet)
                if stream.find(conversation.streams[1 - stream.side], self._witness, final is not None, self._tell):
                    continue
            if not waiting:
                return
            stream.take_piece(*waiting.popleft())

    def _hold_time_line(self, conversation: Conversation, packet: int) -> None:
        """From here on the time line waits until it is known what the connection's bytes are, unless that took too long already."""
        self._uncertain[conversation.flow.id] = conversation
        since = conversation.lose_patience(packet, self._clock)
        conversation.held_from = 0 if conversation.late else since

    def _lose(self, conversation: Conversation, gap: Gap) -> None:
        conversation.holed = True
        stream = conversation.streams[gap.side]
        if conversation.flow.service in ("kafka", "unknown"):
            if conversation.flow.service == "kafka":
                client = conversation.flow.client_side or 0
                for each in (conversation.streams[client], conversation.streams[1 - client]):
                    self._resume(conversation, each)
            conversation.raise_floor(gap.known)
            stream.lose(gap, self._tell)
            self._tell_event(gap)
            if conversation.flow.service == "kafka":
                self._review(conversation, gap.packet)
            elif stream.searching:
                self._uncertain[conversation.flow.id] = conversation

    def _finish(self, conversation: Conversation, closed: Closed) -> None:
        flow = conversation.flow
        if flow.service == "unknown" and conversation.size:
            self._judge(conversation, closed.packet, final=True)
        if flow.service == "kafka":
            if not conversation.holed:
                self._brokers.learn(flow.broker, closed.packet)
            self._search(conversation, closed.packet, closed)
            self._ended.append((conversation, closed))
            return
        self._tell_event(closed, *([no_kafka(flow, closed, self._brokers)] if sum(flow.stream_bytes) else []))
        self._forget(conversation)

    def _end(self, conversation: Conversation, closed: Closed) -> None:
        if conversation.streams[0].searching or conversation.streams[1].searching:
            self._search(conversation, closed.packet, closed)
            self._cut_touched()
        weirds: list[Weird] = []
        for stream in conversation.streams:
            stream.end(closed.how, closed.packet, closed.time_ns, weirds.append)
        self._tell_event(closed, *weirds)
        self._forget(conversation)

    def _forget(self, conversation: Conversation) -> None:
        self._uncertain.pop(conversation.flow.id, None)
        del self._conversations[conversation.flow.id]


def _pieces(runs: Iterable[Run]) -> Iterator[tuple[bytes, int, int, int, int]]:
    """The runs' pieces as arguments of Stream.take_piece."""
    for run in runs:
        yield from zip(run.data, run.packet, run.time_ns, run.ready, run.ready_ns, strict=True)
