"""Packets that are not in order of time in their file are read as if they were."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pytest

from kshark import limits
from kshark.capture import open_captures
from kshark.capture.in_order import TimeOrder
from kshark.capture.source import Capture, read_bytes
from kshark.model import PacketBatch, Weird
from tests.packets import START_NS, Packet, batches, pcap
from tests.property.mangled import packets_of
from tests.shared import CAPTURES

MS = 1_000_000
SECOND = 1_000 * MS


def shuffled(packets: Sequence[Packet], within_ns: int, seed: int = 1) -> list[Packet]:
    """The packets in another order: each is written up to so late; their times stay."""
    random = Random(seed)
    late = [packet.time_ns + random.randrange(within_ns) for packet in packets]
    return [packets[at] for at in sorted(range(len(packets)), key=lambda at: late[at])]


def in_time(packets: Iterable[Packet]) -> list[Packet]:
    """As reordercap writes them."""
    return sorted(packets, key=lambda packet: packet.time_ns)


def read(items: Iterable[PacketBatch | Weird]) -> tuple[list[tuple[int, int, bytes]], list[int], list[Weird]]:
    """Number, time and bytes of each packet; its number in the file; the weirds."""
    rows: list[tuple[int, int, bytes]] = []
    frames: list[int] = []
    weirds: list[Weird] = []
    for item in items:
        if isinstance(item, Weird):
            weirds.append(item)
            continue
        columns = (item.number, item.time_ns, item.offset, item.length)
        for number, time_ns, offset, length in zip(*(column.tolist() for column in columns), strict=True):
            rows.append((number, time_ns, item.buffer[offset : offset + length]))
        frames += (item.number if item.frame is None else item.frame).tolist()
    return rows, frames, weirds


def ordered(packets: Sequence[Packet], sizes: Iterable[int]) -> Iterable[PacketBatch | Weird]:
    order = TimeOrder()
    for each in batches(packets, sizes):
        yield from order.feed(each)
    yield from order.flush()


def some_packets(count: int = 500) -> list[Packet]:
    random, time_ns, packets = Random(4), START_NS, list[Packet]()
    for at in range(count):
        time_ns += random.choice([0, 0, 10_000, 300_000, 5 * MS])
        packets.append(Packet(time_ns, b"%06d" % at * random.randrange(1, 9), 60))
    return packets


@pytest.mark.parametrize("within_ns", [2 * MS, 20 * MS, 99 * MS])
@pytest.mark.parametrize("sizes", [[], [1] * 499, [100, 3, 200], [7] * 60])
def test_packets_are_read_in_order_of_time(within_ns: int, sizes: list[int]) -> None:
    packets = shuffled(some_packets(), within_ns)
    rows, frames, weirds = read(ordered(packets, sizes))
    expected = in_time(packets)
    assert rows == [(at, packet.time_ns, packet.data) for at, packet in enumerate(expected, 1)]
    assert [packets[frame - 1].data for frame in frames] == [packet.data for packet in expected]
    assert {weird.code for weird in weirds} == {"PACKETS_SORTED"}
    assert max(weird.by_ns or 0 for weird in weirds) <= 2 * within_ns


def test_a_file_in_order_is_read_batch_by_batch() -> None:
    parts = batches(some_packets(), [100] * 4)
    order = TimeOrder()
    items = [*(item for part in parts for item in order.feed(part)), *order.flush()]
    assert all(item is part for item, part in zip(items, parts, strict=True))
    assert all(part.frame is None for part in parts)


def test_a_step_back_of_the_clock_changes_no_order() -> None:
    packets = some_packets()
    stepped = [*packets[:250], *(packet.at(packet.time_ns - 20 * SECOND) for packet in packets[250:])]
    for sizes in ([], [1] * 499, [100, 3, 200]):
        rows, frames, weirds = read(ordered(stepped, sizes))
        assert [row[2] for row in rows] == [packet.data for packet in packets]
        assert frames == [*range(1, 501)]
        assert weirds == []


def test_each_side_of_a_step_is_sorted_and_a_packet_with_a_nonsense_time_stays() -> None:
    packets = some_packets()
    packets[100] = packets[100].at(0)
    stepped = [*packets[:250], *(packet.at(packet.time_ns - 20 * SECOND) for packet in packets[250:])]
    parts = [stepped[:100], [stepped[100]], stepped[101:250], stepped[250:]]
    mixed = [packet for part in parts for packet in shuffled(part, 5 * MS)]
    at, expected = 0, list[bytes]()
    for part in parts:
        expected += [packet.data for packet in in_time(mixed[at : at + len(part)])]
        at += len(part)
    for sizes in ([], [1] * 499, [100, 3, 200]):
        assert [row[2] for row in read(ordered(mixed, sizes))[0]] == expected


def test_packets_that_wait_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SORTED_PACKETS", 20)
    packets = [Packet(START_NS + at, b"%04d" % at, 60) for at in range(200)]
    order, waiting = TimeOrder(), 0
    for each in batches(shuffled(packets, 90), [10] * 19):
        waiting += len(each.number) - sum(
            len(item.number) for item in order.feed(each) if isinstance(item, PacketBatch)
        )
        assert waiting <= 20


def test_files_are_sorted_before_they_are_merged(tmp_path: Path) -> None:
    packets = some_packets()
    halves = [shuffled(packets[::2], 20 * MS), shuffled(packets[1::2], 20 * MS)]
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path, half in zip(paths, halves, strict=True):
        path.write_bytes(pcap(half))
    captures = open_captures(paths)
    found = read(captures)[0]
    for path, half in zip(paths, halves, strict=True):
        path.write_bytes(pcap(in_time(half)))
    assert found == read(open_captures(paths))[0]
    for number, _, data in found:
        place = captures.numbering.locate(number)
        assert place is not None
        half = halves[[str(path) for path in paths].index(place[0])]
        assert half[place[1] - 1].data == data


@pytest.mark.parametrize("name", ["share-java-explicit.pcap", "share-leaders.pcap"])
def test_a_real_file_is_read_as_after_reordercap(name: str) -> None:
    packets = packets_of(CAPTURES / name)
    for within_ns in (2 * MS, 20 * MS):
        mixed = shuffled(packets, within_ns)
        found = read(read_bytes(pcap(mixed, link_type=mixed[0].link_type)))
        assert found[0] == read(read_bytes(pcap(in_time(mixed), link_type=mixed[0].link_type)))[0]
        assert len(found[2]) > 0


def test_a_pipe_that_pauses_gives_what_it_has() -> None:
    """Tested with a real pipe: the reader waits no longer than the window for packets that may be earlier."""
    packets = [Packet(START_NS + at, b"%04d" % at, 60) for at in range(10)]
    reading, writing = os.pipe()
    os.write(writing, pcap(packets))
    with open(reading, "rb", buffering=0) as file:
        items = iter(Capture(file))
        first = next(items)
        os.close(writing)
        assert isinstance(first, PacketBatch)
        assert len(first.number) == 10
        assert [*items] == []
