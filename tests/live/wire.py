"""A wire with two ends, each in a network namespace of its own: a sender on one, kshark on the other."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.patience import PATIENCE_S

SECONDS: Final = int(os.environ.get("KSHARK_LIVE_SECONDS", "5"))
_TOOLS: Final = ("ip", "tcpreplay", "tcpdump")

MISSING = [tool for tool in _TOOLS if shutil.which(tool) is None]
needs_wire = pytest.mark.skipif(
    bool(MISSING) or not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="network namespaces need root, iproute2, tcpreplay and tcpdump",
)


class Said(NamedTuple):
    """What `kshark live -T json -q` said: findings, the summary, notes on stderr, exit code, and how long it took to
    end."""

    findings: list[dict[str, Any]]
    summary: dict[str, Any]
    err: str
    code: int
    seconds: float


class Wire:
    """Two namespaces and their interfaces; `kshark` runs where packets arrive."""

    def __init__(self, name: str) -> None:
        self.sender, self.receiver = f"{name}-a", f"{name}-b"
        self.sends, self.receives = f"{name}0", f"{name}1"

    def __enter__(self) -> Wire:
        self._remove()
        for space in (self.sender, self.receiver):
            run("ip", "netns", "add", space)
            # no packets of the system's own
            run("ip", "netns", "exec", space, "sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6")
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def connect(self) -> None:
        """Make both interfaces, and switch them on."""
        ends = ("netns", self.sender, "type", "veth", "peer", "name", self.receives, "netns", self.receiver)
        run("ip", "link", "add", self.sends, *ends)
        self.switch("up")
        run("ip", "-n", self.sender, "link", "set", self.sends, "up")

    def switch(self, state: str) -> None:
        """Switch the receiving interface up or down."""
        run("ip", "-n", self.receiver, "link", "set", self.receives, state)

    def delete(self) -> None:
        """Delete both interfaces."""
        run("ip", "-n", self.receiver, "link", "delete", self.receives)

    def send(self, capture: Path, *options: str) -> int:
        """Send the packets of a capture with tcpreplay's options, and return how many arrived."""
        before = self.arrived()
        run("ip", "netns", "exec", self.sender, "tcpreplay", "-q", "-i", self.sends, *options, str(capture))
        return self.arrived() - before

    def arrived(self) -> int:
        counter = f"/sys/class/net/{self.receives}/statistics/rx_packets"
        return int(run("ip", "netns", "exec", self.receiver, "cat", counter))

    @contextlib.contextmanager
    def live(self, *options: str, env: dict[str, str] | None = None) -> Iterator[Live]:
        """Run `kshark live` once it captures."""
        command = ("ip", "netns", "exec", self.receiver, sys.executable, "-m", "kshark", "live", "-i", self.receives)
        with subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
        ) as process:
            live = Live(process)
            try:
                live.wait_until_ready()
                yield live
            finally:
                process.kill()

    def tcpdump(self, path: Path) -> subprocess.Popen[bytes]:
        """Run tcpdump beside it."""
        command = ("ip", "netns", "exec", self.receiver, "tcpdump", "-i", self.receives, "-B", "262144", "-s", "0")
        process = subprocess.Popen([*command, "-Z", "root", "--nano", "-w", str(path)], stderr=subprocess.PIPE)
        assert process.stderr is not None
        while b"listening" not in process.stderr.readline():
            pass
        return process

    def _remove(self) -> None:
        for space in (self.sender, self.receiver):
            subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL, check=False)


class Live:
    """A running `kshark live`, whose output is read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=(stream, into), daemon=True)
            for stream, into in ((process.stdout, self.lines), (process.stderr, self.errors))
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(stream: Any, into: list[str]) -> None:
        into.extend(stream)

    def wait_until_ready(self) -> None:
        self.wait_for(lambda: any("capturing on" in line for line in self.errors), "it does not capture")

    def wait_for(self, is_so: Any, otherwise: str) -> None:
        """Wait until it is so."""
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            if self.process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"{otherwise}: {''.join(self.errors)}")
            time.sleep(0.02)

    @property
    def capture_process(self) -> int:
        """Return the id of the capture process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(int(child) for child in children if b"child.py" in Path(f"/proc/{child}/cmdline").read_bytes())

    def end(self, number: int = signal.SIGINT) -> Said:
        """Send a signal, and return what was said."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.said(began)

    def said(self, began: float) -> Said:
        """Wait for the end, and return what was said."""
        code = self.process.wait(PATIENCE_S)
        seconds = time.monotonic() - began
        for thread in self._threads:
            thread.join(PATIENCE_S)
        objects = [json.loads(line) for line in self.lines]
        summary = objects[-1].get("summary", {}) if objects else {}
        findings = [line for line in objects if "verdict" in line]
        return Said(findings, summary, "".join(self.errors), code, seconds)


def rights(process: int) -> dict[str, str]:
    """Return the lines of /proc/PID/status by their names."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@contextlib.contextmanager
def busy(loops: int = 2) -> Iterator[None]:
    """Keep so many processors busy."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(*command: str) -> str:
    """Run a program to its end, and return its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def found(said: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return what findings say, without what depends on the capture: numbers of packets, and times."""
    keys = ("code", "verdict", "blame", "cause", "client", "group_id", "member_id", "topic_id", "partition")
    return sorted(
        (*(str(finding.get(key)) for key in keys), *(str(one.get("correlation_id")) for one in finding["witness"]))
        for finding in said
    )
