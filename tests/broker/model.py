"""A model of a broker's share sessions: it says what each request will be answered before the answer comes.

In which order a broker did things cannot always be known: requests cross on two connections, the end of a connection is
noticed late. So each session is a set of possible states. An answer leaves those that foretold it; when none is left,
the model was surprised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tests.broker.releases import Release
from tests.broker.state import REOPENING, SHARE_FETCH, End, Request, Session, State, Turn, end, take
from tests.broker.table import SessionOutcome, dies_with_older_connection, next_epoch

#: More possible states of one session than this, and the model has lost it.
MOST: Final = 500
#: By then the broker has surely noticed the end of a connection on which it has nothing left to answer.
NOTICED_NS: Final = 750_000_000
#: By then it has surely been the turn of a request that nothing on its connection was in front of.
TURN_NS: Final = 1_500_000_000
#: What was sent longer ago than this when its connection was reset has surely been read.
READ_NS: Final = 200_000_000

Key = tuple[str | None, str | None]


@dataclass(frozen=True)
class Prediction:
    """What was foretold of an answer that has come, and the turns that agree with it; none: a surprise."""

    answers: frozenset[int]
    turns: tuple[Turn, ...]
    overtakers: frozenset[Request]


@dataclass
class Model:
    """The share sessions of one broker, by group and member; `room`: how many it holds at once."""

    release: Release
    room: int = 2000
    states: dict[Key, frozenset[State]] = field(default_factory=dict)

    def sent(self, key: Key, request: Request) -> None:
        """A request is on its way."""
        self.states[key] = frozenset(replace(state, queue=(*state.queue, request)) for state in self._known(key))

    def foretold(self, key: Key, request: Request, now_ns: int) -> frozenset[int]:
        """The answers that are possible now."""
        possible = self.possible(key, now_ns)
        return frozenset(
            answer
            for state in possible
            for taken in state.taken
            if taken.request == request
            for answer in taken.answers
        )

    def answered(self, key: Key, request: Request, error: int, now_ns: int) -> Prediction:
        """The answer has come."""
        foretold: set[int] = set()
        kept: dict[State, None] = {}
        agreeing = []
        for state in self.possible(key, now_ns):
            taken = next((taken for taken in state.taken if taken.request == request), None)
            if taken is not None:
                foretold |= taken.answers
                if error in taken.answers:
                    kept[replace(state, taken=tuple(other for other in state.taken if other is not taken))] = None
                    agreeing.append(taken)
        if not kept:
            kept = {_from_answer(state, request, error): None for state in self._known(key)}
        self.states[key] = frozenset(kept)
        turns = tuple(dict.fromkeys(taken.turn for taken in agreeing))
        self._tell_others(key, request, turns, now_ns)
        return Prediction(frozenset(foretold), turns, frozenset(by for taken in agreeing for by in taken.overtakers))

    def ended(self, port: int, outstanding: Iterable[tuple[Key, Request]], *, resets: bool, now_ns: int) -> None:
        """A connection has been ended, on which these requests were not answered."""
        rows = list(outstanding)
        longest = max((request.wait_ns for _, request in rows), default=0)
        ending = End(port, now_ns, now_ns + longest + NOTICED_NS, resets, len(rows) > 1)
        for key, request in rows:
            if request.api_key == SHARE_FETCH and request.epoch == 0:
                self._taken_over(key, port, now_ns, certain=False)
        for key, states in self.states.items():
            if any(_matters(port, state) for state in states):
                self.states[key] = frozenset(_with_end(state, ending) for state in states)

    def restarted(self, now_ns: int) -> None:
        """The broker went down: no session and no connection is left."""
        for key in list(self.states):
            before = self.possible(key, now_ns)
            self.states[key] = frozenset(
                State(gone=state.gone if state.session is None else "broker_restart", last=state.last)
                for state in before
            )

    def dues(self, key: Key, now_ns: int) -> frozenset[int]:
        """The epochs that may be due, ABSENT for no session."""
        return frozenset(state.due for state in self.possible(key, now_ns))

    def possible(self, key: Key, now_ns: int) -> frozenset[State]:
        """The states after whatever the broker may have done by now, without those in which it has not done what it
        must have."""
        rooms = self._rooms(key)
        known = self._known(key)
        found = self._reached(known, rooms)
        if len(found) > MOST:
            some = next(iter(known))
            requests = tuple(item for item in some.queue if isinstance(item, Request))
            found = self._reached([State(lost=True, gone="model_lost", queue=requests, taken=some.taken)], rooms)
        return frozenset(state for state in found if not _is_late(state, now_ns))

    def _reached(self, start: Iterable[State], rooms: tuple[bool, ...]) -> dict[State, None]:
        found: dict[State, None] = {}
        todo = list(start)
        while todo and len(found) <= MOST:
            state = todo.pop()
            if state not in found:
                found[state] = None
                todo.extend(self._next(state, rooms))
        return found

    def _known(self, key: Key) -> frozenset[State]:
        return self.states.setdefault(key, frozenset({State()}))

    def _next(self, state: State, rooms: tuple[bool, ...]) -> Iterator[State]:
        """One thing further: a connection's first request has its turn, or its end is noticed."""
        older_kill = dies_with_older_connection(self.release.line)
        for port in {item.port for item in state.queue}:
            items = [item for item in state.queue if item.port == port]
            first, ending = items[0], items[-1]
            if isinstance(first, Request):
                for room in rooms:
                    yield from take(state.without(first), first, room=room, older_kill=older_kill)
                if _is_raced(first, state):
                    yield replace(state, session=None, gone=REOPENING)
            if isinstance(ending, End) and _may_be_noticed(items, ending):
                yield from end(state, ending, older_kill=older_kill)

    def _rooms(self, key: Key) -> tuple[bool, ...]:
        """Whether there is room for one more session beside those of the others: yes, no, or both are possible."""
        others = [states for other, states in self.states.items() if other != key]
        least = sum(all(state.session is not None and not state.queue for state in states) for states in others)
        most = sum(any(state.session is not None or state.queue or state.lost for state in states) for states in others)
        return tuple(dict.fromkeys((most < self.room, least < self.room)))

    def _tell_others(self, key: Key, request: Request, turns: tuple[Turn, ...], now_ns: int) -> None:
        """A connection takes the session with it that was opened on it last, of whatever member; and from 4.2 on none
        when a session that was opened on it has been closed or replaced since."""
        opened = [
            turn.after is not None and turn.outcome in (SessionOutcome.OPEN, SessionOutcome.REOPEN) for turn in turns
        ]
        if any(opened):
            self._taken_over(key, request.port, now_ns, certain=all(opened))
        if dies_with_older_connection(self.release.line):
            return
        ended = [
            turn.before.opening
            for turn in turns
            if turn.before is not None and turn.outcome in (SessionOutcome.REOPEN, SessionOutcome.CLOSE)
        ]
        for port in {opening.port for opening in ended if opening is not None}:
            self._taken_over(key, port, now_ns, certain=len(ended) == len(turns) and len(set(ended)) == 1)

    def _taken_over(self, by: Key, port: int, now_ns: int, *, certain: bool) -> None:
        """The end of that connection no longer takes the sessions of others with it, unless it has been noticed
        already."""
        for key, known in self.states.items():
            if key != by and any(port in state.killers for state in known):
                states = self.possible(key, now_ns)
                spared = frozenset(replace(state, killers=state.killers - {port}) for state in states)
                self.states[key] = spared if certain else spared | states


def _is_late(state: State, now_ns: int) -> bool:
    """Whether something should have happened by now that has not in that state."""
    waited_for = {taken.request.port for taken in state.taken}
    for item in state.queue:
        if isinstance(item, End):
            late = item.surely_ns < now_ns
        else:
            late = item.port not in waited_for and item.sent_ns + TURN_NS < now_ns
        if late:
            return True
        waited_for.add(item.port)
    return False


def _with_end(state: State, ending: End) -> State:
    """Nobody will see the answers to what was taken on that connection."""
    taken = tuple(taken for taken in state.taken if taken.request.port != ending.port)
    return replace(state, queue=(*state.queue, ending), taken=taken)


def _is_raced(request: Request, state: State) -> bool:
    """Whether it opens the session anew while a request is on its way on another connection."""
    others = any(isinstance(item, Request) and item.port != request.port for item in state.queue)
    return (
        others
        and state.session is not None
        and request.api_key == SHARE_FETCH
        and request.epoch == 0
        and request.early is None
    )


def _matters(port: int, state: State) -> bool:
    return (
        state.lost
        or port in state.killers
        or any(item.port == port for item in (*state.queue, *(t.request for t in state.taken)))
    )


def _may_be_noticed(items: list[Request | End], ending: End) -> bool:
    """A connection's end comes behind what was sent on it; a reset, or an end behind requests that had to wait, may
    throw those away."""
    ahead = [item for item in items if item is not ending]
    if not ahead:
        return True
    return len(ahead) > 1 or ending.waits or (ending.resets and ending.sent_ns - ahead[0].sent_ns < READ_NS)


def _from_answer(state: State, request: Request, error: int) -> State:
    """After a surprise: what the exchange proves by itself."""
    kept = replace(
        state,
        queue=tuple(item for item in state.queue if item.port != request.port or item.sent_ns > request.sent_ns),
        taken=tuple(taken for taken in state.taken if taken.request != request),
    )
    if request.api_key == SHARE_FETCH and request.epoch == 0 and error == 0:
        return replace(kept, session=Session(request, 1), killers=kept.killers | {request.port}, lost=False)
    if error == 0 and request.epoch > 0:
        return replace(kept, session=Session(None, next_epoch(request.epoch)), lost=True)
    return replace(kept, session=None, gone="model_lost", lost=error != 122)
