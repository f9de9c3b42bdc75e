"""A capture with a copy of itself tells what it tells alone: the same messages, the same findings, whatever the copy's
clock and place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kshark.anomaly import FACTS
from kshark.capture import open_captures
from kshark.link.disorder import CLOCK_DOUBTS
from kshark.model import PacketBatch
from tests.capture.files import rows_of
from tests.copies import cut, doubled, merged, packets_of, seen, tagged
from tests.packets import Packet, pcap
from tests.shared import CAPTURES, SHARED, is_capture, shared

WAYS: Final[dict[str, Callable[[PacketBatch], PacketBatch]]] = {
    "by the same clock": lambda whole: merged(whole, 0),
    "a millisecond later": lambda whole: merged(whole, 1_000_000),
    "20 s later": lambda whole: merged(whole, 20_000_000_000),
    "40 s later": lambda whole: merged(whole, 40_000_000_000),
    "in another VLAN": lambda whole: merged(whole, 1_000_000, tagged(whole)),
    "every packet twice": lambda whole: doubled(whole, 0),
    "10 packets later": lambda whole: doubled(whole, 10),
    "50 packets later": lambda whole: doubled(whole, 50),
}
SOME: Final = [
    "adv-sessions-4.2.1.pcap",
    "adv-races-4.1.2.pcap",
    "share-java-explicit-4.0.0.pcap",
    "tcp-var-mid.pcap",
    "tcp-var-missed.pcap",
]
#: Of fewer packets nothing tells that they are copies; they are left out all the same.
TELLING: Final = 10
#: Captures with too little to tell that they came twice: of a connection only answers and no SYN, or few of its bytes.
UNNAMED: Final = ("odd-answers-only.pcap", "real-groups-delete-unfinished.pcap")
#: Captures that hold copies.
COPIED: Final = ("fair-gro-copies.pcap.gz", "odd-pktmon-five-times.pcap")


def differences(capture: Path) -> list[str]:
    whole = packets_of(capture)
    alone = seen(cut(whole))
    found = []
    for name, way in WAYS.items():
        with_copy = seen(cut(way(whole)))
        for what in ("messages", "findings", "gaps"):
            if getattr(with_copy, what) != getattr(alone, what):
                found.append(f"{name}: other {what}")
        named = with_copy.weirds.pop("DUPLICATE_PACKETS", [])
        if not named and len(whole.number) > TELLING and capture.name not in UNNAMED:
            found.append(f"{name}: not named")
        if new := with_copy.weirds.keys() - alone.weirds.keys() - CLOCK_DOUBTS - FACTS:
            found.append(f"{name}: {new}")
    return found


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", SOME)
def test_a_copy_changes_nothing(name: str) -> None:
    assert differences(CAPTURES / name) == []


def every_capture() -> list[Path]:
    """The project's and those of the shared folder, but the largest."""
    everywhere = [*CAPTURES.glob("*.pcap*"), *(SHARED / "captures").rglob("*.pcap*")]
    return [
        path
        for path in sorted(everywhere)
        if path.stat().st_size < 6_000_000 and "encap" not in path.parts and is_capture(path)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("capture", every_capture(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_copy_of_any_capture_changes_anything(capture: Path) -> None:
    assert differences(capture) == []


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", SOME)
def test_a_capture_without_a_copy_names_none(name: str) -> None:
    assert "DUPLICATE_PACKETS" not in seen(cut(packets_of(CAPTURES / name))).weirds


@pytest.mark.slow
@pytest.mark.parametrize("capture", every_capture(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_capture_without_a_copy_names_one(capture: Path) -> None:
    assert ("DUPLICATE_PACKETS" in seen(cut(packets_of(capture))).weirds) == (capture.name in COPIED)


@pytest.mark.parametrize("later_ns", [0, 1_000_000, 40_000_000_000])
def test_two_files_of_the_same_traffic_are_read_as_one(later_ns: int, tmp_path: Path) -> None:
    original = CAPTURES / "adv-sessions-4.2.1.pcap"
    packets = [
        packet for item in open_captures([original]) if isinstance(item, PacketBatch) for packet in rows_of(item)
    ]
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(pcap([Packet(p.time_ns + later_ns, p.data, p.wire_length, p.link_type) for p in packets]))
    alone, both = seen(open_captures([original])), seen(open_captures([original, copy]))
    assert both.messages == alone.messages
    assert [
        it for it in both.findings if it not in alone.findings and '"unknown_because":"disorder"' not in it
    ] == [], "each had a clock of its own"
    (named,) = both.weirds["DUPLICATE_PACKETS"]
    assert named.detail.endswith(f"{later_ns / 1e9:.6f} s later" if later_ns else "at the same time")


@pytest.mark.parametrize("layer", ["linux-cooked-v1", "raw-ip-101", "vlan-802-1q", "pppoe"])
def test_the_copy_may_come_from_another_link_layer(layer: str) -> None:
    original, copy = (
        shared("captures", "encap", "as-recorded-ethernet.pcap"),
        shared("captures", "encap", f"{layer}.pcap"),
    )
    alone, both = seen(open_captures([original])), seen(open_captures([original, copy]))
    assert (both.messages, both.findings) == (alone.messages, alone.findings)
    assert "DUPLICATE_PACKETS" in both.weirds


@pytest.mark.parametrize("name", ["adv-members.pcap", "seed-messy.pcap"])
def test_everything_is_counted_but_bare_acknowledgements(name: str) -> None:
    whole = packets_of(CAPTURES / name)
    (named,) = seen(cut(doubled(whole, 10))).weirds["DUPLICATE_PACKETS"]
    assert (named.times, named.size) == carried(whole)


def carried(whole: PacketBatch) -> tuple[int, int]:
    """Packets of a loopback capture of IPv4 with bytes, SYN or FIN, and their bytes."""
    count = size = 0
    for row in rows_of(whole):
        frame: Any = row.data[14:]
        length = int.from_bytes(frame[2:4], "big") - 4 * (frame[0] & 15) - 4 * (frame[32] >> 4)
        count += length > 0 or frame[33] & 3 != 0
        size += length
    return count, size
