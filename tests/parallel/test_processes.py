"""The processes of a run end with it, whatever happens to one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kshark.errors import UsageError
from kshark.model import Ends, Flow, Frames
from kshark.output.notes import Notes
from kshark.parallel.crew import Crew
from kshark.parallel.crossings import Crossed, Crossings
from kshark.parallel.shares import ALWAYS, Share, Sharing
from kshark.parallel.worker import Made
from tests.cli.command import Run
from tests.shared import CAPTURES, ROOT

CAPTURE = CAPTURES / "share-java-explicit.pcap"


def started(*words: object) -> subprocess.Popen[bytes]:
    """The command, which reads what the test gives it."""
    command = [sys.executable, "-m", "kshark", "read", "-", *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not task.exists():
        pytest.skip("no /proc here")
    return [int(number) for number in task.read_text().split()]


def waited_for(process: subprocess.Popen[bytes], count: int) -> list[int]:
    """Its children, once there are so many."""
    for _ in range(400):
        if len(found := children(process)) >= count:
            return found
        time.sleep(0.025)
    raise AssertionError("no children")


def gone(processes: list[int]) -> bool:
    for _ in range(200):
        if not any(Path(f"/proc/{number}").exists() for number in processes):
            return True
        time.sleep(0.025)
    return False


def fed(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(CAPTURE.read_bytes())
    process.stdin.flush()


def test_a_process_that_dies_ends_the_run_with_a_sentence() -> None:
    with started("-q", "--jobs", 2) as run:  # with output nobody would read it, and it would not read on
        fed(run)
        workers = waited_for(run, 2)
        os.kill(workers[0], signal.SIGKILL)
        _, err = run.communicate(timeout=30)
    assert run.returncode == 2
    assert err.decode().splitlines()[-1].startswith("kshark: a process of this run ended unexpectedly (exit code -9)")
    assert b"Traceback" not in err
    assert gone(workers)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_with_the_first_process_all_end(number: int) -> None:
    with started("-q", "--jobs", 2) as run:  # with output nobody would read it, and it would not read on
        fed(run)
        workers = waited_for(run, 2)
        run.send_signal(number)
        _, err = run.communicate(timeout=30)
    assert run.returncode == (130 if number == signal.SIGINT else -number)
    assert b"Traceback" not in err
    assert gone(workers)


def test_a_reader_that_has_enough_ends_all() -> None:
    command = f"{sys.executable} -m kshark read {CAPTURE} --jobs 2 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


class Doubling:
    """Works in another process."""

    def take(self, item: int) -> int:
        if item < 0:
            raise UsageError("less than nothing")
        return 2 * item


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_is_sent_comes_back_in_order(method: str) -> None:
    with Crew(2, Doubling, method) as crew:
        for item in (1, 2, 3):
            crew.send(1, item)
        assert [crew.receive(1) for _ in range(3)] == [2, 4, 6]


def test_what_a_process_raises_is_raised_here() -> None:
    with Crew(1, Doubling) as crew:
        crew.send(0, -1)
        with pytest.raises(UsageError, match="less than nothing"):
            crew.receive(0)


def test_what_was_read_before_a_failure_is_printed(kshark: Run, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap.gz"
    import gzip

    cut.write_bytes(gzip.compress(CAPTURE.read_bytes())[:-20_000])
    alone, together = kshark("read", cut), kshark("read", cut, "--jobs", 2)
    assert alone == together


def test_what_crosses_is_done_again(kshark: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # two brokers' connections hold the id of __consumer_offsets a moment after a third one told its name
    raised = []
    lesson = Crossings.lesson

    def watched(*args: object) -> object:
        try:
            return lesson(*args)  # type: ignore[arg-type]
        except Crossed:
            raised.append(True)
            raise

    monkeypatch.setattr(Crossings, "lesson", watched)
    capture = CAPTURES / "zk-old-clients.pcap"
    alone, together = kshark("read", capture, "-T", "json"), kshark("read", capture, "-T", "json", "--jobs", 2)
    assert raised
    assert alone == together


def frames(*rows: tuple[Flow, bytes]) -> Frames:
    ends = np.cumsum([0, *(len(data) for _, data in rows)])
    numbers = np.arange(1, len(rows) + 1)
    flows = list(dict.fromkeys(flow for flow, _ in rows))
    return Frames(
        b"".join(data for _, data in rows),
        flows,
        [True] * len(flows),
        np.array([flows.index(flow) for flow, _ in rows]),
        ends[:-1],
        ends[1:],
        numbers,
        numbers,
        numbers,
        numbers,
        np.zeros(len(rows), bool),
    )


def flow(number: int) -> Flow:
    return Flow(number, Ends(f"10.0.0.1:{number}", "10.0.0.2:9092"), 1, 1)


def shared(*rows: tuple[Flow, bytes]) -> dict[int, Share]:
    return Sharing(2).cut([frames(*rows)], [], ALWAYS, None)[1]


def test_a_connection_stays_with_its_process_and_only_its_bytes_go_there() -> None:
    first, second = flow(1), flow(2)
    shares = shared((first, b"aa"), (second, b"b"), (first, b"cc"))
    assert [(share.data, share.flows) for share in shares.values()] == [(b"aacc", [1]), (b"b", [2])]


def test_new_connections_go_where_fewer_bytes_went() -> None:
    sharing = Sharing(2)
    sharing.cut([frames((flow(1), b"much" * 100), (flow(2), b"little"))], [], ALWAYS, None)
    _, shares = sharing.cut([frames((flow(3), b"x"), (flow(4), b"y"))], [], ALWAYS, None)
    assert list(shares) == [1]


OFFSETS = "AAAAAAAAAAAAAAAAAAAAIA"
RAW = b"\0" * 15 + b"\x20"


def told(worker: int, name: str = "__consumer_offsets") -> dict[int, Made]:
    return {worker: Made(None, Notes(), [], [(OFFSETS, name, 7)], 2)}


def test_an_id_that_another_process_has_not_met_is_a_lesson_for_the_next_batch() -> None:
    lesson = Crossings().lesson(told(0), [shared((flow(1), b"own" + RAW), (flow(2), b"other"))])
    assert lesson is not None
    assert lesson.names == [(OFFSETS, "__consumer_offsets", 7)]


def test_an_id_that_another_process_has_met_crosses() -> None:
    with pytest.raises(Crossed):
        Crossings().lesson(told(0), [shared((flow(1), b"own"), (flow(2), b"other" + RAW))])


def test_an_id_behind_its_name_tells_it_again() -> None:
    assert Crossings().lesson(told(0), [shared((flow(1), b"own"), (flow(2), b"__consumer_offsets" + RAW))])


def test_two_names_of_one_id_cross() -> None:
    crossings = Crossings()
    crossings.lesson(told(0), [])
    with pytest.raises(Crossed):
        crossings.lesson(told(1, "__share_group_state"), [])
