"""What a running capture yields of the records in its spool, without an interface: another side writes them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshark.capture.live import child
from kshark.capture.live.capture import LiveCapture
from kshark.capture.live.spool import SpoolReader
from kshark.model import PacketBatch, Tick, Weird
from tests.capture.test_kernel_blocks import ETHER, ETHERNET_FRAME, Seen, block

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live capture needs Linux")
MS = 1_000_000
BEGAN_NS = 1_795_231_172_000_000_000


class Scripted(LiveCapture):
    """A capture of `lo` whose other side is this test."""

    def _start(self, *_: object) -> tuple[SpoolReader, subprocess.Popen[bytes]]:
        ours, self.control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child.send(self.control, "ready", hardware=[ETHER])
        return SpoolReader(ours), subprocess.Popen(["true"])


@pytest.fixture
def capture() -> Iterator[Scripted]:
    made = Scripted("lo")
    yield made
    made.close()
    made.control.close()


def items(capture: Scripted, folder: Path, *records: tuple[int, int, bytes]) -> list[object]:
    """Write records (kind, time in ms, data) and the end; return what is yielded."""
    spool = child.Spool(capture.control, str(folder), 1 << 20, 4)
    for kind, time_ms, data in records:
        assert [*spool.write(kind, 0, BEGAN_NS + time_ms * MS, data)] == []
    child.send(capture.control, "ended", unwritten=0)
    capture.control.close()
    return [item for item in capture if item is not None]


def packets(*times_ms: int) -> bytes:
    return block(*(Seen(ETHERNET_FRAME, BEGAN_NS + time_ms * MS) for time_ms in times_ms))


def content(item: object) -> object:
    """A batch by the times of its packets, a weird by its code, a tick by its time."""
    if isinstance(item, PacketBatch):
        return [(time_ns - BEGAN_NS) // MS for time_ns in item.time_ns.tolist()]
    if isinstance(item, Weird):
        return item.code
    assert isinstance(item, Tick)
    return (item.time_ns - BEGAN_NS) // MS


def test_a_tick_comes_after_the_packets_before_it(capture: Scripted, tmp_path: Path) -> None:
    """Of packets that are held back for earlier ones, those after the tick are still held."""
    found = items(
        capture,
        tmp_path,
        (child.BLOCK_RECORD, 0, packets(10, 20)),
        (child.BLOCK_RECORD, 0, packets(60)),
        (child.TICK_RECORD, 50, b""),
        (child.BLOCK_RECORD, 0, packets(55)),
    )

    assert [*map(content, found)] == [[10, 20], 50, "PACKETS_SORTED", [55, 60]]


def test_dropped_packets_are_a_loss_between_two_times(capture: Scripted, tmp_path: Path) -> None:
    found = items(
        capture,
        tmp_path,
        (child.BLOCK_RECORD, 0, packets(10)),
        (child.DROPS_RECORD, 0, (7).to_bytes(8, sys.byteorder)),
        (child.BLOCK_RECORD, 0, packets(900)),
    )

    assert [*map(content, found)] == [[10], "PACKETS_DROPPED", [900]]
    (loss,) = capture.losses
    assert [(time_ns - BEGAN_NS) // MS for time_ns in loss[:2]] == [10, 900]
    assert (loss.packets, capture.dropped) == (7, 7)


def test_an_interface_that_was_down_is_noted_when_it_is_up_again(capture: Scripted, tmp_path: Path) -> None:
    found = items(
        capture,
        tmp_path,
        (child.BLOCK_RECORD, 0, packets(10)),
        (child.DOWN_RECORD, 1000, b""),
        (child.UP_RECORD, 4000, b""),
        (child.BLOCK_RECORD, 0, packets(5000)),
    )

    assert [*map(content, found)] == [[10], "INTERFACE_DOWN", [5000]]
    assert isinstance(found[1], Weird)
    assert found[1].by_ns == 3000 * MS
    assert "lo was down for 3.0 s" in found[1].detail


def test_a_capture_process_that_vanishes_is_a_fault(capture: Scripted, tmp_path: Path) -> None:
    spool = child.Spool(capture.control, str(tmp_path), 1 << 20, 4)
    assert [*spool.write(child.BLOCK_RECORD, 0, 0, packets(10))] == []
    capture.control.close()

    assert [content(item) for item in capture if item is not None] == [[10]]
    assert capture.has_failed
    assert capture.fault == "lo: the capture process has ended unexpectedly"


def test_what_is_read_is_late_by_the_last_packet_or_tick(capture: Scripted, tmp_path: Path) -> None:
    """On a silent interface a tick that waits does not make it late."""
    minute_ns, now_ns = 60_000 * MS, time.time_ns()
    spool = child.Spool(capture.control, str(tmp_path), 1 << 20, 4)
    early = block(Seen(ETHERNET_FRAME, now_ns - 10 * minute_ns))
    for kind, time_ns, data in (
        (child.BLOCK_RECORD, 0, early),
        (child.TICK_RECORD, now_ns, b""),
        (child.TICK_RECORD, now_ns, b""),
    ):
        assert [*spool.write(kind, 0, time_ns, data)] == []
    found = iter(capture)

    assert isinstance(next(found), PacketBatch)
    assert isinstance(next(found), Tick)
    assert capture.waiting > 0
    assert capture.delay_ns < minute_ns
