"""No packet is lost, and every end has a verdict: busy machines, processes that stand still, links that go down."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.captures import loaded
from tests.live.wire import SECONDS, Wire, busy, found, needs_wire, rights, run
from tests.packets import Packet, pcap
from tests.shared import CAPTURES

pytestmark = [pytest.mark.live, needs_wire]
#: How many exchanges this capture has.
EXCHANGES = 113
EPOCHS = CAPTURES / "adv-epochs.pcap"


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire("kslive") as made:
        yield made


def at_rate(rate: int, seconds: int) -> tuple[str, ...]:
    """Options of tcpreplay: that rate for so long, each loop with other addresses."""
    return ("--pps", str(rate), "--loop", "0", "--unique-ip", "--duration", str(seconds), "--preload-pcap")


def dropped(err: str) -> tuple[int, int]:
    """Return the packets captured and dropped."""
    match = re.search(r"([\d,]+) packets? captured, ([\d,]+) dropped", err)
    assert match is not None, err
    return int(match[1].replace(",", "")), int(match[2].replace(",", ""))


def checked(path: Path) -> list[dict[str, object]]:
    """Return the findings of `kshark check`."""
    command = [sys.executable, "-m", "kshark", "check", "-T", "json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in map(json.loads, done.stdout.splitlines()) if "verdict" in line]


@pytest.mark.parametrize("rate", [20_000, 100_000])
def test_no_packet_is_lost_on_a_busy_machine(wire: Wire, rate: int) -> None:
    with busy(), wire.live("-q", "-T", "json") as live:
        arrived = wire.send(EPOCHS, *at_rate(rate, SECONDS))
        time.sleep(1)
        said = live.end()
    print(f"{arrived:,} packets at {rate:,}/s; ended after {said.seconds:.1f} s: {said.err}")
    assert dropped(said.err) == (arrived, 0)


def test_it_may_be_late_and_finds_the_same(wire: Wire, tmp_path: Path) -> None:
    dump = wire.tcpdump(tmp_path / "dump.pcap")
    with wire.live("-q", "-T", "json") as live:
        os.kill(live.process.pid, signal.SIGSTOP)
        arrived = wire.send(EPOCHS, "--pps", "2000", "--unique-ip", "--loop", "3")
        time.sleep(SECONDS)
        os.kill(live.process.pid, signal.SIGCONT)
        live.wait_for(lambda: len(live.lines) > 0, "nothing was found")
        time.sleep(2)
        said = live.end()
    dump.terminate()
    dump.communicate()
    assert arrived
    assert dropped(said.err)[1] == 0
    assert found(said.findings) == found(checked(tmp_path / "dump.pcap"))


def test_drops_are_counted_and_marked_where_they_are(wire: Wire) -> None:
    with wire.live("-q", "-T", "json") as live:
        arrived = wire.send(EPOCHS, "--pps", "2000")
        os.kill(live.capture_process, signal.SIGSTOP)
        arrived += wire.send(EPOCHS, *at_rate(150_000, 8))
        os.kill(live.capture_process, signal.SIGCONT)
        time.sleep(1)
        arrived += wire.send(EPOCHS, "--pps", "2000")
        said = live.end()
    captured, lost = dropped(said.err)
    print(f"{arrived:,} packets, {said.err}")
    assert lost > 0
    assert captured + lost == arrived


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_with_the_verdict(wire: Wire, number: int) -> None:
    with wire.live("-q", "-T", "json") as live:
        wire.send(EPOCHS, "--pps", "5000")
        time.sleep(1)
        said = live.end(number)
    assert said.code == 1
    assert said.summary["violations"] > 0
    assert said.seconds < 30


def test_a_link_that_goes_down_is_waited_for(wire: Wire) -> None:
    with wire.live("-q", "-T", "json") as live:
        first = wire.send(EPOCHS, "--pps", "5000")
        time.sleep(0.5)
        wire.switch("down")
        time.sleep(1)
        wire.switch("up")
        time.sleep(0.5)
        second = wire.send(EPOCHS, "--pps", "5000")
        time.sleep(1)
        said = live.end()
    assert dropped(said.err) == (first + second, 0)
    assert "INTERFACE_DOWN" in said.err
    assert said.code == 1


def test_an_interface_that_is_deleted_is_waited_for(wire: Wire) -> None:
    with wire.live("-q", "-T", "json") as live:
        first = wire.send(EPOCHS, "--pps", "5000")
        time.sleep(0.5)
        wire.delete()
        time.sleep(1)
        wire.connect()
        time.sleep(1)
        second = wire.send(EPOCHS, "--pps", "5000")
        time.sleep(1)
        said = live.end()
    assert dropped(said.err) == (first + second, 0)
    assert "INTERFACE_DOWN" in said.err
    assert said.code == 1


@pytest.mark.parametrize("end", ["down", "delete"])
def test_once_ends_when_the_interface_does(wire: Wire, end: str) -> None:
    with wire.live("-q", "-T", "json", "--once") as live:
        wire.send(EPOCHS, "--pps", "5000")
        time.sleep(0.5)
        began = time.monotonic()
        wire.delete() if end == "delete" else wire.switch("down")
        said = live.said(began)
    assert said.code == 1
    assert said.summary["violations"] > 0


def test_a_full_disk_costs_packets_and_not_the_verdict(wire: Wire) -> None:
    folder = tempfile.mkdtemp(prefix="kslive-", dir="/tmp")
    run("mount", "-t", "tmpfs", "-o", "size=4m,mode=1777", "tmpfs", folder)
    try:
        with wire.live("-q", "-T", "json", env={"TMPDIR": folder}) as live:
            wire.send(EPOCHS, "--pps", "5000")
            time.sleep(1)
            os.kill(live.process.pid, signal.SIGSTOP)
            arrived = wire.send(EPOCHS, *at_rate(100_000, 3))
            os.kill(live.process.pid, signal.SIGCONT)
            time.sleep(1)
            said = live.end()
    finally:
        run("umount", "-l", folder)
        os.rmdir(folder)
    assert arrived
    assert "no space for the spool" in said.err
    assert said.code == 1
    assert said.summary["violations"] > 0


def test_the_capture_process_may_die(wire: Wire) -> None:
    with wire.live("-q", "-T", "json") as live:
        wire.send(EPOCHS, "--pps", "5000")
        time.sleep(1)
        began = time.monotonic()
        os.kill(live.capture_process, signal.SIGKILL)
        said = live.said(began)
    assert "the capture process has ended unexpectedly" in said.err
    assert said.code == 1
    assert said.summary["violations"] > 0


def test_the_capture_process_ends_with_the_judging_one(wire: Wire) -> None:
    with wire.live("-q", "-T", "json") as live:
        child = live.capture_process
        os.kill(live.process.pid, signal.SIGKILL)
        for _ in range(500):
            if not Path(f"/proc/{child}").exists() or rights(child)["State"].startswith("Z"):
                return
            time.sleep(0.02)
    pytest.fail("it still captures")


def test_no_rights_are_left_when_bytes_are_decoded(wire: Wire) -> None:
    with wire.live("-q", "-T", "json") as live:
        for process in (live.process.pid, live.capture_process):
            status = rights(process)
            assert {*status["Uid"].split(), *status["Gid"].split()} == {"65534"}
            assert status["Groups"] == ""
            assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
            assert status["NoNewPrivs"] == "1"
        said = live.end()
    assert said.code == 3, "nothing was judged"


@pytest.mark.parametrize("names", [("any",), ("lo", "kslive1"), ("kslive1", "any")])
def test_several_interfaces_are_one_capture(wire: Wire, names: tuple[str, ...]) -> None:
    """Packets that come over two interfaces are one capture; those that are captured twice count once."""
    options = [option for name in names if name != wire.receives for option in ("-i", name)]
    with wire.live("-q", "-T", "json", *options) as live:
        wire.send(EPOCHS, "--multiplier", "10")
        time.sleep(1)
        said = live.end()
    assert said.summary["exchanges"] == EXCHANGES
    assert said.code == 1


def test_a_vlan_tag_that_the_kernel_keeps_apart_is_put_back(wire: Wire, tmp_path: Path) -> None:
    tagged = [
        Packet(packet.time_ns, packet.data[:12] + bytes.fromhex("81000007") + packet.data[12:], packet.wire_length + 4)
        for packet in loaded(EPOCHS)
    ]
    (tmp_path / "tagged.pcap").write_bytes(pcap(tagged))
    with wire.live("-q", "-T", "json") as live:
        wire.send(tmp_path / "tagged.pcap", "--multiplier", "10")
        time.sleep(0.5)
        said = live.end()
    assert said.summary["exchanges"] == EXCHANGES
