"""`kshark read -T fields` beside `tshark -T fields`: the same messages at the same packets, where both read."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict

import pytest

from tests.cli.command import Run
from tests.shared import CAPTURES

pytestmark = pytest.mark.tshark
FIELDS = ("frame.number", "kafka.len", "kafka.correlation_id")
Rows = dict[str, tuple[list[str], ...]]


def tshark(path: str, ports: tuple[int, ...], fields: tuple[str, ...]) -> Rows:
    program = shutil.which("tshark")
    if program is None:
        pytest.skip("tshark is not installed")
    decode_as = [word for port in ports for word in ("-d", f"tcp.port=={port},kafka")]
    asked = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(
        [program, "-r", path, *decode_as, "-Y", "kafka", "-T", "fields", *asked], capture_output=True, text=True, timeout=60, check=True
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


@pytest.mark.parametrize(("name", "ports"), [("adv-epochs", (20092, 20093)), ("adv-members", (20092, 20093))])
def test_the_same_messages_at_the_same_packets(kshark: Run, name: str, ports: tuple[int, ...]) -> None:
    path = str(CAPTURES / f"{name}.pcap")
    assert ours(kshark, path, FIELDS) == tshark(path, ports, FIELDS)


def test_the_same_headers_of_requests(kshark: Run) -> None:
    path = str(CAPTURES / "adv-epochs.pcap")
    fields = ("frame.number", "kafka.api_key", "kafka.api_version", "kafka.client_id")
    theirs = {number: cells for number, cells in tshark(path, (20092, 20093), fields).items() if cells[1] != [""]}
    mine = ours(kshark, path, fields)
    assert theirs
    assert {number: mine[number] for number in theirs} == theirs
