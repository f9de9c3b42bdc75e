"""Damaged, cut and compressed segments: notes, never an error; pieces of any size give the same."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from kshark.records import Record
from kshark.records.recognition import begins_segment
from kshark.records.writer import write_batch, write_message
from kshark.registry import Registry
from kshark.segments import Segment, SegmentBatch, SegmentFault, are_segments
from kshark.segments.cutting import Cutter
from tests.shared import CAPTURES

REAL = CAPTURES / "segments" / "__share_group_state-0" / "00000000000000000000.log"


def batch(offset: int, count: int = 1, value: bytes = b"value") -> bytes:
    return write_batch([Record(offset + at, 1_000, b"key", value, ()) for at in range(count)], partition_leader_epoch=0)


def cut(data: bytes, piece: int = 1 << 20) -> list[tuple[int, int] | tuple[str, int, int]]:
    """Return position and size of batches; code, position and size of faults."""
    cutter = Cutter("x.log")
    items = [item for at in range(0, len(data), piece) for item in cutter.feed(data[at : at + piece])]
    items += cutter.close()
    return [
        (item.code, item.position, item.size) if isinstance(item, SegmentFault) else (item[0], len(item[1]))
        for item in items
    ]


ONE, TWO, THREE = batch(0), batch(1, 3), batch(4, 2)
SIZES = (len(ONE), len(TWO), len(THREE))


def test_batches_follow_each_other() -> None:
    assert cut(ONE + TWO) == [(0, SIZES[0]), (SIZES[0], SIZES[1])]


@pytest.mark.parametrize("kept", range(1, len(TWO)))
def test_a_batch_that_is_cut_off_is_a_note(kept: int) -> None:
    assert cut(ONE + TWO[:kept]) in (
        [(0, SIZES[0]), ("SEGMENT_CUT", SIZES[0], kept)],
        [(0, SIZES[0]), ("SEGMENT_ZEROS", SIZES[0], kept)],  # the first bytes of an offset are zeros
    )


@pytest.mark.parametrize("piece", [7, 1000, 1 << 20])
def test_zeros_at_the_end_are_reserved_space(piece: int) -> None:
    assert cut(ONE + bytes(5_000), piece) == [(0, SIZES[0]), ("SEGMENT_ZEROS", SIZES[0], 5_000)]


@pytest.mark.parametrize("piece", [7, 1000, 1 << 20])
def test_the_next_batch_is_found_after_damage(piece: int) -> None:
    foreign = b"\xff" * 300 + b"\x02" * 40
    assert cut(ONE + foreign + THREE, piece) == [
        (0, SIZES[0]),
        ("SEGMENT_INVALID", SIZES[0], len(foreign)),
        (SIZES[0] + len(foreign), SIZES[2]),
    ]


def test_zeros_before_a_batch_are_damage() -> None:
    assert cut(ONE + bytes(100) + THREE)[1] == ("SEGMENT_INVALID", SIZES[0], 100)


def test_every_byte_is_a_batch_or_in_a_fault() -> None:
    """Whatever is flipped, and however the bytes arrive."""
    chance = random.Random(46)
    for _ in range(300):
        data = bytearray(ONE + TWO + THREE + bytes(chance.randrange(40)))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        data = data[: chance.randrange(len(data) + 1)]
        items = cut(bytes(data))
        assert sum(item[-1] for item in items) == len(data)
        assert cut(bytes(data), chance.randrange(1, 60)) == items


def test_a_wrong_checksum_is_a_weird_of_the_batch(tmp_path: Path) -> None:
    folder = tmp_path / "orders-3"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(ONE + TWO[:-1] + b"X" + THREE)
    pages = [*Segment(str(folder / "00000000000000000000.log"), Registry())]
    batches = [item for page in pages for item in page if isinstance(item, SegmentBatch)]
    assert [(item.topic, item.partition) for item in batches] == [("orders", 3)] * 3
    assert [item.weird if isinstance(item.weird, list) else [] for item in batches][::2] == [[], []]
    assert "BATCH_CRC" in (batches[1].weird or [])


@pytest.mark.parametrize("name", ["anything.bin", "00000000000000000000.log.gz"])
def test_the_content_names_the_topic_where_the_folder_does_not(name: str, tmp_path: Path) -> None:
    data = REAL.read_bytes()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert are_segments([str(path)])
    items = [item for page in Segment(str(path), Registry()) for item in page]
    assert {getattr(item, "topic", None) for item in items} == {"__share_group_state"}


def test_captures_and_texts_are_no_segments(tmp_path: Path) -> None:
    for capture in sorted(CAPTURES.glob("*.pcap*")):
        with capture.open("rb") as file:
            assert not begins_segment(file.read(1 << 16)), capture
    text = tmp_path / "kafka.log"
    text.write_text("[2026-11-21 14:03:07,412] INFO a line of a broker's log\n" * 50)
    assert not are_segments([str(text)])
    assert not are_segments([str(tmp_path / "missing.log")])


def test_flipped_bytes_of_a_real_segment_never_end_the_reading(tmp_path: Path) -> None:
    chance, data, registry = random.Random(5), REAL.read_bytes()[:4_000], Registry()
    path = tmp_path / "00000000000000000000.log"
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 20)):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(damaged)
        assert [*Segment(str(path), registry)]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_read(magic: int, tmp_path: Path) -> None:
    timestamp = {} if magic == 0 else {"timestamp": 4_000}
    data = b"".join(write_message(offset, b"k", b"v", magic=magic, **timestamp) for offset in range(3))
    path = tmp_path / "old.bin"
    path.write_bytes(data)
    assert are_segments([str(path)])
    batches = [item for page in Segment(str(path), Registry()) for item in page if isinstance(item, SegmentBatch)]
    assert [(item.batch.base_offset, item.batch.magic, item.weird) for item in batches] == [
        (offset, magic, ["LEGACY_MAGIC"]) for offset in range(3)
    ]
    path.write_bytes(data[:-1])
    items = [item for page in Segment(str(path), Registry()) for item in page]
    assert isinstance(items[-1], SegmentFault)
    assert items[-1].code == "SEGMENT_CUT"
