"""Share sessions and their requests as the analysis lists them, as rows."""

from __future__ import annotations

from kshark.analysis import ListedSession, ListedStep
from kshark.tables.blocks import Row, Where
from kshark.tables.fields import session_key


def session_row(where: Where, listed: ListedSession) -> Row:
    """A session stands where its first request does, in `sessions`."""
    session = listed.session
    opened, closed = session.opened, session.closed
    return (
        where,
        listed.packet,
        listed.time_ns,
        listed.packet,
        session.group_id,
        session.member_id,
        session_key(session.broker, session.group_id, session.member_id),
        session.session,
        opened and opened.packet,
        opened and opened.time_ns,
        closed and closed.packet,
        closed and closed.time_ns,
        closed and closed.how,
        session.first_epoch,
        session.last_epoch,
        session.requests,
        session.accepted,
        [(int(code), times) for code, times in session.rejected.items()],
        session.connections,
    )


def step_row(where: Where, listed: ListedStep) -> Row:
    """A request's row in `steps`: it has its session's key, which another of the broker's addresses may have given
    it."""
    step, session = listed.step, listed.session
    expected = step.expected
    return (
        where,
        step.packet,
        listed.time_ns,
        step.packet,
        listed.witness.correlation_id,
        step.api,
        listed.group_id,
        listed.member_id,
        session_key(listed.broker if session is None else session.broker, listed.group_id, listed.member_id),
        session and session.session,
        step.epoch,
        [expected] if isinstance(expected, int) else expected,
        step.error_code,
        step.outcome,
        step.cause,
    )
