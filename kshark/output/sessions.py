"""Share sessions as text: a row for each, and on request its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from kshark.analysis import SessionStep, ShareSession
from kshark.error_names import ERROR_NAMES
from kshark.output.spans import API, DIM, ERROR, GOOD, LABEL, PLAIN, VALUE, WARN, Line, Span
from kshark.output.text_table import Cell, Column, table
from kshark.units import clock, counted, duration, number, safe

#: Styles of a session's end; ends that no request caused are highlighted.
_ENDS: Final = {"final_epoch": GOOD, "open": PLAIN, "reopened": PLAIN}
_OUTCOMES: Final = {
    "not found": ERROR,
    "wrong epoch": ERROR,
    "overtaken": ERROR,
    "refused": ERROR,
    "unanswered": WARN,
    "reopened": WARN,
}

_COLUMNS: Final = (
    Column("group", elastic=12),
    Column("member", elastic=8),
    Column("broker", drop=4),
    Column("#", right=True),
    Column("opened"),
    Column("lasted", right=True, drop=2),
    Column("ended"),
    Column("epochs", right=True),
    Column("requests", right=True, drop=3),
    Column("refused", elastic=15),
    Column("conns", right=True, drop=1),
)


class _Rows:
    """The rows of sessions, made anew in each iteration: there may be very many."""

    def __init__(self, sessions: Iterable[ShareSession]) -> None:
        self._sessions = sessions

    def __iter__(self) -> Iterator[list[Cell]]:
        return map(_row, self._sessions)


def session_lines(sessions: Iterable[ShareSession], width: int | None) -> Iterator[Line]:
    """Return the table; nothing without sessions. Iterates over the sessions several times."""
    if any(True for _ in sessions):
        yield from table(_COLUMNS, _Rows(sessions), width)


def steps_lines(session: ShareSession, width: int | None) -> Iterator[Line]:
    """Return a session's head, a row for each of its requests, and an empty line."""
    yield [
        ("group ", LABEL),
        (_name(session.group_id), VALUE),
        ("  member ", LABEL),
        (_name(session.member_id), VALUE),
        ("  broker ", LABEL),
        (session.broker, VALUE),
        (f"  session {session.session}", API),
    ]
    ended: Line = [("  ended ", LABEL), _ended(session)] if session.closed is not None else []
    yield [
        ("  opened ", LABEL),
        (_opened(session), VALUE),
        *ended,
        (f"  {counted(session.requests, 'request')}, {number(session.accepted)} accepted", DIM),
    ]
    if session.steps is not None:
        yield from table(_STEPS, [_step(step) for step in session.steps], width, indent=2)
    yield []


def total_line(sessions: Iterable[ShareSession]) -> Line:
    """Return `12 sessions: 7 final_epoch, 5 open; 2 requests refused`."""
    ends: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for session in sessions:
        ends[session.closed.how if session.closed is not None else "never opened"] += 1
        refused.update(session.rejected)
    end_counts = ", ".join(f"{number(count)} {how}" for how, count in ends.most_common())
    line: Line = [(counted(sum(ends.values()), "session"), API), (f": {end_counts}" if end_counts else "", PLAIN)]
    if refused:
        line.append((f"; {counted(sum(refused.values()), 'request')} refused ({_codes(refused)})", ERROR))
    return line


def _row(session: ShareSession) -> list[Cell]:
    opened, closed = session.opened, session.closed
    lasted = duration(closed.time_ns - opened.time_ns) if opened is not None and closed is not None else ""
    epochs = str(session.first_epoch) if session.requests == 1 else f"{session.first_epoch} to {session.last_epoch}"
    return [
        _name(session.group_id),
        _name(session.member_id),
        session.broker,
        str(session.session),
        [(_opened(session), PLAIN if opened is not None else DIM)],
        lasted,
        [_ended(session)],
        epochs,
        number(session.requests),
        [(_codes(session.rejected), ERROR)],
        number(session.connections),
    ]


def _name(text: str | None) -> str:
    return "null" if text is None else safe(text)


def _opened(session: ShareSession) -> str:
    if session.opened is not None:
        return clock(session.opened.time_ns, 3)
    return "earlier" if session.closed is not None else "never"


def _ended(session: ShareSession) -> Span:
    how = session.closed.how if session.closed is not None else ""
    return how, _ENDS.get(how, WARN)


def _codes(rejected: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{code} ×{number(count)}" for code, count in rejected.items())


_STEPS: Final = (
    Column("packet", right=True),
    Column("request"),
    Column("epoch", right=True),
    Column("expected", right=True),
    Column("outcome"),
    Column("error", elastic=20),
)


def _step(step: SessionStep) -> list[Cell]:
    expected = step.expected
    due = "?" if expected is None else " or ".join(map(str, expected)) if isinstance(expected, list) else str(expected)
    error = step.error_code
    return [
        str(step.packet),
        step.api,
        str(step.epoch),
        [(due, DIM)],
        [(step.outcome, _OUTCOMES.get(step.outcome, PLAIN))],
        [(f"{error} {ERROR_NAMES.get(error, '')}".rstrip() if error else "", ERROR)],
    ]
