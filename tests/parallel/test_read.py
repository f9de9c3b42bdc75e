"""Several processes say to the byte what one says: messages, notes and exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Run
from tests.shared import CAPTURES

ALL = sorted(path for path in CAPTURES.iterdir() if path.suffix in (".pcap", ".pcapng"))
#: Many connections, names of topics across them, damage, records of Kafka's own topics.
FEW = [
    CAPTURES / name
    for name in ("share-java-explicit.pcap", "share-loss.pcap", "tcp-hostile.pcap", "zk-old-clients.pcap")
]


def same(kshark: Run, *words: object, jobs: int = 2) -> None:
    alone, together = kshark("read", *words), kshark("read", *words, "--jobs", jobs)

    assert together.out == alone.out
    assert together.err == alone.err
    assert together.code == alone.code


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", FEW, ids=lambda path: path.name)
def test_json_lines_are_the_same(kshark: Run, capture: Path) -> None:
    same(kshark, capture, "-T", "json")


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(
    "words", [("-T", "text"), ("-V",), ("-T", "fields", "-e", "kafka.api", "-e", "kafka.error_code"), ("-q",)], ids=str
)
def test_every_form_is_the_same(kshark: Run, words: tuple[str, ...]) -> None:
    same(kshark, CAPTURES / "share-java-explicit.pcap", *words, jobs=3)


def test_a_period_is_the_same(kshark: Run) -> None:
    same(kshark, CAPTURES / "share-java-explicit.pcap", "--since", "+2s", "--until", "+6s", jobs=3)


@pytest.mark.sweep
def test_several_files_are_the_same(kshark: Run) -> None:
    same(kshark, *FEW[:2], "-T", "json")
    same(kshark, *FEW[:2], "-T", "text", "--each")


def test_counted_messages_are_the_same(kshark: Run) -> None:
    same(kshark, CAPTURES / "share-java-explicit.pcap", "-c", "7")


@pytest.mark.parametrize("words", ["-1", "two", "1.5"])
def test_a_number_of_processes_is_a_number(kshark: Run, words: str) -> None:
    done = kshark("read", CAPTURES / "share-java-explicit.pcap", f"--jobs={words}")

    assert done.code == 2
    assert "no number of processes" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize("words", [("-T", "json"), ("-T", "text"), ("-T", "json", "--no-records")], ids=str)
@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_every_capture_is_the_same(kshark: Run, capture: Path, words: tuple[str, ...], jobs: int) -> None:
    same(kshark, capture, *words, jobs=jobs)
