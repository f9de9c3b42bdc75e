"""`kshark live` on the loopback interface, with a broker that plays its part: needs the right to capture."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path
from typing import IO

import pytest

import kshark
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.live
MEMBER = "aAAAAAAAAAAAAAAAAAAAAA"


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _read(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def _broker(listener: socket.socket) -> None:
    """Accepts epochs 0 and 1, refuses every other one."""
    connection, _ = listener.accept()
    with connection:
        for epoch in (0, 1, 5):
            _, _, correlation_id = struct.unpack(">hhi", _read(connection)[:8])
            body = kshark.encode(78, 1, "response", {"error_code": 123 if epoch == 5 else 0})
            connection.sendall(_framed(struct.pack(">i", correlation_id) + b"\0" + body))


def _client(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for number, epoch in enumerate((0, 1, 5), 1):
            fields = {"group_id": "g", "member_id": MEMBER, "share_session_epoch": epoch, "max_wait_ms": 5}
            header = struct.pack(">hhih", 78, 1, number, 2) + b"c1\0"
            connection.sendall(_framed(header + kshark.encode(78, 1, "request", fields)))
            _read(connection)
            time.sleep(0.05)


def talk(listener: socket.socket) -> None:
    playing = threading.Thread(target=_broker, args=(listener,))
    playing.start()
    _client(listener.getsockname()[1])
    playing.join()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


@contextmanager
def live(listener: socket.socket, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`kshark live` once it captures what goes to that listener: others may be talking on loopback."""
    command = [
        sys.executable,
        "-m",
        "kshark",
        "live",
        "-i",
        "lo",
        "-f",
        f"tcp port {listener.getsockname()[1]}",
        *options,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
    ) as running:
        until = time.monotonic() + PATIENCE_S
        while not _is_ready(running) and running.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        if running.poll() is not None and running.stderr is not None:
            told = running.stderr.read()
            if "not allowed" in told or "permi" in told.lower():
                pytest.skip(f"no right to capture: {told.strip()}")
            pytest.fail(told)
        yield running
        running.kill()


def _is_ready(running: subprocess.Popen[str]) -> bool:
    """Whether it catches SIGTERM: it does once its socket is open and empty."""
    for line in Path(f"/proc/{running.pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False  # it has just ended


def _rest(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.read()


def test_messages_and_findings_come_as_they_happen(listener: socket.socket) -> None:
    with live(listener, "-T", "json", "-c", "6") as running:
        talk(listener)
        lines = [json.loads(line) for line in _rest(running.stdout).splitlines()]
        told = _rest(running.stderr)
        assert running.wait(PATIENCE_S) == 1
    messages = [line for line in lines if "kind" in line]
    assert [message["body"].get("share_session_epoch") for message in messages if message["kind"] == "request"] == [
        0,
        1,
        5,
    ]
    (finding,) = [line for line in lines if line.get("verdict") == "violation"]
    assert finding["code"] == "EPOCH_SKIP_AHEAD"
    assert lines.index(finding) == 6
    assert lines[-1]["summary"]["violations"] == 1
    assert told.startswith("kshark: capturing on lo\n")
    assert "0 dropped by the kernel" in told
    assert (lines[-1]["summary"]["dropped"], lines[-1]["summary"]["lost"]) == (0, [])


@pytest.mark.parametrize(
    ("text", "epochs", "codes"),
    [
        ("kafka.share_session_epoch >= 1", [1, 5], ["EPOCH_SKIP_AHEAD"]),
        ("kafka.share_session_epoch == 0", [0], []),
    ],
)
def test_a_filter_leaves_out_messages_and_findings_that_rest_on_none(
    listener: socket.socket, text: str, epochs: list[int], codes: list[str]
) -> None:
    with live(listener, "-T", "json", "-Y", text) as running:
        talk(listener)
        running.send_signal(signal.SIGINT)
        *lines, last = [json.loads(line) for line in _rest(running.stdout).splitlines()]
        assert running.wait(PATIENCE_S) == bool(codes)
    assert [line["body"]["share_session_epoch"] for line in lines if "kind" in line] == epochs
    assert [line["code"] for line in lines if line.get("verdict") == "violation"] == codes
    assert last["summary"]["violations"] == len(codes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_with_the_verdict(listener: socket.socket, number: int) -> None:
    with live(listener, "-q") as running:
        talk(listener)
        running.send_signal(number)
        out, told = _rest(running.stdout), _rest(running.stderr)
        assert running.wait(PATIENCE_S) == 1
    assert "EPOCH_SKIP_AHEAD" in out
    assert any(line.startswith("1 violation: EPOCH_SKIP_AHEAD") for line in out.splitlines()[-3:])
    assert "Traceback" not in told


def test_a_reader_that_leaves_ends_it_quietly(listener: socket.socket) -> None:
    with live(listener) as running:
        assert running.stdout is not None
        running.stdout.close()
        talk(listener)
        assert running.wait(PATIENCE_S) == 141
        assert "Traceback" not in _rest(running.stderr)


def test_a_reader_that_does_not_read_gets_the_verdict_on_stderr(listener: socket.socket) -> None:
    """A pager, or Ctrl-S."""
    with live(listener, "-V") as running:
        assert running.stdout is not None
        fcntl(running.stdout, F_SETPIPE_SZ, 4096)
        for _ in range(8):
            talk(listener)
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 1
        told = _rest(running.stderr)
    assert "nobody reads standard output: " in told
    assert "8 violations: EPOCH_SKIP_AHEAD 8" in told


def test_an_interface_that_is_not_there_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    from kshark.cli import main

    assert main(["live", "-i", "nowhere0"]) == 2
    told = capfd.readouterr().err
    assert "nowhere0" in told
    assert told.count("\n") == 1


def test_metrics_are_served_while_it_captures(listener: socket.socket) -> None:
    with live(listener, "-q", "--prometheus", "0") as running:
        assert running.stderr is not None
        said = running.stderr.readline()
        url = said.removeprefix("kshark: metrics at ").strip()
        talk(listener)
        until = time.monotonic() + PATIENCE_S
        body = ""
        while "EPOCH_SKIP_AHEAD" not in body and time.monotonic() < until:
            socket.create_connection(listener.getsockname()).close()  # a packet: the capture goes on
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                body = answer.read().decode()
        assert 'kshark_findings_total{code="EPOCH_SKIP_AHEAD",verdict="violation",blame="client",group="g"} 1\n' in body
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 1
