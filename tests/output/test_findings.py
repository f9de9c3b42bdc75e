"""A finding for a person, and the verdict line."""

from __future__ import annotations

from typing import Any

from kshark.analysis import REASONS
from kshark.model import Finding, Witness
from kshark.output.findings import Tally, finding_lines, verdict
from kshark.output.spans import plain

NOON_NS = 1_795_262_587_412_345_678


def finding(**changed: Any) -> Finding:
    fields: dict[str, Any] = {
        "code": "EPOCH_SKIP_AHEAD",
        "rule": 20,
        "severity": "error",
        "verdict": "violation",
        "blame": "client",
        "time_ns": NOON_NS,
        "packet": 90412,
        "flow": 3,
        "broker": "10.0.1.5:9092",
        "client": "10.0.4.17:51234",
        "group_id": "billing",
        "member_id": "JUkzTnp0Qm6-aaaaaaaaaa",
        "topic_id": None,
        "partition": None,
        "cause": "skip_after_timeout",
        "witness": [Witness(3, 11, 88107, None), Witness(3, 12, 90410, 90412)],
        "argument": "exchange 12 used epoch 6 and was refused; exchange 11 with epoch 5 was never answered",
        "unknown_because": None,
        "client_id": "billing-3",
        "software": "librdkafka 2.11.0",
    }
    return Finding(**{**fields, **changed})


def told(of: Finding, width: int | None = None, **topics: str) -> list[str]:
    return [plain(line) for line in finding_lines(of, width, topics)]


def test_a_violation_says_who_what_and_the_next_step() -> None:
    assert told(finding()) == [
        "12:03:07.412  EPOCH_SKIP_AHEAD  violation by client billing-3 · skip_after_timeout",
        "              client billing-3 (10.0.4.17:51234, librdkafka 2.11.0) · group billing · member JUkzTnp0Qm6-aaaaaaaaaa"
        " · broker 10.0.1.5:9092",
        "              An epoch beyond the one due: a request was counted that the broker never accepted.",
        "              exchange 12 used epoch 6 and was refused; exchange 11 with epoch 5 was never answered",
        "              kshark explain EPOCH_SKIP_AHEAD · packets 88107 90410 90412",
        "",
    ]


def test_an_unknown_says_what_could_not_be_proved() -> None:
    lines = told(finding(verdict="unknown", severity="warn", blame="unknown", unknown_because="gap"))
    assert lines[0] == "12:03:07.412  EPOCH_SKIP_AHEAD  unknown · skip_after_timeout"
    assert f"              not proved: gap, {REASONS['gap']}" in lines


def test_a_note_blames_nobody() -> None:
    note = finding(
        code="SESSION_REOPEN", rule=29, verdict="note", severity="note", blame="unknown", cause=None, client_id=None, software=None
    )
    lines = told(note)
    assert lines[0] == "12:03:07.412  SESSION_REOPEN  note"
    assert lines[1].startswith("              client 10.0.4.17:51234 · group billing")


def test_it_fits_the_terminal() -> None:
    for width in (60, 80, 120):
        assert all(len(line) <= width for line in told(finding(argument="long words " * 60), width)[1:])


def test_many_packets_are_not_all_named() -> None:
    many = [Witness(3, n, 100 + 2 * n, 101 + 2 * n) for n in range(20)]
    (step,) = [line for line in told(finding(witness=many)) if "kshark explain" in line]
    assert step.endswith("and 33 earlier")


def test_foreign_names_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in "".join(told(finding(group_id="\x1b[2J", client_id="\x1b]0;x\x07", argument="\x1b[1m")))


def test_the_verdict_is_never_a_bare_zero() -> None:
    tally = Tally()
    for _ in range(9):
        tally.add(finding(verdict="unknown", unknown_because="hidden_traffic"))
    seen = {"sessions": 1204, "exchanges": 48210, "gaps": 1}
    assert verdict(tally, seen) == "0 violations in 1,204 sessions, 9 unknown (hidden_traffic 9), 0 notes (48,210 exchanges, 1 gap)"


def test_the_summary_counts_what_was_shown() -> None:
    tally = Tally()
    tally.add(finding())
    tally.add(finding(code="SESSION_REOPEN", verdict="note"))
    assert tally.summary({"sessions": 2, "exchanges": 7, "gaps": 0}) == {
        "summary": {
            "sessions": 2,
            "exchanges": 7,
            "violations": 1,
            "unknown": 0,
            "notes": 1,
            "gaps": 0,
            "by_code": {"EPOCH_SKIP_AHEAD": 1, "SESSION_REOPEN": 1},
        }
    }


def test_a_topic_has_its_name_where_it_is_known() -> None:
    of = finding(topic_id="AAAAAAAAAAAAAAAAAAAABw", partition=3)
    assert "topic AAAAAAAAAAAAAAAAAAAABw[3]" in "".join(told(of))
    assert "topic orders[3]" in "".join(told(of, AAAAAAAAAAAAAAAAAAAABw="orders"))
