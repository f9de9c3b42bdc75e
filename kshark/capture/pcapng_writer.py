"""Write pcapng files: packets in, the bytes of blocks out.

Source: IETF draft-ietf-opsawg-pcapng, section 4. A file is one section, little-endian, with times in nanoseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.capture.blocks import ENHANCED_PACKET
from kshark.capture.formats import MAGIC
from kshark.capture.interfaces import IF_TSRESOL, ISB_IFDROP, ISB_IFRECV
from kshark.capture.origins import COMMENT, Option, Origins
from kshark.capture.pcapng import (
    DECRYPTION_SECRETS,
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    TLS_KEY_LOG,
)
from kshark.model import PacketBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s, UInt8s

#: Options of packets, by their row in a batch.
PacketOptions = Mapping[int, Sequence[Option]]
NO_OPTIONS: Final[PacketOptions] = MappingProxyType({})
NO_COUNTS: Final[Mapping[int, int]] = MappingProxyType({})

_BYTE_ORDER: Final = 0x1A2B3C4D
_APPLICATION: Final = 4
_ISB_STARTTIME: Final = 2
_NANOSECONDS: Final = (IF_TSRESOL, b"\x09")
#: Bytes of a comment: more do not fit into an option.
COMMENT_BYTES: Final = 60_000
#: Block type, block length, interface, time (high, low), captured and original length.
_PACKET: Final = struct.Struct("<IIIIIII")
_LOW: Final = (1 << 32) - 1
#: Bytes of a packet's block before and after the captured bytes.
_AROUND: Final = _PACKET.size + 4
#: Captured bytes are copied in steps of so many bytes. A block's end and the next block's begin are as long, so that
#: bytes of the last step that do not belong to the packet are overwritten by them.
_STEP: Final = 32
#: By the number of captured bytes in the last word: the bits that stay.
_KEPT: Final = np.array([0xFFFFFFFF, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


class PcapngWriter:
    """The blocks of one pcapng file, in order; `origins` are those of the packets. Each method returns bytes."""

    def __init__(self, origins: Origins, application: str = "kshark") -> None:
        self._origins = origins
        self._application = application
        #: The interfaces of the file, by their number in the origins.
        self._interfaces: dict[int, int] = {}
        self._last_ns = 0

    def begin(self) -> bytes:
        """Return the section header, with the comments of the sections known so far."""
        once = {code: (code, value) for code, value in self._origins.section if code not in (COMMENT, _APPLICATION)}
        comments = [option for option in self._origins.section if option[0] == COMMENT]
        listed = [*comments, *once.values(), (_APPLICATION, self._application.encode())]
        (kind,) = struct.unpack("<I", MAGIC)
        return _block(kind, struct.pack("<IHHq", _BYTE_ORDER, 1, 0, -1) + _options(listed))

    def describe(self, interfaces: Iterable[int]) -> bytes:
        """Return the interfaces that are new, by their numbers in the origins."""
        return b"".join(self._described(number) for number in interfaces if number not in self._interfaces)

    @property
    def has_interfaces(self) -> bool:
        return bool(self._interfaces)

    def secrets(self, key_log: bytes) -> bytes:
        """Return the secrets of the packets after them, from lines of a TLS key log."""
        return _block(DECRYPTION_SECRETS, struct.pack("<II", TLS_KEY_LOG, len(key_log)) + _padded(key_log))

    def packets(self, batch: PacketBatch, interfaces: Int64s, options: PacketOptions = NO_OPTIONS) -> bytes:
        """Return the packets of a batch, and first the interfaces that are new.

        `interfaces`: of each row, as numbers of the origins. `options`: those of rows that have some. A time before
        1970 becomes 1970.
        """
        found = np.unique(interfaces)
        new = self.describe(found.tolist())
        numbers = np.array([self._interfaces[number] for number in found.tolist()], np.int64)
        self._last_ns = max(self._last_ns, int(batch.time_ns.max(initial=0)))
        return new + packet_blocks(batch, numbers[np.searchsorted(found, interfaces)], options)

    def statistics(
        self, dropped: Mapping[int, int], received: Mapping[int, int] = NO_COUNTS, since_ns: int | None = None
    ) -> bytes:
        """Return counters of interfaces: how many packets each dropped, and how many it received, if it is counted.

        Both are by number of the origins, and since the beginning of the file, at `since_ns` if given; later counters
        replace earlier ones. Interfaces of which nothing is counted are left out.
        """
        return b"".join(
            _block(
                INTERFACE_STATISTICS,
                struct.pack("<I", interface)
                + _time(self._last_ns)
                + _options(
                    [
                        *([] if since_ns is None else [(_ISB_STARTTIME, _time(since_ns))]),
                        *([(ISB_IFRECV, struct.pack("<Q", received[found]))] if found in received else []),
                        (ISB_IFDROP, struct.pack("<Q", dropped.get(found, 0))),
                    ]
                ),
            )
            for found, interface in self._interfaces.items()
            if dropped.get(found) or found in received
        )

    def _described(self, found: int) -> bytes:
        """Number an interface of the origins, and return its description."""
        self._interfaces[found] = len(self._interfaces)
        interface = self._origins.interfaces[found]
        body = struct.pack("<HHI", interface.link_type & 0xFFFF, 0, interface.snap_length)
        return _block(INTERFACE_DESCRIPTION, body + _options([*interface.options, _NANOSECONDS]))


def block_sizes(batch: PacketBatch) -> Int64s:
    """Return the size of the block of each packet without options, in bytes."""
    return _AROUND + _even(batch.length)


def packet_blocks(batch: PacketBatch, interfaces: Int64s, options: PacketOptions = NO_OPTIONS) -> bytes:
    """Return the Enhanced Packet Blocks of all packets of a batch, without a step for each packet.

    `interfaces` are their numbers in the section.
    """
    if not len(batch.number):
        return b""
    tails = {row: _options(listed) for row, listed in options.items() if listed}
    sizes = block_sizes(batch)
    for row, tail in tails.items():
        sizes[row] += len(tail)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    total = int(ends[-1])
    # captured bytes first: they are copied in whole steps, and what is too much is overwritten by the blocks around
    blocks = np.zeros(total + _STEP, np.uint8)
    _copy(batch, blocks, begins + _PACKET.size)
    words = blocks.view("<u4")
    _pad(words, batch.length, begins + _PACKET.size)
    time_ns = np.maximum(batch.time_ns, 0)
    columns = (
        np.int64(ENHANCED_PACKET),
        sizes,
        interfaces,
        time_ns >> 32,
        time_ns & _LOW,
        batch.length,
        batch.wire_length,
    )
    at = begins >> 2
    for index, column in enumerate(columns):
        words[at + index] = column
    words[(ends >> 2) - 1] = sizes
    for row, tail in tails.items():
        end = int(ends[row]) - 4
        blocks[end - len(tail) : end] = np.frombuffer(tail, np.uint8)
    return blocks[:total].tobytes()


def _copy(batch: PacketBatch, blocks: UInt8s, begins: Int64s) -> None:
    """Copy the captured bytes of each packet to a position; up to one step more than its length.

    Packets of equal length, in steps, are copied by one call.
    """
    source = np.frombuffer(batch.buffer, np.uint8)
    steps = -(-batch.length // _STEP)
    is_last = batch.offset + steps * _STEP > len(source)  # one step more would be outside the buffer
    for row in np.flatnonzero(is_last).tolist():
        begin, offset, length = int(begins[row]), int(batch.offset[row]), int(batch.length[row])
        blocks[begin : begin + length] = source[offset : offset + length]
    steps[is_last] = 0
    order = np.argsort(steps, kind="stable")
    kinds, first = np.unique(steps[order], return_index=True)
    for step, rows in zip(kinds.tolist(), np.split(order, first[1:]), strict=True):
        if step:
            length = step * _STEP
            kind = np.dtype(f"V{length}")
            taken = np.ndarray((len(source) - length + 1,), kind, batch.buffer, strides=(1,))[batch.offset[rows]]
            np.ndarray((len(blocks) - length + 1,), kind, blocks.data, strides=(1,))[begins[rows]] = taken


def _pad(words: NDArray[np.uint32], lengths: Int64s, begins: Int64s) -> None:
    """Set the padding after the captured bytes to zero."""
    rows = np.flatnonzero(lengths & 3)
    last = begins[rows] + lengths[rows] >> 2
    words[last] &= _KEPT[lengths[rows] & 3]


def _even(lengths: Int64s) -> Int64s:
    return lengths + (-lengths & 3)


def _block(kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def _options(options: Iterable[Option]) -> bytes:
    """Return a list of options with its end."""
    listed = b"".join(struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
    return listed + bytes(4) if listed else b""


def _time(time_ns: int) -> bytes:
    return struct.pack("<II", time_ns >> 32, time_ns & _LOW)


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) & 3)


def comment_option(comment: str) -> Option:
    """Return the option of a comment, shortened to what fits into one."""
    return COMMENT, _text(comment)


def _text(comment: str) -> bytes:
    return comment.encode(errors="replace")[:COMMENT_BYTES].decode(errors="ignore").encode()
