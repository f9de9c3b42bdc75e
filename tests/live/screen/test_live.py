"""`kshark live` on a terminal, on a wire of its own: the screen while it runs, then the verdict."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator

import pytest

from tests.live.wire import Wire, needs_wire
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES

pytestmark = [pytest.mark.live, needs_wire]
EPOCHS = CAPTURES / "adv-epochs.pcap"


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire("kscreen") as made:
        yield made


class Shown:
    """`kshark live` on a pseudo-terminal of 80 columns and 24 lines."""

    def __init__(self, wire: Wire, *options: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.bytes = b""
        command = ("ip", "netns", "exec", wire.receiver, sys.executable, "-m", "kshark", "live", "-i", wire.receives)
        env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            [*command, *options],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def until(self, happens: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not happens():
            assert time.monotonic() < end, self.bytes[-2_000:]
            if not self.read():
                assert happens(), self.bytes[-2_000:]

    def read(self) -> bool:
        """Read what comes; False at the end."""
        if select.select([self.master], [], [], 0.1)[0]:
            try:
                self.bytes += os.read(self.master, 65_536)
            except OSError:
                return False
        return True

    def shows(self, text: str) -> Callable[[], bool]:
        return lambda: text.encode() in self.bytes

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def end(self) -> int:
        while self.read():
            pass
        os.close(self.master)
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def show(wire: Wire) -> Iterator[Callable[..., Shown]]:
    shown: list[Shown] = []

    def start(*options: str) -> Shown:
        shown.append(Shown(wire, *options))
        return shown[-1]

    yield start
    for each in shown:
        each.kill()


def test_the_screen_then_the_verdict(wire: Wire, show: Callable[..., Shown]) -> None:
    seen = show()
    seen.until(seen.shows("Waiting for packets."))
    wire.send(EPOCHS, "--pps", "400")
    seen.until(seen.shows("ACK_IN_INITIAL_FETCH"))
    assert b"capturing on" not in seen.bytes
    os.write(seen.master, b"q")
    assert seen.end() == 1
    screen, _, verdict = seen.bytes.partition(b"\x1b[?1049l")
    assert b" VIOLATIONS " in screen
    assert b"31 violations: " in verdict
    assert b"packets captured" in verdict


def test_lines_if_they_are_asked_for(wire: Wire, show: Callable[..., Shown]) -> None:
    seen = show("--lines", "-Y", "kafka.api == ShareFetch")
    seen.until(seen.shows("capturing on"))
    wire.send(EPOCHS, "--pps", "400")
    seen.until(seen.shows("ShareFetch"))
    os.write(seen.master, b"\x03")
    assert seen.end() == 1
    assert b"\x1b[?1049h" not in seen.bytes
