"""Lists of share sessions and their requests: when a session was opened, how it ended, which epoch was expected with
each request, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec

from kshark import limits
from kshark.analysis.facts.brokers import End
from kshark.analysis.facts.calls import (
    ACCEPTED,
    FINAL,
    INVALID_EPOCH,
    REJECTED_EARLY,
    SESSION_NOT_FOUND,
    SUBSEQUENT,
    UNCLEAR,
    EpochKind,
    Reply,
    ShareStep,
)
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.releases import agreed
from kshark.analysis.results.packed import Packed
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.session.state import SessionState
from kshark.model import Finding, Shown, Witness

#: Closing.how by the cause of a refusal that shows the end of a session.
_HOW: Final = {
    "connection_closed": "connection_closed",
    "old_connection_closed": "connection_closed",
    "broker_restart": "broker_restart",
    "evicted": "evicted",
}

#: ShareSession.rejected of most sessions.
_NONE: Final[dict[str, int]] = {}


class Moment(msgspec.Struct):
    """The packet of an event, and its time."""

    packet: int
    time_ns: int


class Closing(msgspec.Struct):
    """The end of a session: final_epoch, connection_closed, reopened, broker_restart, evicted; or open, if the capture
    shows no end."""

    packet: int
    time_ns: int
    how: str


class SessionStep(msgspec.Struct):
    """One request. `expected` is the expected epoch: null if unknown, 0 without a session, a list if several are
    possible.

    `cause`: the cause of a refusal with error 122 or 123, as in its finding.
    """

    packet: int
    api: str
    epoch: int
    expected: int | list[int] | None
    error_code: int | None
    outcome: str
    cause: str | None


class ShareSession(Shown, omit_defaults=True):
    """One share session; its fields, in this order, are the JSON line (`kshark sessions -T json`).

    `session` counts from 1 for each (broker, group, member). `opened` is null if the capture shows no accepted epoch 0,
    `closed` if there was no session."""

    broker: str
    group_id: str | None
    member_id: str | None
    session: int
    opened: Moment | None
    closed: Closing | None
    first_epoch: int
    last_epoch: int
    requests: int
    accepted: int
    rejected: dict[str, int]
    connections: int
    steps: list[SessionStep] | None = None

    def __repr__(self) -> str:
        end = "not opened" if self.closed is None else self.closed.how
        epochs = f"epochs {self.first_epoch} to {self.last_epoch}"
        return f"<ShareSession group {self.group_id!r}, member {self.member_id!r}, {self.broker}, {epochs}, {end}>"


class ListedStep(msgspec.Struct, gc=False):
    """A request, in the order in which its session processed it. `session` is None if it belongs to none: for example,
    it was refused before the broker looked for a session.

    `time_ns`: time of the request. `end_ns`: time of the exchange's last packet.
    """

    witness: Witness
    time_ns: int
    end_ns: int
    broker: str
    client: str
    group_id: str | None
    member_id: str | None
    session: ShareSession | None
    step: SessionStep


class ListedSession(msgspec.Struct, gc=False):
    """A session that ended, or is open at the end of the capture, with the position of its first request. `partitions`:
    the number of partitions in an open session."""

    flow: int
    packet: int
    time_ns: int
    client: str
    session: ShareSession
    partitions: int | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(ShareSession).decode

Listed = ListedStep | ListedSession
#: Every result that the analysis returns.
AnalysisResult = Finding | Listed


class PackedSessions:
    """Collect listed results. Iterate to get the sessions that ended in the order in which they began, with their
    listed steps, each time as new objects: the first limits.LISTED_SESSIONS of them, about 300 bytes each."""

    def __init__(self, listed: Iterable[Listed] = ()) -> None:
        self._packed = Packed()
        self.add(listed)

    def add(self, listed: Iterable[Listed]) -> None:
        for row in listed:
            if isinstance(row, ListedSession):
                if len(self) < limits.LISTED_SESSIONS:
                    self._packed.add(row.packet, _encode(row.session))
            elif (session := row.session) is not None:
                if session.steps is None:
                    session.steps = []
                session.steps.append(row.step)

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[ShareSession]:
        return map(_decode, chain.from_iterable(self._packed.since(0)))


class Listing:
    """List the sessions of one (broker, group, member): call `begun` with the first request of each session, and true
    if that certainly opened it; append it to `sessions` when it
    is over, and its requests to `steps`."""

    __slots__ = (
        "_begun",
        "_clients",
        "_current",
        "_ended_sessions",
        "_ending",
        "_listed_session",
        "_sessions",
        "_steps",
    )

    def __init__(
        self, begun: Callable[[ShareStep, bool], None], sessions: list[Listed] | None, steps: list[Listed] | None
    ) -> None:
        self._begun = begun
        self._ended_sessions = sessions
        self._steps = steps
        self._current: ShareSession | None = None
        self._listed_session: ListedSession | None = None
        #: The flow of the current session's connection; the set of all, if it used several.
        self._clients: int | set[int] = -1
        self._sessions = 0
        #: The end of the opening connection. It ends the session, unless the session is used again.
        self._ending: Closing | None = None

    def step(self, situation: SessionSituation, cause: str | None) -> None:
        """Take a request. `cause`: the cause of its refusal."""
        step = situation.step
        opens = step.opens and _may_open(step)
        if opens:
            self._finish(
                self._ended_without_request(situation.session, step.packet)
                or Closing(step.end, step.end_ns, "reopened")
            )
        has_no_session = self._current is None and not opens and (step.reply is REJECTED_EARLY or not step.is_named)
        session = None if has_no_session else self._current or self._begin(step, opened=opens)
        if self._steps is not None:
            self._steps.append(_listed(step, session, _row(situation, cause)))
        if session is None:
            return
        self._add(session, step)
        if step.kind is FINAL and step.is_counted:
            session.closed = Closing(step.end, step.end_ns, "final_epoch")
        elif step.reply is SESSION_NOT_FOUND and session.closed is None and session.accepted:
            session.closed = _ended_before(situation) or self._ending
        elif step.kind is SUBSEQUENT and (step.is_counted or step.reply is INVALID_EPOCH):
            self._ending = None

    def count(self, step: ShareStep) -> bool:
        """Count an accepted request with the expected epoch on the session's connection. False if there is no session
        to count it in."""
        session = self._current
        if session is None:
            return False
        if self._steps is not None:
            self._steps.append(
                _listed(step, session, SessionStep(step.packet, step.api, step.epoch, step.epoch, 0, "advanced", None))
            )
        session.requests += 1
        session.accepted += 1
        session.last_epoch = step.epoch
        self._ending = None
        return True

    def connection_ended(self, connection: ConnectionFacts, end: End, session: SessionState) -> None:
        opening = session.opening
        if (
            opening is not None
            and opening.connection is connection
            and agreed(session.releases, "dies_with_connection") is not False
        ):
            self._ending = Closing(end.packet, end.time_ns, "connection_closed")

    def end(self, session: SessionState) -> None:
        """End the last session at the end of the capture."""
        last = session.alive
        still_open = None if last is None else Closing(last.end, last.end_ns, "open")
        closed = self._ended_without_request(session, 1 << 62) or still_open
        held = session.in_flight.partitions
        if (
            self._listed_session is not None
            and closed is still_open
            and self._current is not None
            and self._current.closed is None
        ):
            self._listed_session.partitions = None if held is None else len(held)
        self._finish(closed)

    def _ended_without_request(self, session: SessionState, before_packet: int) -> Closing | None:
        """Return what ended the session before a packet without a request: its connection's end or a restart, whichever
        came first."""
        restart = (
            None if session.alive is None else session.broker.restarted_between(session.alive.packet, before_packet)
        )
        if restart is None or (self._ending is not None and self._ending.packet < restart.since):
            return self._ending
        return Closing(restart.packet, restart.time_ns, "broker_restart")

    def _begin(self, step: ShareStep, *, opened: bool) -> ShareSession:
        self._sessions += 1
        self._clients = step.connection.flow.id
        self._ending = None
        self._current = ShareSession(
            broker=step.connection.flow.broker,
            group_id=step.group_id,
            member_id=step.member_id,
            session=self._sessions,
            opened=Moment(step.end, step.end_ns) if opened else None,
            closed=None,
            first_epoch=step.epoch,
            last_epoch=step.epoch,
            requests=0,
            accepted=0,
            rejected=_NONE,
            connections=0,
        )
        if self._ended_sessions is not None:
            self._listed_session = ListedSession(
                step.connection.flow.id, step.packet, step.time_ns, step.connection.client, self._current
            )
        self._begun(step, opened and step.is_counted)
        return self._current

    def _add(self, session: ShareSession, step: ShareStep) -> None:
        session.requests += 1
        session.last_epoch = step.epoch
        if step.reply is ACCEPTED:
            session.accepted += 1
        elif step.answer is not None and step.answer.error:
            code = str(step.answer.error)
            session.rejected = {**session.rejected, code: session.rejected.get(code, 0) + 1}
        flow = step.connection.flow.id
        if isinstance(self._clients, set):
            self._clients.add(flow)
        elif self._clients != flow:
            self._clients = {self._clients, flow}
        session.connections = 1 if isinstance(self._clients, int) else len(self._clients)

    def _finish(self, closed: Closing | None) -> None:
        session, self._current = self._current, None
        if session is None:
            return
        if session.closed is None and (session.accepted or session.opened):
            session.closed = closed
        if self._ended_sessions is not None and self._listed_session is not None:
            self._ended_sessions.append(self._listed_session)


def _may_open(step: ShareStep) -> bool:
    return step.is_counted or (step.reply is UNCLEAR and step.is_named)


def _ended_before(situation: SessionSituation) -> Closing | None:
    """Return the end of a session that a request did not find."""
    cause = situation.end_cause
    return None if cause is None or cause.cause not in _HOW else Closing(cause.packet, cause.time_ns, _HOW[cause.cause])


def _listed(step: ShareStep, session: ShareSession | None, row: SessionStep) -> ListedStep:
    flow = step.connection.flow
    return ListedStep(
        step.witness, step.time_ns, step.end_ns, flow.broker, flow.client, step.group_id, step.member_id, session, row
    )


def _row(situation: SessionSituation, cause: str | None) -> SessionStep:
    step = situation.step
    expected = None if situation.met is None else sorted({state.due for state in situation.met})
    error = step.answer.error if step.answer is not None else None
    shown = None if expected is None else expected[0] if len(expected) == 1 else expected
    return SessionStep(step.packet, step.api, step.epoch, shown, error, _outcome(situation), cause)


def _outcome(situation: SessionSituation) -> str:
    """Return a word: opened, reopened, advanced, closed, overtaken, not found, wrong epoch, refused, unanswered."""
    step = situation.step
    if situation.overtaker is not None and step.reply is INVALID_EPOCH:
        return "overtaken"
    match step.reply:
        case Reply.UNANSWERED:
            return "unanswered"
        case Reply.SESSION_NOT_FOUND:
            return "not found"
        case Reply.INVALID_EPOCH:
            return "wrong epoch"
        case Reply.ACCEPTED | Reply.FAILED_LATER if step.kind is EpochKind.INITIAL:
            return "opened" if not situation.session.is_open else "reopened"
        case Reply.ACCEPTED | Reply.FAILED_LATER:
            return "closed" if step.kind is EpochKind.FINAL else "advanced"
        case _:
            return "refused"
