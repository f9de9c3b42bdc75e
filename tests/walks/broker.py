"""Brokers' share sessions written a second time, from the KIP and from what real brokers did, not from kshark: what
they answer, and why.

A broker knows what no capture tells; kshark has to come to the same conclusions from the packets, or say that it
cannot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

NONE, NOT_FOUND, WRONG_EPOCH, NO_ROOM, UNKNOWN_ERROR = 0, 122, 123, 133, -1
HIGHEST: Final = 2**31 - 1

#: Group and member.
Key = tuple[str, str]


@dataclass(frozen=True)
class Request:
    """`early`: the error that it gets before any session is looked at. `twice`: it lists a partition twice."""

    connection: int
    fetch: bool
    epoch: int
    early: int | None = None
    twice: bool = False


@dataclass
class Session:
    """`last` was accepted last, `own` are the last epochs of fetches (True) and acknowledgements."""

    opening: Request
    due: int
    last: Request
    own: dict[bool, int]


@dataclass(frozen=True)
class Answer:
    """`causes` are the names that a refusal may be given, by the order in which they are looked for (KIP-932's session
    table)."""

    error: int
    causes: frozenset[str] = frozenset()


@dataclass
class Broker:
    """`room`: how many sessions it holds. `gone`: what took each session, or would have; `openers`: open connections
    that opened it."""

    release: str = "4.2"
    room: int = 2000
    sessions: dict[Key, Session] = field(default_factory=dict)
    gone: dict[Key, frozenset[str]] = field(default_factory=dict)
    openers: dict[Key, set[int]] = field(default_factory=dict)
    #: The connections of sessions that an older one took away.
    orphaned: dict[Key, int] = field(default_factory=dict)
    #: The last request of each member on each connection.
    before: dict[tuple[Key, int], Request] = field(default_factory=dict)

    def take(self, key: Key, request: Request) -> Answer:
        """It is the request's turn."""
        answer = self._answer(key, request)
        self.before[key, request.connection] = request
        return answer

    def _answer(self, key: Key, request: Request) -> Answer:
        if request.early is not None:
            return Answer(request.early)
        if request.epoch == 0:
            return self._open(key, request) if request.fetch else Answer(WRONG_EPOCH, frozenset({"ack_epoch_zero"}))
        session = self.sessions.get(key)
        if session is None:
            return Answer(
                NOT_FOUND,
                frozenset({"negative"}) if request.epoch < -1 else self.gone.get(key, frozenset({"never_opened"})),
            )
        if request.epoch == -1:
            self._drop(key, "final_epoch")
            return Answer(NONE)
        if request.epoch != session.due:
            return Answer(WRONG_EPOCH, self._miscounted(key, session, request))
        session.due = 1 if request.epoch == HIGHEST else request.epoch + 1
        session.last = request
        session.own[request.fetch] = request.epoch
        return Answer(NONE)

    def _open(self, key: Key, request: Request) -> Answer:
        """An old session is gone in any case."""
        self.sessions.pop(key, None)
        self.orphaned.pop(key, None)
        if request.twice:
            self.gone[key] = frozenset({"failed_reopen"})
            return Answer(UNKNOWN_ERROR)
        if len(self.sessions) >= self.room:
            self.gone[key] = frozenset({"session_limit"})
            return Answer(NO_ROOM)
        self.sessions[key] = Session(request, 1, request, {True: 0})
        self.openers.setdefault(key, set()).add(request.connection)
        return Answer(NONE)

    def _miscounted(self, key: Key, session: Session, request: Request) -> frozenset[str]:
        epoch, before = request.epoch, self.before.get((key, request.connection))
        if epoch < -1:
            return frozenset({"negative"})
        causes = (
            {"skip_ahead", "skip_after_timeout"}
            if epoch > session.due
            else {"replay" if epoch == session.due - 1 else "stale"}
        )
        if session.last.connection != request.connection:
            causes |= {"two_writers", "reopened_elsewhere"}
        if session.last.fetch is not request.fetch and session.own.get(request.fetch) == epoch - 1:
            causes.add("two_counters")
        if before is not None and before.early is not None and before.epoch == epoch - 1:
            causes.add("skip_after_error")
        return frozenset(causes)

    def _drop(self, key: Key, why: str) -> None:
        session = self.sessions.pop(key)
        self.gone[key] = frozenset({why})
        if why == "old_connection_closed":
            self.orphaned[key] = session.opening.connection

    def end(self, connection: int) -> None:
        """The broker notices the end of a connection; up to 4.1 an older one takes the new session away as well
        (KAFKA-19950)."""
        for key, openers in self.openers.items():
            session = self.sessions.get(key)
            if connection in openers and session is not None:
                own = session.opening.connection == connection
                if own or self.release == "4.1":
                    self._drop(key, "connection_closed" if own else "old_connection_closed")
            elif self.orphaned.get(key) == connection:
                self.gone[key] |= {"connection_closed"}
            openers.discard(connection)

    def restart(self) -> None:
        for key in self.orphaned:
            self.gone[key] |= {"connection_closed", "broker_restart"}
        for key in list(self.sessions):
            self._drop(key, "broker_restart")
        self.openers.clear()
