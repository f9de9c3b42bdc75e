"""Chunks of reassembly, with the content of TLS in the place of TLS. All other connections pass as they are.

A connection whose first bytes are a ClientHello (or the ServerHello, where that is seen first) is TLS from then on: no
frame of Kafka's begins like that, since it would be longer than any. Connections that begin in the middle, and those
without keys, are left to framing, which names them. Once framing has set a connection's Flow.service, it is left
alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from kshark import limits
from kshark.model import Closed, Flow, Gap, HalfClosed, Late, Opened, Side, Weird
from kshark.reassembly import Chunks, Hole, Item, Run, Runs
from kshark.tls.keylog import KeyLog
from kshark.tls.signs import CLIENT_HELLO, HANDSHAKE, SERVER_HELLO

if TYPE_CHECKING:
    from kshark.tls.connection import TlsConnection

#: What happens on one connection, after its beginning.
Happening = Run | Gap | HalfClosed | Closed
#: A piece of a run, by its number, or an event: the packet that it came with is before it.
Step = tuple[int, int, Happening]

_BEGINNING: Final = bytes((HANDSHAKE, 3))
_SIDES: Final[tuple[Side, Side]] = (0, 1)
#: Where the type of the first handshake message stands, behind the record's header.
_TYPE: Final = 5
_packet: Final = itemgetter(0)


class TlsStage:
    """`keys`: the text of a key log; more may be added at any time. There is no `close`: every connection is closed by
    its own item, after which nothing of it is held."""

    def __init__(self, keys: bytes = b"") -> None:
        self.keys = KeyLog(keys)
        self._connections: dict[int, TlsConnection] = {}
        #: Connections of which too little is known to tell, and what happened on them.
        self._undecided: dict[int, list[Happening]] = {}
        #: What stands behind a hole of its connection that may still be filled, or turn out to be a gap.
        self._behind: dict[int, list[Step]] = {}
        self._held = 0

    def feed(self, chunks: Chunks) -> Chunks:
        return chunks._replace(items=self._decrypted(chunks.items, chunks.holes))

    def _decrypted(self, items: list[Item], holes: Mapping[int, Hole]) -> list[Item]:
        """`holes`, by flow: bytes after one may yet turn out to be no beginning."""
        if not (self._connections or self._undecided):
            # all that most captures need, so it costs a line of Python for each item
            begin = [
                (type(item) is Run and item.data[0][0] == HANDSHAKE) or (type(item) is Runs and _may_begin(item))
                for item in items
            ]
            if True not in begin:
                return items
        out: list[Item] = []
        doubtful: dict[int, list[Happening]] = {}
        for item in items:
            if type(item) is Runs:
                self._sort_runs(item, doubtful, out)
            elif type(item) is Weird or type(item) is Late or type(item) is Opened:
                out.append(item)
            elif self._is_doubtful(item.flow):
                doubtful.setdefault(item.flow.id, []).append(item)
            else:
                out.append(item)
        for number, happened in doubtful.items():
            if number in self._connections:
                self._take(number, happened, holes.get(number), out)
            else:
                self._decide([*self._undecided.pop(number, ()), *happened], holes.get(number), out)
        if self._held > limits.TLS_HELD_BYTES:
            self._make_room(out)
        return out

    def _is_doubtful(self, flow: Flow) -> bool:
        """Whether it is TLS, or may turn out to be."""
        return flow.id in self._connections or flow.service == "unknown"

    def _sort_runs(self, runs: Runs, doubtful: dict[int, list[Happening]], out: list[Item]) -> None:
        """Takes the runs of doubtful connections out of the others."""
        rest = Runs(runs.buffer, runs.start, runs.stop, runs.packet, runs.time_ns)
        for index, flow in enumerate(runs.flow):
            if self._is_doubtful(flow):
                doubtful.setdefault(flow.id, []).append(runs.run(index))
            else:
                rest.add(flow, runs.side[index], runs.size[index], runs.first[index], runs.end[index])
        if rest.flow:
            out.append(rest)

    def _decide(self, happened: list[Happening], hole: Hole | None, out: list[Item]) -> None:
        """Whether a connection is TLS, told by its first bytes."""
        number = happened[0].flow.id
        client, packet = _client(happened) if _is_all(happened) else (None, None)
        if packet is None:
            out += happened
        elif client is None or (hole is not None and hole.packet <= packet):
            self._undecided[number] = happened
        else:
            from kshark.tls.connection import TlsConnection  # 6 ms, which captures without TLS do not take

            self._connections[number] = TlsConnection(happened[0].flow, client, self.keys)
            self._take(number, happened, hole, out)

    def _take(self, number: int, happened: list[Happening], hole: Hole | None, out: list[Item]) -> None:
        """What happened on one TLS connection, in the order of packets over both directions: up to its hole, if it has
        one."""
        self._held -= self._memory(number)
        steps = sorted(chain(self._behind.pop(number, ()), chain.from_iterable(map(_steps, happened))), key=_packet)
        certain = len(steps) if hole is None else bisect_left(steps, hole.packet, key=_packet)
        if certain < len(steps):
            self._behind[number] = steps[certain:]
        self._happen(number, steps[:certain], out)
        self._held += self._memory(number)

    def _happen(self, number: int, steps: list[Step], out: list[Item]) -> None:
        """What nothing can come before any more; the connection's end, or that nothing of it is read, ends it."""
        connection, ended = self._connections[number], False
        for _, index, item in steps:
            if connection.over or isinstance(item, HalfClosed):
                if index == 0:
                    out.append(item)
            elif isinstance(item, Run):
                connection.piece(item, index, out)
            elif isinstance(item, Gap):
                connection.gap(item, out)
            else:
                connection.closed(item, out)
                ended = True
        connection.hand_on()
        if connection.over or ended:
            del self._connections[number]
            out += [item for _, index, item in self._behind.pop(number, ()) if index == 0]

    def _memory(self, number: int) -> int:
        """Bytes that are held of a connection, 0 of one that is over."""
        behind = sum(len(item.data[index]) for _, index, item in self._behind.get(number, ()) if isinstance(item, Run))
        return behind + self._connections[number].memory if number in self._connections else 0

    def _make_room(self, out: list[Item]) -> None:
        """Too many bytes wait: the connections with most of them are given up."""
        for number in sorted(self._connections, key=self._memory, reverse=True):
            if self._held <= limits.TLS_HELD_BYTES // 2:
                break
            self._held -= self._memory(number)
            self._connections[number].make_room(out)
            self._happen(number, self._behind.pop(number, []), out)


def _may_begin(runs: Runs) -> bool:
    """Whether one of them may be the beginning of TLS."""
    starts, buffer = runs.start, runs.buffer
    return True in [
        flow.service == "unknown" and buffer[starts[at]] == HANDSHAKE
        for flow, at in zip(runs.flow, runs.first, strict=True)
    ]


def _is_all(happened: list[Happening]) -> bool:
    """Whether this is all that happened on its connection."""
    flow = happened[0].flow
    size = sum(sum(map(len, item.data)) for item in happened if isinstance(item, Run))
    return size == sum(flow.stream_bytes) and sum(isinstance(item, Gap) for item in happened) == flow.gaps


def _client(happened: list[Happening]) -> tuple[Side | None, int | None]:
    """The side of the TLS client, or None: there are too few bytes to tell; and the packet up to which that was looked
    at, or None: it is no TLS, as far as the first bytes tell, packet by packet, with no hole before them."""
    flow, heads, looked_at = happened[0].flow, [b"", b""], None
    begins = [step for item in happened for step in _steps(item, _TYPE + 1)]
    for packet, index, item in sorted(begins, key=_packet):
        if isinstance(item, Run):
            looked_at = packet
            head = heads[item.side] = (heads[item.side] + item.data[index])[: _TYPE + 1]
            if not (flow.begun[item.side] and head.startswith(_BEGINNING[: len(head)])):
                return None, None
            if len(head) > _TYPE:
                if head[_TYPE] not in (CLIENT_HELLO, SERVER_HELLO):
                    return None, None
                return item.side if head[_TYPE] == CLIENT_HELLO else _SIDES[1 - item.side], packet
        elif type(item) is not HalfClosed:
            return None, None
    return None, looked_at


def _steps(item: Happening, most: int | None = None) -> list[Step]:
    """The pieces of a run, `most` of them, or the event, each with the packet that it came with."""
    if isinstance(item, Run):
        return [(packet, index, item) for index, packet in enumerate(item.ready[:most])]
    return [(item.packet, 0, item)]
