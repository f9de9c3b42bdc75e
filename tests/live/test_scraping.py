"""Scrapes of a running capture: they cost no packet, and say what was found."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.metrics.scraped import Samples, samples
from tests.live.test_capturing import EPOCHS, at_rate, dropped
from tests.live.wire import SECONDS, Live, Wire, needs_wire, rights, run
from tests.shared import CAPTURES

pytestmark = [pytest.mark.live, needs_wire]

#: Ask again and again, and count the answers; some clients only open a connection.
_FLOOD = """
import socket, sys, time, urllib.request
until, answers = time.monotonic() + float(sys.argv[2]), 0
port = int(sys.argv[1].rpartition(":")[2].partition("/")[0])
while time.monotonic() < until:
    idle = socket.create_connection(("127.0.0.1", port))
    try:
        answers += urllib.request.urlopen(sys.argv[1], timeout=10).status == 200
    except OSError:
        pass
    idle.close()
print(answers)
"""


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire("ksprom") as made:
        run("ip", "-n", made.receiver, "link", "set", "lo", "up")
        yield made


def url_of(live: Live) -> str:
    (line,) = [line for line in live.errors if "metrics at" in line]
    return line.split()[-1]


def scrape(wire: Wire, url: str) -> Samples:
    ask = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())"
    return samples(run("ip", "netns", "exec", wire.receiver, sys.executable, "-c", ask, url))


def test_a_flood_of_scrapes_costs_no_packet(wire: Wire) -> None:
    with wire.live("-q", "-T", "json", "--prometheus", "0") as live:
        url = url_of(live)
        command = ("ip", "netns", "exec", wire.receiver, sys.executable, "-c", _FLOOD, url, str(SECONDS))
        flood = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        arrived = wire.send(EPOCHS, *at_rate(20_000, SECONDS))
        answers = [int(each.communicate()[0]) for each in flood]
        time.sleep(1)
        said = live.end()
    print(f"{arrived:,} packets, {answers} answers: {said.err}")
    assert dropped(said.err) == (arrived, 0)
    assert min(answers) > 0


def test_the_metrics_say_what_the_lines_say(wire: Wire) -> None:
    with wire.live("-q", "-T", "json", "--prometheus", "0") as live:
        url = url_of(live)
        arrived = wire.send(CAPTURES / "adv-epochs.pcap", "--pps", "2000")
        until = time.monotonic() + 60
        while (found := scrape(wire, url))["kshark_packets_total", ()] < arrived and time.monotonic() < until:
            time.sleep(0.5)
        threads = sorted(int(task.name) for task in Path(f"/proc/{live.process.pid}/task").iterdir())
        statuses = [rights(thread) for thread in threads]
        lines = len(live.lines)
        said = live.end()
    codes = Counter(finding["code"] for finding in said.findings[:lines])
    counted = Counter[str]()
    for (name, labels), value in found.items():
        if name == "kshark_findings_total":
            counted[dict(labels)["code"]] += int(value)
    assert counted == codes
    assert counted
    own = [status for status in statuses if status["Name"] == statuses[0]["Name"]]  # not those of libraries
    assert len(own) > 1
    for status in own:  # the server's thread began after rights were given up
        assert (status["CapEff"], status["NoNewPrivs"]) == ("0" * 16, "1")
        assert status["Uid"].split()[0] != "0"


def test_an_interface_without_a_link_is_down(wire: Wire) -> None:
    with wire.live("-q", "-T", "json", "--prometheus", "0") as live:
        url = url_of(live)
        up = ("kshark_interface_up", (("interface", wire.receives),))
        assert scrape(wire, url)[up] == 1
        wire.switch("down")
        until = time.monotonic() + 60
        while scrape(wire, url)[up] and time.monotonic() < until:
            time.sleep(0.5)
        assert scrape(wire, url)[up] == 0
        live.end()
