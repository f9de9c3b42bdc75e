"""Runs of bytes to frames: each connection recognised by its content, each direction cut, all in one time line.

Connections that are known as Kafka and whole take their runs at once. All others (not recognised yet, or behind a gap) take their bytes
piece by piece in the order of packets over all of them, so that no decision depends on where a batch ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace

from kshark import limits
from kshark.framing.cutting import Broken, cut
from kshark.framing.judgement import Talk, judge
from kshark.framing.recognition import Knows
from kshark.framing.streams import Stream
from kshark.framing.timeline import NEVER, Ending, Line, Timeline, Told
from kshark.model import Closed, EndsOf, Flow, Frames, Gap, HalfClosed, Opened, Segments, Weird
from kshark.reassembly import Item, Reassembly, Run, Runs

Happening = Run | Gap | Opened | HalfClosed | Closed
#: What happens, and for a run from which of its pieces on.
Step = tuple[Happening, int]


class Framing:
    """From segments to the time line. `knows` says whether an api key and version exist, `kafka_ports` which ports carry Kafka anyway.

    `exact`: every segment is reassembled one by one.
    """

    def __init__(self, knows: Knows, kafka_ports: frozenset[int] = frozenset(), *, exact: bool = False) -> None:
        self._knows = knows
        self._ports = kafka_ports
        self._reassembly = Reassembly(exact=exact)
        self._timeline = Timeline()
        self._talks: dict[int, Talk] = {}
        #: Connections whose bytes are not certain: nothing later leaves before they are, or HELD_PACKETS have passed.
        self._careful: dict[int, Talk] = {}
        #: Steps behind a hole, by flow; and the holes.
        self._waiting: dict[int, list[Step]] = {}
        self._holes: dict[int, int] = {}
        #: Ends known to be Kafka brokers, and since which packet.
        self._brokers: dict[str, int] = {}
        self._told: list[Told] = []
        self._cuts: list[Frames] = []
        #: Streams whose boundaries are known and that took bytes, and connections that ended: cut and closed at the end of a batch.
        self._touched: dict[Stream, None] = {}
        self._ended: list[tuple[Talk, Closed]] = []
        #: Streams of settled connections with the beginning of a frame.
        self._unfinished: dict[Stream, None] = {}
        self._packet = 0

    def tell(self, weirds: Iterable[Weird]) -> None:
        """What earlier stages saw goes to its place in the time line."""
        self._told += weirds

    def feed(self, segments: Segments | None, ends: EndsOf) -> list[Line]:
        """A batch; None where nothing of it was TCP, and what was told of it may leave."""
        if segments is not None:
            self._take(self._reassembly.feed(segments, ends))
            if len(segments.packet):
                self._packet = int(segments.packet[-1])
        return self._release(self._horizon())

    def close(self) -> list[Line]:
        self._take(self._reassembly.close())
        return self._release(NEVER)

    def _release(self, horizon: int) -> list[Line]:
        cuts, self._cuts = self._cuts, []
        told, self._told = self._told, []
        return self._timeline.release(cuts, told, horizon)

    def _horizon(self) -> int:
        """The last packet behind which nothing can come in before it any more."""
        waiting = [talk.held_from for talk in self._careful.values() if talk.held_from]
        oldest = min([*waiting, *self._holes.values()], default=NEVER)
        if self._timeline.held_bytes > limits.HELD_BYTES:
            for talk in self._careful.values():
                talk.held_from, talk.late = 0, True
            return self._packet
        return max(oldest - 1, self._packet - limits.HELD_PACKETS)

    def _take(self, items: list[Item]) -> None:
        self._holes = self._reassembly.holes()
        unsettled = {item.flow.id for item in items if isinstance(item, Gap)}
        unsettled.update(self._careful, self._holes, self._waiting)
        careful: list[Happening] = []
        for item in items:
            if isinstance(item, Weird):
                self._told.append(item)
            elif isinstance(item, Runs):
                self._take_runs(item, unsettled, careful)
            elif item.flow.service == "kafka" and item.flow.id not in unsettled:
                self._plainly(item)
            else:
                if isinstance(item, Opened):
                    self._talks[item.flow.id] = Talk(item.flow)
                careful.append(item)
        self._take_carefully(careful)
        self._cut_touched()
        ended, self._ended = self._ended, []
        for talk, closed in ended:
            self._end(talk, closed)
        self._make_room()

    def _take_runs(self, runs: Runs, unsettled: set[int], careful: list[Happening]) -> None:
        """Of connections known as Kafka their streams, of those not told yet a run each; the bytes of other protocols are let go."""
        talks, touched = self._talks, self._touched
        for index, (flow, side) in enumerate(zip(runs.flow, runs.side, strict=True)):
            if flow.service == "kafka" and flow.id not in unsettled:
                stream = talks[flow.id].streams[side]
                stream.take_runs(runs, index)
                touched[stream] = None
            elif flow.service in ("kafka", "unknown"):
                careful.append(runs.run(index))

    def _plainly(self, item: Happening) -> None:
        """What happens to a connection that is known as Kafka, and whole."""
        talk = self._talks[item.flow.id]
        if isinstance(item, Run):
            stream = talk.streams[item.side]
            stream.take(item, 0)
            self._touched[stream] = None
        elif isinstance(item, Closed):
            self._ended.append((talk, item))
        else:
            self._told.append(item)

    def _cut_touched(self) -> None:
        """Cuts the streams whose boundaries are known, all at once. Where no frame begins where one should, the connection's next boundary
        is searched piece by piece."""
        while self._touched:
            touched, self._touched = self._touched, {}
            self._unfinished.update(touched)
            later: list[Happening] = []
            for stream, packet, rest in sorted(self._cut(touched), key=lambda each: (each[1], not each[0].by_client)):
                self._search(self._talks[stream.flow.id], packet)
                later += rest
            if later:
                self._take_carefully(later)

    def _make_room(self) -> None:
        """Forgets what is needed no longer; of more unfinished bytes than the limit the longest go."""
        careful = dict.fromkeys(stream for talk in self._careful.values() for stream in talk.streams)
        for stream in (*self._unfinished, *careful):
            stream.forget_old_ids()
        self._unfinished = {stream: None for stream in self._unfinished if stream.size}
        streams = {stream: None for stream in (*self._unfinished, *careful) if stream.size}
        held = sum([stream.size for stream in streams])
        for stream in sorted(streams, key=lambda each: -each.size) if held > limits.UNFINISHED_BYTES else ():
            if held <= limits.UNFINISHED_BYTES:
                break
            held -= stream.size
            stream.give_up(self._told.append)

    def _cut(self, streams: Iterable[Stream]) -> list[Broken]:
        frames, broken = cut(streams, self._told.append)
        if frames is not None:
            self._cuts.append(frames)
        return broken

    def _take_carefully(self, items: list[Happening]) -> None:
        """Events and pieces of runs in the order of their packets, over all connections that are not settled.

        What lies behind a connection's first hole waits for what becomes of the hole, so that both directions go on in one order wherever
        a batch ends.
        """
        steps = [step for waiting in self._waiting.values() for step in waiting]
        steps += [(item, 0) for item in items]
        self._waiting = {}
        gapped = {item.flow.id for item, _ in steps if isinstance(item, Gap)}
        queue = [(_packet(item, index), order, item, index) for order, (item, index) in enumerate(steps)]
        heapify(queue)
        while queue:
            packet, order, item, index = queue[0]
            number = item.flow.id
            if packet >= self._holes.get(number, NEVER):
                self._waiting.setdefault(number, []).append((item, index))
                heappop(queue)
            elif not isinstance(item, Run):
                heappop(queue)
                self._carefully(item)
            elif item.flow.service not in ("kafka", "unknown"):
                heappop(queue)
            elif item.flow.service == "kafka" and not (number in self._careful or number in gapped or number in self._holes):
                # recognised a moment ago: the rest of the batch is cut at once
                heappop(queue)
                stream = self._talks[number].streams[item.side]
                stream.take(item, index)
                self._touched[stream] = None
            else:
                self._piece(item, index)
                index += 1
                if index < len(item.ready):
                    heapreplace(queue, (item.ready[index], order, item, index))
                else:
                    heappop(queue)

    def _piece(self, run: Run, index: int) -> None:
        talk = self._talks[run.flow.id]
        packet = run.ready[index]
        talk.streams[run.side].take_piece(run.data[index], run.packet[index], run.time_ns[index], packet, run.ready_ns[index])
        self._advance(talk, packet, run.ready_ns[index])

    def _carefully(self, item: Gap | Opened | HalfClosed | Closed) -> None:
        talk = self._talks[item.flow.id]
        if isinstance(item, Gap):
            self._lose(talk, item)
        elif isinstance(item, Closed):
            self._finish(talk, item)
        else:
            self._told.append(item)

    def _advance(self, talk: Talk, packet: int, time_ns: int) -> None:
        """One more piece came: is the connection recognised, is the boundary found, are frames whole?"""
        service: str = talk.flow.service
        if service == "unknown":
            judge(talk, self._knows, self._brokers, self._ports, packet, final=False)
            service = talk.flow.service
            if service == "kafka":
                if not talk.holed:
                    self._brokers.setdefault(talk.flow.broker, packet)
                if talk.late:
                    talk.delay(packet, time_ns)
            elif service == "unknown":
                self._watch(talk, packet)
                return
        if service == "kafka":
            self._search(talk, packet)
        else:
            self._careful.pop(talk.flow.id, None)
            talk.drop_all()

    def _search(self, talk: Talk, packet: int, final: Closed | None = None) -> None:
        """Looks for boundaries that are not known; a connection where all are is cut with the batch. `final`: no more will come."""
        client = talk.flow.client_side or 0
        streams = (talk.streams[client], talk.streams[1 - client])
        if streams[0].searching or streams[1].searching:
            talk.lose_patience(packet)
            for stream in streams:
                self._resume(talk, stream, final)
        self._regard(talk, packet)

    def _regard(self, talk: Talk, packet: int) -> None:
        """Whether the connection's boundaries are known now; one whose are not is watched."""
        streams = talk.streams
        if any(stream.searching and stream.size for stream in streams):
            self._watch(talk, packet)
        elif any(stream.searching for stream in streams):
            self._careful[talk.flow.id] = talk
            talk.held_from = 0
        else:
            self._careful.pop(talk.flow.id, None)
            talk.held_from = 0
            talk.late = False
            self._touched.update(dict.fromkeys(streams))

    def _resume(self, talk: Talk, stream: Stream, final: Closed | None = None) -> None:
        """Cuts what is here of one stream. Where no frame begins the next boundary is looked for, again with each piece that came later, so
        that no boundary found depends on what came together."""
        waiting = deque[tuple[bytes, int, int, int, int]]()
        while True:
            for _, _, rest in self._cut([stream]):
                waiting.extendleft(reversed(list(_pieces(rest))))
            if stream.searching and stream.size:
                talk.lose_patience(stream.ready[-1])
                if talk.late:
                    stream.delay(*((final.packet, final.time_ns) if final else (stream.ready[-1], stream.ready_ns[-1])))
                if stream.find(talk.streams[1 - stream.side], self._knows, final is not None, self._told.append):
                    continue
            if not waiting:
                return
            stream.take_piece(*waiting.popleft())

    def _watch(self, talk: Talk, packet: int) -> None:
        """The time line waits until it is known what the connection's bytes are, as long as it is patient."""
        self._careful[talk.flow.id] = talk
        since = talk.lose_patience(packet)
        talk.held_from = 0 if talk.late else since

    def _lose(self, talk: Talk, gap: Gap) -> None:
        talk.holed = True
        stream = talk.streams[gap.side]
        if talk.flow.service in ("kafka", "unknown"):
            if talk.flow.service == "kafka":
                client = talk.flow.client_side or 0
                for each in (talk.streams[client], talk.streams[1 - client]):
                    self._resume(talk, each)
            stream.lose(gap, self._told.append)
            self._told.append(gap)
            if talk.flow.service == "kafka":
                self._regard(talk, gap.packet)
            elif stream.searching:
                self._careful[talk.flow.id] = talk

    def _finish(self, talk: Talk, closed: Closed) -> None:
        flow = talk.flow
        if flow.service == "unknown" and talk.size:
            judge(talk, self._knows, self._brokers, self._ports, closed.packet, final=True)
            if talk.late:
                talk.delay(closed.packet, closed.time_ns)
        if flow.service == "kafka":
            if not talk.holed:
                self._brokers.setdefault(flow.broker, closed.packet)
            self._search(talk, closed.packet, closed)
            self._ended.append((talk, closed))
            return
        self._told.append(Ending([self._no_kafka(flow, closed)] if sum(flow.stream_bytes) else [], closed))
        self._forget(talk)

    def _end(self, talk: Talk, closed: Closed) -> None:
        if talk.streams[0].searching or talk.streams[1].searching:
            self._search(talk, closed.packet, closed)
            self._cut_touched()
        ending = Ending([], closed)
        for stream in talk.streams:
            stream.end(closed.how, closed.packet, closed.time_ns, ending.weirds.append)
        self._told.append(ending)
        self._forget(talk)

    def _no_kafka(self, flow: Flow, closed: Closed) -> Weird:
        named = {"tls": "TLS", "http": "HTTP", "unknown": "not recognised"}.get(flow.service, "another protocol")
        broker = next((end for end in flow.ends if self._brokers.get(end, NEVER) < closed.packet), None)
        code = "NOT_KAFKA" if broker is None or flow.service not in ("tls", "http") else "FOREIGN_PROTOCOL"
        text = f"{named}, {flow.ends.first} - {flow.ends.second}" + (f"; {broker} is a Kafka broker" if code == "FOREIGN_PROTOCOL" else "")
        return Weird(code, "framing", closed.packet, closed.time_ns, text, flow.id, None, flow.first_packet, sum(flow.stream_bytes))

    def _forget(self, talk: Talk) -> None:
        self._careful.pop(talk.flow.id, None)
        del self._talks[talk.flow.id]


def _packet(item: Happening, index: int) -> int:
    return item.ready[index] if isinstance(item, Run) else item.packet


def _pieces(runs: Iterable[Run]) -> Iterator[tuple[bytes, int, int, int, int]]:
    """Runs as what Stream.take_piece takes."""
    for run in runs:
        yield from zip(run.data, run.packet, run.time_ns, run.ready, run.ready_ns, strict=True)
