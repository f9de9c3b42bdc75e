"""One member's share session at one broker, and what a request or the end of a connection makes of it.

The outcomes are the product's table (tests.broker.table); what stands here beside it was seen on brokers: which errors
come before the session is looked at, what a topic that does not exist does, which connections take a session with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.broker.table import ABSENT, ERROR_OF, SessionOutcome, due_after, outcome_of

SHARE_FETCH: Final = 78
UNKNOWN_SERVER_ERROR: Final = -1
INVALID_SHARE_SESSION_EPOCH: Final = 123
SHARE_SESSION_LIMIT_REACHED: Final = 133
#: Why there is no session after the end of an older connection: until 4.1 always, later where the end and a reopening
#: crossed.
OLD_CONNECTION_CLOSED: Final = "old_connection_closed"
RACED: Final = "old_connection_closed while the session was opened anew"
#: An opening takes the old session away before there is a new one, and another request may come in between.
REOPENING: Final = "the session was just being opened anew"
#: What a session expects of which nothing is known but that it is there and expects something else.
ANOTHER: Final = -9

EFFECTS: Final = {
    SessionOutcome.OPEN: "open",
    SessionOutcome.REOPEN: "open",
    SessionOutcome.ADVANCE: "advance",
    SessionOutcome.CLOSE: "close",
    SessionOutcome.NOT_FOUND: "refused",
    SessionOutcome.WRONG_EPOCH: "refused",
}


@dataclass(frozen=True)
class Request:
    """A request on its way.

    `early`: the error that it gets before any session is looked at; `unknown`: topics listed that do not exist, where
    fetches fail for that; `forgets`: topics forgotten; `twice`: an opening that lists a partition twice; `wait_ns`: how
    long the broker may hold it;
    `renews`: it asks for no records.
    """

    n: int
    port: int
    correlation_id: int
    api_key: int
    epoch: int
    sent_ns: int
    early: int | None = None
    unknown: frozenset[str] = frozenset()
    forgets: frozenset[str] = frozenset()
    twice: bool = False
    wait_ns: int = 0
    renews: bool = False


@dataclass(frozen=True)
class End:
    """The end of a connection, on its way to the broker; by `surely_ns` it has noticed. `waits`: several requests are
    in front."""

    port: int
    sent_ns: int
    surely_ns: int
    resets: bool
    waits: bool


@dataclass(frozen=True)
class Session:
    """The request that opened it, the epoch due, the last epoch of each kind of request, the topics in it that fetches
    fail for."""

    opening: Request | None
    due: int
    last_epochs: tuple[tuple[int, int], ...] = ()
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Turn:
    """What the broker did when it was a request's turn.

    `before` and `after` are the session; `gone` says why there was none. `previous`: the request of this session that
    had its turn before on the same connection; `last`: the last one that was accepted, on any; `overtook`: it was
    accepted after `previous`."""

    outcome: SessionOutcome | None
    before: Session | None
    after: Session | None
    gone: str
    previous: Request | None
    last: Request | None
    overtook: bool
    lost: bool

    @property
    def effect(self) -> str:
        if self.outcome is None:
            return "untouched"
        failed = self.outcome in (SessionOutcome.OPEN, SessionOutcome.REOPEN) and self.after is None
        return "failed" if failed else EFFECTS[self.outcome]


@dataclass(frozen=True)
class Taken:
    """A request that the broker has taken and not answered, as far as the client knows; `overtakers`: what was taken
    since then."""

    request: Request
    answers: frozenset[int]
    turn: Turn
    overtakers: tuple[Request, ...] = ()


@dataclass(frozen=True)
class State:
    """A possible state: the session, or why there is none, and what the broker has still to do.

    `killers`: connections whose end takes the session; `lost`: what is due is no longer known; `last`: the last request
    that was accepted; `here`: the last request of each connection, and whether one was accepted after it."""

    session: Session | None = None
    gone: str = "never_opened"
    killers: frozenset[int] = frozenset()
    queue: tuple[Request | End, ...] = ()
    taken: tuple[Taken, ...] = ()
    last: Request | None = None
    here: tuple[tuple[int, Request, bool], ...] = ()
    lost: bool = False

    @property
    def due(self) -> int:
        return ABSENT if self.session is None else self.session.due

    def without(self, item: Request) -> State:
        return replace(self, queue=tuple(other for other in self.queue if other is not item))


def take(state: State, request: Request, *, room: bool, older_kill: bool) -> Iterator[State]:
    """It is the request's turn: the states that are possible afterwards."""
    if request.early is not None:
        yield _turned(state, state, request, None, frozenset({request.early}))
        return
    for known in _as_known(state, request.epoch):
        outcome = outcome_of(request.api_key, request.epoch, known.due)
        if outcome in (SessionOutcome.OPEN, SessionOutcome.REOPEN):
            yield _opened(known, request, outcome, room=room, older_kill=older_kill)
        elif outcome is SessionOutcome.ADVANCE:
            yield _advanced(known, request)
        elif outcome is SessionOutcome.CLOSE:
            closed = replace(
                known, session=None, gone="final_epoch", killers=_still_killing(known, older_kill), lost=False
            )
            yield _turned(known, _checked(known, closed, outcome, 0, request), request, outcome, frozenset({0}))
        else:
            error = ERROR_OF[outcome]
            after = replace(known, gone="model_lost") if known.lost and known.session is None else known
            yield _turned(known, _checked(known, after, outcome, error, request), request, outcome, frozenset({error}))


def end(state: State, ending: End, *, older_kill: bool) -> Iterator[State]:
    """The broker notices the end of a connection."""
    after = replace(
        state,
        killers=state.killers - {ending.port},
        queue=tuple(item for item in state.queue if item.port != ending.port),
        taken=tuple(taken for taken in state.taken if taken.request.port != ending.port),
        here=tuple(row for row in state.here if row[0] != ending.port),
    )
    kills = state.session is not None and ending.port in state.killers
    if kills or state.lost:
        opening = state.session.opening if state.session is not None else None
        own = opening is not None and opening.port == ending.port
        yield replace(
            after, session=None, gone="connection_closed" if own else OLD_CONNECTION_CLOSED if older_kill else RACED
        )
    if not kills:
        yield after


def _as_known(state: State, epoch: int) -> list[State]:
    """The state; or, where it was lost, all that it may be as far as this epoch tells them apart."""
    if not state.lost:
        return [state]
    sessions = (None, Session(None, epoch) if epoch > 0 else None, Session(None, ANOTHER))
    return [replace(state, session=session) for session in dict.fromkeys(sessions)]


def _still_killing(state: State, older_kill: bool) -> frozenset[int]:
    """The connections that may take the member's next session too.

    Up to 4.1 all on which it ever opened one (KAFKA-19950); later one whose end the broker is just about to notice: it
    looks the session up, and removes what has taken its place meanwhile."""
    ending = {item.port for item in state.queue if isinstance(item, End)}
    return state.killers if older_kill else state.killers & ending


def _opened(state: State, request: Request, outcome: SessionOutcome, *, room: bool, older_kill: bool) -> State:
    """Epoch 0: the old session is gone in any case."""
    kept = _still_killing(state, older_kill)
    gone = replace(state, session=None, killers=kept, lost=False)
    if request.twice:
        failed = replace(gone, gone="failed_reopen")
        return _turned(
            state, _checked(state, failed, outcome, -1, request, failed=True), request, outcome, frozenset({-1})
        )
    if not room:
        refused = replace(gone, gone="session_limit")
        error = SHARE_SESSION_LIMIT_REACHED
        return _turned(state, _checked(state, refused, outcome, error, request), request, outcome, frozenset({error}))
    error = UNKNOWN_SERVER_ERROR if request.unknown else 0
    session = Session(request, 1, ((request.api_key, 0),), request.unknown)
    opened = replace(gone, session=session, killers=kept | {request.port})
    return _turned(state, _checked(state, opened, outcome, error, request), request, outcome, frozenset({error}))


def _advanced(state: State, request: Request) -> State:
    session = state.session
    assert session is not None
    fetches = request.api_key == SHARE_FETCH
    unknown = (session.unknown | request.unknown) - request.forgets if fetches else session.unknown
    error = UNKNOWN_SERVER_ERROR if fetches and unknown and not request.renews else 0
    (due,) = {due for due in due_after(SessionOutcome.ADVANCE, error, request.epoch, session.due) if due != session.due}
    epochs = {**dict(session.last_epochs), request.api_key: request.epoch}
    after = replace(state, session=Session(session.opening, due, tuple(sorted(epochs.items())), unknown))
    overtaken = tuple(_overtaken(taken, session, request) for taken in after.taken)
    return _turned(state, replace(after, taken=overtaken), request, SessionOutcome.ADVANCE, frozenset({error}))


def _overtaken(taken: Taken, session: Session, by: Request) -> Taken:
    """A fetch whose session moves on before it is answered may be answered 123 instead."""
    after = taken.turn.after
    if taken.request.api_key != SHARE_FETCH or after is None or after.opening != session.opening:
        return taken
    return replace(taken, answers=taken.answers | {INVALID_SHARE_SESSION_EPOCH}, overtakers=(*taken.overtakers, by))


def _checked(
    before: State, after: State, outcome: SessionOutcome, error: int, request: Request, *, failed: bool = False
) -> State:
    """What this model says comes after an answer has to be among what the product's table says."""
    assert after.due in due_after(outcome, error, request.epoch, before.due, failed=failed), (
        outcome,
        error,
        before.due,
        after.due,
    )
    return after


def _turned(
    before: State, after: State, request: Request, outcome: SessionOutcome | None, answers: frozenset[int]
) -> State:
    """Writes down the turn that led from one state to the other."""
    previous, overtook = next(
        ((seen, later) for port, seen, later in before.here if port == request.port), (None, False)
    )
    turn = Turn(outcome, before.session, after.session, before.gone, previous, before.last, overtook, before.lost)
    accepted = outcome is SessionOutcome.CLOSE or (
        after.session is not None and outcome in (SessionOutcome.OPEN, SessionOutcome.REOPEN, SessionOutcome.ADVANCE)
    )
    others = [(port, seen, later or accepted) for port, seen, later in before.here if port != request.port]
    answerable = not any(isinstance(item, End) and item.port == request.port for item in before.queue)
    return replace(
        after,
        taken=(*after.taken, Taken(request, answers, turn)) if answerable else after.taken,
        last=request if accepted else before.last,
        here=tuple(sorted([*others, (request.port, request, False)], key=lambda row: row[0])),
    )
