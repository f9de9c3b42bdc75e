"""One session, several connections: who overtakes whom, who writes, and what is nobody's fault."""

from __future__ import annotations

import pytest

from tests.analysis.rules.promises.connections import given_up, overtaken_and_served
from tests.analysis.talks import UNKNOWN_MEMBER_ID, alone, caused, codes, left, opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Conversation,
    Thinned,
    findings,
    note,
    unknown,
    violation,
)


def test_without_what_was_before_it_may_have_been_a_replay() -> None:
    talk = Conversation()
    a = talk.member("a", connection=talk.connection(from_syn=False, introduced=False), joined=False)
    b = a.on(talk.connection())
    waiting = a.share_fetch(1)
    b.share_acknowledge(2, [(0, 4, 1)]).answered()
    waiting.answered(INVALID_SHARE_SESSION_EPOCH)
    assert caused(talk) == [unknown("EPOCH_REFUSED", waiting, because="beginning_not_seen")]


def test_a_waiting_fetch_whose_session_was_replaced_or_closed_is_answered_and_nothing_is_wrong_with_that() -> None:
    for epoch in (0, -1):
        talk = Conversation()
        a = opened(talk)
        b = a.on(talk.connection())
        waiting = a.share_fetch(1)
        b.share_fetch(epoch).answered()
        waiting.answered()
        assert caused(talk) == []
        assert all(finding.blame != "broker" for finding in findings(talk))


def test_an_acknowledgement_overtakes_a_fetch_when_it_comes_not_when_it_is_answered() -> None:
    """The broker stores the records first; without what went before nothing else is said."""
    talk = Conversation()
    a = opened(talk, 1)
    waiting = a.share_fetch(2)
    ahead = a.on(talk.connection()).share_acknowledge(3, [(0, 4, 1)])
    waiting.answered(INVALID_SHARE_SESSION_EPOCH)
    ahead.answered()
    a.share_fetch(-1).answered()
    assert ("CONCURRENT_SESSION_REQUESTS", "violation") in codes(talk)
    assert caused(talk) == [violation("FETCH_OVERTAKEN", waiting, blame="client", cause="overtaken")]


def test_without_its_answer_the_other_request_may_have_come_to_nothing() -> None:
    talk, _, ahead = overtaken_and_served()
    assert overtaken(talk) == ["violation"]
    assert overtaken(talk.without_packets(ahead.answer_packets)) == ["unknown"]


def accused_without_one(talk: Conversation) -> list[tuple[int, str]]:
    """Violations where one packet is missing: which one, and the code."""
    missing = [number for number, _ in talk.packets()]
    return [
        (one, it.code) for one in missing for it in findings(talk.without_packets([one])) if it.verdict == "violation"
    ]


def overtaken(talk: Conversation | Thinned) -> list[str]:
    return [verdict for code, verdict in codes(talk) if code == "FETCH_OVERTAKEN"]


def test_the_first_connection_may_have_been_given_up_already() -> None:
    talk = Conversation()
    a = opened(talk)
    b = a.on(talk.connection())
    waiting = a.share_fetch(1)
    b.share_fetch(0).answered()
    waiting.answered()
    a.connection.reset()
    concurrent = [finding for finding in findings(talk) if finding.code == "CONCURRENT_SESSION_REQUESTS"]
    assert [(finding.verdict, finding.unknown_because) for finding in concurrent] == [("unknown", "end_not_seen")]


def test_a_request_that_nobody_answers_may_have_been_under_way_for_long() -> None:
    """Its connection is closed by the broker, and given up by the client, which has opened its session anew."""
    talk = Conversation()
    a = opened(talk)
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    waiting = b.share_acknowledge(1, [(0, 0, 1)])
    a.share_fetch(1)
    waiting.answered()
    a.connection.reset()
    b.share_fetch(2).answered()
    concurrent = [finding for finding in findings(talk) if finding.code == "CONCURRENT_SESSION_REQUESTS"]
    assert [(finding.verdict, finding.unknown_because) for finding in concurrent] == [("unknown", "unanswered")]


def test_a_client_that_gave_up_and_reconnected_is_not_concurrent() -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1)
    a.connection.close()
    a.on(talk.connection()).share_fetch(0).answered()
    assert "CONCURRENT_SESSION_REQUESTS" not in dict(codes(talk))


def test_pipelined_requests_on_one_connection_are_handled_in_order() -> None:
    talk = Conversation()
    a = opened(talk)
    waiting = [a.share_fetch(1), a.share_acknowledge(2, [(0, 0, 1)]), a.share_fetch(3)]
    for request in waiting:
        request.answered()
    assert findings(talk) == []


def test_a_session_is_used_on_a_second_connection() -> None:
    talk = Conversation()
    a = opened(talk)
    b = a.on(talk.connection())
    crossed = b.share_fetch(1).answered()
    b.share_fetch(2).answered()
    assert findings(talk) == [note("SESSION_CROSS_CONNECTION", crossed)]


def test_a_reconnected_client_is_no_second_writer() -> None:
    talk = Conversation()
    a = opened(talk, 2)
    b = a.on(talk.connection())
    wrong = b.share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    assert caused(talk) == [violation("EPOCH_REPLAY", wrong, blame="client", cause="replay")]


def test_the_other_writer_was_missed() -> None:
    talk = Conversation()
    a = opened(talk)
    b = a.on(talk.connection(host="10.0.0.2"))
    other = b.share_fetch(1).answered()
    wrong = a.share_fetch(1).answered(INVALID_SHARE_SESSION_EPOCH)
    unseen = talk.without_packets([n for n, p in talk.packets() if b"\x0a\x00\x00\x02" in p.data[26:34]])
    assert other.packets[0] not in dict(unseen.packets())
    assert caused(unseen) == [unknown("EPOCH_REFUSED", wrong, because="hidden_traffic")]


def test_two_members_on_one_connection_do_not_meet() -> None:
    talk = Conversation()
    a = opened(talk)
    b = talk.member("b", connection=a.connection)
    b.share_fetch(0).answered()
    a.share_fetch(1).answered()
    b.share_fetch(1).answered()
    assert findings(talk) == []


def test_a_session_with_each_broker() -> None:
    talk = Conversation()
    a = opened(talk, 2)
    other = a.on(talk.connection(broker="10.0.0.8:9092"))
    other.share_fetch(0).answered()
    other.share_fetch(1).answered()
    a.share_fetch(3).answered()
    lost = other.share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    gone = a.on(talk.connection(broker="10.0.0.7:9092")).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [
        violation("EPOCH_SKIP_AHEAD", lost, cause="skip_ahead"),
        unknown("SESSION_UNKNOWN", gone, because="hidden_traffic"),
    ]


@pytest.mark.parametrize("at_first", [True, False])
def test_whichever_packet_is_missing_a_client_that_gave_up_is_not_accused(at_first: bool) -> None:
    talk, _ = given_up(at_first=at_first)
    assert accused_without_one(talk) == []


@pytest.mark.parametrize(("before", "causes"), [(True, ["given_up"]), (False, ["unknown"])])
def test_who_ends_a_connection_when_he_went_on_elsewhere_had_not_given_it_up(before: bool, causes: list[str]) -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    held_up = a.share_fetch(2)
    if before:
        a.connection.tcp.fin()
    again = b.share_fetch(0, [0])
    if not before:
        a.connection.tcp.fin()
    again.answered()
    held_up.answered(INVALID_SHARE_SESSION_EPOCH)
    assert [it.cause for it in caused(talk)] == causes


def reopened_and_went_on(*, openings: int = 1, upto: int = 3) -> Conversation:
    """A fetch that is given up and taken late: until then its client has opened its session anew, and got further with
    that."""
    talk = Conversation()
    a = opened(talk)
    held_up = a.share_fetch(1)
    for _ in range(openings):
        a.connection.tcp.fin()
        a = a.on(talk.connection())
        for epoch in range(upto + 1):
            a.share_fetch(epoch, [0] if epoch == 0 else ()).answered()
    held_up.answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(upto + 1).answered()
    return talk


@pytest.mark.parametrize(
    ("openings", "upto"), [(1, 1), (5, 1), (1, 9), (2, 3), pytest.param(5, 9, marks=pytest.mark.slow)]
)
def test_what_another_session_counted_has_not_overtaken_the_fetch(openings: int, upto: int) -> None:
    talk = reopened_and_went_on(openings=openings, upto=upto)
    assert [(it.code, it.verdict, it.cause) for it in caused(talk)] == [("FETCH_OVERTAKEN", "note", "given_up")]
    assert accused_without_one(talk) == []


def closed_while_held_up() -> Conversation:
    """A client that gave up a fetch and its connection closes its session on another one; the fetch is taken only
    then."""
    talk = Conversation()
    a = opened(talk, 1)
    held_up = a.share_fetch(2)
    a.connection.tcp.fin()
    a.on(talk.connection()).share_acknowledge(-1).answered()
    held_up.answered(SHARE_SESSION_NOT_FOUND)
    return talk


def test_what_was_sent_before_the_session_was_closed_does_not_use_it_afterwards() -> None:
    talk = closed_while_held_up()
    assert [(it.code, it.verdict, it.cause) for it in caused(talk)] == [("USE_AFTER_FINAL", "note", "final_epoch")]
    assert accused_without_one(talk) == []


def test_an_epoch_that_was_due_when_it_was_sent_is_not_counted_wrongly() -> None:
    """Which of the openings it met, and who sent what when, cannot be told: but the client counted as it should."""
    talk = Conversation()
    a = opened(talk, 1)
    held_up = a.share_fetch(2)
    b = a.on(talk.connection())
    b.share_fetch(0, [0])
    b.share_fetch(1).answered()
    held_up.answered(INVALID_SHARE_SESSION_EPOCH)
    a.heartbeat(1).given(1)
    assert {it.code for it in caused(talk)} & {
        "EPOCH_SKIP_AHEAD",
        "EPOCH_STALE",
        "EPOCH_REPLAY",
        "TWO_COUNTERS",
    } == set()


def test_who_goes_on_on_both_connections_has_not_given_up() -> None:
    for goes_on, verdict in ((True, "violation"), (False, "unknown")):
        talk = Conversation()
        a = opened(talk, 1)
        first = a.share_acknowledge(2, [(0, 0, 1)])
        a.on(talk.connection()).share_acknowledge(2, [(1, 1, 1)]).answered()
        first.answered(INVALID_SHARE_SESSION_EPOCH)
        if goes_on:
            a.share_fetch(0).answered()
        assert [(it.cause, it.verdict) for it in findings(talk) if it.code == "FETCH_OVERTAKEN"] == [
            ("concurrent_requests", verdict)
        ]


# -- requests that arrive late on a connection that their client has given up


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.2"])
@pytest.mark.parametrize("used", [(), (0,), (0, 1)], ids=["first", "opened", "used"])
@pytest.mark.parametrize("elsewhere", [(0,), (0, 1, 2), (0, 1, 2, 3)], ids=["ahead", "replay", "stale"])
def test_a_request_that_arrives_late_accuses_nobody(
    elsewhere: tuple[int, ...], used: tuple[int, ...], release: str
) -> None:
    """TCP retransmits what a client sent before it gave up the connection; the client has another one since."""
    version = 0 if release == "4.0" else 1
    for goes_on in (False, True):
        talk = alone(release=release)
        a = talk.member("a")
        b = a.on(talk.connection())
        for epoch in used:
            a.share_fetch(epoch, [0], version=version).answered()
        for epoch in elsewhere:
            b.share_fetch(epoch, [0], version=version).answered()
        a.share_fetch(2, version=version).answered(INVALID_SHARE_SESSION_EPOCH)
        if goes_on:
            a.heartbeat(1).given(1)
        else:
            a.connection.reset()
        b.share_fetch(elsewhere[-1] + 1, version=version).answered()
        told = [it for it in findings(talk) if it.verdict == "violation"]
        assert [(it.cause is not None, it.blame) for it in told] == [(True, "client")] * goes_on


def test_a_heartbeat_that_arrives_late_accuses_nobody() -> None:
    for goes_on in (False, True):
        talk = alone()
        a = talk.member("a")
        left(a.on(talk.connection()))
        a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
        if goes_on:
            a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
        told = [it.verdict for it in findings(talk) if it.code == "HEARTBEAT_AFTER_LEAVE"]
        assert told[:1] == (["violation"] if goes_on else ["unknown"])
