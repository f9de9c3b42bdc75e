"""What reassembly gives, with what is inside TLS in the place of TLS. All other connections pass as they are.

A connection whose first bytes are a ClientHello (or the ServerHello, where that is seen first) is TLS from then on: no frame of Kafka's
begins like that, since it would be longer than any. What is begun in the middle, and what has no keys, is left to framing, which names it.
"""

from __future__ import annotations

from itertools import chain, count
from typing import Final

from kshark import limits
from kshark.model import Closed, Gap, HalfClosed, Opened, Side, Weird
from kshark.reassembly import Item, Run, Runs
from kshark.tls.connection import NOT_SEEN, Connection
from kshark.tls.hello import CLIENT_HELLO, SERVER_HELLO
from kshark.tls.keylog import KeyLog
from kshark.tls.records import HANDSHAKE

#: What happens on one connection, after its beginning.
Happening = Run | Gap | HalfClosed | Closed

_BEGINNING: Final = bytes((HANDSHAKE, 3))
#: Where the type of the first handshake message stands, behind the record's header.
_TYPE: Final = 5


class TlsStage:
    """`feed` takes the items of a batch. `keys`: the text of a key log; more may be added at any time."""

    def __init__(self, keys: bytes = b"") -> None:
        self.keys = KeyLog(keys)
        self._connections: dict[int, Connection] = {}
        #: Connections that began with too few bytes to tell, and what happened on them.
        self._undecided: dict[int, list[Happening]] = {}
        #: Connections not recognised yet that do not begin like TLS.
        self._clear: set[int] = set()
        self._held = 0

    def feed(self, items: list[Item]) -> list[Item]:
        out: list[Item] = []
        mine: dict[int, list[Happening]] = {}
        for item in items:
            if isinstance(item, Runs):
                self._sort_runs(item, mine, out)
            elif isinstance(item, (Weird, Opened)):
                out.append(item)
            elif item.flow.id in self._connections:
                mine.setdefault(item.flow.id, []).append(item)
            elif item.flow.service == "unknown" and item.flow.id not in self._clear:
                self._decide(item, mine, out)
            else:
                out.append(item)
                if isinstance(item, Closed):
                    self._clear.discard(item.flow.id)
        for number, happened in mine.items():
            self._take(number, happened, out)
        if self._held > limits.TLS_HELD_BYTES:
            self._make_room(out)
        return out

    def _sort_runs(self, runs: Runs, mine: dict[int, list[Happening]], out: list[Item]) -> None:
        """The runs of TLS connections go to `mine`, all others to `out`."""
        known, clear = self._connections, self._clear
        taken = {i for i, flow in enumerate(runs.flow) if flow.id in known or (flow.service == "unknown" and flow.id not in clear)}
        if not taken:
            out.append(runs)
            return
        rest = Runs(runs.buffer, runs.start, runs.stop, runs.packet, runs.time_ns)
        out.append(rest)
        for index, flow in enumerate(runs.flow):
            if index not in taken:
                rest.add(flow, runs.side[index], runs.size[index], runs.first[index], runs.behind[index])
            elif flow.id in known:
                mine.setdefault(flow.id, []).append(runs.run(index))
            else:
                self._decide(runs.run(index), mine, out)

    def _decide(self, item: Happening, mine: dict[int, list[Happening]], out: list[Item]) -> None:
        """Whether a connection is TLS, told by its first bytes."""
        flow = item.flow
        if flow.id in self._clear or (isinstance(item, HalfClosed) and flow.id not in self._undecided):
            out.append(item)
            return
        happened = [*self._undecided.pop(flow.id, ()), item]
        client = _client(happened)
        if client is not None:
            self._connections[flow.id] = Connection(flow, client, self.keys)
            mine[flow.id] = happened
        elif isinstance(item, Run) and _may_begin(happened, item.side):
            self._undecided[flow.id] = happened
        else:
            out += happened
            if not isinstance(item, Closed):
                self._clear.add(flow.id)

    def _take(self, number: int, happened: list[Happening], out: list[Item]) -> None:
        """What happened on one TLS connection, in the order of packets over both directions."""
        connection = self._connections[number]
        self._held -= connection.size
        for _, _, index, item in sorted(chain.from_iterable(map(_steps, count(), happened)), key=_place):
            if connection.over or isinstance(item, HalfClosed):
                if index == 0:
                    out.append(item)
            elif isinstance(item, Run):
                connection.piece(item, index, out)
            elif isinstance(item, Gap):
                connection.gap(item, out)
            else:
                connection.closed(item, out)
        connection.hand_on()
        if connection.over or isinstance(happened[-1], Closed):
            del self._connections[number]
        else:
            self._held += connection.size

    def _make_room(self, out: list[Item]) -> None:
        """Too many bytes wait: the connections with most of them are given up."""
        for number, connection in sorted(self._connections.items(), key=lambda each: -each[1].size):
            if self._held <= limits.TLS_HELD_BYTES // 2:
                break
            self._held -= connection.size
            connection.give_up(NOT_SEEN, out)
            if connection.over:
                del self._connections[number]


def _head(happened: list[Happening], side: Side) -> bytes:
    """The first bytes that a side sends."""
    pieces = (piece for item in happened if isinstance(item, Run) and item.side == side for piece in item.data[: _TYPE + 1])
    return b"".join(pieces)[: _TYPE + 1]


def _client(happened: list[Happening]) -> Side | None:
    """The side of the TLS client; None where the beginning is not, or not yet, that of TLS."""
    sides: tuple[Side, Side] = (0, 1)
    for side in sides:
        head = _head(happened, side)
        if len(head) > _TYPE and head.startswith(_BEGINNING) and happened[0].flow.begun[side]:
            if head[_TYPE] == CLIENT_HELLO:
                return side
            if head[_TYPE] == SERVER_HELLO:
                return sides[1 - side]
    return None


def _may_begin(happened: list[Happening], side: Side) -> bool:
    """Whether these may be the first bytes of TLS, too few to tell."""
    head = _head(happened, side)
    return len(head) <= _TYPE and _BEGINNING.startswith(head[:2]) and happened[0].flow.begun[side]


def _steps(order: int, item: Happening) -> list[tuple[int, int, int, Happening]]:
    """The pieces of a run, or the event, each with the packet that it came with."""
    if isinstance(item, Run):
        return [(packet, order, index, item) for index, packet in enumerate(item.ready)]
    return [(item.packet, order, 0, item)]


def _place(step: tuple[int, int, int, Happening]) -> tuple[int, int, int]:
    return step[:3]
