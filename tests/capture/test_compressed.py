"""Captures that are compressed: as a stream, cut, damaged, one behind the other."""

from __future__ import annotations

import gzip
import importlib.util
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kshark.capture.compressed import Decompressed, unzip, unzstd
from kshark.capture.source import Plain
from kshark.errors import UnreadableInput
from tests.capture.files import InPieces, Row, read, read_in_pieces
from tests.examples import as_many
from tests.packets import START_NS, Packet, pcap

Compress = Callable[[bytes], bytes]

HAS_ZSTD = sys.version_info >= (3, 14) or importlib.util.find_spec("backports.zstd") is not None
needs_zstd = pytest.mark.skipif(not HAS_ZSTD, reason="zstd-compressed captures need backports.zstd")


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


BOTH = pytest.mark.parametrize("compress", [gzip.compress, pytest.param(zstd, marks=needs_zstd)], ids=["gzip", "zstd"])


def capture(count: int = 200) -> bytes:
    noise = random.Random(4)
    return pcap([Packet(START_NS + n, noise.randbytes(100), 100) for n in range(count)])


@BOTH
def test_a_compressed_capture_is_the_same_capture(compress: Compress) -> None:
    assert read(compress(capture())) == read(capture())


@BOTH
def test_streams_one_behind_the_other_are_one(compress: Compress) -> None:
    data = capture()
    parts = [data[:5000], data[5000:5001], b"", data[5001:]]

    assert read(b"".join(map(compress, parts))) == read(data)


def test_zero_bytes_behind_gzip_are_padding() -> None:
    assert read(gzip.compress(capture()) + bytes(512)) == read(capture())


@BOTH
def test_a_cut_one_gives_what_came_before(compress: Compress) -> None:
    data = capture(4000)
    packed = compress(data)

    found, weirds = read(packed[: len(packed) - len(packed) // 3])

    assert found == read(data)[0][: len(found)]
    assert len(found) > 2000
    assert weirds[0] == ("COMPRESSED_CUT", len(found), 0)


def test_one_that_ends_where_a_packet_ends_is_cut_all_the_same() -> None:
    """Only gzip's checksum is missing."""
    found, weirds = read(gzip.compress(capture())[:-2])

    assert (found, weirds) == (read(capture())[0], [("COMPRESSED_CUT", 200, 0)])


@pytest.mark.sweep(quick=1)
@BOTH
def test_damage_inside_ends_reading_there(compress: Compress) -> None:
    data = capture(20_000)
    packed = bytearray(compress(data))
    for at in range(len(packed) // 2, len(packed) // 2 + 50_000, 100):
        packed[at] ^= 0xFF

    found, weirds = read(bytes(packed))

    assert len(found) > 5_000
    assert ("COMPRESSED_INVALID", len(found), 0) in weirds


@BOTH
def test_one_of_which_nothing_can_be_decompressed_is_no_capture(compress: Compress) -> None:
    with pytest.raises(UnreadableInput, match="nothing can be decompressed"):
        read(compress(capture())[:12])


def test_what_is_behind_gzip_and_no_gzip_is_reported() -> None:
    found, weirds = read(gzip.compress(capture()) + b"something else")

    assert (found, weirds) == (read(capture())[0], [("COMPRESSED_INVALID", 200, 0)])


@pytest.mark.parametrize("make", [unzip, pytest.param(unzstd, marks=needs_zstd)])
def test_no_read_gives_more_than_was_asked_for(make: Callable[[], object]) -> None:
    """A megabyte of zeros is a few bytes; memory does not grow with what they grow to."""
    bomb = gzip.compress(bytes(1 << 24)) if make is unzip else zstd(bytes(1 << 24))
    opened = Decompressed(Plain(InPieces(bomb, [1 << 20])), b"", make)  # type: ignore[arg-type]

    sizes = []
    while piece := opened.read(1000):
        sizes.append(len(piece))

    assert sum(sizes) == 1 << 24
    assert max(sizes) <= 1000


@pytest.mark.sweep(quick=1)
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@BOTH
def test_a_long_compressed_capture_takes_little_memory(compress: Compress, tmp_path: Path) -> None:
    """90 MB of packets."""
    path = tmp_path / "long.pcap.packed"
    path.write_bytes(compress(pcap([Packet(START_NS, bytes(60_000), 60_000)] * 1500)))
    program = (
        "import re, sys; from kshark.capture import open_captures; sum(1 for _ in open_captures(sys.argv[1:]));"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    )

    peak_kb = int(
        subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True).stdout
    )

    assert peak_kb < 70_000


@settings(max_examples=as_many(40))
@given(sizes=st.lists(st.integers(1, 900), min_size=1, max_size=5), cut=st.integers(0, 60))
@example(sizes=[1], cut=0)
def test_read_in_pieces_of_any_size_the_packets_are_the_same(sizes: list[int], cut: int) -> None:
    def untimely(result: tuple[list[Row], list[tuple[str, int, int]]]) -> tuple[list[Row], list[str]]:
        return result[0], [code for code, *_ in result[1]]

    for compress in (gzip.compress, zstd) if HAS_ZSTD else (gzip.compress,):
        packed = compress(capture(20))
        packed = packed[: len(packed) - cut] if compress is gzip.compress else packed
        assert untimely(read_in_pieces(packed, sizes)) == untimely(read(packed))
