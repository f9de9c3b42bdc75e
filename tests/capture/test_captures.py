"""Several files as one capture: rotated, overlapping, in folders, and which file a packet came from."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark.capture import each_capture, open_captures
from kshark.capture.captures import Captures
from kshark.capture.merge import Lane, merge
from kshark.capture.numbering import Numbering
from kshark.errors import UnreadableInput, UsageError
from kshark.model import PacketBatch, Weird
from tests.capture.files import Pcapng, rows
from tests.examples import as_many
from tests.packets import START_NS, Packet, pcap
from tests.shared import shared


def packet(ns: int, file: int, frame: int) -> Packet:
    return Packet(START_NS + ns, f"{file}/{frame}".encode(), 64)


def files(folder: Path, times: Sequence[Sequence[int]]) -> list[Path]:
    """A pcap file for each list of times; packets tell their file and frame."""
    paths = []
    for file, own in enumerate(times):
        path = folder / f"{file}.pcap"
        path.write_bytes(pcap([packet(ns, file, frame) for frame, ns in enumerate(own, 1)]))
        paths.append(path)
    return paths


def merged_by_hand(times: Sequence[Sequence[int]]) -> list[str]:
    """The earliest next packet first, of equal ones that of the first file: mergecap's way, after reordercap."""
    left = [sorted((ns, file, frame) for frame, ns in enumerate(own, 1)) for file, own in enumerate(times)]
    out = []
    while any(left):
        _, file, frame = min(own[0] for own in left if own)
        out.append(f"{file}/{frame}")
        left[file].pop(0)
    return out


@settings(max_examples=as_many(30))
@given(times=st.lists(st.lists(st.integers(0, 20), max_size=12), min_size=2, max_size=4))
def test_the_earliest_packet_comes_next_and_is_found_in_its_file(
    times: list[list[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    paths = files(tmp_path_factory.mktemp("m"), times)
    captures = open_captures(paths)

    found = list(rows(captures))

    assert [p.data.decode() for p in found] == merged_by_hand(times)
    assert [p.number for p in found] == list(range(1, len(found) + 1))
    for p in found:
        file, frame = p.data.decode().split("/")
        assert captures.numbering.locate(p.number) == (str(paths[int(file)]), int(frame))


@pytest.mark.sweep
def test_files_that_overlap_are_merged_across_many_batches(tmp_path: Path) -> None:
    times = [sorted(np.random.default_rng(n).integers(0, 10**9, 20_000).tolist()) for n in range(3)]
    paths = files(tmp_path, times)

    found = list(rows(open_captures(paths)))

    assert [p.time_ns - START_NS for p in found] == sorted(ns for own in times for ns in own)


def test_rotated_files_follow_each_other_batch_by_batch(tmp_path: Path) -> None:
    """Named in any order; what comes out are the files' own batches, and a run each is all that is remembered."""
    a, b, c = files(tmp_path, [range(20, 30), range(10), range(10, 20)])
    captures = open_captures([a, b, c])

    batches = [item for item in captures if isinstance(item, PacketBatch)]

    assert [len(batch.number) for batch in batches] == [10, 10, 10]
    assert [captures.numbering.locate(n) for n in (1, 10, 11, 30)] == [
        (str(b), 1),
        (str(b), 10),
        (str(c), 1),
        (str(a), 10),
    ]
    assert (captures.bytes_read, captures.bytes_total) == (sum(p.stat().st_size for p in (a, b, c)),) * 2


def test_a_fault_of_one_file_is_told_at_its_place_with_its_name(tmp_path: Path) -> None:
    a, b = files(tmp_path, [[1, 3, 5], [2, 4, 6, 8]])
    a.write_bytes(a.read_bytes()[:-1])

    items = list(open_captures([a, b]))

    assert [p.data.decode() for p in rows(items)] == ["0/1", "1/1", "0/2", "1/2", "1/3", "1/4"]
    [weird] = [item for item in items if isinstance(item, Weird) and item.code != "CAPTURES_OVERLAP"]
    assert (weird.code, weird.packet) == ("CAPTURE_CUT", 3)
    assert weird.detail.startswith(f"{a}: ")


def test_frames_that_cannot_be_delivered_keep_their_number(tmp_path: Path) -> None:
    a = tmp_path / "a.pcapng"
    file = Pcapng().section().interface().enhanced(b"one", 1).enhanced(b"lost", 2, interface=9).enhanced(b"three", 3)
    a.write_bytes(bytes(file))
    (b,) = files(tmp_path, [[50]])
    captures = open_captures([a, b])

    found = list(rows(captures))

    assert [(p.number, p.data) for p in found] == [(1, b"one"), (3, b"three"), (4, b"0/1")]
    assert captures.numbering.locate(3) == (str(a), 3)


def test_a_folder_stands_for_the_captures_below_it(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (a,) = files(tmp_path / "deep" / "er", [[5, 6]])
    (b,) = files(tmp_path / "deep", [[1, 2]])
    (tmp_path / "README.md").write_text("what these are")
    (tmp_path / "empty.pcap").write_bytes(b"")
    captures = open_captures([tmp_path])

    assert len(list(rows(captures))) == 4
    assert captures.names == [str(b), str(a)]


def test_a_folder_without_captures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")

    with pytest.raises(UnreadableInput, match="no capture"):
        open_captures([tmp_path])


def test_one_bad_file_among_good_ones_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    good = files(tmp_path, [[1], [2]])
    bad = tmp_path / "bad.pcap"
    bad.write_text("hello")

    with pytest.raises(UnreadableInput, match=r"bad\.pcap: no capture"):
        open_captures([*good, bad])


def test_nothing_named_and_standard_input_twice_are_bad_usage() -> None:
    with pytest.raises(UsageError, match="no capture is named"):
        open_captures([])
    with pytest.raises(UsageError, match="named twice"):
        open_captures(["-", "-"])


def test_each_capture_on_its_own_begins_with_packet_one(tmp_path: Path) -> None:
    paths = files(tmp_path, [[1, 2], [3]])

    assert [[p.number for p in rows(capture)] for capture in each_capture(paths)] == [[1, 2], [1]]


def test_a_capture_without_packets_disturbs_nobody(tmp_path: Path) -> None:
    paths = files(tmp_path, [[], [4, 5], []])

    assert [p.data.decode() for p in rows(open_captures(paths))] == ["1/1", "1/2"]


def test_beyond_the_limit_of_runs_the_older_ones_are_forgotten_and_it_is_said(tmp_path: Path) -> None:
    paths = files(tmp_path, [range(0, 200, 2), range(1, 200, 2)])
    numbering = Numbering([str(path) for path in paths], limit=50)

    items = list(merge([Lane(path, index) for index, path in enumerate(paths)], numbering))

    codes = [item.code for item in items if isinstance(item, Weird)]
    assert [code for code in codes if code != "CAPTURES_OVERLAP"] == ["FRAME_NUMBERS_FORGOTTEN"]
    assert numbering.locate(200) == (str(paths[1]), 100)
    assert numbering.locate(1) is None


def test_mergecap_puts_real_captures_in_the_same_order(tmp_path: Path) -> None:
    if shutil.which("mergecap") is None or shutil.which("tshark") is None:
        pytest.skip("mergecap and tshark are not installed")
    names = ("tcp-var-base.pcap", "tcp-var-ng.pcapng", "tcp-var-mid.pcap")
    paths = [shared("captures", "kafka-4", name) for name in names]
    subprocess.run(["mergecap", "-w", tmp_path / "all.pcapng", *paths], check=True)
    fields = ["tshark", "-r", tmp_path / "all.pcapng", "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"]
    lines = subprocess.run(fields, check=True, capture_output=True, text=True).stdout.splitlines()

    found = [(p.time_ns, p.wire_length) for p in rows(open_captures(paths))]

    assert found == [(int(time.replace(".", "")), int(size)) for time, size in map(str.split, lines)]


def test_a_file_of_a_folder_that_cannot_be_read_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a capture: here one that went away before it was looked into."""
    (a,) = files(tmp_path, [[5, 6]])
    monkeypatch.setattr("kshark.capture.files.below", lambda folder: [a, tmp_path / "gone.pcap"])
    with pytest.raises(UnreadableInput, match=r"gone.pcap: no such file or directory$"):
        open_captures([tmp_path])


def test_files_that_are_parts_of_one_capture_keep_their_order_whatever_their_times_are(tmp_path: Path) -> None:
    captures = Captures(files(tmp_path, [[5, 6], [1, 2, 3]]), chained=True)
    assert [(row.number, row.data.decode()) for row in rows(captures)] == [
        (1, "0/1"),
        (2, "0/2"),
        (3, "1/1"),
        (4, "1/2"),
        (5, "1/3"),
    ]
