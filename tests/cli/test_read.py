"""`kshark read`."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import kshark as face
from tests.cli.command import Run
from tests.cli.incident import incident, written
from tests.packets import START_NS, Tcp, Wire
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES

MESSAGES = 18


def test_every_message_has_a_line(kshark: Run, trace: Path) -> None:
    done = kshark("read", trace)
    assert (done.code, done.err) == (0, "")
    assert len(done.lines) == MESSAGES
    (refused,) = [line for line in done.lines if "123" in line.split("#")[-1]]
    assert refused.endswith("#5 1.00 ms 123 INVALID_SHARE_SESSION_EPOCH group=billing member=aAAAAAAAAAAAAAAAAAAAAA")
    (asked,) = [line for line in done.lines if "acks=10" in line]
    assert asked.endswith("group=billing member=aAAAAAAAAAAAAAAAAAAAAA epoch=1 AAAAAAAAAAAAAAAAAAAABw[0] acks=10")


def test_json_lines_are_the_messages_of_the_python_face(kshark: Run, trace: Path) -> None:
    lines = kshark("read", trace, "-T", "json").json
    messages = list(face.read(trace))
    assert len(lines) == len(messages) == MESSAGES
    for line, message in zip(lines, messages, strict=True):
        assert line["packet"] == message.packet
        assert line["body"].keys() == message.body.keys()
    request, response = lines[0], lines[1]
    assert list(request)[:9] == ["packet", "time_ns", "flow", "client", "broker", "kind", "api_key", "api", "version"]
    assert (request["kind"], response["kind"], response["request_packet"]) == ("request", "response", request["packet"])
    assert response["latency_ns"] == 1_000_000


def test_a_tree_shows_all_fields(kshark: Run, trace: Path) -> None:
    done = kshark("read", trace, "-V", "-c", "1")
    assert done.lines[1].startswith("ApiVersions v3 request  correlation id 1")
    assert '  client_software_name: "apache-kafka-java"' in done.lines


def test_fields_stand_in_columns(kshark: Run, trace: Path) -> None:
    done = kshark(
        "read",
        trace,
        "-T",
        "fields",
        "-e",
        "frame.number",
        "-e",
        "kafka.api",
        "-e",
        "kafka.error_code",
        "-e",
        "kafka.partition_index",
    )
    assert len(done.lines) == MESSAGES
    rows = [line.split("\t") for line in done.lines]
    assert [row[2] for row in rows if row[2] and row[1] == "ShareFetch"] == ["0,0,0", "0", "0,0", "123"]
    assert [row[3] for row in rows if row[1] == "ShareFetch"][:2] == ["0,1", "0,1"]


def test_common_fields_alone_need_no_body(kshark: Run, trace: Path) -> None:
    assert kshark("read", trace, "-T", "fields", "-e", "kafka.api", "-c", "2").out == "ApiVersions\nApiVersions\n"


@pytest.mark.parametrize("how", [(), ("-T", "json"), ("-V",), ("-T", "fields", "-e", "kafka.flow")])
def test_a_count_ends_it_at_once(kshark: Run, trace: Path, how: tuple[str, ...]) -> None:
    one, three = (kshark("read", trace, "-c", n, *how) for n in (1, 3))
    assert three.out.startswith(one.out)
    assert len(three.lines) > len(one.lines) > 0


def test_tsharks_spellings_work(kshark: Run, trace: Path) -> None:
    assert kshark("read", "-n", "-r", trace, "-c", "2").lines == kshark("read", trace).lines[:2]


def test_options_may_stand_between_files(kshark: Run, trace: Path, tmp_path: Path) -> None:
    early, late = written(tmp_path, incident()[:15], "a.pcap"), written(tmp_path, incident()[15:], "b.pcap")
    assert (
        len(kshark("read", early, "-T", "json", late).lines)
        == len(kshark("read", trace, "-T", "json").lines)
        == MESSAGES
    )


def test_quiet_prints_no_message(kshark: Run, trace: Path) -> None:
    done = kshark("read", trace, "-q")
    assert (done.code, done.out) == (0, "")


def test_a_period_is_cut_out(kshark: Run, trace: Path) -> None:
    late = kshark("read", trace, "--since", "+4s", "-T", "json").json
    early = kshark("read", trace, "--until", "+4s", "-T", "json").json
    assert len(late) == 4
    assert len(late) + len(early) == MESSAGES
    assert late[0]["packet"] == early[-1]["packet"] + 1
    assert len(kshark("read", trace, "--since", f"{START_NS // 10**9 + 4}", "-T", "json").lines) == 4


def test_several_files_are_one_capture(kshark: Run, tmp_path: Path) -> None:
    packets = incident()
    first, second = written(tmp_path, packets[:15], "a.pcap"), written(tmp_path, packets[15:], "b.pcap")
    lines = kshark("read", second, first, "-T", "json").json
    assert len(lines) == MESSAGES
    assert (lines[0]["file"], lines[0]["frame"]) == (str(first), lines[0]["packet"])
    assert lines[-1]["file"] == str(second)
    assert lines[-1]["frame"] == lines[-1]["packet"] - 15
    assert {line["flow"] for line in lines} == {0, 1}


def test_each_file_may_be_its_own_capture(kshark: Run, trace: Path, tmp_path: Path) -> None:
    written(tmp_path, name="a.pcap")
    written(tmp_path, name="b.pcap")
    done = kshark("read", tmp_path, "--each")
    assert [line for line in done.lines if line.startswith("== ")] == [f"== {tmp_path}/a.pcap", f"== {tmp_path}/b.pcap"]
    assert len(done.lines) == 2 * MESSAGES + 2
    lines = kshark("read", tmp_path, "--each", "-T", "json").json
    assert [line["file"] for line in lines] == [f"{tmp_path}/a.pcap"] * MESSAGES + [f"{tmp_path}/b.pcap"] * MESSAGES


def test_standard_input_is_a_file_too(trace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kshark", "read", "-", "-c", "1"],
        input=trace.read_bytes(),
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert b"ApiVersions v3" in done.stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    large = CAPTURES / "share-java-explicit.pcap"
    command = f"{sys.executable} -m kshark read -T json {large} | head -1 | wc -l; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.splitlines()[0] == "1"
    assert done.stderr == ""


def test_a_capture_without_kafka_says_so_and_is_no_error(kshark: Run, tmp_path: Path) -> None:
    wire = Wire()
    web = Tcp(wire, target="10.0.0.9:80").open()
    web.client(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    web.broker(b"HTTP/1.1 200 OK\r\n\r\n")
    web.close()
    done = kshark("read", written(tmp_path, wire.packets))
    assert (done.code, done.out) == (0, "")
    assert "no Kafka messages" in done.err


def test_a_cut_capture_is_read_as_far_as_it_goes_and_the_cut_is_noted(kshark: Run, trace: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(trace.read_bytes()[:-10])
    done = kshark("read", cut)
    assert done.code == 0
    assert len(done.lines) == MESSAGES
    assert "CAPTURE_CUT" in done.err


@pytest.mark.parametrize("content", [b"", b"hello, I am no capture", b"\x7fELF" + b"\0" * 100])
def test_what_is_no_capture_is_refused_in_one_sentence(kshark: Run, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    done = kshark("read", path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("kshark: ")
    assert str(path) in done.err
    assert done.err.count("\n") == 1


def test_a_terminal_sees_colours_and_lines_of_its_width(trace: Path) -> None:
    """A pseudo-terminal of 80 columns."""
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    command = [sys.executable, "-m", "kshark", "read", str(trace)]
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, env={**environment, "TERM": "xterm"}
    ) as running:
        os.close(theirs)
        seen = _all(ours)
    assert running.returncode == 0
    assert "\x1b[1mApiVersions v3\x1b[0m" in seen
    lines = re.sub(r"\x1b\[[\d;]*m", "", seen).splitlines()
    assert len(lines) == MESSAGES
    assert max(map(len, lines)) <= 80
    assert any(line.endswith("…") for line in lines)


def _all(terminal: int) -> str:
    """What is written until the other end closes."""
    pieces = []
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux: the end
            piece = b""
        if not piece:
            os.close(terminal)
            return b"".join(pieces).decode()
        pieces.append(piece)
