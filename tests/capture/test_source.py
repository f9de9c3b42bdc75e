"""What a capture can be opened from, and what is said of something that is none."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kshark.capture.source import Capture, open_capture, read_bytes
from kshark.errors import UnreadableInput
from kshark.model import PacketBatch
from tests.capture.files import rows
from tests.packets import START_NS, Packet, Tcp, Wire, pcap
from tests.patience import PATIENCE_S

PACKETS = [Packet(START_NS + n, bytes([n]) * 50, 50) for n in range(10)]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "an empty file"),
        (b"Dear diary,\n", "text"),
        ("Größe\n".encode() * 400, "text"),
        (gzip.compress(b"Dear diary,\n"), "gzip of text"),
        (gzip.compress(b""), "gzip of an empty file"),
        (b"PK\3\4" + bytes(30), "a zip archive; unpack it first"),
        (b"\xfd7zXZ\0" + bytes(30), "an xz file; decompress it first"),
        (b"snoop\0\0\0" + bytes(30), r"a snoop capture; convert it first \(editcap -F pcapng\)"),
        (b"\x01\x02\x03\x04\x05", "bytes that begin with 01 02 03 04"),
        (b"\xd4\xc3", "bytes that begin with d4 c3"),
    ],
    ids=["empty", "text", "accents", "gzip of text", "gzip of nothing", "zip", "xz", "snoop", "bytes", "two bytes"],
)
def test_what_is_no_capture_is_refused_in_one_sentence(content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "thing"
    path.write_bytes(content)

    with pytest.raises(UnreadableInput, match=rf"thing: no capture \(pcap or pcapng\), but {what}$"):
        open_capture(path)


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="missing: no such file or directory"):
        open_capture(tmp_path / "missing")
    with pytest.raises(UnreadableInput, match="is a directory"):
        open_capture(tmp_path)


def test_bytes_read_follow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS))
    capture = open_capture(path)

    assert list(rows(capture))[-1].number == 10
    assert capture.bytes_read == path.stat().st_size


def test_standard_input_is_read_like_a_file() -> None:
    program = (
        "from kshark.capture import open_captures;print(*(n for batch in open_captures(['-']) for n in "
        "batch.number.tolist()))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=pcap(PACKETS), capture_output=True, check=True)

    assert done.stdout.split() == [b"%d" % n for n in range(1, 11)]


def test_a_slow_pipe_is_handed_on_as_it_arrives() -> None:
    """Each packet is seen before the next one is sent."""
    data = pcap(PACKETS)
    size = (len(data) - 24) // 10
    reading, writing = os.pipe()
    seen = threading.Semaphore(0)

    def send() -> None:
        with open(writing, "wb", buffering=0) as pipe:
            pipe.write(data[: 24 + size])
            for at in range(24 + size, len(data), size):
                assert seen.acquire(timeout=PATIENCE_S)
                pipe.write(data[at : at + size // 2])
                pipe.write(data[at + size // 2 : at + size])

    sender = threading.Thread(target=send)
    sender.start()
    counts = []
    for item in Capture(os.fdopen(reading, "rb", buffering=0)):
        assert isinstance(item, PacketBatch)
        counts.append(len(item.number))
        for _ in range(len(item.number)):
            seen.release()
    sender.join()

    assert counts == [1] * 10


def test_a_pipe_that_somebody_made_non_blocking_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    data = pcap(PACKETS)

    def send() -> None:
        with open(writing, "wb", buffering=0) as pipe:
            for at in range(0, len(data), 100):
                pipe.write(data[at : at + 100])
                pipe_is_read.wait(0.005)

    pipe_is_read = threading.Event()
    sender = threading.Thread(target=send)
    sender.start()
    found = list(rows(Capture(os.fdopen(reading, "rb", buffering=0))))
    sender.join()

    assert [p.number for p in found] == list(range(1, 11))


def test_a_file_that_still_grows_is_read_to_its_present_end(tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    data = pcap(PACKETS)
    path.write_bytes(data[:-30])

    items = list(open_capture(path))

    assert [p.number for p in rows(items)] == list(range(1, 10))
    assert [getattr(item, "code", "packets") for item in items] == ["packets", "CAPTURE_CUT"]


def test_a_capture_in_memory_is_one_too() -> None:
    wire = Wire()
    Tcp(wire).open()

    assert [p.data for p in rows(read_bytes(pcap(wire.packets)))] == [p.data for p in wire.packets]
