"""A finding for a person, and the verdict line."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kshark.analysis import REASONS, Observed, Refusal
from kshark.model import Finding, Witness
from kshark.output.findings import FindingCounts, finding_lines, judged_lines
from kshark.output.spans import WARN, plain

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
        "              client billing-3 (10.0.4.17:51234, librdkafka 2.11.0) · group billing · member "
        "JUkzTnp0Qm6-aaaaaaaaaa"
        " · broker 10.0.1.5:9092",
        "              The epoch is too high: the client counted a request that the broker never accepted.",
        "              exchange 12 used epoch 6 and was refused; exchange 11 with epoch 5 was never answered",
        "              kshark explain EPOCH_SKIP_AHEAD · packets 88107 90410 90412",
        "              Wireshark: frame.number in {88107, 90410, 90412}",
        "",
    ]


def test_an_unknown_says_what_could_not_be_proved() -> None:
    lines = told(finding(verdict="unknown", severity="warn", blame="unknown", unknown_because="gap"))
    assert lines[0] == "12:03:07.412  EPOCH_SKIP_AHEAD  unknown · skip_after_timeout"
    assert f"              Not proved: {REASONS['gap']} (gap)." in lines


def test_a_note_blames_nobody() -> None:
    note = finding(
        code="SESSION_REOPEN",
        rule=29,
        verdict="note",
        severity="note",
        blame="unknown",
        cause=None,
        client_id=None,
        software=None,
    )
    lines = told(note)
    assert lines[0] == "12:03:07.412  SESSION_REOPEN  note"
    assert lines[1].startswith("              client 10.0.4.17:51234 · group billing")


def test_it_fits_the_terminal() -> None:
    for width in (60, 80, 120):
        assert all(len(line) <= width for line in told(finding(argument="long words " * 60), width))


def test_many_packets_are_not_all_named() -> None:
    many = [Witness(3, n, 100 + 2 * n, 101 + 2 * n) for n in range(20)]
    (step,) = [line for line in told(finding(witness=many)) if "kshark explain" in line]
    assert step.endswith("and 33 earlier")


def test_foreign_names_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in "".join(told(finding(group_id="\x1b[2J", client_id="\x1b]0;x\x07", argument="\x1b[1m")))


def closing(observed: Observed, *rules: int) -> list[str]:
    return [plain(line) for line in judged_lines(observed, rules)]


def test_the_last_lines_say_what_was_judged_and_when() -> None:
    seen = Observed(
        exchanges=48210,
        judged=9000,
        since_ns=NOON_NS,
        until_ns=NOON_NS + 61 * 10**9,
        brokers={"10.0.1.5:9092"},
    )
    assert closing(seen, 18, 19) == [
        "judged 9,000 of 48,210 requests with 10.0.1.5:9092 · 2 rules · 2026-11-21 12:03:07.412 to 12:04:08.412 UTC "
        "(1 min 1 s)",
    ]


def test_what_was_not_looked_at_is_said() -> None:
    brokers = {f"10.0.1.{number}:9092" for number in range(5)}
    (judged,) = closing(Observed(exchanges=7, judged=1, brokers=brokers, tls_connections=1, duplicates=40), 18)
    assert (
        judged
        == "judged 1 of 7 requests with 5 brokers · 1 rule · 1 TLS connection not read · 40 packets captured twice"
    )
    assert closing(Observed(exchanges=7, tls_connections=28), 5)[0].endswith(
        "APIs of the 7 requests · 28 TLS connections not read"
    )
    assert closing(Observed(tls_connections=2), 5)[0] == (
        "nothing was judged: the capture has no Kafka request · 2 TLS connections not read"
    )
    assert closing(Observed(exchanges=7), 18)[0] == "nothing was judged: no rule applies to the APIs of the 7 requests"


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Observed(exchanges=644, judged=79, unanswered=644), " · the capture has requests, but no responses"),
        (Observed(exchanges=644, judged=79, unanswered=644, gaps=1), " · the capture has requests, but no responses"),
        (Observed(exchanges=20, judged=1, unanswered=15, one_way=5), " · the capture has requests, but no responses"),
        (Observed(exchanges=9, judged=1, orphans=9), " · the capture has responses, but no requests"),
        (Observed(exchanges=9, judged=1, unanswered=8), ""),
        (Observed(exchanges=9, judged=1, unanswered=8, orphans=1), ""),
        (Observed(exchanges=4, judged=1, unanswered=4), ""),
        (Observed(exchanges=20, judged=1, one_way=20), ""),
    ],
)
def test_a_capture_of_one_direction_is_named(seen: Observed, said: str) -> None:
    noun = "exchanges" if seen.orphans else "requests"
    judged = 0 if seen.one_sided else seen.judged
    assert closing(seen, 18)[0] == f"judged {judged} of {seen.exchanges} {noun} · 1 rule{said}"


def test_connections_that_could_not_be_read_stand_out() -> None:
    (judged,) = judged_lines(Observed(exchanges=1, tls_connections=28), [5])
    assert (" · 28 TLS connections not read", WARN) in judged


def test_codes_without_a_number_are_no_rules() -> None:
    assert closing(Observed(exchanges=7, judged=2))[0] == "searched 2 of 7 requests"


def test_bytes_are_judged_whatever_they_are_of() -> None:
    judged = "only bytes were judged: no other rule applies to the APIs of the 7 requests"
    assert closing(Observed(exchanges=7), 5, 18)[0] == judged


def test_refusals_are_explained_or_named() -> None:
    answered = Counter(
        {
            Refusal("OffsetCommit", 22, "c1"): 12,
            Refusal("ShareFetch", 122, "c1"): 1,
            Refusal("ShareFetch", 122, "c2"): 2,
        }
    )
    seen = Observed(
        judged=20, exchanges=20, answered=answered, explained=Counter({Refusal("ShareFetch", 122, "c2"): 1})
    )
    assert closing(seen)[1:] == [
        "errors without a rule: OffsetCommit ILLEGAL_GENERATION ×12 (client c1) · "
        "ShareFetch SHARE_SESSION_NOT_FOUND ×2 (2 clients)"
    ]
    seen.explained = Counter(answered)
    assert closing(seen)[0].endswith(" · all 15 errors are explained")


def test_errors_that_clients_may_try_again_stand_apart() -> None:
    answered = Counter({Refusal("Produce", 19, "c1"): 4, Refusal("OffsetCommit", 22, "c1"): 1})
    seen = Observed(judged=9, exchanges=9, answered=answered)
    assert closing(seen)[1] == (
        "errors without a rule: OffsetCommit ILLEGAL_GENERATION ×1 (client c1) · "
        "retriable errors without a rule: Produce NOT_ENOUGH_REPLICAS ×4 (client c1)"
    )
    del seen.answered[Refusal("OffsetCommit", 22, "c1")]
    assert closing(seen)[1].startswith("retriable errors")


def test_an_error_that_is_nobodys_fault_has_its_cause() -> None:
    """The same codes from elsewhere remain to be explained."""
    answered = Counter({Refusal("FindCoordinator", 15, "c1"): 4, Refusal("DeleteGroups", 68, "c1"): 1})
    seen = Observed(judged=9, exchanges=9, answered=answered)
    judged, expected = closing(seen)
    assert "explained" not in judged, "only findings explain"
    assert expected == (
        "expected errors: FindCoordinator COORDINATOR_NOT_AVAILABLE ×4 (not_available, client c1) · "
        "DeleteGroups NON_EMPTY_GROUP ×1 (not_empty, client c1)"
    )
    seen.answered = Counter({Refusal("DeleteRecords", 68, "c1"): 1})
    assert closing(seen)[-1] == "errors without a rule: DeleteRecords NON_EMPTY_GROUP ×1 (client c1)"


def test_many_kinds_of_errors_are_not_all_named() -> None:
    answered = Counter({Refusal("ShareFetch", code, "c\x1b") for code in range(100, 120)})
    *_, left = closing(Observed(judged=1, exchanges=20, answered=answered))
    assert left.count(" · ") == 2
    assert left.endswith(" · 18 more, see -T json")
    assert "\x1b" not in left


def test_the_summary_counts_what_was_shown() -> None:
    tally = FindingCounts()
    tally.add(finding())
    tally.add(finding(code="SESSION_REOPEN", verdict="note"))
    answered = Counter({Refusal("OffsetCommit", 22, "c1"): 12, Refusal("FindCoordinator", 15, "c2"): 2})
    seen = Observed(sessions=2, exchanges=7, answered=answered, brokers={"b:1"}, tls_connections=3)
    assert tally.summary(seen, [18, 20]) == {
        "summary": {
            "sessions": 2,
            "exchanges": 7,
            "violations": 1,
            "unknown": 0,
            "notes": 1,
            "gaps": 0,
            "by_code": {"EPOCH_SKIP_AHEAD": 1, "SESSION_REOPEN": 1},
            "rules": [18, 20],
            "unexplained": [{"api": "OffsetCommit", "error_code": 22, "count": 12, "clients": ["c1"]}],
            "ordinary": [
                {"api": "FindCoordinator", "error_code": 15, "count": 2, "clients": ["c2"], "cause": "not_available"}
            ],
            "covered": {"since_ns": None, "until_ns": None, "brokers": ["b:1"], "tls_connections": 3, "duplicates": 0},
        }
    }


def test_a_topic_has_its_name_where_it_is_known() -> None:
    of = finding(topic_id="AAAAAAAAAAAAAAAAAAAABw", partition=3)
    assert "topic AAAAAAAAAAAAAAAAAAAABw[3]" in "".join(told(of))
    assert "topic orders[3]" in "".join(told(of, AAAAAAAAAAAAAAAAAAAABw="orders"))
