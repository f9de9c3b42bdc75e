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
from tests.shared import CAPTURES, SHARED_CAPTURES, TSHARK_STOPS, every, shared

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

BUNDLED = (
    "tcp-hostile.pcap",
    "tcp-var-missed.pcap",
    "tcp-var-mid.pcap",
    "tcp-var-oneside.pcap",
    "tcp-var-ng.pcapng",
    "share-loss.pcap",
)
LOSSY = ("tcp-lossy-client.pcap", "tcp-reorder-broker.pcap")
#: Where tshark says something else, and why: (capture, stream, address and port of the sender).
DIFFERS = {
    (
        "tcp-var-missed.pcap",
        7,
        "127.0.0.1:21720",
    ): "bytes missing at the very beginning: tshark begins behind the hole and does not say so",
}
#: Of each connection only one side was captured; that the other one sent something shows in what is acknowledged.
ONE_SIDED = ("tcp-var-oneside.pcap", "odd-answers-only.pcap", "odd-requests-only.pcap")
#: Recorded with a snap length: tshark puts the captured parts of packets together and does not say what is missing.
SNAPPED = ("large-request.pcap", "odd-epochs-snap200.pcap", "odd-java-snap256.pcap", "odd-snap128.pcap")


def ours(capture: Path) -> Heard:
    stage, link, heard = Reassembly(), Link(), Heard()
    for item in open_captures([capture]):
        if isinstance(item, PacketBatch):
            segments, _ = link.feed(item)
            for each in stage.feed(segments).items:
                heard.take(each)
    for each in stage.close(link.end).items:
        heard.take(each)
    return heard


def said_of(capture: Path, *asked: str) -> str:
    return subprocess.run(
        ["tshark", "-n", "-r", str(capture), *asked], check=True, capture_output=True, text=True
    ).stdout


def streams_of(capture: Path) -> list[int]:
    """The numbers that tshark gives connections, in order; over frame relay it leaves some out."""
    return sorted(
        {int(number) for number in said_of(capture, "-T", "fields", "-e", "tcp.stream", "-E", "occurrence=l").split()}
    )


def shortened(capture: Path) -> int | None:
    """The first packet of whose payload tshark takes less than the IPv4 header in front of it says: a length of 802.3
    may do that."""
    fields = ("frame.number", "ip.len", "ip.hdr_len", "tcp.hdr_len", "tcp.len")
    asked = [word for field in fields for word in ("-e", field)]
    rows = said_of(
        capture, "-Y", "tcp && ip.proto == 6 && !ipv6 && !icmp", "-T", "fields", *asked, "-E", "occurrence=l"
    ).splitlines()
    for row in (line.split("\t") for line in rows):
        if all(row):
            packet, size, ip_header, tcp_header, payload = map(int, row)
            if payload < size - ip_header - tcp_header:
                return packet
    return None


def theirs(capture: Path, streams: list[int]) -> dict[tuple[int, str], bytes]:
    """By place among the streams and sender what tshark puts together, with its sentence about missing bytes in each
    hole."""
    said = said_of(capture, "-q", *(word for number in streams for word in ("-z", f"follow,tcp,raw,{number}")))
    out: dict[tuple[int, str], bytes] = {}
    for block in re.split("^=+\n", said, flags=re.MULTILINE):
        head = re.search(r"tcp\.stream eq (\d+)\nNode 0: (.*)\nNode 1: (.*)\n", block)
        if head is not None:
            lines = block[head.end() :].splitlines()
            for node, tabbed in ((head[2], False), (head[3], True)):
                mine = (line.strip() for line in lines if line.startswith("\t") == tabbed)
                out[streams.index(int(head[1])), node] = b"".join(map(bytes.fromhex, mine))
    return out


def as_tshark_says(parts: list[bytes | Hole]) -> bytes:
    return b"".join(
        b"[%d bytes missing in capture file]\0" % part.size if isinstance(part, Hole) else part for part in parts
    )


def assert_same_bytes(capture: Path) -> None:
    heard, streams = ours(capture), streams_of(capture)
    if heard.flows and not streams:
        pytest.skip("tshark finds no TCP in any packet")
    if (packet := shortened(capture)) is not None:
        pytest.skip(f"tshark takes less of packet {packet} than its IP header says")
    followed = theirs(capture, streams)
    for flow in heard.flows:
        for side in (CLIENT, BROKER):
            parts = heard.of(side, flow.id)
            if (capture.name, flow.id, flow.ends[side]) in DIFFERS:
                assert isinstance(parts.pop(0), Hole)
            if capture.name in ONE_SIDED and len(parts) == 1 and isinstance(parts[0], Hole):
                parts.clear()
            if capture.name in SNAPPED:
                parts = [part for part in parts if not isinstance(part, Hole)]
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
@pytest.mark.parametrize(
    "capture", every(path for path in SHARED_CAPTURES if path.name not in TSHARK_STOPS), ids=lambda path: path.name
)
def test_tshark_follows_the_same_streams_of_every_capture(capture: Path) -> None:
    assert_same_bytes(capture)
