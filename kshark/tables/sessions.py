"""Share sessions and their requests as rows, from the lists of the analysis."""

from __future__ import annotations

from typing import Any, Final

from kshark.analysis import ListedSession, ListedStep
from kshark.tables.blocks import Row, Where
from kshark.tables.columns import API, CORRELATION, GROUP, MEMBER, SESSION, SESSION_KEY, Column, table
from kshark.tables.fields import session_key
from kshark.tables.readers import its, made, optional


def _key(session: Any) -> int:
    return session_key(session.broker, session.group_id, session.member_id)


def _rejected(session: Any) -> list[tuple[int, int]]:
    return [(int(code), times) for code, times in session.rejected.items()]


SESSIONS: Final = table(
    "sessions",
    "share session (kshark sessions); packet, time and connection are those of its first request",
    "session opened closed",
    GROUP.read(its("session.group_id")),
    MEMBER.read(its("session.member_id")),
    SESSION_KEY.read(made(_key, "session")),
    SESSION.read(its("session.session")),
    Column(
        "opened_packet",
        "bigint",
        "packet of the response that accepted epoch 0; null: not in the capture",
        optional("opened.packet"),
    ),
    Column("opened_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970", optional("opened.time_ns")),
    Column(
        "closed_packet",
        "bigint",
        "packet that ended it, or the last sign of it; null: there was no session",
        optional("closed.packet"),
    ),
    Column("closed_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970", optional("closed.time_ns")),
    Column(
        "ended",
        "string",
        "final_epoch, connection_closed, reopened, broker_restart, evicted; open: no end in the capture",
        optional("closed.how"),
    ),
    Column("first_epoch", "int", "epoch of its first request", its("session.first_epoch")),
    Column(
        "last_epoch", "int", "epoch of its last request, rejected or not; -1: it was closed", its("session.last_epoch")
    ),
    Column(
        "requests",
        "bigint",
        "number of ShareFetch and ShareAcknowledge requests, also rejected ones",
        its("session.requests"),
    ),
    Column("accepted", "bigint", "number of requests without an error", its("session.accepted")),
    Column(
        "rejected",
        "array<struct<error_code: smallint, requests: bigint>>",
        "number of requests with an error, by error code",
        made(_rejected, "session"),
    ),
    Column("connections", "int", "number of connections of its requests", its("session.connections")),
)


def _step_key(listed: ListedStep) -> int:
    """Return the key of the step's session; the session may name another address of the broker."""
    broker = listed.broker if listed.session is None else listed.session.broker
    return session_key(broker, listed.group_id, listed.member_id)


def _expected(step: Any) -> Any:
    expected = step.expected
    return [expected] if isinstance(expected, int) else expected


STEPS: Final = table(
    "steps",
    "ShareFetch or ShareAcknowledge with its effect on the session (kshark sessions -V)",
    "listed step session",
    CORRELATION.read(its("listed.witness.correlation_id")),
    API.read(its("step.api")),
    GROUP.read(its("listed.group_id")),
    MEMBER.read(its("listed.member_id")),
    SESSION_KEY.read(made(_step_key, "listed")),
    SESSION.read(optional("session.session")),
    Column("epoch", "int", "0 opens a share session, -1 closes it", its("step.epoch")),
    Column(
        "expected",
        "array<int>",
        "epochs that the broker may have expected; 0: there was no session; null: unknown",
        made(_expected, "step"),
    ),
    Column("error_code", "smallint", "error code of the response as a whole", its("step.error_code")),
    Column(
        "outcome",
        "string",
        "opened, reopened, advanced, closed, overtaken, not found, wrong epoch, refused, unanswered",
        its("step.outcome"),
    ),
    Column("cause", "string", "cause of error 122 or 123, as in its finding", its("step.cause")),
)

_session_row: Final = SESSIONS.row_maker()
_step_row: Final = STEPS.row_maker()


def session_row(where: Where, listed: ListedSession) -> Row:
    """Return the row of a session in `sessions`; its packet and time are those of its first request."""
    session = listed.session
    return _session_row(where, listed.packet, listed.time_ns, listed.packet, session, session.opened, session.closed)


def step_row(where: Where, listed: ListedStep) -> Row:
    """Return the row of a request in `steps`."""
    step = listed.step
    return _step_row(where, step.packet, listed.time_ns, step.packet, listed, step, listed.session)
