"""Ctrl-C while files are read: what was found up to there is printed, with the packet. And `kshark FILE`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kshark import limits
from kshark.cli.period import Period
from kshark.model import PacketBatch
from tests.cli.command import Run
from tests.shared import CAPTURES

EPOCHS = CAPTURES / "adv-epochs.pcap"
CLEAN = CAPTURES / "share-java-explicit.pcap"


@pytest.fixture
def ctrl_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ctrl-C when the first packets have been read, in small pieces."""
    clip = Period.clip

    def clipped(self: Period, batch: PacketBatch) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return clip(self, batch)

    monkeypatch.setattr(Period, "clip", clipped)
    monkeypatch.setattr(limits, "BATCH_BYTES", 1 << 16)
    # A shell without job control starts commands in the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("command", ["check", "sessions", "deliveries", "groups", "stats"])
def test_what_was_found_up_to_there_is_printed(kshark: Run, command: str) -> None:
    done = kshark(command, CLEAN)
    assert done.code == 130
    assert done.out
    [line] = [line for line in done.err.splitlines() if "stopped at packet " in line]
    assert line.endswith(" % of its bytes: what follows is about the packets up to there")


@pytest.mark.usefixtures("ctrl_c")
def test_the_captures_after_it_are_not_read(kshark: Run) -> None:
    done = kshark("check", "--each", "-q", CLEAN, EPOCHS)
    assert done.code == 130
    assert str(EPOCHS) not in done.out


@pytest.mark.usefixtures("ctrl_c")
def test_other_commands_end_at_once(kshark: Run) -> None:
    assert kshark("read", CLEAN).code == 130


def test_the_handler_is_restored(kshark: Run) -> None:
    before = signal.getsignal(signal.SIGINT)
    kshark("check", "-q", EPOCHS)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_file_alone_is_checked(kshark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kshark(EPOCHS, "-q") == kshark("check", EPOCHS, "-q")
    monkeypatch.chdir(CAPTURES)
    assert kshark("adv-epochs.pcap", "-T", "json").out == kshark("check", "adv-epochs.pcap", "-T", "json").out
    missing = kshark("trace.pcap")
    assert (missing.code, missing.err) == (2, "kshark: trace.pcap: no such file or directory\n")
