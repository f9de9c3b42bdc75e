"""A capture that grows is read while it is written, with the files after it: as the whole would be read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from kshark.capture import followed, read_bytes
from kshark.capture.followed import Followed, Growing
from kshark.errors import NoCapture, UnreadableInput
from kshark.model import PacketBatch, Weird
from tests.capture.files import Pcapng, Row, rows
from tests.packets import START_NS
from tests.shared import CAPTURES

PCAP = (CAPTURES / "adv-epochs.pcap").read_bytes()
PCAPNG = (CAPTURES / "tcp-var-ng.pcapng").read_bytes()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "_POLL_S", 0.001)
    monkeypatch.setattr(followed, "_POLLS", 1)


class Reading:
    """What is read while steps are taken: one each time that nothing more is there, and then it ends."""

    def __init__(self, path: Path, *steps: Callable[[], object], once: bool = False) -> None:
        self.notes: list[str] = []
        capture = Followed(path, once=once, note=self.notes.append)
        self.items: list[PacketBatch | Weird] = []
        left = [*steps]
        for item in capture:
            if item is not None:
                self.items.append(item)
            elif left:
                left.pop(0)()
            else:
                capture.stop()
        self.backlog = capture.waiting, capture.delay_ns

    @property
    def rows(self) -> list[Row]:
        return [*rows(self.items)]

    @property
    def weirds(self) -> list[str]:
        return [item.code for item in self.items if isinstance(item, Weird)]


def append(path: Path, data: bytes) -> Callable[[], object]:
    def write() -> None:
        with path.open("ab") as file:
            file.write(data)

    return write


def pieces(data: bytes, seed: int, most: int) -> Iterator[bytes]:
    random = Random(seed)
    at = 0
    while at < len(data):
        size = random.randint(1, most)
        yield data[at : at + size]
        at += size


def expected(data: bytes) -> list[Row]:
    return [*rows(read_bytes(data))]


@pytest.mark.parametrize("data", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
def test_small_pieces_are_the_whole(tmp_path: Path, data: bytes) -> None:
    """Also of headers and blocks; a packet whose end is missing waits."""
    path = tmp_path / "grows"
    parts = [data[:1], data[1:3], *pieces(data[3:], seed=7, most=len(data) // 100)]
    reading = Reading(path, *(append(path, part) for part in parts))
    assert reading.rows == expected(data)
    assert reading.weirds == [item.code for item in read_bytes(data) if isinstance(item, Weird)]
    assert reading.notes == [f"{path} does not exist yet: kshark waits for it"]
    assert reading.backlog == (0, 0)


def test_packets_come_before_the_next_piece(tmp_path: Path) -> None:
    path = tmp_path / "grows"
    seen: list[int] = []
    reading: list[PacketBatch] = []
    capture = Followed(path)
    first, second = PCAP[: len(PCAP) // 2], PCAP[len(PCAP) // 2 :]
    steps: list[Callable[[], object]] = [
        append(path, first),
        lambda: seen.append(len(reading)),
        append(path, second),
        lambda: None,
    ]
    for item in capture:
        if isinstance(item, PacketBatch):
            reading.append(item)
        elif item is None and steps:
            steps.pop(0)()
        elif item is None:
            capture.stop()
    assert 0 < seen[0] < len(reading)


def test_a_cut_packet_is_an_anomaly_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "grows"
    whole = Reading(path, append(path, PCAP[:-10]), lambda: None, append(path, PCAP[-10:]))
    assert whole.weirds == []
    path.unlink()
    assert Reading(path, append(path, PCAP[:-10]), lambda: None).weirds == ["CAPTURE_CUT"]


@pytest.mark.parametrize("size", [3, 20])
def test_a_file_that_ends_inside_its_header_is_cut(tmp_path: Path, size: int) -> None:
    path = tmp_path / "grows"
    assert Reading(path, append(path, PCAP[:size])).weirds == ["CAPTURE_CUT"]


def test_once_ends_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "whole.pcap"
    path.write_bytes(PCAP)
    assert Reading(path, once=True).rows == expected(PCAP)
    with pytest.raises(UnreadableInput, match="no such file"):
        Followed(tmp_path / "nothing.pcap", once=True)


@pytest.mark.parametrize(
    "names",
    [
        ["a.pcap", "a.pcap1", "a.pcap2", "a.pcap10"],
        ["a_00001_20261128170000.pcap", "a_00002_20261128170500.pcap", "a_00003_20261128171000.pcap"],
        ["a-20261128170000.pcap", "a-20261128170500.pcap", "a-20261128171000.pcap"],
    ],
    ids=["tcpdump -C", "dumpcap -b", "tcpdump -G"],
)
def test_files_that_are_written_one_after_the_other_are_one_capture(tmp_path: Path, names: list[str]) -> None:
    """The numbers of packets continue. A file is read to its end before the next one."""
    header, sizes = PCAP[:24], record_sizes(PCAP)
    cuts = [24 + sum(sizes[: len(sizes) * part // len(names)]) for part in range(len(names) + 1)]
    steps = []
    for name, begin, end in zip(names, cuts, cuts[1:], strict=False):
        data = header + PCAP[begin:end]
        steps += [append(tmp_path / name, data[:-5]), append(tmp_path / name, data[-5:])]
    steps[2:4] = [
        lambda: None,
        append(tmp_path / names[1], header),
        append(tmp_path / names[1], PCAP[cuts[1] : cuts[2]]),
    ]
    reading = Reading(tmp_path / names[0], *steps)
    assert reading.rows == expected(PCAP)
    assert reading.weirds == []
    assert Reading(tmp_path / names[0], once=True).rows == expected(PCAP)


def record_sizes(data: bytes) -> list[int]:
    sizes, at = [], 24
    while at < len(data):
        sizes.append(16 + int.from_bytes(data[at + 8 : at + 12], "little"))
        at += sizes[-1]
    return sizes


def one(text: bytes, second: int) -> bytes:
    ticks = START_NS // 1000 + second * 1_000_000
    return bytes(Pcapng().section().interface().enhanced(text, ticks))


def test_a_ring_is_followed_round_and_round(tmp_path: Path) -> None:
    """tcpdump -W 3 -C 1 -w ring: ring0, ring1, ring2, ring0 again, which is cut to nothing first."""

    def written(at: int) -> None:
        (tmp_path / f"ring{at % 3}").write_bytes(one(b"x" * (50 - 4 * at), at))

    steps = [partial(written, at) for at in range(8)]
    reading = Reading(tmp_path / "ring", *steps)
    assert [row.data for row in reading.rows] == [b"x" * (50 - 4 * at) for at in range(8)]
    assert [row.number for row in reading.rows] == [*range(1, 9)]


def test_a_ring_that_is_there_already_is_read_from_its_oldest_file(tmp_path: Path) -> None:
    for at in (3, 4, 2):  # ring2 is the oldest
        file = tmp_path / f"ring{at % 3}"
        file.write_bytes(one(bytes([at]), at))
        os.utime(file, ns=(START_NS, START_NS + at * 1_000_000_000))
    assert [row.data for row in Reading(tmp_path / "ring").rows] == [b"\2", b"\3", b"\4"]


def test_a_file_that_is_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    """As logrotate does it, and a program that writes its file anew."""
    path = tmp_path / "a.pcapng"

    def moved() -> None:
        path.rename(tmp_path / "old.pcapng")
        path.write_bytes(one(b"number two", 2))

    reading = Reading(path, append(path, one(b"number one", 1)), moved, lambda: path.write_bytes(one(b"3", 3)))
    assert [row.data for row in reading.rows] == [b"number one", b"number two", b"3"]
    assert reading.notes[1:] == [f"{path} was replaced or cut: it is read from its beginning"] * 2
    assert reading.weirds == []


def test_files_of_a_ring_that_were_deleted_are_named(tmp_path: Path) -> None:
    """dumpcap -b files:2, and a reader that is late."""
    first, fifth = tmp_path / "a_00001_20261128170000.pcapng", tmp_path / "a_00005_20261128170400.pcapng"
    reading = Reading(tmp_path / "a.pcapng", append(first, one(b"1", 1)), append(fifth, one(b"5", 5)))
    assert [row.data for row in reading.rows] == [b"1", b"5"]
    assert reading.notes[1:] == [f"3 files before {fifth} cannot be read: deleted too early"]


def test_other_hosts_are_no_next_files(tmp_path: Path) -> None:
    for host in (1, 2):
        (tmp_path / f"node{host}.pcapng").write_bytes(one(b"%d" % host, host))
    assert [row.data for row in Reading(tmp_path / "node1.pcapng").rows] == [b"1"]


def test_what_is_no_capture_is_bad_input_and_as_a_later_file_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(b"hello world")
    with pytest.raises(NoCapture, match="no capture"):
        Reading(path)
    path.write_bytes(one(b"one", 1))
    reading = Reading(path, append(tmp_path / "a.pcap1", b"hello"), append(tmp_path / "a.pcap2", one(b"two", 2)))
    assert [row.data for row in reading.rows] == [b"one", b"two"]
    assert "a.pcap1: no capture (pcap or pcapng)" in reading.notes[0]


def test_two_captures_in_one_file(tmp_path: Path) -> None:
    """mergecap -a, or cat."""
    path = tmp_path / "a.pcapng"
    reading = Reading(path, append(path, one(b"one", 1)), append(path, PCAP))
    assert [row.data for row in reading.rows] == [b"one", *(row.data for row in expected(PCAP))]


def test_bytes_that_wait_are_counted_with_their_time(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PCAP)
    capture = Followed(path)
    items = iter(capture)
    assert isinstance(next(items), PacketBatch | None)
    append(path, PCAP)()
    assert capture.waiting == len(PCAP)
    assert capture.delay_ns == 0
    time.sleep(0.001)
    assert capture.delay_ns >= 1_000_000
    capture.close()
    assert (capture.waiting, capture.delay_ns) == (0, 0)


def test_growing_bytes_without_a_file() -> None:
    growing = Growing("x")
    items = [item for part in pieces(PCAP, seed=1, most=300) for item in growing.feed(part)]
    assert [*rows([*items, *growing.close()])] == expected(PCAP)
