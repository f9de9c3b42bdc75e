"""Rewrite a capture: every TCP connection with pseudonyms in its addresses and messages, each packet at its time.

The capture is read twice: first its streams and the frames in them, then its segments, which get the new bytes in the
places of the old ones. Lengths change, so sequence numbers follow. What is not a message that can be read (TLS, other
protocols, damaged frames) becomes zero bytes; packets without TCP are left out. The whole capture is in memory: this is
for evidence, not for captures of any size.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kshark.anonymous.messages import ConnectionFrames, masked
from kshark.anonymous.packets import RAW_IP, Rewritten, ip_packet, kept_options
from kshark.anonymous.pseudonyms import Pseudonyms
from kshark.anonymous.streams import Stream
from kshark.capture import open_captures
from kshark.capture.origins import Description, Origins, same_origin
from kshark.capture.pcapng_writer import PcapngWriter
from kshark.link import Link
from kshark.model import ACK, SYN, Ends, Flow, Frames, PacketBatch
from kshark.pipeline import Front, Options
from kshark.registry import Registry

#: The length prefix, and what identifies a request.
_REQUEST_BYTES: Final = 12
#: Packets that are written at a time.
_PAGE: Final = 4096


class _Segment(NamedTuple):
    packet: int
    time_ns: int
    pair: int
    side: int
    seq: int
    ack: int
    flags: int
    window: int
    payload: bytes
    missing: int
    options: bytes


class _Connection:
    """The streams of both sides, by the order of the ends, and the frames."""

    def __init__(self, ends: Ends, registry: Registry, names: Pseudonyms) -> None:
        self.ends = ends
        self.streams = Stream(), Stream()
        self.frames = ConnectionFrames(registry, names)
        self.opening: dict[int, int] = {}


def anonymise(path: Path, target: Path, names: Pseudonyms, options: Options, registry: Registry) -> array[int]:
    """Write an anonymous copy of a capture, and return the numbers of the packets that it has, in order."""
    segments, ends = _segments(path)
    connections: list[_Connection] = []
    latest: dict[int, _Connection] = {}
    of_packet: dict[int, _Connection] = {}
    for segment in segments:
        connection = latest.get(segment.pair)
        opens = segment.flags & SYN and not segment.flags & ACK
        if connection is None or (opens and connection.opening.get(segment.side, segment.seq) != segment.seq):
            connection = latest[segment.pair] = _Connection(ends[segment.pair], registry, names)
            connections.append(connection)
        if segment.flags & SYN:
            connection.opening[segment.side] = segment.seq
        connection.streams[segment.side].add(segment.seq, segment.payload, is_opening=bool(segment.flags & SYN))
        of_packet[segment.packet] = connection
    for frame, flow, by_client, packet in _frames(path, options, registry):
        connection = of_packet.get(packet)
        if connection is not None:
            _replace(connection, frame, flow, by_client=by_client)
    for connection in connections:
        for stream in connection.streams:
            stream.close()
    written = [(it, _rewritten(it, of_packet[it.packet], names)) for it in segments]
    _write(target, written)
    return array("q", [it.packet for it in segments])


def _segments(path: Path) -> tuple[list[_Segment], dict[int, Ends]]:
    """Return all segments of a capture, and the ends of its pairs."""
    link = Link()
    found: list[_Segment] = []
    ends: dict[int, Ends] = {}
    for item in open_captures([path]):
        if not isinstance(item, PacketBatch):
            continue
        segments, _ = link.feed(item)
        if segments is None:
            continue
        window = segments.window
        assert window is not None
        columns = (
            segments.packet,
            segments.time_ns,
            segments.path,
            segments.seq,
            segments.ack,
            segments.flags,
            window,
            segments.offset,
            segments.length,
            segments.missing,
        )
        for packet, time_ns, way, seq, ack, flags, size, offset, length, missing in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            payload = segments.buffer[offset : offset + length]
            ends.setdefault(way >> 1, segments.ends[way >> 1])
            options = kept_options(segments.buffer, offset, seq, ack)
            found.append(_Segment(packet, time_ns, way >> 1, way & 1, seq, ack, flags, size, payload, missing, options))
    return found, ends


def _frames(path: Path, options: Options, registry: Registry) -> Iterator[tuple[bytes, Flow, bool, int]]:
    """Yield each frame as far as it was captured, its connection, if the client sent it, and its last packet."""
    for batch in Front(options, registry).batches(open_captures([path])):
        for frames in batch:
            if type(frames) is not Frames:
                continue
            columns = (frames.stream, frames.start, frames.end, frames.last_packet, frames.cut)
            for stream, start, end, packet, cut in zip(*(column.tolist() for column in columns), strict=True):
                by_client = frames.by_client[stream]
                if by_client is not None:
                    body = frames.buffer[start:end]
                    frame = (len(body) + cut).to_bytes(4, "big") + body
                    yield frame, frames.flows[stream], by_client, packet


def _replace(connection: _Connection, frame: bytes, flow: Flow, *, by_client: bool) -> None:
    """Replace a frame in its stream."""
    side = flow.calling_side if by_client else 1 - flow.calling_side
    stream = connection.streams[connection.ends.index(flow.ends[side])]
    if len(frame) < 4 + int.from_bytes(frame[:4], "big"):  # cut by the snap length: its length must stay
        stream.replace(frame, frame[:_REQUEST_BYTES] + masked(frame[_REQUEST_BYTES:]))
        return
    body = connection.frames.request(frame[4:]) if by_client else connection.frames.response(frame[4:])
    if connection.frames.has_tokens:
        stream.keeps_little()
    stream.replace(frame, len(body).to_bytes(4, "big") + body)


def _rewritten(segment: _Segment, connection: _Connection, names: Pseudonyms) -> Rewritten:
    own, other = connection.streams[segment.side], connection.streams[1 - segment.side]
    is_opening = bool(segment.flags & SYN)
    begin = own.offset(segment.seq + is_opening)
    end = begin + len(segment.payload)
    new = [own.position(at) for at in (begin, end, end + segment.missing)]
    ack = segment.ack
    if segment.flags & ACK and other.first is not None:
        ack = other.first + other.position(other.offset(segment.ack))
    first = segment.seq if own.first is None else own.first
    return Rewritten(
        names.end(connection.ends[segment.side]),
        names.end(connection.ends[1 - segment.side]),
        first + new[0] - is_opening,
        ack,
        segment.flags,
        segment.window,
        own.bytes(new[0], new[1]),
        new[2] - new[1],
        segment.options,
    )


def _write(target: Path, packets: list[tuple[_Segment, Rewritten]]) -> None:
    origins = Origins()
    interface = origins.interface(Description(0, RAW_IP, 0))
    writer = PcapngWriter(origins)
    with target.open("wb") as file:
        file.write(writer.begin())
        for at in range(0, len(packets), _PAGE):
            page = packets[at : at + _PAGE]
            made = [ip_packet(it) for _, it in page]
            length = np.array([len(data) for data, _ in made], np.int64)
            batch = PacketBatch(
                buffer=b"".join(data for data, _ in made),
                number=np.arange(at + 1, at + 1 + len(page), dtype=np.int64),
                time_ns=np.array([it.time_ns for it, _ in page], np.int64),
                link_type=np.full(len(page), RAW_IP, np.int64),
                offset=np.cumsum(length) - length,
                length=length,
                wire_length=np.array([wire for _, wire in made], np.int64),
            )
            file.write(writer.packets(batch, same_origin(interface, len(page))))
