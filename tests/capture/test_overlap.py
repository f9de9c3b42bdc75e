"""Captures that lie beside each other in time: each was recorded by its own clock, and that is said."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from kshark.capture import open_captures
from kshark.capture.overlap import Overlap
from kshark.limits import CLOCKS_NS
from kshark.link.disorder import disorder_ns
from kshark.model import PacketBatch, Weird
from tests.packets import START_NS, Packet, pcap

MS = 1_000_000
SECOND = 1_000 * MS


def told(folder: Path, *times: Iterable[int]) -> list[tuple[int, int | None]]:
    """Packet and how far clocks may be apart, of files with packets at these times."""
    paths = []
    for file, own in enumerate(times):
        paths.append(folder / f"{file}.pcap")
        paths[-1].write_bytes(pcap([Packet(START_NS + ns, b"a packet", 64) for ns in own]))
    items = [*open_captures(paths)]
    before = 0
    for item in items:
        if isinstance(item, PacketBatch):
            before = int(item.number[-1])
        else:
            assert item.packet > before, "told before the batch that shows it"
    return [
        (item.packet, disorder_ns(item))
        for item in items
        if isinstance(item, Weird) and item.code == "CAPTURES_OVERLAP"
    ]


def test_it_is_told_while_it_grows_up_to_how_far_clocks_of_hosts_are_apart(tmp_path: Path) -> None:
    found = told(tmp_path, range(0, SECOND, 10 * MS), range(5 * MS, SECOND, 10 * MS))
    assert found[0] == (3, 8_388_608)  # 5 ms behind the first packet of the second file
    sizes = [size or 0 for _, size in found]
    assert all(one < two for one, two in itertools.pairwise(sizes))
    assert sizes[-1] == CLOCKS_NS
    assert len(sizes) < 10


def test_rotated_files_do_not_lie_beside_each_other(tmp_path: Path) -> None:
    assert told(tmp_path, range(0, SECOND, MS), range(SECOND, 2 * SECOND, MS), range(2 * SECOND, 3 * SECOND, MS)) == []
    assert told(tmp_path, [0, 5, 9], [9, 20]) == []


def test_where_a_packet_of_the_one_comes_behind_the_next_it_is_as_little_as_that(tmp_path: Path) -> None:
    """tcpdump's queues: what follows in the second file alone counts no more."""
    assert told(tmp_path, [*range(0, SECOND, MS), SECOND + 700], range(SECOND, 2 * SECOND, MS)) == [(1002, 1024)]


def test_times_at_the_end_of_what_can_be_told() -> None:
    last = (1 << 63) - 1
    assert [weird.packet for weird in Overlap(last - 1).reports(np.array([1, 2]), np.array([last - 1, last]))] == [2]


def test_each_stretch_counts_by_itself(tmp_path: Path) -> None:
    again = told(tmp_path, [0, 10, 20], [11, 21], [SECOND, SECOND + 10], [SECOND + 5, SECOND + 15])
    assert again == [(4, 16), (8, 8)]
