"""Share sessions and their requests, listed: when one was opened and how it ended, which epoch was due with a request,
what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

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
from kshark.model import Finding, Witness

#: Causes of a refusal that end a session, in the words for how it ended.
_HOW: Final = {
    "connection_closed": "connection_closed",
    "old_connection_closed": "connection_closed",
    "broker_restart": "broker_restart",
    "evicted": "evicted",
}

#: What was refused of most sessions.
_NONE: Final[dict[str, int]] = {}


class Moment(msgspec.Struct):
    """The packet with which something happened, and its time."""

    packet: int
    time_ns: int


class Closing(msgspec.Struct):
    """How a session ended: final_epoch, connection_closed, reopened, broker_restart, evicted; open: not as far as the
    capture shows."""

    packet: int
    time_ns: int
    how: str


class SessionStep(msgspec.Struct):
    """One request; `expected` is null where it is not known, 0 where there is no session, a list where several are
    possible.

    `cause`: of a refusal with 122 or 123, as in its finding.
    """

    packet: int
    api: str
    epoch: int
    expected: int | list[int] | None
    error_code: int | None
    outcome: str
    cause: str | None


class ShareSession(msgspec.Struct):
    """One share session; its fields, in this order, are the JSON line (`kshark sessions -T json`).

    `session` counts from 1 for each (broker, group, member). `opened` is null where no accepted epoch 0 was seen,
    `closed` where there was no session at all."""

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
    steps: list[SessionStep] | UnsetType = UNSET


class ListedStep(msgspec.Struct, gc=False):
    """A request in the order in which its session took it; `session` None: of none, as when it was refused before one
    was looked for.

    `time_ns` is the request's, `end_ns` that of the exchange's last packet.
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
    """A session that is over, and where its first request stands; `partitions`: of one that is still open, how many it
    holds."""

    flow: int
    packet: int
    time_ns: int
    client: str
    session: ShareSession
    partitions: int | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(ShareSession).decode

Listed = ListedStep | ListedSession
#: All that the analysis has to tell.
Told = Finding | Listed


class PackedSessions:
    """Takes what is listed; iterating gives the sessions that are over in the order in which they began, each with the
    steps listed of it, each time as new objects: the first limits.LISTED_SESSIONS of them, some 300 bytes each."""

    def __init__(self, listed: Iterable[Listed] = ()) -> None:
        self._packed = Packed()
        self.add(listed)

    def add(self, listed: Iterable[Listed]) -> None:
        for one in listed:
            if isinstance(one, ListedSession):
                if len(self) < limits.LISTED_SESSIONS:
                    self._packed.add(one.packet, _encode(one.session))
            elif (session := one.session) is not None:
                if isinstance(session.steps, UnsetType):
                    session.steps = []
                session.steps.append(one.step)

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[ShareSession]:
        return map(_decode, chain.from_iterable(self._packed.since(0)))


class Listing:
    """Of one (broker, group, member): tells `begun` of each session, and adds it to `sessions` when it is over, its
    requests to `steps`."""

    __slots__ = ("_begun", "_clients", "_current", "_ending", "_first", "_over", "_sessions", "_steps")

    def __init__(self, begun: Callable[[], None], sessions: list[Listed] | None, steps: list[Listed] | None) -> None:
        self._begun = begun
        self._over = sessions
        self._steps = steps
        self._current: ShareSession | None = None
        self._first: ListedSession | None = None
        #: The connection of the current one; all of them, if it was used on several.
        self._clients: int | set[int] = -1
        self._sessions = 0
        #: The opening connection's end: the session's too, unless it is used again.
        self._ending: Closing | None = None

    def step(self, now: SessionSituation, cause: str | None) -> None:
        """Takes a request; `cause`: why it was refused."""
        step = now.step
        opens = step.opens and _may_open(step)
        if opens:
            self._finish(self._unasked(now.session, step.packet) or Closing(step.end, step.end_ns, "reopened"))
        nowhere = self._current is None and not opens and (step.reply is REJECTED_EARLY or not step.is_named)
        session = None if nowhere else self._current or self._begin(step, opened=opens)
        if self._steps is not None:
            self._steps.append(_listed(step, session, _row(now, cause)))
        if session is None:
            return
        self._add(session, step)
        if step.kind is FINAL and step.is_counted:
            session.closed = Closing(step.end, step.end_ns, "final_epoch")
        elif step.reply is SESSION_NOT_FOUND and session.closed is None and session.accepted:
            session.closed = _found_by(now) or self._ending
        elif step.kind is SUBSEQUENT and (step.is_counted or step.reply is INVALID_EPOCH):
            self._ending = None

    def count(self, step: ShareStep) -> bool:
        """Takes the request that was due, accepted behind another on its connection; says whether there is a session to
        count it in."""
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
        """The capture is over."""
        last = session.alive
        still_open = None if last is None else Closing(last.end, last.end_ns, "open")
        closed = self._unasked(session, 1 << 62) or still_open
        held = session.in_flight.partitions
        if (
            self._first is not None
            and closed is still_open
            and self._current is not None
            and self._current.closed is None
        ):
            self._first.partitions = None if held is None else len(held)
        self._finish(closed)

    def _unasked(self, session: SessionState, before: int) -> Closing | None:
        """What ended the session before that packet without a request of its own: the first of its connection's end and
        a restart."""
        restart = None if session.alive is None else session.broker.restarted_between(session.alive.packet, before)
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
        if self._over is not None:
            self._first = ListedSession(
                step.connection.flow.id, step.packet, step.time_ns, step.connection.client, self._current
            )
        self._begun()
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
        if self._over is not None and self._first is not None:
            self._over.append(self._first)


def _may_open(step: ShareStep) -> bool:
    return step.is_counted or (step.reply is UNCLEAR and step.is_named)


def _found_by(now: SessionSituation) -> Closing | None:
    """What ended the session that a request did not find."""
    cause = now.end_cause
    return None if cause is None or cause.cause not in _HOW else Closing(cause.packet, cause.time_ns, _HOW[cause.cause])


def _listed(step: ShareStep, session: ShareSession | None, row: SessionStep) -> ListedStep:
    flow = step.connection.flow
    return ListedStep(
        step.witness, step.time_ns, step.end_ns, flow.broker, flow.client, step.group_id, step.member_id, session, row
    )


def _row(now: SessionSituation, cause: str | None) -> SessionStep:
    step, expected = now.step, sorted({state.due for state in now.met}) if now.met is not None else None
    error = step.answer.error if step.answer is not None else None
    shown = None if expected is None else expected[0] if len(expected) == 1 else expected
    return SessionStep(step.packet, step.api, step.epoch, shown, error, _outcome(now), cause)


def _outcome(now: SessionSituation) -> str:
    """opened, reopened, advanced, closed; overtaken; not found, wrong epoch; refused; unanswered."""
    step = now.step
    if now.overtaker is not None and step.reply is INVALID_EPOCH:
        return "overtaken"
    match step.reply:
        case Reply.UNANSWERED:
            return "unanswered"
        case Reply.SESSION_NOT_FOUND:
            return "not found"
        case Reply.INVALID_EPOCH:
            return "wrong epoch"
        case Reply.ACCEPTED | Reply.FAILED_LATER if step.kind is EpochKind.INITIAL:
            return "opened" if not now.session.is_open else "reopened"
        case Reply.ACCEPTED | Reply.FAILED_LATER:
            return "closed" if step.kind is EpochKind.FINAL else "advanced"
        case _:
            return "refused"
