"""`live -w`: files that tshark would have written, whole at any time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest

from kshark.errors import UsageError
from kshark.live.files import (
    CaptureFiles,
    Conditions,
    Interfaces,
    autostop,
    need_conditions,
    need_writable,
    ring_buffer,
)
from kshark.live.files import output as outputs
from kshark.live.files.capture_files import file_name
from kshark.model import PacketBatch
from tests.capture.files import Row, read
from tests.live.batches import BEGIN, SECOND, packets, status
from tests.patience import PATIENCE_S
from tests.shared import ROOT, pythonpath


class Files:
    """The files of a capture in a folder, and what is said about them."""

    def __init__(self, folder: Path, ends: tuple[str, ...] = (), full: tuple[str, ...] = (), name: str = "t.pcapng"):
        self.folder = folder
        self.notes: list[str] = []
        self.files = CaptureFiles(
            str(folder / name),
            Interfaces(["eth0"], 262_144, "port 9092"),
            autostop(ends),
            ring_buffer(full),
            since_ns=BEGIN,
            note=self.notes.append,
        )

    def give(self, batch: PacketBatch) -> PacketBatch:
        part = self.files.cut(batch)
        self.files.packets(part)
        return part

    def end(self) -> list[list[int]]:
        """Return the packets of each file, in the order of the files."""
        self.files.close([])
        return [[row.data[0] for row in rows_in(path)] for path in sorted(self.folder.iterdir())]


def rows_in(path: Path) -> list[Row]:
    found, weirds = read(path.read_bytes())
    assert not weirds
    return found


def test_a_file_holds_what_was_captured(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.give(packets(0, 0.000000001, 2, length=99))
    files.give(packets(3, first=4))
    assert files.end() == [[1, 2, 3, 4]]
    rows = rows_in(tmp_path / "t.pcapng")
    assert [row.time_ns - BEGIN for row in rows] == [0, 1, 2 * SECOND, 3 * SECOND]
    assert [len(row.data) for row in rows] == [99, 99, 99, 100]
    assert files.notes == [f"wrote 4 packets ({(tmp_path / 't.pcapng').stat().st_size} B) to {tmp_path}/t.pcapng"]
    assert (tmp_path / "t.pcapng").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("full", "expected"),
    [
        (("packets:2",), [[1, 2], [3, 4], [5, 6], [7]]),
        (("duration:2",), [[1, 2, 3], [4, 5], [6], [7]]),
        (("duration:0.5",), [[1], [2], [3], [4], [5], [6], [7]]),
        (("interval:3",), [[1, 2, 3], [4, 5], [6], [7]]),
        (("filesize:1", "packets:100"), [[1, 2, 3, 4, 5, 6, 7]]),
        (("packets:3", "files:2"), [[4, 5, 6], [7]]),
        (("packets:2", "files:1"), [[7]]),
    ],
)
def test_files_are_rotated(tmp_path: Path, full: tuple[str, ...], expected: list[list[int]]) -> None:
    files = Files(tmp_path, full=full)
    files.give(packets(0, 1, 1.9, 3, 4.9, 10))
    files.give(packets(20, first=7))
    assert files.end() == expected


def test_the_names_are_dumpcaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert file_name("/a/trace.pcapng", 1, BEGIN) == "/a/trace_00001_20261128170000.pcapng"
    assert file_name("trace", 12, BEGIN) == "trace_00012_20261128170000"
    assert file_name(".hidden", 100_001, BEGIN) == ".hidden_00001_20261128170000"


def test_a_file_is_full_when_it_has_its_size(tmp_path: Path) -> None:
    files = Files(tmp_path, full=("filesize:2",))
    for first in range(1, 101, 10):
        files.give(packets(*range(first, first + 10), first=first))
    assert [number for numbers in files.end() for number in numbers] == [*range(1, 101)]
    *sizes, _ = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert all(2_000 <= size < 2_300 for size in sizes)


@pytest.mark.parametrize(
    ("ends", "full", "taken"),
    [
        (("packets:4",), (), [1, 2, 3, 4]),
        (("duration:3",), (), [1, 2, 3]),
        (("filesize:1",), (), [1, 2, 3, 4, 5, 6, 7]),
        (("files:2",), ("packets:2",), [1, 2, 3, 4]),
        (("packets:5",), ("packets:2",), [1, 2, 3, 4, 5]),
        (("filesize:1", "files:1"), ("packets:100",), [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_the_capture_ends_at_the_same_packet_as_the_file(
    tmp_path: Path, ends: tuple[str, ...], full: tuple[str, ...], taken: list[int]
) -> None:
    files = Files(tmp_path, ends, full)
    judged: list[int] = []
    for batch in (packets(0, 1, 2), packets(3, 4, 5, 6, first=4), packets(7, 8, first=8)):
        judged += files.give(batch).number.tolist()
        if files.files.is_complete:
            break
    assert files.files.is_complete
    assert judged == taken
    assert [number for numbers in files.end() for number in numbers] == taken


def test_time_passes_without_packets(tmp_path: Path) -> None:
    files = Files(tmp_path, ("duration:60",), ("duration:10",))
    files.give(packets(1))
    files.files.status(status(11, delay_s=5))
    assert not rows_ended(tmp_path)
    files.files.status(status(12))
    assert rows_ended(tmp_path) == 1
    assert not files.files.is_complete
    files.files.status(status(60))
    assert files.files.is_complete
    assert files.end() == [[1]]


def rows_ended(folder: Path) -> int:
    """Return how many files have their last block, the counters."""
    return sum(b"\x05\0\0\0" in path.read_bytes()[-80:] for path in folder.iterdir())


def test_conditions_go_without_a_file() -> None:
    files = CaptureFiles(None, Interfaces(["eth0"], 100), autostop(["packets:2"]), since_ns=BEGIN)
    assert files.cut(packets(0, 1, 2)).number.tolist() == [1, 2]
    assert files.is_complete
    assert not files.notes()


def test_lost_packets_are_marked_where_they_were_lost(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.give(packets(0, 1))
    files.files.status(status(1, dropped=7))
    files.give(packets(2, first=3))
    files.files.status(status(3, dropped=7))
    files.files.close([])
    _, weirds = read((tmp_path / "t.pcapng").read_bytes())
    assert weirds == [("PACKETS_DROPPED", 2, 0)]


def test_each_file_counts_its_own_losses(tmp_path: Path) -> None:
    files = Files(tmp_path, full=("packets:2",))
    files.give(packets(0, 1))
    files.files.status(status(1, dropped=7))
    files.give(packets(2, 3, first=3))
    files.files.close([])
    assert [read(path.read_bytes())[1] for path in sorted(tmp_path.iterdir())] == [[("PACKETS_DROPPED", 2, 0)], []]


@pytest.mark.parametrize("room", [0, 200, 399, 400, 401, 1_000, 1_300])
def test_a_full_disk_is_said_once_and_the_file_ends_with_a_whole_packet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    left = room
    write = os.write

    def limited(file: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = data[:left]
        left -= len(data)
        return write(file, data)

    files = Files(tmp_path)
    monkeypatch.setattr(outputs.os, "write", limited)
    for first in range(1, 20, 5):
        assert len(files.give(packets(1, 2, 3, 4, 5, first=first)).number) == 5
    assert not files.files.is_complete
    monkeypatch.undo()
    (note,) = files.notes
    assert note.startswith(f"{tmp_path}/t.pcapng: no space left on device, after ")
    assert note.endswith("no more is written, and packets are judged as before")
    begin = (tmp_path / "t.pcapng").read_bytes()
    (tmp_path / "t.pcapng").unlink()
    whole = Files(tmp_path)
    header = (tmp_path / "t.pcapng").stat().st_size
    whole.give(packets(*[1, 2, 3, 4, 5] * 4))
    longer = (tmp_path / "t.pcapng").read_bytes()
    assert longer.startswith(begin)
    assert room - 132 < len(begin) - header <= room
    assert read(begin)[1] == []


def test_a_hostile_name_does_not_reach_the_terminal(tmp_path: Path) -> None:
    files = Files(tmp_path, name="a\x1b[2J.pcapng")
    files.give(packets(0))
    files.files.close([])
    assert "\x1b" not in files.notes[0]


def pipe_of(folder: Path) -> Path:
    os.mkfifo(folder / "t.pcapng")
    return folder / "t.pcapng"


def test_a_pipe_gets_the_packets(tmp_path: Path) -> None:
    with subprocess.Popen(["cat", str(pipe_of(tmp_path))], stdout=subprocess.PIPE) as reading:
        files = Files(tmp_path)
        files.give(packets(0, 1))
        files.files.close([])
        found, weirds = read(reading.communicate()[0])
    assert [row.data[0] for row in found] == [1, 2]
    assert not weirds
    assert not any("lacks" in note for note in files.notes)


def test_a_reader_that_does_not_read_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "PIPE_BYTES", 1_000)
    opened = os.open(pipe_of(tmp_path), os.O_RDWR)
    files = Files(tmp_path)
    for first in range(1, 200):
        files.give(packets(0, 1, 2, length=1_400, first=first))
    assert files.files.notes()[0].endswith("packets found no room there")
    assert not files.files.is_complete
    monkeypatch.undo()
    received = bytearray()

    def drain() -> None:
        while data := os.read(reader, 1 << 16):
            received.extend(data)

    reader = os.open(tmp_path / "t.pcapng", os.O_RDONLY)
    os.close(opened)
    draining = threading.Thread(target=drain)
    draining.start()
    files.give(packets(3, length=1_400, first=250))
    files.files.close([])
    draining.join()
    os.close(reader)
    found, weirds = read(bytes(received))
    assert found[-1].data[0] == 250
    assert {code for code, *_ in weirds} == {"PACKETS_DROPPED"}
    assert 0 < len(found) < 598


def test_the_capture_ends_when_the_reader_of_a_pipe_has_gone(tmp_path: Path) -> None:
    opened = os.open(pipe_of(tmp_path), os.O_RDWR)
    reader = os.open(tmp_path / "t.pcapng", os.O_RDONLY)
    files = Files(tmp_path)
    files.give(packets(0))
    os.read(reader, 1)
    os.close(reader)
    os.close(opened)
    until = time.monotonic() + PATIENCE_S
    while not files.files.is_complete and time.monotonic() < until:
        files.give(packets(1))
        time.sleep(0.01)
    assert files.notes == [f"{tmp_path}/t.pcapng: nobody reads it any more; the capture ends"]


_WRITES = """
import sys, time
from kshark.live.files import CaptureFiles, Conditions, Interfaces
from tests.live.batches import BEGIN, packets
files = CaptureFiles(sys.argv[1], Interfaces(["eth0"], 262144), Conditions(),
    Conditions(packets=int(sys.argv[2])), since_ns=BEGIN)
print("begun", flush=True)
first = 1
while True:
    batch = packets(*[first / 1e6] * 2000, length=100 + first % 1300, first=first)
    files.packets(files.cut(batch))
    first += 2000
"""


def test_a_killed_capture_leaves_files_that_can_be_read(tmp_path: Path) -> None:
    killed(tmp_path, 5)


@pytest.mark.slow
def test_a_capture_killed_at_fifty_moments_leaves_files_that_can_be_read(tmp_path: Path) -> None:
    killed(tmp_path, 50)


def killed(folder: Path, times: int) -> None:
    moments = Random(50)
    for turn in range(times):
        target = folder / str(turn)
        target.mkdir()
        environment = {**os.environ, "PYTHONPATH": pythonpath() + os.pathsep + str(ROOT)}
        with subprocess.Popen(
            [sys.executable, "-c", _WRITES, str(target / "t.pcapng"), str(moments.choice((3_000, 10_000_000)))],
            stdout=subprocess.PIPE,
            env=environment,
        ) as writing:
            assert writing.stdout is not None
            assert writing.stdout.readline() == b"begun\n"
            time.sleep(moments.uniform(0, 0.05))
            writing.send_signal(signal.SIGKILL)
        numbers: list[int] = []
        for path in sorted(it for it in target.iterdir() if not it.name.startswith(".")):
            found, weirds = read(path.read_bytes())
            assert {code for code, *_ in weirds} <= {"CAPTURE_CUT"}
            numbers += [row.data[0] for row in found]
        assert numbers == [number & 0xFF for number in range(1, 1 + len(numbers))]


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        (autostop, "size:3", "-a size:3 is not a condition; write one of duration:SECONDS, filesize:KB, files:N"),
        (autostop, "packets", "-a packets is not a condition"),
        (autostop, "packets:", "-a packets:: nothing is not a positive number; write packets:N"),
        (autostop, "packets:-1", "-a packets:-1: -1 is not a positive number"),
        (autostop, "packets:1.5", "1.5 is not a positive number"),
        (autostop, "duration:nan", "nan is not a positive number"),
        (autostop, "duration:inf", "inf is not a positive number"),
        (autostop, "interval:3", "-a interval:3 is not a condition"),
        (ring_buffer, "interval:0", "0 is not a positive number; write interval:SECONDS"),
        (ring_buffer, "files:3", "-b files:3 keeps so many files; say when one is full: -b duration:SECONDS"),
    ],
)
def test_wrong_conditions_are_answered(option: type, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        option([text])
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("path", "ends", "full", "said"),
    [
        (None, Conditions(), Conditions(packets=1), "-b is about the files of -w; name one with -w FILE"),
        ("-", Conditions(), Conditions(packets=1), "-w - is standard output"),
        (None, Conditions(filesize=1), Conditions(), "-a filesize is about the file of -w"),
        ("t", Conditions(files=1), Conditions(), "-a files counts the files of -b"),
    ],
)
def test_conditions_that_do_not_go_together_are_answered(
    path: str | None, ends: Conditions, full: Conditions, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        need_conditions(path, ends, full)


def test_a_folder_in_which_no_file_can_be_made_is_answered(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder; make it first"):
        need_writable(tmp_path / "none", "-w")
    need_writable(tmp_path, "-w")


def test_a_device_is_written_and_stays_one(tmp_path: Path) -> None:
    output = outputs.open_output("/dev/null")
    assert output.write(b"0123456789ab")
    output.close()
    assert Path("/dev/null").is_char_device()


def test_a_file_appears_with_its_first_blocks_and_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "t.pcapng"
    path.write_text("of an earlier capture")
    output = outputs.open_output(str(path))
    assert path.read_text() == "of an earlier capture"
    assert output.write(b"0123456789ab")
    assert path.read_bytes() == b"0123456789ab"
    output.close()
    assert [it.name for it in tmp_path.iterdir()] == ["t.pcapng"]
