"""An interface is read: real packets on loopback, and what stands in the way of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kshark.capture.live import LiveCapture
from kshark.errors import UnreadableInput, UsageError
from kshark.link import Link
from kshark.model import PacketBatch, Weird
from tests.patience import PATIENCE_S

MAY = sys.platform == "linux" and hasattr(os, "geteuid") and os.geteuid() == 0

needs_rights = pytest.mark.skipif(not MAY, reason="capturing needs Linux and root")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def talk(server: socket.socket, size: int) -> None:
    """A client sends so many bytes, and the server takes them all."""

    def take() -> None:
        taken, _ = server.accept()
        with taken:
            while taken.recv(1 << 16):
                pass

    taking = threading.Thread(target=take)
    taking.start()
    with socket.create_connection(server.getsockname()) as client:
        client.sendall(bytes(size))
    taking.join()


def captured(live: LiveCapture, while_doing: Callable[[], None]) -> list[PacketBatch | Weird]:
    items: list[PacketBatch | Weird] = []
    reading = threading.Thread(
        target=lambda: items.extend(
            item for item in live if isinstance(item, PacketBatch | Weird) and not is_sorting(item)
        )
    )
    reading.start()
    while_doing()
    live.stop()
    reading.join(timeout=PATIENCE_S)
    assert not reading.is_alive()
    return items


def is_sorting(item: PacketBatch | Weird) -> bool:
    """Two processors may write packets in another order than that of their times."""
    return isinstance(item, Weird) and item.code == "PACKETS_SORTED"


def payload_bytes(items: list[PacketBatch | Weird]) -> tuple[int, int]:
    """Bytes of the one connection, those sent twice counted once, and how many of all of them were cut off."""
    link, missing = Link(), 0
    ranges: list[tuple[int, int]] = []
    for item in items:
        assert isinstance(item, PacketBatch), item
        found, _ = link.feed(item)
        if found is not None:
            sizes = found.length + found.missing
            missing += int(found.missing.sum())
            ranges += zip(found.seq.tolist(), (found.seq + sizes).tolist(), strict=True)
    assert len(link.ends) == 1
    assert sum(end - start for start, end in ranges) < 1.5 * len_of_union(ranges), "every packet twice"
    return len_of_union(ranges), missing


def len_of_union(ranges: list[tuple[int, int]]) -> int:
    total, reached = 0, 0
    for start, end in sorted(ranges):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


@pytest.mark.live
@needs_rights
@pytest.mark.parametrize("interface", ["lo", "any"])
def test_every_byte_on_loopback_is_seen_once(interface: str, server: socket.socket) -> None:
    live = LiveCapture(interface, bpf=f"tcp port {server.getsockname()[1]}")

    items = captured(live, lambda: talk(server, 3_000_000))

    assert payload_bytes(items) == (3_000_000, 0)
    assert live.dropped == 0
    numbers = [n for item in items if isinstance(item, PacketBatch) for n in item.number.tolist()]
    times = [t for item in items if isinstance(item, PacketBatch) for t in item.time_ns.tolist()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert any(t % 1000 for t in times), "nanoseconds"


@pytest.mark.live
@needs_rights
def test_a_snap_length_keeps_the_beginning_of_each_packet(server: socket.socket) -> None:
    live = LiveCapture("lo", bpf=f"tcp port {server.getsockname()[1]}", snap_length=200)

    sent, missing = payload_bytes(captured(live, lambda: talk(server, 500_000)))

    assert sent == 500_000
    assert missing > 0


@pytest.mark.live
@needs_rights
def test_packets_the_kernel_had_no_room_for_are_counted(server: socket.socket) -> None:
    """The capture process stands still while more is sent than the kernel holds."""
    live = LiveCapture("lo", bpf=f"tcp port {server.getsockname()[1]}")
    os.kill(live.process_id, signal.SIGSTOP)
    talk(server, 120_000_000)
    os.kill(live.process_id, signal.SIGCONT)

    items = captured(live, lambda: talk(server, 1000))

    assert live.dropped > 0
    assert [item.code for item in items if isinstance(item, Weird)] == ["PACKETS_DROPPED"]
    (loss,) = live.losses
    assert loss.packets == live.dropped
    at = next(at for at, item in enumerate(items) if isinstance(item, Weird))
    before, after = items[at - 1], items[at + 1]
    assert isinstance(before, PacketBatch)
    assert isinstance(after, PacketBatch)
    assert (loss.since_ns, loss.until_ns) == (before.time_ns[-1], after.time_ns[0])


@pytest.mark.live
@needs_rights
def test_an_interface_that_is_silent_stops_when_asked(server: socket.socket) -> None:
    live = LiveCapture("lo", bpf=f"tcp port {server.getsockname()[1]}")

    assert captured(live, lambda: None) == []
    live.stop()  # once more, after the end
    live.close()


@pytest.mark.live
@needs_rights
def test_a_signal_handler_may_stop_it() -> None:
    program = (
        "import signal; from kshark.capture.live import LiveCapture; live = LiveCapture('lo', bpf='tcp port 1');"
        "signal.signal(signal.SIGINT, lambda *_: live.stop()); print('ready', flush=True);"
        "print(live.dropped, [item for item in live if hasattr(item, 'number')])"
    )
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)

    assert running.communicate(timeout=PATIENCE_S)[0] == "0 []\n"
    assert running.returncode == 0


@needs_rights
def test_an_interface_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UnreadableInput, match=r"no interface nosuch0; there are lo.*, and any"):
        LiveCapture("nosuch0")


@pytest.mark.live
@needs_rights
@pytest.mark.parametrize("interface", ["lo", "any"])
def test_a_filter_that_libpcap_refuses_is_bad_usage(interface: str) -> None:
    with pytest.raises(UsageError, match="capture filter"):
        LiveCapture(interface, bpf="tcp prot 1")


@needs_rights
def test_without_the_right_to_capture_one_sentence_says_so() -> None:
    program = (
        "import ctypes, struct\n"
        "from kshark.capture.live import LiveCapture\n"
        "from kshark.errors import UnreadableInput\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.prctl(38, 1, 0, 0, 0), libc.capset(struct.pack('=Ii', 0x20080522, 0), bytes(24))\n"
        "try: LiveCapture('lo')\n"
        "except UnreadableInput as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("lo: capturing needs root, or the capability CAP_NET_RAW: sudo kshark live")


def test_without_scapy_one_sentence_says_so() -> None:
    program = (
        "import sys; sys.modules['scapy'] = None\n"
        "from kshark.capture.live import LiveCapture\n"
        "from kshark.errors import UsageError\n"
        "try: LiveCapture('lo', bpf='tcp')\n"
        "except UsageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "a capture filter needs scapy: pip install 'kshark[live]'\n"


@pytest.mark.live
@needs_rights
@pytest.mark.parametrize("interface", ["lo", "any"])
def test_packets_that_are_only_counted_are_as_many_as_those_read(interface: str, server: socket.socket) -> None:
    """On loopback, where the kernel captures each packet twice, too."""
    port = server.getsockname()[1]
    counted, read = LiveCapture(interface, bpf=f"tcp port {port}"), LiveCapture(interface, bpf=f"tcp port {port}")

    items = captured(read, lambda: talk(server, 300_000))
    expected = sum(len(item.number) for item in items if isinstance(item, PacketBatch))
    packets, until = 0, time.monotonic() + PATIENCE_S
    while packets < expected and time.monotonic() < until:
        packets += counted.rest()
        time.sleep(0.05)

    assert packets == expected
    counted.close()
