"""Capture files by hand, block by block, and what a reader makes of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kshark.capture.source import Capture, read_bytes
from kshark.model import PacketBatch, Weird


class Row(NamedTuple):
    """A packet as it came out of a reader."""

    number: int
    time_ns: int
    link_type: int
    data: bytes
    wire_length: int


def rows(items: Iterable[PacketBatch | Weird]) -> Iterator[Row]:
    for item in items:
        if isinstance(item, PacketBatch):
            yield from rows_of(item)


def rows_of(batch: PacketBatch) -> Iterator[Row]:
    columns = (batch.number, batch.time_ns, batch.link_type, batch.offset, batch.length, batch.wire_length)
    for number, time_ns, link_type, offset, length, wire in zip(*(column.tolist() for column in columns), strict=True):
        data = batch.buffer[offset : offset + length]
        assert len(data) == length, "a packet that reaches beyond the buffer"
        yield Row(number, time_ns, link_type, data, wire)


def read(data: bytes) -> tuple[list[Row], list[tuple[str, int, int]]]:
    """Packets, and weirds as (code, packet, size)."""
    items = list(read_bytes(data))
    return list(rows(items)), [(item.code, item.packet, item.size) for item in items if isinstance(item, Weird)]


class InPieces:
    """A file object that gives at most as many bytes at a time as `sizes` says, in turn."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes, self._turn = data, sizes, 0

    def read(self, size: int) -> bytes:
        take = min(size, self._sizes[self._turn % len(self._sizes)])
        self._turn += 1
        piece, self._data = self._data[:take], self._data[take:]
        return piece

    def fileno(self) -> int:
        raise OSError("not a file")

    def close(self) -> None:
        pass


def read_in_pieces(data: bytes, sizes: list[int]) -> tuple[list[Row], list[tuple[str, int, int]]]:
    items = list(Capture(InPieces(data, sizes)))  # type: ignore[arg-type]
    return list(rows(items)), [(item.code, item.packet, item.size) for item in items if isinstance(item, Weird)]


@dataclass
class Pcapng:
    """A pcapng file as a list of blocks."""

    order: str = "<"
    blocks: list[bytes] = field(default_factory=list)

    def block(self, kind: int, body: bytes) -> Pcapng:
        size = 12 + len(body) + (-len(body) & 3)
        self.blocks.append(
            struct.pack(self.order + "II", kind, size)
            + body.ljust(size - 12, b"\0")
            + struct.pack(self.order + "I", size)
        )
        return self

    def section(self, order: str | None = None) -> Pcapng:
        self.order = order or self.order
        return self.block(0x0A0D0D0A, struct.pack(self.order + "IHHq", 0x1A2B3C4D, 1, 0, -1))

    def interface(self, link_type: int = 1, snap_length: int = 0, *options: tuple[int, bytes]) -> Pcapng:
        return self.block(1, struct.pack(self.order + "HHI", link_type, 0, snap_length) + self._options(options))

    def enhanced(
        self, data: bytes, ticks: int, *options: tuple[int, bytes], interface: int = 0, wire: int = -1, length: int = -1
    ) -> Pcapng:
        claimed, sent = len(data) if length < 0 else length, len(data) if wire < 0 else wire
        head = struct.pack(self.order + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, claimed, sent)
        return self.block(6, head + data + bytes(-len(data) & 3) + self._options(options))

    def simple(self, data: bytes, wire: int = -1) -> Pcapng:
        return self.block(3, struct.pack(self.order + "I", len(data) if wire < 0 else wire) + data)

    def obsolete(self, data: bytes, ticks: int, *, interface: int = 0, drops: int = 0xFFFF) -> Pcapng:
        head = struct.pack(
            self.order + "HHIIII", interface, drops, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)
        )
        return self.block(2, head + data)

    def statistics(self, *options: tuple[int, bytes], interface: int = 0) -> Pcapng:
        return self.block(5, struct.pack(self.order + "III", interface, 0, 0) + self._options(options))

    def _options(self, options: Iterable[tuple[int, bytes]]) -> bytes:
        out = b"".join(
            struct.pack(self.order + "HH", code, len(value)) + value + bytes(-len(value) & 3) for code, value in options
        )
        return out + bytes(4) if out else b""

    def __bytes__(self) -> bytes:
        return b"".join(self.blocks)
