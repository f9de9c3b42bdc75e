"""`kshark demo`: a first look, without a capture of one's own."""

from __future__ import annotations

import gzip
import shlex
from pathlib import Path

import pytest

from kshark.cli import demo
from tests.cli.command import Run
from tests.shared import CAPTURES, ROOT

SAMPLE = ROOT / "kshark" / "samples" / demo.SAMPLE


def test_the_sample_is_the_bundled_capture() -> None:
    assert gzip.decompress(SAMPLE.read_bytes()) == (CAPTURES / "aimed-4.1.2.pcap").read_bytes()


def test_it_shows_what_check_shows_and_the_next_commands(kshark: Run) -> None:
    done = kshark("demo")
    assert done.code == 0
    screen = kshark("check", CAPTURES / "aimed-4.1.2.pcap")
    assert screen.code == 1
    before, shown, after = done.out.partition(screen.out)
    assert shown
    assert "stops getting records" in before
    assert before.endswith("\n$ kshark check demo.pcap\n")
    assert after.count("\n  kshark ") == 1 + len(demo.NEXT)
    last = "Then your own: kshark check YOUR.pcap. Its exit code is 1 if a rule was broken; that of a demo is 0."
    assert done.lines[-1] == last


@pytest.mark.parametrize("command", [command for command, _ in demo.NEXT], ids=[about for _, about in demo.NEXT])
def test_the_next_commands_work(kshark: Run, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved = kshark("demo", "--save", "demo.pcap")
    assert (saved.code, saved.out) == (0, "")
    assert saved.err == "kshark: wrote the capture (106 kB) to demo.pcap\n"
    done = kshark(*shlex.split(command.format(file="demo.pcap"))[1:])
    assert done.code in (0, 1)
    assert len(done.lines) >= 5
    assert "no " not in done.err.partition("\n")[0]


def test_a_folder_that_is_not_there_is_one_sentence(kshark: Run) -> None:
    done = kshark("demo", "--save", "/nowhere/demo.pcap")
    assert (done.code, done.out) == (2, "")
    assert done.err == "kshark: /nowhere is not a folder; make it first, or name another file with --save\n"
