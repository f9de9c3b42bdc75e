"""`kshark live -r FILE --follow`: the same findings as `check` of the whole file, a verdict in any case, and `-D`."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from kshark.capture.series import Series
from tests.cli.command import Run
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT

BAD = CAPTURES / "adv-epochs.pcap"
CLEAN = CAPTURES / "share-java-explicit.pcap"
SAMPLE = ("adv-epochs.pcap", "share-loss.pcap", "tcp-var-ng.pcapng", "share-restart.pcap", "hostile-records.pcap")


@pytest.mark.parametrize("name", SAMPLE)
def test_findings_are_those_of_check(kshark: Run, name: str) -> None:
    """As they are proved; only what events explain is known later."""
    whole = kshark("check", "-T", "json", CAPTURES / name)
    live = kshark("live", "-r", CAPTURES / name, "--follow", "--once", "-q", "-T", "json")
    assert live.code == whole.code
    without = [{**finding, "explains": None} for finding in whole.findings]
    assert sorted(map(json.dumps, live.findings)) == sorted(map(json.dumps, without))
    summary = live.json[-1]["summary"]
    assert summary.items() >= whole.json[-1]["summary"].items()
    assert (summary["dropped"], summary["lost"]) == (0, [])
    assert summary["packets"] > 100


def test_the_verdict_for_people_is_that_of_check_below_the_findings(kshark: Run) -> None:
    screen = kshark("check", BAD).lines
    live = kshark("live", "-r", BAD, "--follow", "--once", "-q")
    assert live.lines[-len(screen) :] == screen
    assert live.err == f"kshark: following {BAD}\nkshark: 354 packets read\n"
    assert sum("EPOCH_NEGATIVE" in line and "×3" in line for line in live.lines) == 1


def test_messages_are_those_of_read(kshark: Run) -> None:
    messages = kshark("read", BAD).lines
    assert [line for line in kshark("live", "-r", BAD, "--follow", "--once").lines if line in messages] == messages


def test_nothing_that_can_be_judged_is_3(kshark: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(BAD.read_bytes()[:24])
    done = kshark("live", "-r", empty, "--follow", "--once")
    assert done.code == 3
    assert done.out.startswith("Nothing could be judged: ")


def test_what_is_no_capture_is_named(kshark: Run, tmp_path: Path) -> None:
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(BAD.read_bytes()))
    done = kshark("live", "-r", packed, "--follow")
    assert done.code == 2
    assert done.err.splitlines()[1:] == [
        f"kshark: {packed}: no capture (pcap or pcapng), but gzip, which cannot be followed"
    ]


def test_an_error_while_it_runs_loses_no_verdict(kshark: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(series: Series, size: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Series, "next", fails)
    done = kshark("live", "-r", BAD, "--follow", "--once", "-q")
    assert done.code == 1
    assert any(line.startswith("31 violations: ") for line in done.lines)
    assert f"kshark: {BAD}: input/output error\n" in done.err
    assert kshark("live", "-r", CLEAN, "--follow", "--once", "-q").code == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no interface given"),
        (("-r", BAD), "--follow (kshark check reads one)"),
        (("--follow",), "needs a capture file"),
        (("-r", BAD, "-r", BAD, "--follow"), "one file is followed"),
        (("-i", "lo", "-r", BAD, "--follow"), "give one of them"),
        (("-r", BAD, "--follow", "-f", "tcp"), "-Y filters messages"),
        (("-r", "/nowhere/a.pcap", "--follow", "--once"), "no such file"),
        (("-r", "-", "--follow"), "kshark check reads pipes"),
        (("-r", "s3://a/b.pcap", "--follow"), "a file of this computer"),
        (("-r", CAPTURES, "--follow"), "a folder cannot be followed"),
        (("-i", "4711"), "no interface has the number 4711"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_bad_usage_is_one_sentence(kshark: Run, words: tuple[object, ...], sentence: str) -> None:
    done = kshark("live", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert sentence in done.err


@contextmanager
def following(path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`kshark live` once it follows that file."""
    command = [sys.executable, "-m", "kshark", "live", "-r", str(path), "--follow", *options]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == f"kshark: following {path}\n"
        yield running
        running.kill()


def rest(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.read()


def grow(path: Path, seconds: float = 0.0) -> None:
    """Writes the bad capture in pieces."""
    data = BAD.read_bytes()
    with path.open("ab", buffering=0) as file:
        for at in range(0, len(data), 10_000):
            file.write(data[at : at + 10_000])
            time.sleep(seconds)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_verdict(kshark: Run, tmp_path: Path, number: int) -> None:
    path = tmp_path / "grows.pcap"
    with following(path, "-T", "json", "-q") as running:
        grow(path, 0.01)
        assert running.stdout is not None
        lines = [running.stdout.readline()]
        running.send_signal(number)
        lines += rest(running.stdout).splitlines(keepends=True)
        assert running.wait(PATIENCE_S) == 1
    findings = [line for line in map(json.loads, lines) if "witness" in line]
    whole = [{**finding, "explains": None} for finding in kshark("check", "-T", "json", BAD).findings]
    assert sorted(map(json.dumps, findings)) == sorted(map(json.dumps, whole))


def test_a_reader_that_does_not_read_gets_the_verdict_on_stderr(tmp_path: Path) -> None:
    """less, or a terminal after Ctrl-S. It judges all packets nevertheless."""
    path = tmp_path / "grows.pcap"
    with following(path, "-V") as running:
        grow(path)
        assert running.stderr is not None
        read = 0
        while read < path.stat().st_size:  # until it has read the file
            at = next(
                (int(info.read_text().split()[1]) for info in Path(f"/proc/{running.pid}/fdinfo").iterdir()
                 if os.path.realpath(info.parent.parent / "fd" / info.name) == str(path)),
                0,
            )  # fmt: skip
            read = max(read, at)
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 1
        notes = rest(running.stderr).splitlines()
    (left,) = [at for at, line in enumerate(notes) if "nobody reads standard output" in line]
    assert "lines could not be written; the verdict:" in notes[left]
    assert any(line.startswith("31 violations: ") for line in notes[left:])
    assert notes[-1] == "kshark: 354 packets read"


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / "grows.pcap"
    with following(path) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(PATIENCE_S) == 141  # without a line to write
        assert "Traceback" not in rest(running.stderr)


def test_interfaces_are_listed_with_number_state_and_addresses(kshark: Run) -> None:
    if sys.platform != "linux":
        pytest.skip("interfaces are listed on Linux only")
    listed = kshark("live", "-D", "-T", "json").json
    assert [row["number"] for row in listed] == [*range(1, len(listed) + 1)]
    assert {row["name"] for row in listed} == {"any", *(name for _, name in socket.if_nameindex())}
    loopback = [row for row in listed if row["loopback"]]
    assert all(row["name"] == "lo" for row in loopback)
    lines = kshark("live", "-D").lines
    assert [line.split()[:2] for line in lines] == [[f"{row['number']}.", row["name"]] for row in listed]


@pytest.mark.tshark
def test_interfaces_have_the_numbers_of_tcpdump(kshark: Run) -> None:
    if shutil.which("tcpdump") is None:
        pytest.skip("tcpdump is not installed")
    listed = subprocess.run(["tcpdump", "-D"], capture_output=True, text=True, check=False).stdout.splitlines()
    theirs = {line.split()[0].partition(".")[2]: int(line.partition(".")[0]) for line in listed}
    for row in kshark("live", "-D", "-T", "json").json:
        assert theirs.get(row["name"], row["number"]) == row["number"]
