"""Replace TLS in the chunks of reassembly by its content. All other connections pass unchanged.

A connection whose first bytes are a ClientHello (or the ServerHello, if that is seen first) is TLS from then on: no
Kafka frame begins like that, since it would be longer than any. Connections that begin in the middle, and those without
keys, are left to framing, which reports them. After framing has set a connection's Flow.service, this stage ignores it.
"""

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

#: An item of one connection, after its beginning.
StreamItem = Run | Gap | HalfClosed | Closed
#: A piece of a run by its number, or an event; the first value is its packet.
TlsItem = tuple[int, int, StreamItem]

_BEGINNING: Final = bytes((HANDSHAKE, 3))
_SIDES: Final[tuple[Side, Side]] = (0, 1)
#: Position of the type of the first handshake message, after the record's header.
_TYPE: Final = 5
_packet: Final = itemgetter(0)


class TlsStage:
    """The stage that decrypts TLS. `keys`: the text of a key log; more may be added at any time.

    There is no `close`: every connection is closed by its own item, after which nothing of it is held.
    """

    def __init__(self, keys: bytes = b"") -> None:
        self.keys = KeyLog(keys)
        self._connections: dict[int, TlsConnection] = {}
        #: Connections with too few bytes for a decision, and their items.
        self._undecided: dict[int, list[StreamItem]] = {}
        #: Items after a hole of their connection that may still be filled, or become a gap.
        self._after_hole: dict[int, list[TlsItem]] = {}
        self._held = 0

    def feed(self, chunks: Chunks) -> Chunks:
        return chunks._replace(items=self._decrypted(chunks.items, chunks.holes))

    def _decrypted(self, items: list[Item], holes: Mapping[int, Hole]) -> list[Item]:
        """Return the items with TLS decrypted. `holes`, by flow: bytes after one may turn out not to be the
        beginning.
        """
        if not (self._connections or self._undecided):
            # most captures need only this, so it costs one line of Python for each item
            begin = [
                (type(item) is Run and item.data[0][0] == HANDSHAKE) or (type(item) is Runs and _may_begin(item))
                for item in items
            ]
            if True not in begin:
                return items
        out: list[Item] = []
        doubtful: dict[int, list[StreamItem]] = {}
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
        """True if the connection is TLS, or may turn out to be."""
        return flow.id in self._connections or flow.service == "unknown"

    def _sort_runs(self, runs: Runs, doubtful: dict[int, list[StreamItem]], out: list[Item]) -> None:
        """Separate the runs of doubtful connections from the others."""
        rest = Runs(runs.buffer, runs.start, runs.stop, runs.packet, runs.time_ns, runs.knows)
        for index, flow in enumerate(runs.flow):
            if self._is_doubtful(flow):
                doubtful.setdefault(flow.id, []).append(runs.run(index))
            else:
                rest.add(flow, runs.side[index], runs.size[index], runs.first[index], runs.end[index])
        if rest.flow:
            out.append(rest)

    def _decide(self, happened: list[StreamItem], hole: Hole | None, out: list[Item]) -> None:
        """Decide by its first bytes if a connection is TLS."""
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

    def _take(self, number: int, happened: list[StreamItem], hole: Hole | None, out: list[Item]) -> None:
        """Process the items of one TLS connection in packet order over both directions, up to its hole, if it
        has one.
        """
        self._held -= self._memory(number)
        steps = sorted(chain(self._after_hole.pop(number, ()), chain.from_iterable(map(_steps, happened))), key=_packet)
        certain = len(steps) if hole is None else bisect_left(steps, hole.packet, key=_packet)
        if certain < len(steps):
            self._after_hole[number] = steps[certain:]
        self._happen(number, steps[:certain], out)
        self._held += self._memory(number)

    def _happen(self, number: int, steps: list[TlsItem], out: list[Item]) -> None:
        """Process items that nothing can precede any more; drop the connection when it ends or is not decrypted."""
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
            out += [item for _, index, item in self._after_hole.pop(number, ()) if index == 0]

    def _memory(self, number: int) -> int:
        """Return the bytes held of a connection; 0 if it ended."""
        waiting = sum(
            len(item.data[index]) for _, index, item in self._after_hole.get(number, ()) if isinstance(item, Run)
        )
        return waiting + self._connections[number].memory if number in self._connections else 0

    def _make_room(self, out: list[Item]) -> None:
        """Give up the connections with the most waiting bytes."""
        for number in sorted(self._connections, key=self._memory, reverse=True):
            if self._held <= limits.TLS_HELD_BYTES // 2:
                break
            self._held -= self._memory(number)
            self._connections[number].make_room(out)
            self._happen(number, self._after_hole.pop(number, []), out)


def _may_begin(runs: Runs) -> bool:
    """True if one of the runs may be the beginning of TLS."""
    starts, buffer = runs.start, runs.buffer
    return True in [
        flow.service == "unknown" and buffer[starts[at]] == HANDSHAKE
        for flow, at in zip(runs.flow, runs.first, strict=True)
    ]


def _is_all(happened: list[StreamItem]) -> bool:
    """True if these are all items of their connection."""
    flow = happened[0].flow
    size = sum(sum(map(len, item.data)) for item in happened if isinstance(item, Run))
    return size == flow.content_bytes and sum(isinstance(item, Gap) for item in happened) == flow.gaps


def _client(happened: list[StreamItem]) -> tuple[Side | None, int | None]:
    """Return the side of the TLS client and the packet of the last byte checked.

    The side is None if there are too few bytes. The packet is None if the connection is not TLS: its first bytes,
    packet by packet and without a hole before them, do not fit.
    """
    flow, heads, checked = happened[0].flow, [b"", b""], None
    begins = [step for item in happened for step in _steps(item, _TYPE + 1)]
    for packet, index, item in sorted(begins, key=_packet):
        if isinstance(item, Run):
            checked = packet
            head = heads[item.side] = (heads[item.side] + item.data[index])[: _TYPE + 1]
            if not (flow.begun[item.side] and head.startswith(_BEGINNING[: len(head)])):
                return None, None
            if len(head) > _TYPE:
                if head[_TYPE] not in (CLIENT_HELLO, SERVER_HELLO):
                    return None, None
                return item.side if head[_TYPE] == CLIENT_HELLO else _SIDES[1 - item.side], packet
        elif type(item) is not HalfClosed:
            return None, None
    return None, checked


def _steps(item: StreamItem, most: int | None = None) -> list[TlsItem]:
    """Return the pieces of a run (the first `most` ones), or the event, each with its packet."""
    if isinstance(item, Run):
        return [(packet, index, item) for index, packet in enumerate(item.ready[:most])]
    return [(item.packet, 0, item)]
