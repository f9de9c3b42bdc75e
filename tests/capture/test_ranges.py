"""Ranges of a capture, read apart, are the capture: every packet with its number, every weird with its words."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import pytest

from kshark.capture import open_captures
from kshark.capture.files import size_of
from kshark.capture.ranges import (
    Extent,
    FilePart,
    Range,
    are_proved,
    extent_of,
    parts_of,
    ranges_of,
    read_range,
    walked,
)
from kshark.capture.resume_point import ResumePoint
from kshark.errors import UnreadableInput
from kshark.model import Moment, PacketBatch, Weird
from tests.capture.files import Row, rows
from tests.shared import CAPTURES, SHARED, sample_of

NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
OTHERS = sorted(str(path.relative_to(SHARED)) for path in SHARED.glob("captures/**/*.pcapng"))
#: Their later sections describe other interfaces than the first one, so they are walked from their beginning.
SECTIONS = ("odd-three-sections.pcapng",)
ADV = str(CAPTURES / "adv-epochs.pcap")

Read = tuple[list[Row], list[Weird]]


def read(items: Iterable[PacketBatch | Weird]) -> Read:
    all_items = list(items)
    return list(rows(all_items)), [item for item in all_items if isinstance(item, Weird)]


def in_ranges(files: list[str], range_bytes: int) -> tuple[Read, list[Range], Moment, bool]:
    """What is read, in which ranges, where it ends, and whether all extents were proved without walking through a
    file."""
    extents, proved = [], True
    for file in files:
        places = parts_of(file, range_bytes)
        found = [extent_of(place) for place in places]
        proved = proved and are_proved(found)
        extents.append([each for each in found if each is not None] if are_proved(found) else walked(file, places))
    ranges, end = ranges_of(files, extents)
    return read(item for each in ranges for item in read_range(each)), ranges, end, proved


def assert_same(files: list[str], range_bytes: int) -> tuple[list[Range], bool]:
    found, ranges, end, proved = in_ranges(files, range_bytes)
    expected = read(open_captures(files))
    assert found == expected
    packets = expected[0]
    last = (packets[-1].number, packets[-1].time_ns) if packets else (0, 0)
    assert end == Moment.at(last[0], max((0, *(packet.time_ns for packet in packets))), last[1])
    return ranges, proved


@pytest.mark.sweep(quick=5)
@pytest.mark.parametrize(
    "path",
    [*sample_of([CAPTURES / name for name in NAMES], 10, seed=9), *(SHARED / name for name in OTHERS)],
    ids=lambda path: path.name,
)
def test_a_file_in_ranges_is_the_file(path: Path) -> None:
    for range_bytes in (20_000, 64 << 10):
        ranges, proved = assert_same([str(path)], range_bytes)
        assert proved or path.name in SECTIONS
        assert len(ranges) == max(1, size_of(path) // range_bytes if path.suffix in (".pcap", ".pcapng") else 1)


@pytest.mark.sweep
def test_files_one_behind_the_other_and_at_the_same_time(tmp_path: Path) -> None:
    """Rotated files are ranges of their own, in any order of their names; files that overlap are one range."""
    data = (CAPTURES / "share-loss.pcap").read_bytes()
    records = [*records_of(data)]
    parts = []
    for number, at in enumerate(range(0, len(records), -(-len(records) // 4))):
        part = tmp_path / f"{9 - number}.pcap"
        part.write_bytes(data[:24] + b"".join(records[at : at + -(-len(records) // 4)]))
        parts.append(str(part))
    ranges, _ = assert_same(sorted(parts), 64 << 10)
    assert len(ranges) > 4
    assert [each.files for each in ranges if each.begin.packet == 0] == [(parts[0],)]
    ranges, _ = assert_same([parts[1], ADV, parts[0], str(CAPTURES / "share-loss.pcap")], 64 << 10)
    assert len(ranges) == 2
    assert max(len(each.files) for each in ranges) == 3
    assert_same([str(CAPTURES / name) for name in NAMES], 300 << 10)


def records_of(data: bytes) -> list[bytes]:
    records, at = [], 24
    while at < len(data):
        behind = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        records.append(data[at:behind])
        at = behind
    return records


@pytest.mark.parametrize("kept", [1, 15, 16, 900, 1_000])
def test_a_file_that_ends_inside_the_only_packet_of_its_last_range(tmp_path: Path, kept: int) -> None:
    """What is said of it has the time of the packet before, which is another range's."""
    records = [struct.pack("<IIII", 1_700_000_000 + at, at, 1_000, 1_000) + bytes(1_000) for at in range(10)]
    file = tmp_path / "cut.pcap"
    file.write_bytes((CAPTURES / "share-loss.pcap").read_bytes()[:24] + b"".join(records)[: 9 * 1_016 + kept])
    ranges, _ = assert_same([str(file)], 1_000)
    assert len(ranges) >= 9


@pytest.mark.sweep
@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("named", [False, True])
def test_damage_is_told_as_of_the_whole_file(tmp_path: Path, named: bool, times: int) -> None:
    good = (CAPTURES / "share-restart.pcap").read_bytes()
    dice = random.Random(1)
    for _ in range(times):
        at = dice.randrange(24, len(good) - 100)
        for damaged in (good[:at], good[:at] + b"\xff" * 60 + good[at + 60 :], good[:at] + good[at + 7 :], good[:30]):
            file = tmp_path / "damaged.pcap"
            file.write_bytes(damaged)
            assert_same([str(file), ADV] if named else [str(file)], 32 << 10)


def test_captures_inside_packets_are_not_mistaken(tmp_path: Path) -> None:
    """Every packet holds a pcap of small packets: what looks like a header mostly is none."""
    inner = b"".join(struct.pack("<IIII", 1_700_000_000 + at, 0, 44, 44) + bytes(44) for at in range(900))
    records = [struct.pack("<IIII", 1_700_000_000 + at, at, len(inner), len(inner)) + inner for at in range(40)]
    file = tmp_path / "inside.pcap"
    file.write_bytes((CAPTURES / "share-loss.pcap").read_bytes()[:24] + b"".join(records))
    ranges, _ = assert_same([str(file)], 100_000)
    assert len(ranges) > 10
    wrong = [Extent(ResumePoint(0), ResumePoint(1000), 1, 0, 0), Extent(ResumePoint(1016), ResumePoint(2000), 1, 0, 0)]
    assert not are_proved(wrong)
    assert not are_proved([wrong[0], None])


def test_a_pipe_cannot_be_read_in_ranges(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes((CAPTURES / "adv-epochs.pcap").read_bytes()[:1000]))
    writer.start()
    with pytest.raises(UnreadableInput, match="several processes cannot read one pipe; write it into a file"):
        parts_of(str(pipe))
    writer.join()


@pytest.mark.sweep
def test_a_place_without_records_has_none(tmp_path: Path) -> None:
    file = tmp_path / "zeros.pcap"
    file.write_bytes((CAPTURES / "share-loss.pcap").read_bytes()[:5000] + bytes(2 << 20))
    assert extent_of(FilePart(str(file), (100_000, 200_000))) is None
    assert_same([str(file)], 200_000)


def test_a_file_that_went_away_is_named() -> None:
    gone = Range(("gone.pcap",), ResumePoint(24), 1000, Moment(0, 0), named=False)
    with pytest.raises(UnreadableInput, match=r"^gone.pcap: no such file or directory$"):
        read(read_range(gone))
