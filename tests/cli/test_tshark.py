"""`kshark read -T fields` beside `tshark -T fields`: the same messages at the same packets, where both read."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict

import pytest

from tests.cli.command import Run
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES

pytestmark = pytest.mark.tshark
FIELDS = ("frame.number", "kafka.len", "kafka.correlation_id")
Rows = dict[str, tuple[list[str], ...]]


def tshark(path: str, ports: tuple[int, ...], fields: tuple[str, ...], display: str = "kafka") -> Rows:
    program = shutil.which("tshark")
    if program is None:
        pytest.skip("tshark is not installed")
    decode_as = [word for port in ports for word in ("-d", f"tcp.port=={port},kafka")]
    asked = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(
        [program, "-r", path, *decode_as, "-Y", display, "-T", "fields", *asked],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {number: tuple(cell.split(",") for cell in cells) for number, *cells in rows}


def ours(kshark: Run, path: str, fields: tuple[str, ...]) -> Rows:
    """Our lines, those of one packet together as tshark has them."""
    asked = [word for field in fields for word in ("-e", field)]
    found: dict[str, list[list[str]]] = defaultdict(list)
    for line in kshark("read", path, "-T", "fields", *asked).lines:
        number, *cells = line.split("\t")
        found[number].append(cells)
    return {number: tuple(list(column) for column in zip(*rows, strict=True)) for number, rows in found.items()}


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(("name", "ports"), [("adv-epochs", (20092, 20093)), ("adv-members", (20092, 20093))])
def test_the_same_messages_at_the_same_packets(kshark: Run, name: str, ports: tuple[int, ...]) -> None:
    path = str(CAPTURES / f"{name}.pcap")
    assert ours(kshark, path, FIELDS) == tshark(path, ports, FIELDS)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(
    "text",
    [
        "kafka.api_key == 78",
        "kafka.api_key in {76, 79}",
        "kafka.correlation_id > 20 && !(kafka.api_key == 78)",
        'kafka.client_id contains "raw" or kafka.len >= 100',
        "tcp.srcport == 20092 && frame.number < 200",
        "ip.addr == 127.0.0.0/8 and not tcp.dstport == 20092",
    ],
)
def test_the_same_messages_pass_a_filter(kshark: Run, text: str) -> None:
    """tshark filters packets: those that have a message of ours, and only where it passes alone."""
    path = str(CAPTURES / "adv-epochs.pcap")
    mine = kshark("read", path, "-T", "fields", "-e", "frame.number", "-Y", f"kafka && ({text})").lines
    every = kshark("read", path, "-T", "fields", "-e", "frame.number").lines
    alone = {number for number in every if every.count(number) == 1}
    theirs = tshark(path, (20092, 20093), ("frame.number",), f"kafka && ({text})")
    assert set(mine) & alone == {number for number in theirs if number in alone}


def test_the_same_headers_of_requests(kshark: Run) -> None:
    path = str(CAPTURES / "adv-epochs.pcap")
    fields = ("frame.number", "kafka.api_key", "kafka.api_version", "kafka.client_id")
    theirs = {number: cells for number, cells in tshark(path, (20092, 20093), fields).items() if cells[1] != [""]}
    mine = ours(kshark, path, fields)
    assert theirs
    assert {number: mine[number] for number in theirs} == theirs
