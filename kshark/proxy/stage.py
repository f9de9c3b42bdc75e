"""Take PROXY headers off the beginning of connections. All other bytes pass unchanged.

Only the side that opened the connection sends headers, before any other byte. Headers are read if the beginning of that
side is in the capture; otherwise these bytes may belong to a message. A chain of proxies sends one header each.
"""

from __future__ import annotations

from msgspec import Struct, field

from kshark import limits
from kshark.model import (
    LEAST_ANSWER,
    PROXY_HEADER_CUT,
    Closed,
    Flow,
    Gap,
    HalfClosed,
    Proxied,
    ProxyHeader,
    Side,
    Weird,
)
from kshark.proxy.headers import FIRST_BYTES, least_bytes, may_begin, read_header
from kshark.reassembly import Chunks, Item, Run, Runs

#: Data, packet, time, and packet and time at which it was ready.
Piece = tuple[bytes, int, int, int, int, int]


class Beginning(Struct, eq=False):
    """The beginning of a connection, up to the first byte after its headers.

    `held`: the pieces of an unfinished header, `size` their bytes. `needs`: the least bytes that may complete it.
    """

    flow: Flow
    side: Side
    held: list[Piece] = field(default_factory=list)
    size: int = 0
    needs: int = 0

    @property
    def data(self) -> bytes:
        return b"".join([piece[0] for piece in self.held])

    def take(self, size: int) -> None:
        """Drop bytes from the front."""
        self.size -= size
        while size:
            data, *position = self.held[0]
            if len(data) > size:
                self.held[0] = (data[size:], *position)  # type: ignore[assignment]
                return
            size -= len(data)
            del self.held[0]


class ProxyStage:
    """The stage that reads PROXY headers and sets Flow.proxied.

    There is no `close`: every connection is closed by its own item, after which nothing of it is held.
    """

    def __init__(self) -> None:
        #: Connections whose next bytes may be a header.
        self._open: dict[int, Beginning] = {}
        self._held = 0
        #: Connections with a header: its first packet, and the side of the first FIN.
        self._headed: dict[int, tuple[int, Side | None]] = {}

    def feed(self, chunks: Chunks) -> Chunks:
        items = chunks.items
        if not self._open:
            # most captures need only this, so it costs one line of Python for each item
            begin = [
                (type(item) is Run and item.data[0][0] in FIRST_BYTES) or (type(item) is Runs and _may_begin(item))
                for item in items
            ]
            if True not in begin:
                return chunks._replace(items=self._with_refusals(items)) if self._headed else chunks
        return chunks._replace(items=self._with_refusals(self._without_headers(items)))

    def _without_headers(self, items: list[Item]) -> list[Item]:
        firsts = _Firsts(items)
        out: list[Item] = []
        for item in items:
            if type(item) is Runs:
                self._sort_runs(item, firsts, out)
            elif type(item) is Run:
                if self._is_beginning(item.flow, item.side, item.data[0], firsts, (id(item), 0)):
                    self._read(item, out)
                else:
                    out.append(item)
            else:
                if type(item) is Gap or type(item) is HalfClosed or type(item) is Closed:
                    self._end(item, out)
                out.append(item)
        if self._held > limits.PROXY_HELD_BYTES:
            self._make_room(out)
        return out

    def _sort_runs(self, runs: Runs, firsts: _Firsts, out: list[Item]) -> None:
        """Separate the runs that may begin with a header from the others."""
        rest = Runs(runs.buffer, runs.start, runs.stop, runs.packet, runs.time_ns, runs.knows)
        for index, (flow, side) in enumerate(zip(runs.flow, runs.side, strict=True)):
            at = runs.start[runs.first[index]]
            if self._is_beginning(flow, side, runs.buffer[at : at + 1], firsts, (id(runs), index)):
                self._read(runs.run(index), out)
            else:
                rest.add(flow, side, runs.size[index], runs.first[index], runs.end[index])
        if rest.flow:
            out.append(rest)

    def _is_beginning(self, flow: Flow, side: Side, data: bytes, firsts: _Firsts, run: tuple[int, int]) -> bool:
        """True if a header may begin or continue with these bytes."""
        beginning = self._open.get(flow.id)
        if beginning is not None:
            return beginning.side == side
        if (
            data[0] in FIRST_BYTES
            and flow.service == "unknown"
            and flow.opened_by == side
            and flow.begun[side]
            and firsts.are(flow, side, run)
        ):
            self._open[flow.id] = Beginning(flow, side)
            return True
        return False

    def _read(self, run: Run, out: list[Item]) -> None:
        """Take headers off a run, piece by piece; pass on the rest."""
        beginning = self._open[run.flow.id]
        pieces = [*run.pieces()]
        for index, piece in enumerate(pieces):
            beginning.held.append(piece)
            beginning.size += len(piece[0])
            self._held += len(piece[0])
            if beginning.size >= beginning.needs and not self._take_headers(beginning, out):
                self._pass_on(beginning, piece[3], piece[4], out, pieces[index + 1 :])
                return

    def _take_headers(self, beginning: Beginning, out: list[Item]) -> bool:
        """Take off the headers that the held pieces complete; False if no header can follow."""
        while beginning.held:
            data = beginning.data
            if not may_begin(data) or _has_most(beginning.flow):
                return False
            header = read_header(data)
            if header is None:
                beginning.needs = least_bytes(data)
                return True
            self._take(beginning, header, out)
        return True

    def _take(self, beginning: Beginning, header: ProxyHeader, out: list[Item]) -> None:
        flow, first, last = beginning.flow, beginning.held[0], beginning.held[-1]
        if flow.proxied is None:
            flow.proxied = Proxied(beginning.side, [])
            self._headed[flow.id] = first[1], None
        flow.proxied.headers.append(header)
        if header.fault and header.fault != PROXY_HEADER_CUT:
            out.append(_invalid(beginning, f"version {header.version}, {header.fault}", first, last, header.size))
        beginning.take(header.size)
        beginning.needs = 0
        self._held -= header.size

    def _end(self, item: Gap | HalfClosed | Closed, out: list[Item]) -> None:
        """No more bytes of a header follow without a gap: take off the part of it that is there."""
        beginning = self._open.get(item.flow.id)
        if beginning is None or (type(item) is not Closed and item.side != beginning.side):
            return
        header = read_header(beginning.data, final=True)
        if header is not None:
            self._take(beginning, header, out)
        self._pass_on(beginning, item.packet, item.time_ns, out)

    def _pass_on(
        self, beginning: Beginning, packet: int, time_ns: int, out: list[Item], later: list[Piece] | None = None
    ) -> None:
        """Pass on the pieces, which are no header: this packet shows it, so they are ready then."""
        del self._open[beginning.flow.id]
        self._held -= beginning.size
        held = [(*piece[:3], *max(piece[3:5], (packet, time_ns)), piece[5]) for piece in beginning.held]
        if pieces := [*held, *(later or ())]:
            columns = [[*column] for column in zip(*pieces, strict=True)]
            out.append(Run(beginning.flow, beginning.side, *columns))  # type: ignore[arg-type]

    def _with_refusals(self, items: list[Item]) -> list[Item]:
        """Add a Weird before the end of each connection that the other side closed because of its header."""
        out: list[Item] = []
        for item in items:
            if type(item) is HalfClosed and item.flow.id in self._headed:
                self._headed[item.flow.id] = self._headed[item.flow.id][0], item.side
            elif type(item) is Closed and item.flow.id in self._headed:
                packet, finished = self._headed.pop(item.flow.id)
                if _is_refused(item, item.side if finished is None else finished):
                    out.append(_refusal(item, packet))
            out.append(item)
        return out

    def _make_room(self, out: list[Item]) -> None:
        """Pass on the longest unfinished headers."""
        for beginning in sorted(self._open.values(), key=lambda beginning: -beginning.size):
            if self._held <= limits.PROXY_HELD_BYTES // 2:
                return
            first, last = beginning.held[0], beginning.held[-1]
            out.append(_invalid(beginning, "too many unfinished headers at once", first, last, beginning.size))
            self._pass_on(beginning, last[3], last[4], out)


class _Firsts:
    """The first bytes of each side in a batch; counted when they are first needed."""

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        #: By flow and side: the run with the first bytes, None if a gap is before it; and all bytes.
        self._first: dict[tuple[int, int], tuple[int, int] | None] = {}
        self._bytes: dict[tuple[int, int], int] = {}
        self._gaps: dict[int, int] = {}

    def are(self, flow: Flow, side: Side, run: tuple[int, int]) -> bool:
        """True if that run has the side's first bytes, and no gap of the connection came before."""
        if not self._first:
            for item in self._items:
                self._count(item)
        key = flow.id, side
        return (
            self._first[key] == run
            and self._bytes[key] == flow.stream_bytes[side]
            and self._gaps.get(flow.id, 0) == flow.gaps
        )

    def _count(self, item: Item) -> None:
        if type(item) is Runs:
            for index, (flow, side, size) in enumerate(zip(item.flow, item.side, item.size, strict=True)):
                self._add((flow.id, side), (id(item), index), size)
        elif type(item) is Run:
            self._add((item.flow.id, item.side), (id(item), 0), sum(map(len, item.data)))
        elif type(item) is Gap:
            self._gaps[item.flow.id] = self._gaps.get(item.flow.id, 0) + 1
            self._first.setdefault((item.flow.id, item.side), None)

    def _add(self, key: tuple[int, int], run: tuple[int, int], size: int) -> None:
        self._first.setdefault(key, run)
        self._bytes[key] = self._bytes.get(key, 0) + size


def _may_begin(runs: Runs) -> bool:
    """True if one of the runs may begin with a header."""
    starts, buffer = runs.start, runs.buffer
    return True in [
        buffer[starts[at]] in FIRST_BYTES and flow.service == "unknown"
        for flow, at in zip(runs.flow, runs.first, strict=True)
    ]


def _has_most(flow: Flow) -> bool:
    return flow.proxied is not None and len(flow.proxied.headers) >= limits.PROXY_HEADERS


def _is_refused(closed: Closed, finished: Side | None) -> bool:
    """True if the side without headers ended the connection first, and before it sent an answer."""
    flow, proxied = closed.flow, closed.flow.proxied
    if proxied is None or proxied.is_health_check or flow.gaps or closed.how not in ("fin", "rst"):
        return False
    other = 1 - proxied.side
    return finished == other and flow.stream_bytes[other] < LEAST_ANSWER


def _refusal(closed: Closed, packet: int) -> Weird:
    flow, proxied = closed.flow, closed.flow.proxied
    assert proxied is not None
    header = proxied.headers[-1]
    whose = f" for client {proxied.client}" if proxied.client else ""
    sender, receiver = flow.ends[proxied.side], flow.ends[1 - proxied.side]
    text = f"{sender} sent a PROXY header of version {header.version}{whose} to {receiver}"
    return Weird(
        "PROXY_HEADER_REFUSED", "proxy", closed.packet, closed.time_ns, text, flow.id, proxied.side, packet,
        proxied.size,
    )  # fmt: skip


def _invalid(beginning: Beginning, text: str, first: Piece, last: Piece, size: int) -> Weird:
    return Weird(
        "PROXY_HEADER_INVALID", "proxy", last[3], last[4], text, beginning.flow.id, beginning.side, first[1], size
    )
