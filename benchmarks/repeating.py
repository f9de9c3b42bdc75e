"""A small real capture, made large: its connections opened again and again (`replicated`), or going on and on
(`continued`)."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from benchmarks.wire import Connection, Wire
from kshark.model import ACK, FIN, RST, SYN

_MICRO, _NANO = 0xA1B2C3D4, 0xA1B23C4D


def replicated(path: Path, out: BinaryIO, until_bytes: int) -> None:
    """Copies with later times, each with connections of its own: the second and third byte of both addresses count the
    copies."""
    source = Source.load(path)
    out.write(source.raw[:24])
    index = 0
    while out.tell() < until_bytes:
        out.write(source.copy(index))
        index += 1


@dataclass(frozen=True)
class Source:
    """A classic little-endian pcap of Ethernet and IPv4, held as bytes and the places that a copy changes."""

    raw: bytes
    records: np.ndarray
    addresses: np.ndarray
    span_s: int

    @classmethod
    def load(cls, path: Path) -> Source:
        raw = path.read_bytes()
        records, addresses = [], []
        for at, _, frame in packets(raw):
            records.append(at - 24)
            if raw[frame + 12 : frame + 14] == b"\x08\x00":
                addresses += [frame + 26 - 24, frame + 30 - 24]
        first, last = (struct.unpack_from("<I", raw, 24 + records[i])[0] for i in (0, -1))
        return cls(raw, np.array(records), np.array(addresses), last - first + 1)

    def copy(self, index: int) -> bytes:
        """The packets of copy `index`, without file header."""
        data = np.frombuffer(self.raw, np.uint8)[24:].copy()
        seconds = np.lib.stride_tricks.sliding_window_view(data, 4)[self.records].copy().view("<u4")[:, 0] + np.uint32(
            index * self.span_s
        )
        for byte in range(4):
            data[self.records + byte] = (seconds >> np.uint32(8 * byte)) & np.uint32(255)
        data[self.addresses + 1] = (index >> 8) & 255
        data[self.addresses + 2] = index & 255
        return data.tobytes()


def packets(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Of every packet: where its record header lies, its time in ns, where its frame begins."""
    magic = struct.unpack_from("<I", raw)[0]
    if magic not in (_MICRO, _NANO):
        raise SystemExit("not a little-endian pcap")
    at = 24
    while at + 16 <= len(raw):
        seconds, rest, length = struct.unpack_from("<III", raw, at)
        yield at, seconds * 1_000_000_000 + rest * (1 if magic == _NANO else 1000), at + 16
        at += 16 + length


def continued(path: Path, wire: Wire, until_bytes: int) -> None:
    """The capture's connections opened once and closed at the very end; what they say is said again and again, with new
    correlation ids."""
    play = Play.load(path)
    connections = {flow: Connection(wire, *flow) for flow in play.streams}
    for connection in connections.values():
        connection.open()
    begin, copy = wire.time_ns, 0
    while wire.written < until_bytes:
        said = {
            (flow, side): stream.copy(copy) for flow, sides in play.streams.items() for side, stream in enumerate(sides)
        }
        for step in play.steps:
            wire.time_ns = begin + copy * play.span_ns + step.after_ns
            connection = connections[step.flow]
            if step.end > step.start:
                connection.piece(step.side, said[step.flow, step.side][step.start : step.end])
            else:
                connection.bare(step.side, ACK)
        copy += 1
    wire.time_ns = begin + copy * play.span_ns
    for connection in connections.values():
        connection.close()
    wire.flush()


FlowKey = tuple[str, str]


@dataclass(frozen=True)
class Step:
    """A packet of the play: which bytes of its direction's stream it carries (none: a bare acknowledgement)."""

    after_ns: int
    flow: FlowKey
    side: int
    start: int
    end: int


@dataclass
class Stream:
    """One direction: its bytes, and where the correlation ids lie in them."""

    data: bytearray = field(default_factory=bytearray)
    ids_at: list[int] = field(default_factory=list)
    stride: int = 0

    def find_ids(self, behind_length: int) -> int:
        """Walks the frames; gives the highest id."""
        at, ids = 0, [0]
        while at + 4 <= len(self.data):
            self.ids_at.append(at + 4 + behind_length)
            ids.append(struct.unpack_from(">i", self.data, self.ids_at[-1])[0])
            at += 4 + struct.unpack_from(">i", self.data, at)[0]
        if at != len(self.data):
            raise SystemExit("a stream that does not end with a frame cannot go on")
        return max(ids)

    def copy(self, index: int) -> bytes:
        """The bytes with all ids moved on by `index` strides; negative ids stay."""
        data = bytearray(self.data)
        for at in self.ids_at:
            (number,) = struct.unpack_from(">i", data, at)
            if number >= 0:
                struct.pack_into(">i", data, at, (number + index * self.stride) & 0x7FFFFFFF)
        return bytes(data)


@dataclass
class Play:
    """Who says what when, in one run of the capture."""

    steps: list[Step]
    streams: dict[FlowKey, tuple[Stream, Stream]]
    span_ns: int

    @classmethod
    def load(cls, path: Path) -> Play:
        raw = path.read_bytes()
        steps: list[Step] = []
        streams: dict[FlowKey, tuple[Stream, Stream]] = defaultdict(lambda: (Stream(), Stream()))
        clients: dict[frozenset[str], str] = {}
        first = last = 0
        for at, time_ns, frame in packets(raw):
            first, last = first or time_ns, time_ns
            sender, receiver, flags, payload = _tcp(raw, frame, frame + struct.unpack_from("<I", raw, at + 8)[0])
            client = clients.setdefault(
                frozenset((sender, receiver)), sender
            )  # each connection of such a capture begins with its SYN
            flow, side = ((sender, receiver), 0) if client == sender else ((receiver, sender), 1)
            if flags & (SYN | FIN | RST) == 0:
                data = streams[flow][side].data
                steps.append(Step(time_ns - first, flow, side, len(data), len(data) + len(payload)))
                data += payload
        for sides in streams.values():
            highest = max(sides[0].find_ids(4), sides[1].find_ids(0))
            for stream in sides:
                stream.stride = highest + 1
        return cls(steps, dict(streams), last - first + 1_000_000_000)


def _tcp(raw: bytes, frame: int, end: int) -> tuple[str, str, int, bytes]:
    """Sender, receiver, flags and payload of an Ethernet frame with IPv4 and TCP."""
    ip = frame + 14
    tcp = ip + (raw[ip] & 15) * 4
    stop = min(end, ip + int.from_bytes(raw[ip + 2 : ip + 4], "big"))
    ends = [
        f"{'.'.join(map(str, raw[ip + 12 + n * 4 : ip + 16 + n * 4]))}:{struct.unpack_from('>H', raw, tcp + n * 2)[0]}"
        for n in (0, 1)
    ]
    return ends[0], ends[1], raw[tcp + 13], raw[tcp + (raw[tcp + 12] >> 4) * 4 : stop]
