"""pcap files: bytes in, packet batches out.

Source: IETF draft-ietf-opsawg-pcap ("PCAP Capture File Format"); the modified format with longer record headers:
libpcap, pcap-common."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kshark.capture.carry import Carry
from kshark.capture.resume_point import START, ResumePoint
from kshark.errors import Damaged
from kshark.limits import PACKET_BYTES
from kshark.model import PacketBatch, Weird


class Format(NamedTuple):
    """The meaning of the magic number: byte order, nanoseconds per unit of the time's fraction, bytes of a record
    header.
    """

    order: str
    unit_ns: int
    record_header: int


FORMATS: Final = {
    b"\xd4\xc3\xb2\xa1": Format("<", 1000, 16),
    b"\xa1\xb2\xc3\xd4": Format(">", 1000, 16),
    b"\x4d\x3c\xb2\xa1": Format("<", 1, 16),
    b"\xa1\xb2\x3c\x4d": Format(">", 1, 16),
    b"\x34\xcd\xb2\xa1": Format("<", 1000, 24),
    b"\xa1\xb2\xcd\x34": Format(">", 1000, 24),
}
FILE_HEADER: Final = 24


class Header(NamedTuple):
    """The file's header."""

    format: Format
    link_type: int


class PcapReader:
    """One pcap file: `feed` its bytes in pieces of any size, then `close`.

    Packets are numbered from 1. Reading stops at an impossible length; the bytes after it are counted and reported at
    the end. Raises Damaged when the file ends inside its header. `begin`: the position of another reader, from which
    this one continues.
    """

    def __init__(self, begin: ResumePoint[Header] = START) -> None:
        position, self._number, self._time_ns, self._header = begin
        self._carry = Carry(FILE_HEADER if self._header is None else self._header.format.record_header, position)
        self._unread: int | None = None

    @property
    def resume_point(self) -> ResumePoint[Header]:
        """The position after the bytes fed so far; another reader can continue there if none are `missing`."""
        return ResumePoint(self._carry.position + len(self._carry), self._number, self._time_ns, self._header)

    @property
    def missing(self) -> int:
        """Bytes of the begun record that are known to be missing."""
        return self._carry.missing

    @property
    def stopped(self) -> bool:
        return self._unread is not None

    def feed(self, data: bytes) -> Iterator[PacketBatch | Weird]:
        if self._unread is not None:
            self._unread += len(data)
            return
        joined = self._carry.join(data)
        if joined is None:
            return
        start = 0
        if self._header is None:
            form = FORMATS[joined[:4]]
            self._header = Header(
                form, int.from_bytes(joined[20:24], "little" if form.order == "<" else "big") & 0xFFFF
            )
            start = FILE_HEADER
        yield from self._packets(joined, start, self._header)

    def close(self) -> Iterator[Weird]:
        left = len(self._carry)
        if self._unread is not None:
            if self._unread:
                yield self._weird("CAPTURE_UNREAD", f"{self._unread} bytes were not read", self._unread)
        elif self._header is None:
            raise Damaged(f"the pcap file ends after {left} bytes, inside its header of {FILE_HEADER}")
        elif left:
            yield self._weird(
                "CAPTURE_CUT", f"the file ends {left} bytes into the record of packet {self._number + 1}", left
            )

    def _packets(self, joined: bytes, start: int, header: Header) -> Iterator[PacketBatch | Weird]:
        form = header.format
        starts, consumed = _walk(joined, start, form)
        if starts:
            batch = self._columns(joined, starts, header)
            sound = len(starts)
            if int(batch.length.max()) > PACKET_BYTES:
                sound = int(np.argmax(batch.length > PACKET_BYTES))
                consumed = starts[sound]
                batch = self._columns(joined, starts[:sound], header) if sound else batch
            if sound:
                self._number += sound
                self._time_ns = int(batch.time_ns[-1])
                yield batch
        need = form.record_header
        if consumed + need <= len(joined):
            length = struct.unpack_from(form.order + "I", joined, consumed + 8)[0]
            if length > PACKET_BYTES:
                yield self._stop(joined, consumed, length)
                return
            need += length
        self._carry.keep(joined, consumed, need)

    def _columns(self, joined: bytes, starts: list[int], header: Header) -> PacketBatch:
        form = header.format
        position = np.array(starts, np.int64)
        words = (
            sliding_window_view(np.frombuffer(joined, np.uint8), 16)[position].view(form.order + "u4").astype(np.int64)
        )
        return PacketBatch(
            buffer=joined,
            number=np.arange(self._number + 1, self._number + 1 + len(starts), dtype=np.int64),
            time_ns=words[:, 0] * 1_000_000_000 + words[:, 1] * form.unit_ns,
            link_type=np.full(len(starts), header.link_type, np.int64),
            offset=position + form.record_header,
            length=words[:, 2],
            wire_length=words[:, 3],
        )

    def _stop(self, joined: bytes, consumed: int, length: int) -> Weird:
        self._unread = len(joined) - consumed
        position = self._carry.position + consumed
        return self._weird(
            "PACKET_LENGTH_INVALID",
            f"packet {self._number + 1}, at byte {position}, claims {length} bytes; reading stops",
        )

    def _weird(self, code: str, detail: str, size: int = 0) -> Weird:
        return Weird(code, "capture", self._number, self._time_ns, detail, size=size)


def _walk(joined: bytes, position: int, form: Format) -> tuple[list[int], int]:
    """Return the positions of whole records, and of the first unfinished one. The one loop that runs for every
    packet.
    """
    starts: list[int] = []
    add = starts.append
    length_at = struct.Struct(form.order + "I").unpack_from
    step = form.record_header
    end = len(joined)
    last = end - step
    while position <= last:
        next_record = position + step + length_at(joined, position + 8)[0]
        if next_record > end:
            break
        add(position)
        position = next_record
    return starts, position
