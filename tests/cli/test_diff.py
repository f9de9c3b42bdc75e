"""`kshark diff`: what it prints, its exit codes, and bad usage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import Run
from tests.cli.incident import written
from tests.conversation import Conversation
from tests.diff.talks import consumers, every, healthy
from tests.packets import pcap
from tests.shared import CAPTURES

OLD, NEW = CAPTURES / "share-java-explicit-4.1.2.pcap", CAPTURES / "share-java-implicit-4.2.1.pcap"
ADVERSE = CAPTURES / "adv-epochs.pcap"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A healthy client, and its next version, which skips epochs."""
    folder = tmp_path_factory.mktemp("diff")
    mistaken = consumers(skips=every(60, 3), version="2.11.0")
    return written(folder, healthy().wire.packets, "a.pcap"), written(folder, mistaken.wire.packets, "b.pcap")


def test_what_got_worse_comes_first(kshark: Run, files: tuple[Path, Path]) -> None:
    done = kshark("diff", *files)
    assert done.code == 1
    assert done.lines[:2] == [
        "EPOCH_SKIP_AHEAD (skip_ahead) by librdkafka 2.11.0 is new: 20 of 220 ShareFetch and ShareAcknowledge requests "
        "(90.9 per 1,000); none of 180 before. First: packet 21.",
        "  → Count a request when its answer arrives, not when you send it. After a request without an answer, open a "
        "new session: send a ShareFetch with epoch 0.",
    ]
    assert "Changed: Client librdkafka: 2.10.0 → 2.11.0." in done.lines
    assert done.lines[-1].startswith("3 worse · 0 better · ")


def test_swapped_it_is_better(kshark: Run, files: tuple[Path, Path]) -> None:
    done = kshark("diff", *reversed(files))
    assert done.code == 0
    assert done.lines[-1].startswith("0 worse · 3 better · ")
    assert any(line.startswith("Better: EPOCH_SKIP_AHEAD (skip_ahead) by librdkafka") for line in done.lines)


def test_the_same_file_twice(kshark: Run) -> None:
    done = kshark("diff", ADVERSE, ADVERSE)
    assert done.code == 0
    (line,) = done.lines
    assert line.startswith("0 worse · 0 better · ")
    assert " 0 may be chance " in line


def test_two_releases(kshark: Run) -> None:
    done = kshark("diff", OLD, NEW)
    assert done.code == 0
    assert "Changed: Brokers: Kafka 4.1 → Kafka 4.2. Client apache-kafka-java: 4.1.2 → 4.2.1. " in done.out


def test_an_event_of_one_capture_is_shown_and_may_be_chance(kshark: Run) -> None:
    before, after = CAPTURES / "share-java-renew.pcap", CAPTURES / "share-restart.pcap"
    done = kshark("diff", before, after)
    assert done.code == 0
    assert done.lines[0].startswith("Only after, may be chance: Broker 127.0.0.1:20092 was down for 12.4 s (packet 383")
    assert done.lines[0].endswith(" BROKER_DOWN")
    assert kshark("diff", after, before).lines[0].startswith("Only before, may be chance: Broker 127.0.0.1:20092 was")
    (row,) = [row for row in kshark("diff", before, after, "-T", "json").json[:-1] if row["kind"] == "event"]
    assert (row["code"], row["verdict"], row["is_worse"], row["packet"]) == ("BROKER_DOWN", "new", False, 383)


def test_names_from_the_capture_are_escaped(kshark: Run, tmp_path: Path) -> None:
    hostile = consumers(skips=every(60, 3), version="2.11\x1b[31m\n\u202e")
    after = written(tmp_path, hostile.wire.packets, "b.pcap")
    done = kshark("diff", written(tmp_path, healthy().wire.packets, "a.pcap"), after, "-V")
    assert all(line.isprintable() for line in done.lines)
    assert "librdkafka 2.11\\x1b[31m" in done.lines[0]
    assert "\x1b" not in kshark("diff", after, after, "-T", "json").out


@pytest.mark.parametrize("pair", [(OLD, ADVERSE), (ADVERSE, OLD), (OLD, NEW), (CAPTURES / "share-restart.pcap", NEW)])
def test_the_screen_has_room_for_a_prompt(kshark: Run, pair: tuple[Path, Path]) -> None:
    lines = kshark("diff", *pair).lines
    assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 23


def test_rows_as_json(kshark: Run, files: tuple[Path, Path]) -> None:
    *rows, last = kshark("diff", *files, "-T", "json").json
    keys = ["kind", "name", "before", "after", "change", "verdict", "sentence", "is_worse", "chance", "code", "cause"]
    assert all(list(row)[: len(keys)] == keys for row in rows)
    assert {row["verdict"] for row in rows} <= {"worse", "better", "new", "gone", "changed", "same", "not comparable"}
    summary = last["summary"]
    assert summary["worse"] == sum(row["is_worse"] for row in rows) == 3
    assert sum(summary["verdicts"].values()) == len(rows)
    assert summary["after"]["requests"] == 281
    assert json.loads(kshark("diff", *files, "-T", "json", "-q").out) == last


def test_all_rows_as_tables(kshark: Run, files: tuple[Path, Path]) -> None:
    lines = kshark("diff", *files, "-V").lines
    assert "broken rules, by code, cause and party" in lines
    (row,) = [line for line in lines if line.startswith("  EPOCH_SKIP_AHEAD (skip_ahead) by librdkafka  ")]
    assert row.split()[-5:] == ["0", "20", "of", "220", "new"]
    assert "  librdkafka  2.10.0  2.11.0  changed" in lines


def test_only_some_findings_and_messages(kshark: Run, files: tuple[Path, Path]) -> None:
    def kinds(*words: str) -> set[str]:
        return {row["kind"] for row in kshark("diff", *files, "-T", "json", *words).json[:-1]}

    assert "finding" in kinds("--select", "EPOCH_SKIP_AHEAD")
    assert "finding" not in kinds("--ignore", "EPOCH_SKIP_AHEAD")
    apis = [
        row["name"]
        for row in kshark("diff", *files, "-T", "json", "-Y", "kafka.api == ShareFetch").json[:-1]
        if row["kind"] == "api"
    ]
    assert apis == ["ShareFetch"]


def test_the_threshold(kshark: Run) -> None:
    """Twice as many are no difference if three times as many are asked for."""

    def worse(threshold: str) -> set[str]:
        rows = kshark("diff", OLD, ADVERSE, "--threshold", threshold, "-T", "json").json[:-1]
        return {row["name"] for row in rows if row["is_worse"] and row["change"] is not None}

    assert worse("1000000") == set()


def test_captures_of_several_files(kshark: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    packets = healthy().wire.packets
    for folder, parts in (("before", (packets[:300], packets[300:])), ("after", (packets,))):
        (tmp_path / folder).mkdir()
        for number, part in enumerate(parts):
            (tmp_path / folder / f"{number}.pcap").write_bytes(pcap(part))
    for words in (
        (tmp_path / "before", tmp_path / "after"),
        ("--before", *sorted((tmp_path / "before").iterdir()), "--after", tmp_path / "after"),
    ):
        done = kshark("diff", *words)
        assert done.code == 0
        assert " 0 may be chance " in done.lines[-1]
        assert done.lines[-1].count("241 requests") == 2


def test_nothing_to_compare(kshark: Run, tmp_path: Path) -> None:
    talk = Conversation()
    talk.connection(introduced=False).ask(3, "Metadata", 12, {"topics": None}).answered(None)
    other = written(tmp_path, talk.wire.packets, "other.pcap")
    done = kshark("diff", other, written(tmp_path, healthy().wire.packets, "a.pcap"))
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "kshark: nothing could be compared: the captures have no API in common (before Metadata; after ApiVersions, "
        "ShareGroupHeartbeat, ShareFetch). Record the same traffic\n"
    )
    done = kshark("diff", other, ADVERSE, "-T", "json", "-Y", "kafka.api == Produce")
    assert done.code == 3
    assert done.json[0]["summary"]["not_compared"].startswith("before: it has no request to compare")


def test_an_empty_file(kshark: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").write_bytes(b"")
    done = kshark("diff", tmp_path / "empty.pcap", ADVERSE)
    assert (done.code, done.out) == (3, "")
    assert done.err.count("\n") == 1


def test_a_cut_capture_is_named(kshark: Run, tmp_path: Path) -> None:
    cut = [replace(packet, data=packet.data[:90]) for packet in healthy().wire.packets]
    written(tmp_path, cut, "cut.pcap")
    done = kshark("diff", ADVERSE, tmp_path / "cut.pcap")
    assert done.lines[0].startswith("After: This capture is cut: ")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 2, "diff compares two captures, and 0 are named; write kshark diff BEFORE AFTER, or for captures of"),
        (["a"], 2, "diff compares two captures, and 1 are named;"),
        (["a", "b", "c"], 2, "diff compares two captures, and 3 are named;"),
        (["a", "--before", "b"], 2, "--before and --after name all files: kshark diff --before FILE... --after FILE"),
        (["-", "-"], 2, "only one of the captures can come from standard input (-)"),
        (["/nowhere/a.pcap", "/nowhere/b.pcap"], 2, "/nowhere/a.pcap"),
        (["a", "b", "--threshold", "1"], 2, 'argument --threshold: "1" is not a factor above 1; write 2, or 1.5'),
        (["a", "b", "--threshold", "nan"], 2, 'argument --threshold: "nan" is not a factor above 1; write 2, or 1.5'),
        (["a", "b", "--select", "EPOCH_SKIP"], 2, 'no code "EPOCH_SKIP"; did you mean "EPOCH_SKIP_AHEAD"?'),
        (["a", "b", "-Y", "kafka.apo"], 2, ""),
    ],
)
def test_bad_usage(kshark: Run, words: list[str], code: int, sentence: str) -> None:
    done = kshark("diff", *words)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"kshark: {sentence}")
    assert done.err.count("\n") == 1
