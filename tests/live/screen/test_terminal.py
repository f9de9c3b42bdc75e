"""The screen on a pseudo-terminal: it is restored whatever happens, keys react, and nothing waits for it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.shared import ROOT, pythonpath

SIZE = (60, 12)
#: A program that shows the screen, as `kshark live` does; `{body}` is its loop.
PROGRAM = """
import os, signal, sys, time
from kshark.cli.live_screen import shown_screen
from kshark.live import Status
from kshark.live.screen import Model, Screen
from kshark.output.spans import plain

stops = []
signal.signal(signal.SIGINT, lambda *_: stops.append("SIGINT"))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: stops.append("SIGTERM"))
model = Model({{}})
screen = Screen(model, plain, lambda: os.kill(os.getpid(), signal.SIGINT), lambda: "saved incident-1.pcapng")
now = time.time_ns()

def status(seconds=0):
    screen.status(Status(("eth0",), now, now + int(seconds * 1e9), int(seconds * 1000)))

with shown_screen(screen, ("eth0",)):
{body}
print("the verdict", *stops)
"""
LOOP = """
for step in range(100_000):
    status(step)
    time.sleep(0.02)
    if stops:
        break
"""


class Watched:
    """A program on a terminal: what it shows, and the modes of the terminal."""

    def __init__(self, body: str) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.bytes = b""
        program = PROGRAM.format(body=textwrap.indent(body.strip("\n"), "    "))
        environment = {**os.environ, "PYTHONPATH": pythonpath(), "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def read(self, wait_s: float = 0.05) -> None:
        """Read what the program wrote."""
        while select.select([self.master], [], [], wait_s)[0]:
            try:
                data = os.read(self.master, 65_536)
            except OSError:
                return
            self.bytes += data
            wait_s = 0

    def until(self, happens: Callable[[], bool]) -> None:
        """Wait for something, and read meanwhile."""
        end = time.monotonic() + PATIENCE_S
        while not happens():
            assert time.monotonic() < end, self.bytes[-2_000:]
            assert self.process.poll() is None, self.bytes[-2_000:]
            self.read()

    def shows(self, text: str) -> Callable[[], bool]:
        return lambda: text.encode() in self.bytes

    def press(self, keys: str) -> None:
        self.bytes = b""
        os.write(self.master, keys.encode())

    def end(self) -> int:
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        self.read()
        return self.process.wait(1)

    @property
    def is_restored(self) -> bool:
        """True if the last bytes left the alternate screen, and the modes are those of before."""
        is_left = self.bytes.rfind(b"\x1b[?1049l") > self.bytes.rfind(b"\x1b[?1049h")
        return is_left and b"\x1b[?25h" in self.bytes and termios.tcgetattr(self.slave) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def watch() -> Iterator[Callable[[str], Watched]]:
    watched: list[Watched] = []

    def start(body: str = LOOP) -> Watched:
        watched.append(Watched(body))
        watched[-1].until(watched[-1].shows("Waiting for packets."))
        return watched[-1]

    yield start
    for each in watched:
        each.close()


Watch = Callable[..., Watched]


def test_the_screen_comes_at_once_and_q_restores_the_terminal(watch: Watch) -> None:
    seen = watch()
    assert b"\x1b[?1049h" in seen.bytes
    assert termios.tcgetattr(seen.slave) != seen.before
    seen.press("q")
    assert seen.end() == 0
    assert seen.is_restored
    assert seen.bytes.rstrip().endswith(b"the verdict SIGINT")


def test_a_signal_restores_the_terminal(watch: Watch) -> None:
    seen = watch()
    seen.process.send_signal(signal.SIGTERM)
    assert seen.end() == 0
    assert seen.is_restored


@pytest.mark.parametrize("failure", ["1 / 0", "raise KeyboardInterrupt"])
def test_an_exception_restores_the_terminal(watch: Watch, failure: str) -> None:
    seen = watch(f"time.sleep(0.1)\n{failure}")
    assert seen.end() != 0
    assert seen.is_restored


def test_a_failure_of_the_view_ends_the_program_with_its_message(watch: Watch) -> None:
    seen = watch("time.sleep(0.3)\nscreen._state.view = 'no such view'\nscreen._state.sort = 99\n" + LOOP)
    assert seen.end() != 0
    assert seen.is_restored
    assert b"IndexError" in seen.bytes


def test_texts_for_stderr_come_after_the_screen(watch: Watch) -> None:
    seen = watch("print('a note', file=sys.stderr)\n" + LOOP)
    seen.read(0.2)
    assert b"a note" not in seen.bytes
    seen.press("q")
    assert seen.end() == 0
    assert seen.bytes.index(b"a note") > seen.bytes.index(b"\x1b[?1049l")


def test_keys_work_while_the_engine_is_busy(watch: Watch) -> None:
    """The main thread neither returns to its loop nor sleeps."""
    seen = watch("status(1)\nwhile not stops:\n    sum(range(1000))")
    seen.press("?")
    seen.until(seen.shows("pause the screen"))
    seen.press("q")
    seen.until(seen.shows("q"))
    seen.press("q")
    assert seen.end() == 0


def test_w_saves_in_the_main_thread_and_says_where(watch: Watch) -> None:
    seen = watch()
    seen.press("w")
    seen.until(seen.shows("saved incident-1.pcapng"))


def test_pause_shows_the_same_picture_while_the_capture_goes_on(watch: Watch) -> None:
    seen = watch()
    seen.until(seen.shows("2,000 packets"))
    seen.press("p")
    seen.until(seen.shows("PAUSED"))
    seen.read(0.3)
    seen.bytes = b""
    seen.read(0.3)
    assert seen.bytes == b""
    seen.press("p")
    seen.until(seen.shows("packets/s"))


def test_a_new_size_is_painted(watch: Watch) -> None:
    seen = watch()
    fcntl.ioctl(seen.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 30, 0, 0))
    seen.bytes = b""
    seen.process.send_signal(signal.SIGWINCH)
    seen.until(seen.shows("0 violations"))
    assert b"\x1b[2J" in seen.bytes
    assert b"\x1b[6;1H" not in seen.bytes


def test_a_stopped_program_leaves_the_terminal_and_comes_back(watch: Watch) -> None:
    seen = watch()
    seen.bytes = b""
    seen.process.send_signal(signal.SIGTSTP)
    # An orphaned process group is not stopped: it goes on at once.
    seen.until(seen.shows("\x1b[?1049l"))
    seen.process.send_signal(signal.SIGCONT)
    seen.until(lambda: seen.bytes.rfind(b"\x1b[?1049h") > seen.bytes.find(b"\x1b[?1049l"))
    seen.until(seen.shows("kshark"))
    seen.press("q")
    assert seen.end() == 0
    assert seen.is_restored


def test_a_terminal_that_does_not_read_delays_nothing(watch: Watch, tmp_path: Path) -> None:
    """Frames are left out, and the program comes to its end, where the terminal continues."""
    done = tmp_path / "done"
    seen = watch(f"""
time.sleep(0.5)
for step in range(500):
    status(step)
    time.sleep(0.001)
open({str(done)!r}, "w").close()
""")
    termios.tcflow(seen.slave, termios.TCOOFF)
    end = time.monotonic() + PATIENCE_S
    while not done.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert done.exists()
    termios.tcflow(seen.slave, termios.TCOON)
    assert seen.end() == 0
    assert seen.is_restored


def test_ctrl_s_stops_the_screen_and_not_the_end(watch: Watch) -> None:
    seen = watch()
    seen.press("\x13")
    seen.read(0.3)
    seen.bytes = b""
    seen.read(0.3)
    assert seen.bytes == b""
    seen.press("q")
    assert seen.end() == 0
    assert seen.is_restored
    assert seen.bytes.rstrip().endswith(b"the verdict SIGINT")


def test_a_terminal_that_has_gone_does_not_end_the_capture(watch: Watch, tmp_path: Path) -> None:
    done = tmp_path / "done"
    loop = LOOP.replace("if stops", "if step > 40")
    seen = watch(f"{loop}\nopen({str(done)!r}, 'w').close()")
    os.close(seen.slave)
    os.close(seen.master)
    seen.master, seen.slave = pty.openpty()
    end = time.monotonic() + PATIENCE_S
    while seen.process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    assert done.exists()
