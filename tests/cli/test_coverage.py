"""`kshark check --coverage`: which rules a capture put to the test, for people and for programs, and as a reason to
fail."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

import pytest

from kshark.output.catalogue import NUMBERS
from tests.cli.command import Done, Run
from tests.cli.incident import incident, written
from tests.shared import CAPTURES


def rows(lines: list[str]) -> dict[str, list[str]]:
    """By code the other cells of a table's row."""
    cells = [line.split() for line in lines]
    return {row[1]: [row[0], *row[2:]] for row in cells if len(row) > 2 and row[0].isdigit() and row[1].isupper()}


def never(done: Done) -> list[str]:
    """The codes named as never put to the test."""
    at = next(at for at, line in enumerate(done.lines) if line.startswith("never tested: "))
    return [
        word.rstrip(",")
        for line in takewhile(bool, done.lines[at + 1 :])
        for word in line.split()
        if word.isupper() or "_" in word
    ]


def test_each_rule_has_a_row_or_is_named(kshark: Run, trace: Path) -> None:
    done = kshark("check", trace, "-q", "--coverage")
    assert done.code == 1
    assert done.lines[0].split() == ["rule", "tested", "blame", "times", "held", "broken", "noted"]
    told = rows(done.lines)
    assert told["EPOCH_SKIP_AHEAD"] == ["20", "client", "2", "1", "1"]
    assert told["EPOCH_STALE"] == ["19", "client", "1", "1"]
    tested = {row[0] for row in told.values()}
    assert (
        f"{len(tested)} of {len(NUMBERS)} rules tested: {len(tested) - 1} never broken, 1 broken, 0 not decided"
        in done.lines
    )
    assert f"never tested: {len(NUMBERS) - len(tested)} rules" in done.lines
    assert "STATE_LOST" in never(done)
    assert done.lines[-2].startswith("1 violation: EPOCH_SKIP_AHEAD")


def test_rules_about_bytes_are_put_to_the_test_by_what_was_read(kshark: Run) -> None:
    """Of 71 requests 2 ask for no answer and 10 get none; two lengths are none, and of nine bodies not all is as it
    should be."""
    told = rows(kshark("check", CAPTURES / "adv-frames.pcap", "-q", "--coverage").lines)
    assert {
        code: told[code]
        for code in ("FRAME_LENGTH_INVALID", "UNDECODABLE_BODY", "RESPONSE_UNMATCHED", "REQUEST_UNANSWERED")
    } == {
        "FRAME_LENGTH_INVALID": ["1", "client", "73", "71", "2"],
        "UNDECODABLE_BODY": ["6", "client", "130", "121", "9"],
        "RESPONSE_UNMATCHED": ["7", "broker", "59", "59"],
        "REQUEST_UNANSWERED": ["9", "none", "69", "59", "10"],
    }
    assert told["ACKS0_ANSWERED"] == ["10", "broker", "2", "2"]
    assert told["FRAME_TRUNCATED_AT_CLOSE"][2:] == ["29", "28", "1"]


def test_rules_about_versions_and_authentication_are_put_to_the_test_by_what_they_are_about(kshark: Run) -> None:
    """By answers to ApiVersions, by requests of share groups (one that was early access is told once a connection), by
    SaslHandshakes."""
    told = rows(kshark("check", CAPTURES / "adv-frames.pcap", "-q", "--coverage").lines)
    assert told["APIVERSIONS_FALLBACK"] == ["14", "none", "29", "27", "2"]
    assert told["EARLY_ACCESS_SHARE_API"] == ["15", "none", "7", "6", "1"]
    assert told["SASL_SEQUENCE"] == ["17", "client", "2", "2"]


def test_rules_about_record_batches_are_put_to_the_test_by_messages_with_batches(kshark: Run) -> None:
    """What is in a batch only where it was opened; how many a producer announces is in its header."""
    capture = CAPTURES / "hostile-records.pcap"
    closed, opened = (rows(kshark("check", capture, "-q", "--coverage", *more).lines) for more in ((), ("--records",)))
    assert {closed[code][2] for code in ("BATCH_CRC", "CODEC_INVALID")} == {"52"}
    assert [closed[code][2:] for code in ("BATCH_COUNT_MISMATCH", "LEGACY_MAGIC")] == [
        ["51", "50", "1"],
        ["51", "43", "8"],
    ]
    assert "BATCH_OFFSETS" not in closed
    assert [opened[code][2:] for code in ("BATCH_COUNT_MISMATCH", "BATCH_OFFSETS")] == [
        ["52", "47", "5"],
        ["52", "50", "2"],
    ]


def test_the_report_is_for_people(kshark: Run) -> None:
    """What was broken comes first, each side's rules are counted, and no line is wider than people read, in a pipe
    neither."""
    lines = kshark("check", CAPTURES / "adv-epochs.pcap", "-q", "--coverage").lines
    report = [*takewhile(lambda line: not line.startswith("31 violations: "), lines)]
    assert max(map(len, report)) <= 100
    parts = [line for line in report if ": " in line and line.endswith(" times right")]
    assert [part.split(":")[0] for part in parts] == ["broken", "never broken"]
    at = next(at for at, line in enumerate(report) if line.startswith("whose rules"))
    sides = [line.split() for line in report[at + 1 : at + 4]]
    assert [side[0] for side in sides] == ["client", "none", "broker"]
    tested, right = (sum(int(side[of].replace(",", "")) for side in sides) for of in (2, 6))
    assert f"{tested} of {len(NUMBERS)} rules tested: " in "\n".join(report)
    assert sum(int(re.findall(r"([0-9,]+) times right", part)[0].replace(",", "")) for part in parts) == right


def test_as_json_every_rule_is_there(kshark: Run, trace: Path) -> None:
    (summary,) = kshark("check", trace, "-q", "--coverage", "-T", "json").json
    covered = {row["code"]: row for row in summary["summary"]["coverage"]}
    assert list(dict.fromkeys(row["rule"] for row in covered.values())) == summary["summary"]["rules"] == [*NUMBERS]
    assert covered["EPOCH_SKIP_AHEAD"] == {
        "rule": 20, "code": "EPOCH_SKIP_AHEAD", "blame": ["client"], "tested": 2, "held": 1, "broken": 1, "unknown": 0,
        "noted": 0,
    }  # fmt: skip
    assert covered["STATE_LOST"]["tested"] == 0
    assert "coverage" not in kshark("check", trace, "-q", "-T", "json").json[0]["summary"]


def test_chosen_rules_alone_are_told_of_the_messages_that_pass(kshark: Run, trace: Path) -> None:
    chosen = ("check", trace, "-q", "--coverage", "--select", "EPOCH_SKIP_AHEAD,FRAME_LENGTH_INVALID,STATE_LOST")
    billing, audit = (kshark(*chosen, "-Y", f"kafka.group_id == {group}") for group in ("billing", "audit"))
    assert rows(billing.lines)["EPOCH_SKIP_AHEAD"] == ["20", "client", "2", "1", "1"]
    assert rows(billing.lines)["FRAME_LENGTH_INVALID"] == ["1", "client", "4", "4"]  # the heartbeat, three fetches
    assert "2 of 3 rules tested: 1 never broken, 1 broken, 0 not decided" in billing.lines
    assert never(billing) == ["STATE_LOST"]
    assert rows(audit.lines) == {"FRAME_LENGTH_INVALID": ["1", "client", "3", "3"]}


def test_rules_are_counted(kshark: Run) -> None:
    one = kshark("check", CAPTURES / "adv-members.pcap", "-q", "--coverage")
    assert rows(one.lines)["BATCH_CRC"][2] == "7"
    assert rows(one.lines)["HEARTBEAT_AFTER_LEAVE"] == ["100", "client", "25", "20", "1", "1", "3"]


@pytest.mark.parametrize(
    ("fail_on", "codes"),
    [
        ("violation", (1, 0, 0)),
        ("unknown", (0, 0, 0)),
        ("violation,unknown", (1, 0, 0)),
        ("nothing-checked", (0, 0, 1)),
    ],
)
def test_what_fails_is_ones_own_choice(fail_on: str, codes: tuple[int, ...], kshark: Run, tmp_path: Path) -> None:
    """An incident, its harmless beginning, and a connection that only introduced itself."""
    captures = [written(tmp_path, incident()[:cut], f"{cut}.pcap") for cut in (1000, 20, 5)]
    assert tuple(kshark("check", capture, "-q", "--fail-on", fail_on).code for capture in captures) == codes


def test_nothing_is_checked_where_the_chosen_rules_were_not_put_to_the_test(kshark: Run, trace: Path) -> None:
    chosen = ("EPOCH_STALE", "STATE_LOST,NO_RECOVERY", "EPOCH_STALE,STATE_LOST")
    assert [
        kshark("check", trace, "-q", "--fail-on", "nothing-checked", "--select", codes).code for codes in chosen
    ] == [0, 1, 0]
