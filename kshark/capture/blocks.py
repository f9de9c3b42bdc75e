"""Consecutive packet blocks of a pcapng section, as columns.

Source: IETF draft-ietf-opsawg-pcapng, sections 4.3 (Enhanced), 4.4 (Simple), appendix A (the obsolete Packet Block).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kshark.capture.batches import chosen
from kshark.capture.interfaces import Interface, options, to_ns
from kshark.capture.origins import Origins, packet_options
from kshark.limits import BLOCK_BYTES, DROPPED_PACKETS
from kshark.model import PacketBatch, Weird

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s

PACKET: Final = 2
SIMPLE_PACKET: Final = 3
ENHANCED_PACKET: Final = 6

#: Bytes before the packet data in an Enhanced or obsolete Packet Block, and in a Simple one; padding, options and the
#: length follow the data.
HEADER: Final = 28
SIMPLE_HEADER: Final = 12
TRAILER: Final = 4

EPB_DROPCOUNT: Final = 4
#: Bytes of an option without a value.
LEAST_OPTION: Final = 4
#: Bytes of that option with its header; a shorter list of options cannot hold it.
DROP_COUNT_SIZE: Final = 12
UNKNOWN_DROPS: Final = 0xFFFF


class PacketBlocks:
    """Whole packet blocks of the three kinds, by their position in `buffer`.

    `sound` is the number of blocks before the first one whose two lengths disagree.
    """

    def __init__(self, buffer: bytes, order: str, position: Int64s) -> None:
        view = np.frombuffer(buffer, np.uint8)
        size = _words(view, position + 4, 1, order)[:, 0]
        trailing = _words(view, position + size - TRAILER, 1, order)[:, 0]
        wrong = (trailing != size) | (size & 3 != 0) | (size > BLOCK_BYTES)
        self.sound = int(np.argmax(wrong)) if wrong.any() else len(position)
        self._buffer = buffer
        self._order = order
        self._position = position[: self.sound]
        self._size = size[: self.sound]

    def read(
        self,
        interfaces: list[Interface],
        number: int,
        before_ns: int,
        origins: Origins | None = None,
        numbers: Sequence[int] = (),
    ) -> tuple[PacketBatch, list[Weird]]:
        """Return the sound blocks' packets, numbered from `number`, and faults of packets left out or lost before them.

        `before_ns`: the time of the previous packet; a Simple Packet Block, which has no time of its own, gets it.
        `origins`: the batch has the origins of its packets; `numbers` are those of the interfaces.
        """
        words = self._header()
        kind, first = words[:, 0], words[:, 2]
        simple = kind == SIMPLE_PACKET
        offset = self._position + np.where(simple, SIMPLE_HEADER, HEADER)
        room = self._position + self._size - TRAILER - offset
        interface = np.where(simple, 0, np.where(kind == PACKET, _first_half(first, self._order), first))
        length = words[:, 5]
        if simple.any():
            snap_length = interfaces[0].snap_length if interfaces else 0
            length = np.where(simple, np.minimum(first, np.minimum(room, snap_length or room)), length)
        described, fits = interface < len(interfaces), (length <= room) & (length >= 0)
        good = described & fits
        batch = PacketBatch(
            buffer=self._buffer,
            number=np.arange(number, number + len(kind), dtype=np.int64),
            time_ns=_times(words, interface, interfaces, good & ~simple, before_ns),
            link_type=np.array([i.link_type for i in interfaces] or [0], np.int64)[np.where(described, interface, 0)],
            offset=offset,
            length=length,
            wire_length=np.where(simple, first, words[:, 6]),
        )
        if origins is not None:
            batch.origin = np.array(numbers or [0], np.int64)[np.where(described, interface, 0)]
            self._hold(batch, kind, first, good & ~simple, room, origins)
        faults = [] if good.all() else list(_faults(batch, interface, self._size, described, good))
        faults.extend(self._drops(batch, kind, first, good, room))
        return (batch if good.all() else chosen(batch, good)), faults

    def _hold(
        self,
        batch: PacketBatch,
        kind: Int64s,
        first: Int64s,
        good: NDArray[np.bool_],
        room: Int64s,
        origins: Origins,
    ) -> None:
        """Add the options of packets to their origins; the drop count of an obsolete block becomes one."""
        assert batch.origin is not None
        spare = room - batch.length - (-batch.length & 3)
        for row in np.flatnonzero(good & ((spare > LEAST_OPTION) | (kind == PACKET))).tolist():
            end = int(batch.offset[row] + room[row])
            found = packet_options(self._buffer, end - int(spare[row]), end, self._order)
            drops = _field_drops(int(first[row]), self._order) if kind[row] == PACKET else 0
            if drops:
                found = (*found, (EPB_DROPCOUNT, drops.to_bytes(8, "little")))
            if found:
                batch.origin[row] = origins.hold(int(batch.origin[row]), found)

    def _header(self) -> Int64s:
        """Return the first seven words of every block; a shorter block's words reach into the bytes after it."""
        enough = int(self._position[-1]) + HEADER <= len(self._buffer)
        view = np.frombuffer(self._buffer if enough else self._buffer + bytes(HEADER), np.uint8)
        return _words(view, self._position, HEADER // 4, self._order)

    def _drops(
        self, batch: PacketBatch, kind: Int64s, first: Int64s, good: NDArray[np.bool_], room: Int64s
    ) -> Iterator[Weird]:
        """Yield the packets lost right before a block, from an Enhanced block's option or an obsolete block's field."""
        data_size = batch.length + (-batch.length & 3)
        spare = room - data_size
        suspects = np.flatnonzero(good & (((kind == ENHANCED_PACKET) & (spare >= DROP_COUNT_SIZE)) | (kind == PACKET)))
        for row in suspects.tolist():
            if kind[row] == PACKET:
                count = _field_drops(int(first[row]), self._order)
            else:
                end = int(batch.offset[row] + room[row])
                count = _drop_count(self._buffer, end - int(spare[row]), end, self._order)
            if count:
                detail = f"{count} packets dropped before this one"
                number, time_ns = int(batch.number[row]), int(batch.time_ns[row])
                yield Weird("PACKETS_DROPPED", "capture", number, time_ns, detail, times=min(count, DROPPED_PACKETS))


def _words(view: NDArray[np.uint8], position: Int64s, count: int, order: str) -> Int64s:
    return sliding_window_view(view, 4 * count)[position].view(order + "u4").astype(np.int64)


def _first_half(word: Int64s, order: str) -> Int64s:
    return word >> 16 if order == ">" else word & 0xFFFF


def _field_drops(word: int, order: str) -> int:
    """Return the drop count of an obsolete block, from the word with its interface."""
    count = word & 0xFFFF if order == ">" else word >> 16
    return 0 if count == UNKNOWN_DROPS else count


def _drop_count(buffer: bytes, position: int, end: int, order: str) -> int:
    drops = (
        value for code, value in options(buffer, position, end, order) if code == EPB_DROPCOUNT and len(value) == 8
    )
    return sum(int.from_bytes(value, "little" if order == "<" else "big") for value in drops)


def _times(
    words: Int64s, interface: Int64s, interfaces: list[Interface], own: NDArray[np.bool_], before_ns: int
) -> Int64s:
    """Return the times of blocks that have their `own`; other blocks get the previous time."""
    ticks = words[:, 3].astype(np.uint64) << np.uint64(32) | words[:, 4].astype(np.uint64)
    times = np.full(len(words), before_ns, np.int64)
    for at in np.flatnonzero(np.bincount(interface[own])).tolist():  # np.unique would import numpy.ma
        rows = np.flatnonzero(own & (interface == at))
        times[rows] = to_ns(ticks[rows], interfaces[at])
    if own.all():
        return times
    last = np.maximum.accumulate(np.where(own, np.arange(len(words)), -1))
    return np.where(last >= 0, times[last], before_ns)


def _faults(
    batch: PacketBatch, interface: Int64s, size: Int64s, described: NDArray[np.bool_], good: NDArray[np.bool_]
) -> Iterator[Weird]:
    for row in np.flatnonzero(~good).tolist():
        number, time_ns, bytes_ = int(batch.number[row]), int(batch.time_ns[row]), int(size[row])
        if described[row]:
            detail = f"a block of {bytes_} bytes cannot hold {int(batch.length[row])} of a packet; it was skipped"
            yield Weird("BLOCK_INVALID", "capture", number, time_ns, detail, size=bytes_)
        else:
            detail = f"interface {int(interface[row])} is not described; its packet was skipped"
            yield Weird("INTERFACE_UNKNOWN", "capture", number, time_ns, detail, size=bytes_)
