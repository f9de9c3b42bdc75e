"""Promises of kshark.analysis.rules.ends: missing sessions, and sessions that were not closed."""

from __future__ import annotations

from kshark.model import ACK, FIN
from tests.analysis.rules.promises.promise import ROOM, Said, promise
from tests.analysis.talks import (
    SHARE_SESSION_LIMIT_REACHED,
    UNKNOWN_SERVER_ERROR,
    broker_refuses,
    left,
    opened,
    stranger,
)
from tests.conversation import SHARE_SESSION_NOT_FOUND, Asked, Conversation, Member, note, unknown, violation


@promise
def a_session_ends_with_its_connection() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.connection.tcp.reset(1)
    lost = b.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [note("SESSION_UNKNOWN", lost, cause="connection_closed")]


@promise
def a_broker_restarts() -> Said:
    talk = Conversation(release="4.0")
    a = opened(talk, 1)
    a.connection.tcp.reset(1)
    broker_refuses(talk)
    lost = a.on(talk.connection()).share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [note("SESSION_UNKNOWN", lost, cause="broker_restart")]


@promise
def a_session_is_evicted() -> Said:
    talk = Conversation(release="4.0")
    a = opened(talk, 1)
    talk.pause(121)
    lost = a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [note("SESSION_UNKNOWN", lost, cause="evicted")]


@promise
def there_is_no_room_for_a_session() -> Said:
    talk = Conversation()
    a = talk.member("a")
    full = a.share_fetch(0).answered(SHARE_SESSION_LIMIT_REACHED)
    after = a.share_fetch(-1).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [note("SESSION_LIMIT", full), note("SESSION_UNKNOWN", after, cause="session_limit")]


@promise
def a_member_never_opened_a_session() -> Said:
    talk = Conversation()
    wrong = talk.member("a").share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [note("SESSION_UNKNOWN", wrong, cause="never_opened")]


@promise
def a_broker_looks_for_a_session_at_epoch_zero() -> Said:
    talk = Conversation()
    a = talk.member("a")
    opening = a.share_fetch(0).answered(SHARE_SESSION_NOT_FOUND)
    odd = a.share_acknowledge(0).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [
        violation("SESSION_UNKNOWN", wrong, blame="broker", cause="broker_anomaly") for wrong in (opening, odd)
    ]


@promise
def a_session_is_gone_without_a_visible_cause() -> Said:
    talk = Conversation()
    gone = opened(talk, 1).share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [unknown("SESSION_UNKNOWN", gone, because="hidden_traffic", cause="unknown")]


@promise
def a_closed_session_is_used() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_acknowledge(-1).answered()
    after = a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [violation("USE_AFTER_FINAL", after, blame="client", cause="final_epoch")]


@promise
def a_closed_session_is_closed_again() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_acknowledge(-1).answered()
    again = a.share_fetch(-1).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [note("USE_AFTER_FINAL", again, cause="final_epoch")]


def reopened(talk: Conversation) -> tuple[Member, Asked]:
    """Return a member on the connection that reopened its session, and this opening; its old connection is closed."""
    a = opened(talk, 1)
    b = a.on(talk.connection())
    opening = b.share_fetch(0).answered()
    a.connection.reset()
    return b, opening


@promise
def an_old_connection_kills_a_session() -> Said:
    """Its own connection is open: the client continues there."""
    talk = Conversation(release="4.1")
    b, opening = reopened(talk)
    killed = b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    b.share_fetch(0).answered()
    return talk, [
        note("SESSION_REOPEN", opening),
        violation("SESSION_KILLED_BY_OLD_CONNECTION", killed, blame="broker", cause="old_connection_closed"),
    ]


@promise
def an_old_connection_may_have_killed_a_session() -> Said:
    """The new connection sends nothing more: a FIN that was not captured would also explain it."""
    talk = Conversation(release="4.1")
    b, opening = reopened(talk)
    killed = b.on(talk.connection()).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [
        note("SESSION_REOPEN", opening),
        unknown("SESSION_KILLED_BY_OLD_CONNECTION", killed, because="end_not_seen", cause="old_connection_closed"),
    ]


@promise
def an_old_connection_kills_a_session_whose_epoch_may_have_been_used() -> Said:
    """The request before it had no answer and may have been counted. The epoch may be an old one, but there would be a
    session."""
    talk = Conversation(release="4.1")
    b, opening = reopened(talk)
    lost = b.on(talk.connection())
    lost.share_fetch(1)
    lost.connection.reset()
    killed = b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    b.share_fetch(0).answered()
    return talk, [
        note("SESSION_REOPEN", opening),
        violation("SESSION_KILLED_BY_OLD_CONNECTION", killed, blame="broker", cause="old_connection_closed"),
    ]


@promise
def an_old_connection_kills_a_session_before_it_is_closed() -> Said:
    """A closing epoch does not show for which session it was meant."""
    talk = Conversation(release="4.1")
    b, opening = reopened(talk)
    killed = b.share_fetch(-1).answered(SHARE_SESSION_NOT_FOUND)
    return talk, [
        note("SESSION_REOPEN", opening),
        note("SESSION_KILLED_BY_OLD_CONNECTION", killed, cause="old_connection_closed"),
    ]


@promise
def a_connection_is_closed_with_its_session_open() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    fin = a.connection.tcp._send(0, FIN | ACK)
    return talk, [note("SESSION_NOT_CLOSED", fin)]


@promise
def a_member_leaves_with_its_session_open() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    leave = left(a)
    a.connection.close()
    return talk, [note("SESSION_NOT_CLOSED", leave.sent)]


@promise
def a_partition_is_listed_twice() -> Said:
    talk = Conversation()
    a = opened(talk)
    wrong = a.share_fetch(1, [0, 1, 0]).answered()
    return talk, [violation("DUPLICATE_PARTITION_ENTRY", wrong.sent, blame="client")]


@promise
def a_partition_may_be_listed_twice() -> Said:
    talk = Conversation()
    wrong = stranger(talk).share_fetch(1, [0, 0]).answered()
    return talk, [unknown("DUPLICATE_PARTITION_ENTRY", wrong.sent, because="resync")]


@promise
def a_session_is_lost_in_a_failed_reopen() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    twice = a.share_fetch(0, [0, 0]).answered(UNKNOWN_SERVER_ERROR)
    after, closing = (
        a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND),
        a.share_fetch(-1).answered(SHARE_SESSION_NOT_FOUND),
    )
    return talk, [
        violation("DUPLICATE_PARTITION_ENTRY", twice.sent, blame="client"),
        violation("DUPLICATE_PARTITION_ENTRY", after, blame="client", cause="failed_reopen"),
        note("DUPLICATE_PARTITION_ENTRY", closing, cause="failed_reopen"),
    ]


@promise
def more_sessions_than_kshark_keeps() -> Said:
    talk = Conversation()
    connection = talk.connection()
    fetches = [talk.member(name, connection=connection).share_fetch(0).answered() for name in "abcdefgh"[: ROOM + 2]]
    return talk, [note("SESSIONS_FORGOTTEN", fetches[ROOM].sent)]
