"""A capture whose packets are not in order of time in the file gives what it gives after reordercap; a capture whose
clock was set, or that has no times, gives the same messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kshark.cli import main
from tests.capture.test_in_order import in_time, shuffled
from tests.packets import Packet, pcap
from tests.property.mangled import packets_of
from tests.shared import CAPTURES, sample_of

MS = 1_000_000
SECOND = 1_000 * MS
NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap"))
#: Keys that name a packet in its file.
PLACES = ("file", "frame", "places")

Output = list[Any]


def written(folder: Path, packets: Sequence[Packet]) -> Path:
    path = folder / "capture.pcap"
    path.write_bytes(pcap(packets, link_type=packets[0].link_type))
    return path


def lines(capsys: pytest.CaptureFixture[str], *args: str) -> Output:
    """The lines of a command, without the numbers of packets in their file."""
    main([*args, "-T", "json"])
    return [without(json.loads(line), PLACES) for line in capsys.readouterr().out.splitlines()]


def without(value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(inner, keys) for key, inner in value.items() if key not in keys}
    return [without(inner, keys) for inner in value] if isinstance(value, list) else value


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("name", sample_of(NAMES, 8, seed=3))
def test_a_shuffled_file_is_read_and_judged_as_after_reordercap(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(CAPTURES / name)
    for within_ns in (2 * MS, 20 * MS):
        mixed = shuffled(packets, within_ns)
        for command in ("read", "check"):
            found = lines(capsys, command, str(written(tmp_path, mixed)))
            assert found == lines(capsys, command, str(written(tmp_path, in_time(mixed))))


def test_messages_of_a_shuffled_file_name_their_packet_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = shuffled(packets_of(CAPTURES / "share-errors.pcap"), 20 * MS)
    expected = in_time(mixed)
    main(["read", "-T", "json", str(written(tmp_path, mixed))])
    messages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert messages
    for message in messages:
        assert mixed[message["frame"] - 1] == expected[message["packet"] - 1]


def stepped(packets: Sequence[Packet], by_ns: int) -> list[Packet]:
    half = len(packets) // 2
    return [*packets[:half], *(packet.at(packet.time_ns + by_ns) for packet in packets[half:])]


CLOCKS: dict[str, Callable[[Sequence[Packet]], Sequence[Packet]]] = {
    "back": lambda packets: stepped(packets, -20 * SECOND),
    "forward": lambda packets: stepped(packets, 3_600 * SECOND),
    "no times": lambda packets: [packet.at(0) for packet in packets],
    "one time": lambda packets: [packet.at(packets[0].time_ns) for packet in packets],
    "some without": lambda packets: [
        packet.at(0 if at % 50 == 7 else packet.time_ns) for at, packet in enumerate(packets)
    ],
}


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("name", sample_of(NAMES, 4, seed=4))
def test_the_clock_changes_no_message(
    name: str, clock: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(CAPTURES / name)
    path = str(written(tmp_path, packets))
    times = ("time_ns", "latency_ns")
    whole = without(lines(capsys, "read", path), times)
    found = without(lines(capsys, "read", str(written(tmp_path, CLOCKS[clock](packets)))), times)
    assert sorted(map(str, found)) == sorted(map(str, whole))
