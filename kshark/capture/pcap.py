"""pcap files: bytes in, packet batches out.

Source: IETF draft-ietf-opsawg-pcap ("PCAP Capture File Format").
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view

from kshark.capture.batches import chosen
from kshark.capture.carry import Carry
from kshark.capture.formats import FILE_HEADER, FORMATS, Format, begins_pcap, begins_pcapng, follows
from kshark.capture.origins import Description, Origins, same_origin
from kshark.capture.resume_point import START, ResumePoint
from kshark.capture.resync import READ, first_record
from kshark.capture.text import text_at, text_in, text_line
from kshark.errors import Damaged
from kshark.limits import PACKET_BYTES
from kshark.model import PacketBatch, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

#: Bytes after an impossible record in which the text that put it there begins at the latest.
_TEXT_BYTES: Final = 512


class Header(NamedTuple):
    """The file's header."""

    format: Format
    link_type: int


class Stop(Struct, frozen=True):
    """The record before which reading stops: how many whole records come before it, and its position.

    `why`: an impossible length; another capture begins there; text of another program stands there or in that record,
    from `text` on; or only the `need` bytes from there on show which of these it is.
    """

    records: int
    position: int
    why: Literal["length", "capture", "text", "wait"]
    text: int = 0
    need: int = 0


class PcapReader:
    """One pcap file: `feed` its bytes in pieces of any size, then `close`.

    Packets are numbered from 1. Reading stops at an impossible length; the bytes after it are counted and reported at
    the end. Where the text of another program stands there, reading continues after it, without the packet that the
    text damaged. Where another capture begins (cat a.pcap b.pcap), its bytes are left in `rest`. Raises Damaged when
    the file ends inside its header. `begin`: the position of another reader, from which this one continues. `origins`:
    batches have the origins of packets.
    """

    def __init__(self, begin: ResumePoint[Header] = START, origins: Origins | None = None) -> None:
        self._origins = origins
        position, self._number, self._time_ns, self._header = begin
        self._carry = Carry(FILE_HEADER if self._header is None else self._header.format.record_header, position)
        self._unread: int | None = None
        #: The bytes from the record on that text damaged, and where in them the text begins; None if there is no text.
        self._lost: bytes | None = None
        self._text = 0
        self._waits = False
        self.rest = b""

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
        if self._lost is not None:
            self._lost += data
            if len(self._lost) >= READ:
                yield from self._continue(self._lost, to_end=False)
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

    def close(self) -> Iterator[PacketBatch | Weird]:
        if self._waits and self._header is not None:
            yield from self._packets(self._carry.take(), 0, self._header, at_end=True)
        if self._lost is not None:
            yield from self._continue(self._lost, to_end=True)
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

    def _packets(
        self, joined: bytes, start: int, header: Header, *, at_end: bool = False
    ) -> Iterator[PacketBatch | Weird]:
        """Yield the whole records from `start` on. `at_end`: no more bytes come."""
        form = header.format
        starts, consumed = _walk(joined, start, form)
        batch = self._columns(joined, starts, header) if starts else None
        stop = self._stop_in(joined, starts, consumed, batch, form, at_end=at_end)
        self._waits = stop is not None and stop.why == "wait"
        if batch is not None and (stop is None or stop.records):
            batch = batch if stop is None else chosen(batch, slice(stop.records))
            self._number += len(batch.number)
            self._time_ns = int(batch.time_ns[-1])
            yield batch
        if stop is None:
            self._carry.keep(joined, consumed, _needed(joined, consumed, form))
        elif stop.why == "wait":
            self._carry.keep(joined, stop.position, stop.need)
        else:
            self._carry.keep(joined[: stop.position], stop.position, form.record_header)
            yield from self._stop(joined[stop.position :], stop, form)

    def _stop_in(
        self, joined: bytes, starts: list[int], consumed: int, batch: PacketBatch | None, form: Format, *, at_end: bool
    ) -> Stop | None:
        """Return where reading stops in these bytes; None if it continues to their end."""
        records, position = len(starts), consumed
        if batch is not None:
            odd = _first_odd(joined, starts, batch)
            records, position = (odd, starts[odd]) if odd is not None else (records, position)
        if begins_pcap(joined, position, whole=False) or begins_pcapng(joined, position):
            return Stop(records, position, "capture")
        before = starts[records - 1] if records else position
        if _length_at(joined, position, form) > PACKET_BYTES:
            stop = _text_before(joined, starts[:records], position, form) or Stop(records, position, "length")
            if len(joined) >= position + _TEXT_BYTES or at_end:
                return stop
            held = min(before, stop.position)
            return Stop(bisect_left(starts, held), held, "wait", need=position + _TEXT_BYTES - held)
        return self._text_in_last(joined, starts[:records], position, form, at_end=at_end)

    def _text_in_last(
        self, joined: bytes, starts: list[int], position: int, form: Format, *, at_end: bool
    ) -> Stop | None:
        """Return where reading stops if the last record holds text that does not belong there; None if there is none.

        The next record shows it, which is at `position` or, after waiting for it, one of `starts`.
        """
        text = text_in(joined, starts[0 if self._waits else -1], position) if starts else None
        if text is None:
            return None
        record = bisect_right(starts, text[0]) - 1
        after = [*starts[record + 1 :], position][0]
        if follows(joined, after, form, starts[record]) or (at_end and after == len(joined)):
            return None
        if after + form.record_header > len(joined) and not at_end:
            return Stop(record, starts[record], "wait", need=after + form.record_header - starts[record])
        return Stop(record, starts[record], "text", text[0])

    def _stop(self, data: bytes, stop: Stop, form: Format) -> Iterator[PacketBatch | Weird]:
        """Stop at the record that begins these bytes."""
        if stop.why == "capture":
            self.rest = data
        elif stop.why == "text":
            self._lost, self._text = data, stop.text - stop.position
            if len(data) >= READ:
                yield from self._continue(data, to_end=False)
        else:
            yield self._give_up(data, _length_at(data, 0, form))

    def _continue(self, lost: bytes, *, to_end: bool) -> Iterator[PacketBatch | Weird]:
        """Continue with the first record after text. `to_end`: the bytes end with the file."""
        assert self._header is not None
        self._lost = None
        lines = text_in(lost, self._text, self._text + _TEXT_BYTES)
        text_end = self._text if lines is None else lines[1]
        around_s = self._time_ns // 1_000_000_000 if self._number else None
        found = first_record(lost[text_end:READ], self._header.format, around_s, to_end=to_end, least=2)
        if found is None and not to_end:
            yield self._give_up(lost, _length_at(lost, 0, self._header.format))
            return
        position = len(lost) if found is None else text_end + found
        yield self._weird("FOREIGN_BYTES", text_line(lost[:position], self._text), position)
        yield from self._packets(lost, position, self._header)

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
            origin=self._origin(header.link_type, len(starts)),
        )

    def _origin(self, link_type: int, count: int) -> Int64s | None:
        origins = self._origins
        return None if origins is None else same_origin(origins.interface(Description(0, link_type, 0)), count)

    def _give_up(self, data: bytes, length: int) -> Weird:
        """Stop reading at the record that begins these bytes."""
        self._unread = len(data)
        return self._weird(
            "PACKET_LENGTH_INVALID",
            f"packet {self._number + 1}, at byte {self._carry.position}, claims {length} bytes; reading stops",
        )

    def _weird(self, code: str, detail: str, size: int = 0) -> Weird:
        return Weird(code, "capture", self._number, self._time_ns, detail, size=size)


def _walk(joined: bytes, position: int, form: Format) -> tuple[list[int], int]:
    """Return the positions of whole records, and of the first unfinished one. The one loop that runs for every
    packet.
    """
    starts: list[int] = []
    add = starts.append
    length_at = struct.Struct(form.order + "8xI").unpack_from
    step = form.record_header
    end = len(joined)
    last = end - step
    while position <= last:
        add(position)
        position += step + length_at(joined, position)[0]
    if starts and position > end:  # the last one is not whole
        position = starts.pop()
    return starts, position


def _first_odd(joined: bytes, starts: list[int], batch: PacketBatch) -> int | None:
    """Return the first record that is too long, or the header of another capture; None if there is neither."""
    too_long = int(np.argmax(batch.length > PACKET_BYTES)) if int(batch.length.max()) > PACKET_BYTES else None
    if not batch.length.all():  # the header of a pcap file reads as a packet of 0 bytes
        for row in np.flatnonzero(batch.length[:too_long] == 0).tolist():
            if begins_pcap(joined, starts[row], whole=False):
                return int(row)
    return too_long


def _length_at(data: bytes, at: int, form: Format) -> int:
    """Return the captured length in the record header there; -1 if the header is not whole."""
    if at + form.record_header > len(data):
        return -1
    length: int = struct.unpack_from(form.order + "I", data, at + 8)[0]
    return length


def _needed(joined: bytes, at: int, form: Format) -> int:
    """Return the bytes of the record there, as far as they are known."""
    return form.record_header + max(0, _length_at(joined, at, form))


def _text_before(joined: bytes, starts: list[int], position: int, form: Format) -> Stop | None:
    """Return where reading stops if text explains the impossible record at `position`; else None.

    The text stands there, or in one of the records before it, which begin at `starts`: then the next one is none.
    """
    text = text_in(joined, starts[0] if starts else position, position + _TEXT_BYTES)
    if text is None:
        return Stop(len(starts), position, "text", position) if text_at(joined, position) else None
    if text[0] >= position:
        return Stop(len(starts), position, "text", text[0])
    record = bisect_right(starts, text[0]) - 1
    if record + 1 < len(starts) and follows(joined, starts[record + 1], form, starts[record]):
        return None
    return Stop(record, starts[record], "text", text[0])
