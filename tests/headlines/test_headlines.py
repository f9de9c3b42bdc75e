"""What the first screen says, and in which order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kshark.analysis import RULES, Observed
from kshark.analysis.results.outcomes import MemberKey, Outcomes, Waiting
from kshark.headlines import Headline, Headlines, capture_headlines, screen
from kshark.incidents import ROWS
from kshark.model import Finding, Witness
from kshark.output.findings import FindingCounts
from kshark.output.spans import plain
from tests.output.test_findings import NOON_NS, finding

SECOND_NS = 1_000_000_000
BROKER: dict[str, Any] = {"code": "SESSION_KILLED_BY_OLD_CONNECTION", "blame": "broker", "cause": None}
OVERDUE: dict[str, Any] = {
    "code": "REQUEST_OVERDUE",
    "verdict": "note",
    "blame": "broker",
    "cause": None,
    "argument": "ShareFetch (packet 7) has no answer after 40.0 s",
    "until_ns": None,
    "until_packet": None,
}


def headlines(*found: Finding, outcomes: Iterable[Outcomes] = ()) -> list[Headline]:
    collected = Headlines()
    for each in found:
        collected.add(each)
    return collected.of({MemberKey(0, "billing", f"m{at}"): of for at, of in enumerate(outcomes)})


def lines(*found: Finding, observed: Observed | None = None, width: int | None = None) -> list[str]:
    counts, collected = FindingCounts(), Headlines()
    for each in found:
        counts.add(each)
        collected.add(each)
    seen = observed or Observed(exchanges=9, judged=9)
    said = collected.of(capture=capture_headlines(seen, counts))
    return [plain(line) for line in screen(said, counts, seen, [18], width)]


def later(seconds: int) -> dict[str, Any]:
    return {"packet": 90412 + seconds, "time_ns": NOON_NS + seconds * SECOND_NS}


# -- rules


def test_a_headline_says_who_did_what_how_often_and_when() -> None:
    (one,) = headlines(finding(), finding(**later(65)))
    assert one.text == (
        "Client billing-3 (librdkafka 2.11.0) sent a share session epoch that is too high: it counted a request that "
        "the broker never accepted, group billing, 2 times, 12:03:07.412 to 12:04:12.412."
    )
    assert (one.kind, one.code, one.blame, one.count) == ("rule", "EPOCH_SKIP_AHEAD", "client", 2)
    assert one.packets == (90412, 90477)
    assert one.advice.startswith("Count a request when its answer arrives")


def test_several_clients_do_it_together() -> None:
    codes = {"code": "CONCURRENT_SESSION_REQUESTS"}
    (one,) = headlines(finding(**codes), finding(**codes, client_id="b", **later(1)))
    assert one.text.startswith(
        "2 clients (billing-3, b) (librdkafka 2.11.0) sent a request of their share session while "
    )


def test_the_blamed_broker_is_named_and_not_its_victim() -> None:
    (one,) = headlines(finding(**BROKER))
    assert one.text == (
        "Broker 10.0.1.5:9092 wrongly ended a share session that a member had opened again on a new connection: client "
        "billing-3, group billing, 12:03:07.412. Known bug: KAFKA-19950."
    )


def test_what_one_party_did_can_be_said_of_several() -> None:
    """`it` becomes `they`, which is no object."""
    acts = [rule.act for rule in RULES if re.search(r"\bit\b(?! (had|is|counted)\b)", rule.act)]
    assert acts == []


def test_a_fault_of_a_broker_comes_before_any_number_of_mistakes_of_clients() -> None:
    many = [finding(**later(at)) for at in range(500)]
    assert [one.code for one in headlines(*many, finding(**BROKER, **later(900)))] == [
        "SESSION_KILLED_BY_OLD_CONNECTION",
        "EPOCH_SKIP_AHEAD",
    ]


def test_mistakes_of_clients_with_the_same_software_share_a_headline() -> None:
    (one,) = headlines(
        finding(code="TWO_COUNTERS"), finding(client_id="billing-4"), finding(code="NO_RECOVERY", client_id="billing-4")
    )
    assert one.code == "TWO_COUNTERS"
    assert one.text.endswith(" Also 2 violations of 2 other rules.")
    assert one.more == {"EPOCH_SKIP_AHEAD": 1, "NO_RECOVERY": 1}


def test_a_client_that_loses_records_has_a_headline_of_its_own() -> None:
    assert [one.code for one in headlines(finding(), finding(code="GAP_ON_REAL_RECORD"))] == [
        "GAP_ON_REAL_RECORD",
        "EPOCH_SKIP_AHEAD",
    ]


def test_notes_of_rules_that_may_accuse_are_no_headlines() -> None:
    assert headlines(finding(verdict="note", blame="unknown")) == []


def test_a_note_that_hurts_is_said_and_accuses_nobody() -> None:
    (one,) = headlines(finding(code="POISON_RECORD", verdict="note", blame="unknown", cause=None))
    assert one.kind == "hurt"
    assert one.blame is None
    assert one.text.startswith(
        "Records reached the delivery limit of the group without being processed: client billing-3, group billing, "
        "12:03:07.412. They are not delivered again."
    )


def test_a_note_that_an_event_explains_is_said_there_only() -> None:
    note = finding(code="POISON_RECORD", verdict="note", blame="unknown", cause=None)
    note.event_code, note.event_packet = "REQUEST_OVERDUE", 90412
    assert [one.code for one in headlines(finding(**OVERDUE), note)] == ["REQUEST_OVERDUE"]


@pytest.mark.parametrize(("cause", "said"), [("broker_closed", True), ("client_closed", False), (None, False)])
def test_an_open_request_hurts_if_the_broker_ends_its_connection(cause: str | None, *, said: bool) -> None:
    found = headlines(finding(code="REQUEST_UNANSWERED", verdict="note", blame="unknown", cause=cause))
    assert [one.code for one in found] == (["REQUEST_UNANSWERED"] if said else [])
    assert all("broker's log" in one.advice for one in found)


def test_sessions_that_were_lost_without_a_fault_are_said_with_their_cause() -> None:
    lost, other = (
        finding(
            code="SESSION_UNKNOWN", verdict="note", blame="unknown", cause="connection_closed",
            witness=[Witness(3, number, 88000 + number, 88108), Witness(3, 99, 90410, 90412)],
        )
        for number in (11, 12)
    )  # fmt: skip
    never = finding(code="SESSION_UNKNOWN", verdict="note", blame="unknown", cause="never_opened")
    (one,) = headlines(lost, lost, other, never)
    assert one.text.startswith("Client billing-3 (librdkafka 2.11.0) lost 2 share sessions, group billing, ")
    assert one.text.endswith("closed, which ended the session (Kafka 4.1 and later).")
    assert (one.kind, one.blame, one.count) == ("hurt", None, 3)
    assert "connections.max.idle.ms" in one.advice


def test_lost_records_come_before_mistakes_of_clients() -> None:
    poison = finding(code="POISON_RECORD", verdict="note", blame="unknown", cause=None)
    assert [one.code for one in headlines(*[finding()] * 50, poison)] == ["POISON_RECORD", "EPOCH_SKIP_AHEAD"]


def test_the_advice_of_an_event_is_that_of_its_cause() -> None:
    retries = {"code": "RETRY_WITHOUT_REMEDY", "verdict": "note", "argument": "client a sent 9 Produce requests"}
    (one,) = headlines(finding(**retries, cause="no_coordinator_lookup"))
    assert one.advice.startswith("Let the client ask for the coordinator (FindCoordinator)")


def test_what_is_not_proved_accuses_nobody_and_is_said_where_nothing_else_is_known() -> None:
    unknown = finding(verdict="unknown", blame="unknown", unknown_because="gap")
    (one,) = headlines(unknown, finding(code="NO_RECOVERY", verdict="unknown", blame="unknown"), unknown)
    assert one.text.startswith("Not proved: The epoch is too high: the client counted a request that the broker never ")
    assert one.text.endswith(
        ": client billing-3, group billing, 2 times, 12:03:07.412. The capture lacks bytes of these connections "
        "between the exchanges that prove the finding."
    )
    assert one.blame == "unknown"
    assert [it.code for it in headlines(unknown, finding(code="TWO_COUNTERS"))] == ["TWO_COUNTERS"]


def test_refusals_with_one_cause_are_a_pattern() -> None:
    refused = finding(
        code="EPOCH_REFUSED", verdict="unknown", blame="unknown", cause="after_acknowledgements",
        unknown_because="hidden_traffic",
    )  # fmt: skip
    other = finding(code="EPOCH_REFUSED", verdict="unknown", blame="unknown", cause="unknown")
    (one,) = headlines(*[refused] * 8)
    assert one.text.endswith(
        "Each time, the request before was an accepted ShareFetch with acknowledgements: the broker may have counted "
        "it twice."
    )
    assert "the broker's vendor" in one.advice
    for few in ([refused] * 2, [*[refused] * 8, other]):
        (one,) = headlines(*few)
        assert "Each time" not in one.text
        assert one.advice.startswith("Open a new session")


# -- events


@pytest.mark.parametrize(("cause", "advice"), [("not_rejoined", "max.poll.interval.ms"), ("expired", "paused")])
def test_members_that_were_removed_are_said_with_the_reason(cause: str, advice: str) -> None:
    stale = {"code": "GENERATION_STALE", "verdict": "note", "blame": "unknown", "cause": cause}
    (one,) = headlines(finding(**stale, argument="Heartbeat #1 was accepted; nobody came; OffsetCommit #2 was refused"))
    assert one.text == (
        "Client billing-3 (librdkafka 2.11.0) was no longer in group billing, 12:03:07.412: nobody came."
    )
    assert advice in one.advice
    (several,) = headlines(*(finding(**stale, client_id=name, argument="refused", **later(1)) for name in "ab"))
    assert " were no longer in group billing, 2 times, 12:03:08.412: the first time, the member " in several.text
    assert headlines(finding(**stale | {"cause": "rebalanced"})) == []


def test_an_event_says_what_it_explains() -> None:
    unanswered = {"code": "REQUEST_UNANSWERED", "verdict": "note", "blame": "unknown", "cause": None}
    (one,) = headlines(
        finding(**OVERDUE), finding(**unanswered, event_code="REQUEST_OVERDUE", event_packet=90412, **later(1))
    )
    assert (one.kind, one.code, one.more) == ("event", "REQUEST_OVERDUE", {"REQUEST_UNANSWERED": 1})
    assert one.text == "ShareFetch (packet 7) has no answer after 40.0 s, 12:03:07.412 to the end of the capture."


def test_an_event_that_is_not_proved_says_why() -> None:
    (one,) = headlines(finding(**OVERDUE | {"verdict": "unknown", "unknown_because": "clock"}))
    assert " Not proved: the capture's clock does not prove how much time passed" in one.text


def test_of_events_of_one_kind_the_longest_stands_for_all() -> None:
    ends = [{"until_ns": NOON_NS + at * SECOND_NS, "until_packet": 90412 + at} for at in (2, 9)]
    longest = {"argument": "ShareFetch (packet 8) was answered after 4.0 s", "packet": 90417}
    (one,) = headlines(
        finding(**{**OVERDUE, **ends[0]}),
        finding(**{**OVERDUE, **longest, **ends[1], "time_ns": NOON_NS + 5 * SECOND_NS}),
    )
    assert one.text == (
        "ShareFetch (packet 8) was answered after 4.0 s. The longest of 2 such events of 2.00 s to 4.00 s, "
        "12:03:07.412 to 12:03:16.412."
    )


def test_an_event_of_a_single_packet_has_no_duration() -> None:
    at_once = {"until_ns": NOON_NS, "until_packet": 90412}
    later = {"until_ns": NOON_NS + 4 * SECOND_NS, "until_packet": 90421}
    (one,) = headlines(*(finding(**{**OVERDUE, "time_ns": NOON_NS, **it}) for it in (at_once, later)))
    assert " The longest of 2 such events of up to 4.00 s, " in one.text


def test_events_of_several_clients_name_them_and_end_with_the_last() -> None:
    throttled = {"code": "THROTTLED", "verdict": "note", "cause": None, "argument": "client a was throttled"}
    first = finding(**throttled, until_packet=90420, until_ns=NOON_NS + 9 * SECOND_NS)
    second = finding(**throttled, client_id="b", until_packet=90430, until_ns=NOON_NS + 2 * SECOND_NS)
    (one,) = headlines(first, second)
    assert one.text.endswith(", of 2 clients (billing-3, b), 12:03:07.412 to 12:03:16.412.")


def test_advice_that_stands_above_is_not_said_again() -> None:
    throttled = {"code": "THROTTLED", "argument": "client a was throttled"}
    printed = lines(finding(**throttled, verdict="violation", cause="ignored"), finding(**throttled, verdict="note"))
    assert sum("Raise the quota" in line for line in printed) == 1
    assert sum("client a was throttled" in line.lower() for line in printed) == 2


def test_an_event_that_says_when_is_not_timed_again() -> None:
    (one,) = headlines(finding(**{**OVERDUE, "argument": "topic t was deleted at 12:03:07.412"}))
    assert one.text == "Topic t was deleted at 12:03:07.412."


def test_every_event_has_advice_and_a_weight() -> None:
    assert [row.code for row in ROWS if not (row.advice and row.weight and row.text and row.must)] == []


# -- who is hurt


def outcomes(**changed: Any) -> Outcomes:
    of = Outcomes("billing-3", "10.0.4.17", "librdkafka 2.11.0")
    of.since_ns, of.until_ns = NOON_NS, NOON_NS + 60 * SECOND_NS
    for name, value in changed.items():
        if isinstance(value, dict):
            getattr(of, name).update(value)
        else:
            setattr(of, name, value)
    return of


def refusing(records: int) -> Outcomes:
    return outcomes(fetches=2, records=2, acquired=249, acknowledged={121: records}, refused={121: 1})


def test_refused_acknowledgements_hurt_and_the_reason_is_said_where_findings_show_it() -> None:
    expired = finding(
        code="ACK_AFTER_LOCK_TIMEOUT", verdict="note", member_id="m0", cause="after_lock", first_offset=0,
        last_offset=178,
    )  # fmt: skip
    (one,) = headlines(expired, outcomes=[refusing(179)])
    assert one.text == (
        "Client billing-3 (librdkafka 2.11.0), group billing: all 179 records that it acknowledged were refused with "
        "INVALID_RECORD_STATE, because its locks had expired: others receive these records again."
    )
    assert one.advice.startswith("Take fewer records at a time")


def test_without_findings_the_reason_is_not_said() -> None:
    (one,) = headlines(outcomes=[outcomes(fetches=2, records=2, acknowledged={0: 90, 121: 20})])
    assert one.text.endswith("20 of 110 records that it acknowledged were refused with INVALID_RECORD_STATE.")
    assert one.advice.startswith("kshark deliveries")


@pytest.mark.parametrize(
    ("error", "said", "advice"),
    [
        (29, "TOPIC_AUTHORIZATION_FAILED.", "READ on the topic"),
        (100, "because the broker knows no topic with this id.", "kshark events"),
        (124, "because the share coordinator has newer state of the partition", "change of its leader"),
        (-1, "UNKNOWN_SERVER_ERROR.", ""),
    ],
)
def test_an_error_that_says_why_is_read_out(error: int, said: str, advice: str) -> None:
    (one,) = headlines(outcomes=[outcomes(fetches=2, records=2, acknowledged={0: 90, error: 20})])
    assert said in one.text
    assert advice in one.advice


def test_a_few_refused_acknowledgements_hurt_nobody() -> None:
    assert headlines(outcomes=[outcomes(fetches=2, records=2, acknowledged={0: 990, 121: 9})]) == []


def test_what_a_client_suffers_from_its_own_violations_is_no_headline() -> None:
    (one,) = headlines(finding(member_id="m0"), outcomes=[outcomes(fetches=9, records=9, acknowledged={121: 5})])
    assert one.kind == "rule"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"fetches": 12, "throttled": 11, "throttled_ms": 55_000},
            "got no records: the broker throttled 11 of 12 fetches, by 5.00 s each on average.",
        ),
        (
            {"fetches": 29, "records": 4, "failed": {133: 17}},
            "got records with 4 fetches only: 17 of 29 fetches failed, most with SHARE_SESSION_LIMIT_REACHED (17).",
        ),
        (
            {"fetches": 14, "waiting": Waiting(meanwhile=306)},
            "got no records in 1 min 0 s: all 14 fetches came back empty; meanwhile other members got 306 records of "
            "its partitions, and hold none now.",
        ),
        (
            {"fetches": 14, "unanswered": 2, "waiting": Waiting(earlier=306, held=Counter(a=1, b=9, c=2, d=3))},
            "got no records in 1 min 0 s: 12 of 14 fetches came back empty; other members had got 306 records of its "
            "partitions before, and none since; they hold 15 now (b 9, d 3, c 2 and 1 more).",
        ),
    ],
)
def test_a_member_that_gets_nothing_is_named_with_the_reason(changed: dict[str, Any], said: str) -> None:
    others = outcomes(fetches=20, records=20, acquired=306)
    (one,) = headlines(outcomes=[outcomes(**changed), others])
    group = "" if "failed" in changed else ", group billing"
    assert one.text == f"Client billing-3 (librdkafka 2.11.0){group}: {said}"


def test_members_that_lack_records_for_the_same_reason_share_a_headline() -> None:
    failing = [outcomes(fetches=40, failed={133: 40}), outcomes(fetches=41, failed={133: 40, 29: 1}, client_id="b")]
    (one,) = headlines(outcomes=failing)
    assert one.text == (
        "2 clients (b, billing-3): got no records: 81 of 81 fetches failed, most with SHARE_SESSION_LIMIT_REACHED (80)."
    )


@pytest.mark.parametrize("changed", [{"fetches": 2}, {"fetches": 14}, {"fetches": 14, "records": 9, "acquired": 9}])
def test_a_member_for_which_there_may_be_nothing_is_not_hurt(changed: dict[str, Any]) -> None:
    assert headlines(outcomes=[outcomes(**changed)]) == []


# -- the capture


def test_a_cut_capture_comes_first() -> None:
    seen = Observed(exchanges=117, judged=90, body_cut=56)
    seen.defects["SNAP_LENGTH_CUT"], seen.defect_bytes["SNAP_LENGTH_CUT"] = 506, 527_000
    assert lines(finding(), observed=seen)[:2] == [
        "This capture is cut: 506 packets lost 527 kB to the snap length. 56 of 117 requests can be judged only in "
        "part. SNAP_LENGTH_CUT",
        "  → Record again with tcpdump -s 0.",
    ]


def test_gaps_are_said_where_they_leave_something_unproved() -> None:
    seen = Observed(exchanges=9, judged=9, gaps=3, missing_bytes=4_000)
    assert lines(observed=seen)[0] == "0 violations"
    first = lines(finding(verdict="unknown", blame="unknown", unknown_because="gap"), observed=seen)[0]
    assert first == "This capture has 3 gaps (4.00 kB missing): for that reason 1 finding cannot be proved. STREAM_GAP"


# -- the screen


def test_the_summary_has_the_findings_by_verdict() -> None:
    found = [
        *[finding()] * 3,
        *[finding(code=code) for code in ("NO_RECOVERY", "EPOCH_STALE", "EPOCH_REPLAY", "TWO_COUNTERS")],
        finding(verdict="unknown", unknown_because="gap"),
        finding(verdict="note"),
    ]
    *_, summary, judged = lines(*found)
    assert summary == (
        "7 violations: EPOCH_SKIP_AHEAD 3, NO_RECOVERY, EPOCH_STALE, 2 more kinds · 1 not proved: EPOCH_SKIP_AHEAD · "
        "1 note"
    )
    assert judged == "judged 9 of 9 requests · 1 rule"


def test_a_clean_capture_has_one_line_and_what_was_judged() -> None:
    assert lines() == ["0 violations", "judged 9 of 9 requests · 1 rule"]


def test_it_fits_24_lines_of_80_columns_and_says_how_much_is_left() -> None:
    codes = "GAP_ON_REAL_RECORD", "STALE_ACK_ACCEPTED"
    found = [
        *[finding(**{**BROKER, "code": code}) for code in ("STATE_LOST", "ACK_NOT_PERSISTED", "REJOIN_REFUSED")],
        *[finding(code=code, client_id=f"c{at}", software=f"s {at}") for code in codes for at in range(9)],
        *[finding(client_id=f"c{at}", software=f"s {at}") for at in range(9)],
    ]
    said = lines(*found, width=80)
    assert len(said) <= 24
    assert all(len(line) <= 80 for line in said)
    assert any(line.startswith("And ") and line.endswith(" more headlines: -V.") for line in said)


def test_foreign_names_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in "".join(lines(finding(group_id="\x1b[2J", client_id="\x1b]0;x\x07", software="\x1b[1m")))
