"""The processes of a run end with it, whatever happens to one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kshark.errors import UsageError
from kshark.parallel.pool import WorkerPool
from tests.cli.command import Run
from tests.shared import CAPTURES, ROOT

CAPTURE = CAPTURES / "share-java-explicit.pcap"


def started(*words: object) -> subprocess.Popen[bytes]:
    """The command, which reads what the test gives it; Ctrl-C ends it also where a shell started the tests in the
    background."""
    command = [sys.executable, "-m", "kshark", "read", "-", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT, preexec_fn=heeding_ctrl_c)


def heeding_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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
        if not any(map(runs, processes)):
            return True
        time.sleep(0.025)
    return False


def runs(process: int) -> bool:
    """Whether it does; one that waits for its parent to look (Z) does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def fed(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(CAPTURE.read_bytes())
    process.stdin.flush()


def test_a_process_that_dies_ends_the_run_with_a_sentence() -> None:
    with started("-q", "--jobs", 3) as run:  # with output nobody would read it, and it would not read on
        fed(run)
        workers = waited_for(run, 2)
        os.kill(workers[0], signal.SIGKILL)
        _, err = run.communicate(timeout=30)
    assert run.returncode == 2
    assert err.decode().splitlines()[-1].startswith("kshark: a process of this run ended unexpectedly (exit code -9)")
    assert b"Traceback" not in err
    assert gone(workers)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_with_the_first_process_all_end(number: int) -> None:
    with started("-q", "--jobs", 3) as run:  # with output nobody would read it, and it would not read on
        fed(run)
        workers = waited_for(run, 2)
        run.send_signal(number)
        _, err = run.communicate(timeout=30)
    assert run.returncode == (0 if number == signal.SIGINT else -number)  # Ctrl-C is the end of the capture
    assert b"Traceback" not in err
    assert gone(workers)


@pytest.mark.sweep
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


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_is_sent_comes_back_in_order(method: str) -> None:
    with WorkerPool(2, Doubling, method) as pool:
        for item in (1, 2, 3):
            pool.send(1, item)
        assert [pool.receive(1) for _ in range(3)] == [2, 4, 6]


def test_what_a_process_raises_is_raised_here() -> None:
    with WorkerPool(1, Doubling) as pool:
        pool.send(0, -1)
        with pytest.raises(UsageError, match="less than nothing"):
            pool.receive(0)


def test_what_was_read_before_a_failure_is_printed(kshark: Run, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap.gz"
    import gzip

    cut.write_bytes(gzip.compress(CAPTURE.read_bytes())[:-20_000])
    alone, together = kshark("read", cut), kshark("read", cut, "--jobs", 2)
    assert alone == together
