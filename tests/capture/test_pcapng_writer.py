"""Blocks of a whole batch are those that one would write packet by packet."""

from __future__ import annotations

import struct
from random import Random

import numpy as np
from hypothesis import given, strategies

from kshark.capture.origins import COMMENT, Description, Origins
from kshark.capture.pcapng_writer import PcapngWriter, block_sizes, packet_blocks
from kshark.model import PacketBatch
from tests.capture.files import read, rows_of

LENGTH = strategies.one_of(strategies.integers(0, 70), strategies.just(1500))
LENGTHS = strategies.lists(LENGTH, min_size=1, max_size=40)


def batch_of(lengths: list[int], order: Random) -> PacketBatch:
    """Packets at any place of a buffer: in any order, over each other, up to its last byte."""
    size = max(lengths) + order.randrange(100)
    length = np.array(lengths, np.int64)
    many = len(lengths)
    return PacketBatch(
        order.randbytes(size),
        np.arange(1, many + 1),
        np.array([order.randrange(-5, 1 << 62) for _ in lengths], np.int64),
        np.ones(many, np.int64),
        np.array([order.choice((0, size - it, order.randint(0, size - it))) for it in lengths], np.int64),
        length,
        length + 7,
    )


def one_by_one(batch: PacketBatch, interfaces: list[int]) -> bytes:
    blocks = []
    for row, interface in zip(rows_of(batch), interfaces, strict=True):
        time_ns = max(0, row.time_ns)
        padded = row.data + bytes(-len(row.data) & 3)
        size = struct.pack("<I", 32 + len(padded))
        head = struct.pack("<IIIII", interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(row.data), row.wire_length)
        blocks.append(struct.pack("<I", 6) + size + head + padded + size)
    return b"".join(blocks)


@given(LENGTHS, strategies.integers(0, 1 << 30))
def test_blocks_are_those_of_single_packets(lengths: list[int], seed: int) -> None:
    batch = batch_of(lengths, Random(seed))
    interfaces = [row % 3 for row in range(len(lengths))]
    written = packet_blocks(batch, np.array(interfaces, np.int64))
    assert written == one_by_one(batch, interfaces)
    assert len(written) == block_sizes(batch).sum()


def test_a_batch_without_packets_has_no_blocks() -> None:
    none = np.zeros(0, np.int64)
    assert packet_blocks(PacketBatch(b"", none, none, none, none, none, none), none) == b""


@given(LENGTHS, strategies.integers(0, 1 << 30))
def test_a_file_is_read_as_it_was_written_with_options_of_some_packets(lengths: list[int], seed: int) -> None:
    order = Random(seed)
    batch = batch_of(lengths, order)
    origins = Origins()
    kinds = [origins.interface(Description(place, link_type, 0)) for place, link_type in enumerate((1, 101))]
    numbers = np.array([order.choice(kinds) for _ in lengths], np.int64)
    writer = PcapngWriter(origins)
    options = {row: [(COMMENT, b"x" * order.randrange(9))] for row in range(0, len(lengths), 3)}
    found, weirds = read(writer.begin() + writer.packets(batch, numbers, options) + writer.statistics({0: 0}))
    assert not weirds
    assert [(row.data, row.wire_length, row.time_ns) for row in found] == [
        (row.data, row.wire_length, max(0, row.time_ns)) for row in rows_of(batch)
    ]
    assert [row.link_type for row in found] == [(1, 101)[number] for number in numbers.tolist()]
