"""Stories for the tables: what happens on the wire, and beside it, spelled out by hand, every cell that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import pack
from typing import Any

from kshark.analysis import AnalysisResult
from kshark.errors import UnreadableInput
from kshark.model import Event, Weird
from kshark.pipeline import Engine, Options
from kshark.tables import TABLES
from kshark.tables.capture_summary import Ended
from tests.embedding import request_frame, response_frame
from tests.packets import START_NS, Packet, Tcp, Wire, batch

Cells = dict[str, Any]

CAPTURE = "talk"
BROKER = "127.0.0.1:9092"
CLIENT = "10.0.0.1:50000"
TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
OTHER = "AAAAAAAAAAAAAAAAAAAACA"
#: Packets are a millisecond and 600 ns apart, so that no microsecond column is right by rounding.
STEP_NS = 1_000_600


@dataclass
class Story:
    """A conversation on one connection, from its SYN on; packets are numbered from 1, the SYN's."""

    wire: Wire = field(default_factory=lambda: Wire(step_ns=STEP_NS))
    missed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.tcp = Tcp(self.wire, CLIENT, BROKER, [1_000, 5_000]).open()
        self._asked = 0

    def ask(self, key: int, version: int, more: bytes = b"", mss: int = 1460, **fields: Any) -> None:
        """A request, with `more` bytes behind its body, in packets of `mss` bytes; correlation ids count from 1."""
        self._asked += 1
        frame = request_frame(key, version, fields, correlation_id=self._asked) + more
        self.tcp.client(pack(">i", len(frame)) + frame, mss=mss)

    def answer(self, key: int, version: int, more: bytes = b"", mss: int = 1460, **fields: Any) -> None:
        """The answer to the last request, in the same way."""
        frame = response_frame(key, version, fields, correlation_id=self._asked) + more
        self.tcp.broker(pack(">i", len(frame)) + frame, mss=mss)

    def close(self) -> None:
        """FIN of the client, FIN of the broker, and the last ACK: three packets."""
        self.tcp.close()

    def events(self) -> list[Event]:
        """What the engine makes of the packets that the sniffer did not miss."""
        rows: list[tuple[int, Packet]] = [
            each for each in enumerate(self.wire.packets, 1) if each[0] not in self.missed
        ]
        packets = batch([packet for _, packet in rows])
        packets.number[:] = [number for number, _ in rows]
        engine = Engine(Options(embedded=True))
        return [event for page in engine.pages([packets]) for event in page]


@dataclass(frozen=True)
class Chapter:
    """A story, what came beside it, why it could not be read on, and all rows that these make in the tables named
    here."""

    told: Callable[[], Story]
    rows: dict[str, list[Cells]]
    beside: tuple[Weird | AnalysisResult, ...] = ()
    fault: UnreadableInput | None = None
    ended: Ended | None = None


def ns(packet: int) -> int:
    """When a packet came, where nobody paused before it."""
    return START_NS + (packet - 1) * STEP_NS


def row(packet: int, paused_ns: int = 0, **cells: Any) -> Cells:
    """A row at that packet, of an exchange whose request it carried: common columns, these cells, null where no cell is
    named."""
    time_ns = ns(packet) + paused_ns
    common = {"capture": CAPTURE, "flow_id": "talk:1", "packet": packet, "broker": BROKER, "client": CLIENT}
    return {**common, "ts": time_ns // 1000, "ts_ns": time_ns, "exchange": packet, **cells}


def capture_row(**cells: Any) -> Cells:
    """The row of the capture: the time of its first packet, and no connection."""
    nowhere = dict.fromkeys(("flow_id", "packet", "broker", "client", "exchange"))
    return {**row(1), **nowhere, **cells}


def whole(table: str, cells: Cells) -> Cells:
    """The row with its nulls; a cell of a column that does not exist is a mistake of the test."""
    names = [column.name for column in TABLES[table].columns]
    assert set(cells) <= set(names), set(cells) - set(names)
    return {name: cells.get(name) for name in names}
