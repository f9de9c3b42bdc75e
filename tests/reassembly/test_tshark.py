"""tshark follows the same connections: the same bytes a direction, and the same holes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kshark.capture import open_captures
from kshark.link import Link
from kshark.model import PacketBatch
from kshark.reassembly import Reassembly
from tests.reassembly.conversation import BROKER, CLIENT, Heard, Hole
from tests.shared import CAPTURES, SHARED, shared

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

BUNDLED = ("tcp-hostile.pcap", "tcp-var-missed.pcap", "tcp-var-mid.pcap", "tcp-var-oneside.pcap", "tcp-var-ng.pcapng", "share-loss.pcap")
LOSSY = ("tcp-lossy-client.pcap", "tcp-reorder-broker.pcap")
#: Where tshark says something else, and why: (capture, stream, address and port of the sender).
DIFFERS = {
    ("tcp-var-missed.pcap", 7, "127.0.0.1:21720"): "bytes missing at the very beginning: tshark begins behind the hole and does not say so",
}
#: Of each connection only one side was captured; that the other one sent something shows in what is acknowledged.
ONE_SIDED = ("tcp-var-oneside.pcap",)


def ours(capture: Path) -> Heard:
    stage, link, heard = Reassembly(), Link(), Heard()
    for item in open_captures([capture]):
        if isinstance(item, PacketBatch):
            segments, _ = link.feed(item)
            for each in [] if segments is None else stage.feed(segments, link.ends):
                heard.take(each)
    for each in stage.close(link.end):
        heard.take(each)
    return heard


def theirs(capture: Path, streams: int) -> dict[tuple[int, str], bytes]:
    """By stream and sender what tshark puts together, with its sentence about missing bytes in each hole."""
    asked = [word for number in range(streams) for word in ("-z", f"follow,tcp,raw,{number}")]
    command = ["tshark", "-n", "-q", "-r", str(capture), *asked]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    out: dict[tuple[int, str], bytes] = {}
    for block in re.split("^=+\n", said, flags=re.MULTILINE):
        head = re.search(r"tcp\.stream eq (\d+)\nNode 0: (.*)\nNode 1: (.*)\n", block)
        if head is not None:
            lines = block[head.end() :].splitlines()
            for node, tabbed in ((head[2], False), (head[3], True)):
                out[int(head[1]), node] = b"".join(bytes.fromhex(line.strip()) for line in lines if line.startswith("\t") == tabbed)
    return out


def as_tshark_says(parts: list[bytes | Hole]) -> bytes:
    return b"".join(b"[%d bytes missing in capture file]\0" % part.size if isinstance(part, Hole) else part for part in parts)


def assert_same_bytes(capture: Path) -> None:
    heard = ours(capture)
    followed = theirs(capture, len(heard.flows))
    for flow in heard.flows:
        for side in (CLIENT, BROKER):
            parts = heard.of(side, flow.id)
            if (capture.name, flow.id, flow.ends[side]) in DIFFERS:
                assert isinstance(parts.pop(0), Hole)
            if capture.name in ONE_SIDED and len(parts) == 1 and isinstance(parts[0], Hole):
                parts.clear()
            assert as_tshark_says(parts) == followed.get((flow.id, flow.ends[side]), b""), (flow.id, flow.ends[side])


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", BUNDLED)
def test_tshark_follows_the_same_streams(name: str) -> None:
    assert_same_bytes(CAPTURES / name)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", LOSSY)
def test_tshark_follows_the_same_streams_where_packets_were_lost_and_reordered(name: str) -> None:
    assert_same_bytes(shared("captures", "kafka-4", name))


@pytest.mark.slow
@pytest.mark.parametrize("capture", sorted(SHARED.glob("captures/*/*.pcap*")), ids=lambda path: path.name)
def test_tshark_follows_the_same_streams_of_every_capture(capture: Path) -> None:
    assert_same_bytes(capture)
