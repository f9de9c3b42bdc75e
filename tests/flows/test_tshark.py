"""tshark analyses the same packets: the same ones are behind others, and it differs where it is explained here."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kshark.capture import open_captures
from kshark.flows import FlowCounting, ListedFlow
from kshark.pipeline import Front, Options
from kshark.registry import kafka_registry
from tests.shared import CAPTURES, SHARED_CAPTURES, TSHARK_STOPS, shared

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

FIELDS = (
    "tcp.stream", "tcp.srcport", "tcp.analysis.initial_rtt", "tcp.analysis.zero_window", "tcp.analysis.keep_alive",
    "tcp.analysis.retransmission", "tcp.analysis.out_of_order",
)  # fmt: skip
#: With what it is about here; tshark tells what is sent again from what was overtaken by its time alone, and knows no
#: copies: of both together the same packets are meant.
BEHIND = "sent again, needlessly or not, overtaken or doubled"
#: What is inside tests/link reads beside the same packets outside; tshark reads fewer of them.
TUNNELS = ("encap",)
#: Captures in which SYNs came twice at once: tshark counts from the last one.
DOUBLED_SYNS = ("tcp-reorder-broker.pcap", "fair-gro-copies.pcap.gz", "odd-pktmon-five-times.pcap")


def said(capture: Path) -> tuple[dict[tuple[int, str], Counter[str]], dict[int, int]]:
    """By stream and port of the sender what tshark counts, and by stream the time of the handshake."""
    command = [
        "tshark",
        "-n",
        "-r",
        str(capture),
        "-Y",
        "tcp",
        "-T",
        "fields",
        *(word for field in FIELDS for word in ("-e", field)),
    ]
    counts: dict[tuple[int, str], Counter[str]] = {}
    times: dict[int, int] = {}
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        stream, port, rtt, zero, alive, again, late = line.split("\t")
        count = counts.setdefault((int(stream), port), Counter())
        count += Counter({"packets": 1, "zero windows": bool(zero), "keep-alives": bool(alive)})
        count[BEHIND] += bool(again) + bool(late)
        if rtt:
            times.setdefault(int(stream), round(float(rtt) * 1e9))
    return counts, times


def ours(capture: Path) -> list[ListedFlow]:
    front, counting = Front(Options(transport=True), kafka_registry()), FlowCounting()
    for lines in front.batches(open_captures([capture])):
        counting.batch(lines)
    return counting.close(0)[0]


def assert_the_same(capture: Path) -> None:
    counts, times = said(capture)
    flows = ours(capture)
    for flow in flows:
        for side, end in zip(flow.sides, (flow.caller, flow.broker), strict=True):
            behind = (
                side.retransmissions
                + side.syn_retransmissions
                + side.tail_probes
                + side.spurious_retransmissions
                + side.out_of_order
                + side.copies
            )
            found = Counter(
                {
                    "packets": side.packets,
                    "zero windows": side.zero_windows,
                    "keep-alives": side.keep_alives,
                    BEHIND: behind,
                }
            )
            theirs = counts.get((flow.flow, end.rpartition(":")[2]), Counter())
            assert {name: found[name] for name in found} == {name: theirs[name] for name in found}, (flow.flow, end)
        if flow.handshake_ns is not None and flow.from_broker.packets == flow.from_client.data_packets == 0:
            assert flow.flow not in times, "tshark needs the SYN-ACK, or data"
        elif flow.handshake_ns is not None and capture.name not in DOUBLED_SYNS:
            assert flow.handshake_ns == times[flow.flow], flow.flow
        elif flow.handshake_ns is None and flow.flow in times:
            assert flow.refused or any(side.syn_retransmissions for side in flow.sides), (
                "tshark counts to the RST, and from a second SYN"
            )
    assert sum(side.packets for flow in flows for side in flow.sides) == sum(
        count["packets"] for count in counts.values()
    )


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(
    "name",
    ["share-loss.pcap", "tcp-hostile.pcap", "share-restart.pcap", "tcp-var-missed.pcap", "two-interfaces.pcapng"],
)
def test_the_same_as_tshark(name: str) -> None:
    assert_the_same(CAPTURES / name)


def test_the_same_as_tshark_where_packets_overtook_each_other() -> None:
    assert_the_same(shared("captures", "kafka-4", "tcp-reorder-broker.pcap"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "capture",
    [
        *sorted(CAPTURES.glob("*.pcap*")),
        *(path for path in SHARED_CAPTURES if path.parent.name not in TUNNELS and path.name not in TSHARK_STOPS),
    ],
    ids=lambda path: path.name,
)
def test_the_same_as_tshark_of_every_capture(capture: Path) -> None:
    assert_the_same(capture)
