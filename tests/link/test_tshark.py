"""tshark reads the same packets from the same files: time, sender, sequence number, payload length of each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kshark.capture import open_captures
from kshark.link import Link
from kshark.model import PacketBatch
from tests.shared import SHARED, SHARED_CAPTURES, TSHARK_STOPS, every, shared

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.len",
)

QUICK = (
    "librdkafka-mock/two-interfaces.pcapng",
    "librdkafka-mock/nano-sll2.pcap",
    "kafka-4/tcp-var-ng.pcapng",
    "kafka-4/tcp-hostile.pcap",
    "third-party/ndpi-kafka-2023.pcapng",
    "third-party/go-sniffer-kafka.pcap",
    "third-party/deepflow-18-api-versions-v3.pcap",
)

Row = tuple[int, int, str, int, int, int, int]


def by_tshark(path: Path, *options: str) -> list[Row]:
    command = ["tshark", "-r", str(path), "-Y", "tcp and not icmp", "-T", "fields", *options]
    lines = subprocess.run(
        [*command, *(f"-e{field}" for field in FIELDS)], check=True, capture_output=True, text=True
    ).stdout
    rows = []
    for number, time, ip, ipv6, port, seq, ack, flags, length in (line.split("\t") for line in lines.splitlines()):
        seconds, fraction = time.split(".")
        time_ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0"))
        rows.append(
            (
                int(number),
                time_ns,
                f"{ip or f'[{ipv6}]'}:{port}",
                int(seq),
                int(ack),
                int(flags, 16) & 0xFF,
                int(length),
            )
        )
    return rows


def by_kshark(path: Path) -> list[Row]:
    link, rows = Link(), []
    for item in open_captures([path]):
        assert isinstance(item, PacketBatch)
        found, _ = link.feed(item)
        if found is not None:
            senders = [link.ends[path >> 1][path & 1] for path in found.path.tolist()]
            sizes = (found.length + found.missing).tolist()
            columns = (
                found.packet.tolist(),
                found.time_ns.tolist(),
                senders,
                found.seq.tolist(),
                found.ack.tolist(),
                found.flags.tolist(),
            )
            rows += zip(*columns, sizes, strict=True)
    return rows


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", QUICK)
def test_tshark_reads_the_same(name: str) -> None:
    path = shared("captures", *name.split("/"))

    rows = by_kshark(path)

    assert rows == by_tshark(path)
    assert len(rows) > 1


#: What kshark reads otherwise, and should not.
WRONG = {"odd-three-sections.pcapng": "tshark numbers Custom Blocks of pcapng as frames, kshark does not"}


def as_parameter(path: Path) -> Any:
    if path.name in WRONG:
        return pytest.param(path, marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason=WRONG[path.name]))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    every(
        as_parameter(path) for path in SHARED_CAPTURES if path.parent.name != "encap" and path.name not in TSHARK_STOPS
    ),
    ids=lambda path: path.name,
)
def test_tshark_reads_the_same_from_every_capture(path: Path) -> None:
    assert by_kshark(path) == by_tshark(path)


#: Of these tshark 4.0 reads nothing, or not all; or, of one with a wrong header, more.
BEYOND_TSHARK = (
    "802-3-llc-snap",
    "docsis-as-ethernet-143",
    "esp-null-ipv4",
    "ethernet-mpacket-274",
    "ipoib-242",
    "ipv4-total-shorter-than-the-frame",
    "ipv6-payload-length-0-big-tcp-jumbo",
    "ipv6-shim6-hip-mobility-ext",
    "macsec-88e5-clear-integrity-only",
    "mpls-pseudowire-ethernet-control-word",
    "netanalyzer-240",
    "qinq-9200",
    "vxlan-port-8472-flannel-default",
)
QUICK_ENVELOPES = ("erspan-iii", "ipv6-fragments", "802-11-radiotap-127", "gtp-u")
ENVELOPES = sorted(path.stem for path in SHARED.glob("captures/encap/*.pcap") if path.stem not in BEYOND_TSHARK)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(
    "name",
    every(name if name in QUICK_ENVELOPES else pytest.param(name, marks=pytest.mark.slow) for name in ENVELOPES),
)
def test_tshark_reads_the_same_from_envelopes(name: str) -> None:
    """Of the innermost headers: all but the address, which tshark does not say of which header it is."""
    path = shared("captures", "encap", f"{name}.pcap")
    assert [row[:2] + row[3:] for row in by_kshark(path)] == [
        row[:2] + row[3:] for row in by_tshark(path, "-E", "occurrence=l")
    ]
