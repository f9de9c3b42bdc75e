"""A finding for a person, and the verdict line."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kshark.analysis import REASONS, Observed, Refusal
from kshark.model import Finding, Witness
from kshark.output.findings import FindingCounts, alike, finding_lines
from kshark.output.spans import GOOD, PLAIN, WARN, plain

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


def test_findings_of_one_sort_are_told_by_the_first() -> None:
    later = NOON_NS + 2 * 10**9
    found = [
        finding(verdict="note", packet=1),
        *(finding(packet=packet, time_ns=later) for packet in (2, 3)),
        finding(code="EPOCH_STALE", cause="stale"),
        *(
            finding(cause="skip_ahead", packet=packet, time_ns=time_ns)
            for packet, time_ns in ((4, NOON_NS), (5, NOON_NS), (6, later))
        ),
    ]
    sorts = alike(found)
    assert [(one.first.code, one.first.verdict, one.first.cause, one.first.packet, one.times) for one in sorts] == [
        ("EPOCH_SKIP_AHEAD", "violation", "skip_ahead", 4, 3),
        ("EPOCH_SKIP_AHEAD", "violation", "skip_after_timeout", 2, 2),
        ("EPOCH_STALE", "violation", "stale", 90412, 1),
        ("EPOCH_SKIP_AHEAD", "note", "skip_after_timeout", 1, 1),
    ]
    headlines = [plain(next(finding_lines(one.first, None, {}, one))) for one in sorts]
    assert headlines[0] == (
        "12:03:07.412  EPOCH_SKIP_AHEAD  violation by client billing-3 · skip_ahead · the first of 3, until "
        "12:03:09.412"
    )
    assert headlines[2] == "12:03:07.412  EPOCH_STALE  violation by client billing-3 · stale"


def closing(tally: FindingCounts, observed: Observed, *rules: int) -> list[str]:
    return [plain(line) for line in tally.lines(observed, rules)]


def test_the_verdict_is_never_a_bare_zero() -> None:
    tally = FindingCounts()
    for _ in range(9):
        tally.add(finding(verdict="unknown", unknown_because="hidden_traffic"))
    seen = Observed(
        sessions=1204,
        exchanges=48210,
        gaps=1,
        judged=9000,
        since_ns=NOON_NS,
        until_ns=NOON_NS + 61 * 10**9,
        brokers={"10.0.1.5:9092"},
    )
    assert closing(tally, seen, 18, 19) == [
        "EPOCH_SKIP_AHEAD 9",
        "0 violations in 1,204 sessions, 9 unknown (hidden_traffic 9), 0 notes (48,210 exchanges, 1 gap)",
        "judged 9,000 of 48,210 requests with 10.0.1.5:9092 · 2 rules · 2026-11-21 12:03:07.412 to 12:04:08.412 UTC "
        "(1 min 1 s)",
    ]


def test_what_was_not_looked_at_is_said() -> None:
    brokers = {f"10.0.1.{number}:9092" for number in range(5)}
    _, judged = closing(
        FindingCounts(), Observed(exchanges=7, judged=1, brokers=brokers, tls_connections=1, duplicates=40), 18
    )
    assert (
        judged
        == "judged 1 of 7 requests with 5 brokers · 1 rule · 1 TLS connection not read · 40 packets captured twice"
    )
    assert closing(FindingCounts(), Observed(exchanges=7, tls_connections=28), 5)[1].endswith(
        "APIs of the 7 requests · 28 TLS connections not read"
    )
    assert closing(FindingCounts(), Observed(tls_connections=2), 5)[1] == (
        "nothing was judged: the capture has no Kafka request · 2 TLS connections not read"
    )
    assert (
        closing(FindingCounts(), Observed(exchanges=7), 18)[1]
        == "nothing was judged: no rule applies to the APIs of the 7 requests"
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Observed(exchanges=644, judged=79, unanswered=644), " · the capture has requests, but no responses"),
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
    assert closing(FindingCounts(), seen, 18)[1] == f"judged {seen.judged} of {seen.exchanges} {noun} · 1 rule{said}"


def test_what_was_not_judged_is_no_good_news() -> None:
    """Of a capture under TLS there are no violations, either: its zero is not green, and the connections stand out."""
    verdict, judged = FindingCounts().lines(Observed(exchanges=1, tls_connections=28), [5])
    assert verdict[0] == ("0 violations", PLAIN)
    assert (" · 28 TLS connections not read", WARN) in judged
    verdict, _ = FindingCounts().lines(Observed(exchanges=1, judged=1), [18])
    assert verdict[0] == ("0 violations", GOOD)


def test_codes_without_a_number_are_no_rules() -> None:
    assert closing(FindingCounts(), Observed(exchanges=7, judged=2))[1] == "searched 2 of 7 requests"


def test_bytes_are_judged_whatever_they_are_of() -> None:
    judged = "only bytes were judged: no other rule applies to the APIs of the 7 requests"
    assert closing(FindingCounts(), Observed(exchanges=7), 5, 18)[1] == judged


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
    assert closing(FindingCounts(), seen)[2:] == [
        "errors without a rule: OffsetCommit ILLEGAL_GENERATION ×12 (client c1) · "
        "ShareFetch SHARE_SESSION_NOT_FOUND ×2 (2 clients)"
    ]
    seen.explained = Counter(answered)
    assert closing(FindingCounts(), seen)[1].endswith(" · all 15 errors are explained")


def test_what_clients_may_ask_again_stands_apart() -> None:
    answered = Counter({Refusal("Produce", 19, "c1"): 4, Refusal("OffsetCommit", 22, "c1"): 1})
    seen = Observed(judged=9, exchanges=9, answered=answered)
    assert closing(FindingCounts(), seen)[2:] == [
        "errors without a rule: OffsetCommit ILLEGAL_GENERATION ×1 (client c1)",
        "retriable errors without a rule: Produce NOT_ENOUGH_REPLICAS ×4 (client c1)",
    ]
    del seen.answered[Refusal("OffsetCommit", 22, "c1")]
    assert len(closing(FindingCounts(), seen)[2:]) == 1


def test_what_is_nobodys_fault_has_its_cause() -> None:
    """The same codes from elsewhere are left to be explained."""
    answered = Counter({Refusal("FindCoordinator", 15, "c1"): 4, Refusal("DeleteGroups", 68, "c1"): 1})
    seen = Observed(judged=9, exchanges=9, answered=answered)
    *_, judged, start_up, others = closing(FindingCounts(), seen)
    assert judged.endswith(" · all 5 errors are explained")
    assert (start_up, others) == (
        "expected errors (start-up): FindCoordinator COORDINATOR_NOT_AVAILABLE ×4 (not_available, client c1)",
        "expected errors: DeleteGroups NON_EMPTY_GROUP ×1 (not_empty, client c1)",
    )
    seen.answered = Counter({Refusal("DeleteRecords", 68, "c1"): 1})
    assert closing(FindingCounts(), seen)[-1] == "errors without a rule: DeleteRecords NON_EMPTY_GROUP ×1 (client c1)"


def test_many_kinds_of_refusals_are_not_all_named() -> None:
    answered = Counter({Refusal("ShareFetch", code, "c\x1b") for code in range(100, 120)})
    *_, left = closing(FindingCounts(), Observed(judged=1, exchanges=20, answered=answered))
    assert left.count(" · ") == 6
    assert left.endswith(" · 14 more, see -T json")
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
