"""Promises of kshark.analysis.rules.connections: one session on several connections."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import handed, opened
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Asked, Conversation, note, unknown, violation


@promise
def a_session_is_used_on_another_connection() -> Said:
    talk = Conversation()
    crossed = opened(talk).on(talk.connection()).share_fetch(1).answered()
    return talk, [note("SESSION_CROSS_CONNECTION", crossed)]


@promise
def two_connections_count_epochs() -> Said:
    talk = Conversation()
    a = opened(talk)
    crossed = a.on(talk.connection(host="10.0.0.2")).share_fetch(1).answered()
    wrong = a.share_fetch(1).answered(INVALID_SHARE_SESSION_EPOCH)
    a.heartbeat(1).given(1)
    return talk, [
        note("SESSION_CROSS_CONNECTION", crossed),
        violation("DUPLICATE_MEMBER", wrong, blame="client", cause="two_writers"),
    ]


@promise
def another_connection_reopens_the_session() -> Said:
    talk = Conversation()
    a = opened(talk, 3)
    again = a.on(talk.connection()).share_fetch(0).answered()
    wrong = a.share_fetch(4).answered(INVALID_SHARE_SESSION_EPOCH)
    a.heartbeat(1).given(1)
    return talk, [
        note("SESSION_REOPEN", again),
        violation("DUPLICATE_MEMBER", wrong, blame="client", cause="reopened_elsewhere"),
    ]


@promise
def a_request_on_a_connection_that_was_given_up_arrives_late() -> Said:
    talk = Conversation()
    a = opened(talk, 3)
    again = a.on(talk.connection()).share_fetch(0).answered()
    late = a.share_fetch(4).answered(INVALID_SHARE_SESSION_EPOCH)
    a.connection.reset()
    return talk, [
        note("SESSION_REOPEN", again),
        unknown("EPOCH_REFUSED", late, because="in_flight", cause="unknown"),
    ]


@promise
def a_waiting_fetch_is_overtaken() -> Said:
    talk = Conversation()
    a = opened(talk)
    waiting = a.share_fetch(1)
    ahead = a.on(talk.connection()).share_acknowledge(2, [(0, 4, 1)]).answered()
    waiting.answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(-1).answered()
    return talk, [
        violation("CONCURRENT_SESSION_REQUESTS", ahead.sent, blame="client"),
        note("SESSION_CROSS_CONNECTION", ahead),
        violation("FETCH_OVERTAKEN", waiting, blame="client", cause="overtaken"),
    ]


@promise
def a_waiting_fetch_may_have_been_overtaken() -> Said:
    """Its connection sends nothing more, and the session began before the capture."""
    talk = Conversation()
    a = talk.member("a", joined=False)
    waiting = a.share_fetch(1)
    ahead = a.on(talk.connection()).share_acknowledge(2, [(0, 4, 1)]).answered()
    waiting.answered(responses=handed((0, 5, 9)))
    return talk, [
        unknown("CONCURRENT_SESSION_REQUESTS", ahead.sent, because="end_not_seen"),
        unknown("FETCH_OVERTAKEN", waiting, because="beginning_not_seen"),
    ]


def overtaken_and_served() -> tuple[Conversation, Asked, Asked]:
    """Return a waiting fetch that gets records, and the other request that advanced the session meanwhile."""
    talk = Conversation()
    a = opened(talk)
    waiting = a.share_fetch(1)
    ahead = a.on(talk.connection()).share_acknowledge(2, [(0, 4, 1)]).answered()
    waiting.answered(responses=handed((0, 5, 9)))
    a.share_fetch(3).answered()
    return talk, waiting, ahead


@promise
def an_overtaken_fetch_is_answered_with_records() -> Said:
    talk, waiting, ahead = overtaken_and_served()
    return talk, [
        violation("CONCURRENT_SESSION_REQUESTS", ahead.sent, blame="client"),
        note("SESSION_CROSS_CONNECTION", ahead),
        violation("FETCH_OVERTAKEN", waiting, blame="client"),
    ]


@promise
def two_requests_at_the_same_time_have_the_same_epoch() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    first = a.share_acknowledge(2, [(0, 0, 1)])
    other = a.on(talk.connection()).share_acknowledge(2, [(1, 1, 1)]).answered()
    first.answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(-1).answered()
    return talk, [
        violation("CONCURRENT_SESSION_REQUESTS", other.sent, blame="client"),
        note("SESSION_CROSS_CONNECTION", other),
        violation("FETCH_OVERTAKEN", first, blame="client", cause="concurrent_requests"),
    ]


def given_up(*, at_first: bool) -> Said:
    """Close the connection of an open fetch, and open a new session elsewhere before the broker handles that fetch.

    A broker does so with clients that it throttles. `at_first`: this fetch is refused. Otherwise the broker counts it
    as the first request of the new session, and refuses the real one.
    """
    talk = Conversation()
    a = opened(talk, 1 if at_first else 0)
    held_up = a.share_fetch(2 if at_first else 1)
    end = a.connection.tcp.fin()
    talk.pause(1)
    b = a.on(talk.connection())
    b.share_fetch(0, [0]).answered()
    again = b.share_fetch(1)
    held_up.answered(INVALID_SHARE_SESSION_EPOCH if at_first else 0)
    again.answered(0 if at_first else INVALID_SHARE_SESSION_EPOCH)
    reopened = b.share_fetch(0, [0]).answered()
    return talk, [
        note("SESSION_NOT_CLOSED", end),
        note("FETCH_OVERTAKEN", held_up if at_first else again, cause="given_up"),
        note("SESSION_REOPEN", reopened),
    ]


@promise
def an_abandoned_fetch_is_handled_late() -> Said:
    return given_up(at_first=True)


@promise
def an_abandoned_fetch_is_counted_instead_of_the_next_request() -> Said:
    return given_up(at_first=False)


@promise
def both_sides_of_a_proxy_are_captured() -> Said:
    talk = Conversation()
    a = talk.member("a")
    b = a.on(talk.connection(host="10.0.0.2"))
    outer, inner = a.share_fetch(0, [0]), b.share_fetch(0, [0])
    for fetch in (inner, outer):
        fetch.answered(responses=handed((0, 0, 9)))
    for acknowledgement in (a.share_acknowledge(1, [(0, 9, 1)]), b.share_acknowledge(1, [(0, 9, 1)])):
        acknowledgement.answered()
    return talk, [note("SEEN_TWICE", outer)]
