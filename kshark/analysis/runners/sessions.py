"""The queue of steps of one share session, in front of the Runner: one for each (broker, group, member).

A step waits until all steps before it have their answers, and also all that were sent before its own answer. So a long
poll, pipelined requests and an overtaken fetch leave the queue in the order in which the broker processed them. Then
the rules look at the step, and the session's state takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.brokers import Broker, End
from kshark.analysis.facts.calls import NOTHING, Answer, ShareStep
from kshark.analysis.facts.connections import ConnectionFacts, Owner
from kshark.analysis.facts.judge import NOTE
from kshark.analysis.rules import connections
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.session.copies import CopiedConnection, passed_on
from kshark.analysis.states.session.plain import advance, is_plain
from kshark.analysis.states.session.possible import conclude, situation
from kshark.analysis.states.session.situation import SessionEnd, SessionSituation
from kshark.analysis.states.session.state import SessionState


class SessionLog(Protocol):
    """Take the steps of a session for lists of sessions and requests (kshark.analysis.results.sessions)."""

    def count(self, step: ShareStep) -> bool:
        """Take a step of the fast path. False if it must be listed with its situation."""

    def step(self, situation: SessionSituation, cause: str | None) -> None: ...

    def connection_ended(self, connection: ConnectionFacts, end: End, session: SessionState) -> None: ...

    def end(self, session: SessionState) -> None: ...


class ConnectionEnded(Struct, frozen=True):
    """A connection of the session ended."""

    packet: int
    connection: ConnectionFacts
    end: End


class SightLost(Struct, frozen=True):
    """Something was not captured, or is unreliable."""

    packet: int
    doubt: str


class SessionQueue:
    """Take the steps of a session with `ask`, `answer` and `ended`. `settle` returns the verdicts that need no further
    answer, `close` the rest.

    `ask` and `answer`, which are called most, settle at once. `copied_connections` carry the same requests as another
    connection; their steps are not judged again."""

    __slots__ = ("_queue", "_runner", "copied_connections", "listing", "owner", "state")

    def __init__(self, runner: Runner, state: SessionState, listing: SessionLog, owner: Owner) -> None:
        self._runner = runner
        self.state = state
        self.listing = listing
        self._queue: list[ShareStep | ConnectionEnded | SightLost] = []
        self.owner = owner
        self.copied_connections: dict[ConnectionFacts, CopiedConnection] = NOTHING

    # -- input

    def ask(self, step: ShareStep) -> Sequence[Verdict]:
        """Take a request; `answer` completes its step later."""
        if step.connection in self.copied_connections:
            if self.copied_connections[step.connection].count_request():
                return ()
            del self.copied_connections[step.connection]
        if self.state.unread_on:
            self._look_up_unread()
        self._queue.append(step)
        step.connection.used_by(self)
        return self.settle() if len(self._queue) > limits.WAITING_STEPS else ()

    def answer(self, step: ShareStep, answer: Answer | None) -> Sequence[Verdict]:
        """Take the answer to a request; None: there will be none."""
        if not step.settled and step.connection not in self.copied_connections:
            step.settle(answer)
            queue = self._queue
            if len(queue) > 1:
                if (original := passed_on(step, self._steps())) is not None:
                    return [*self.mark_copied(step, answer, original), *self.settle()]
                self._overtake(step)
            elif queue and queue[0] is step and not self._runner.waits(self.state) and self._advances_plainly(step, ()):
                queue.clear()  # the usual case: nothing else waits
                return ()
        return self.settle()

    def _advances_plainly(self, step: ShareStep, later: Sequence[ShareStep]) -> bool:
        """Advance the state by the fast path. False if the step needs the rules."""
        session, runner = self.state, self._runner
        if (
            runner.exact
            or not is_plain(session, step, later)
            or runner.book.is_triggered(session, step)
            or not self.listing.count(step)
        ):
            return False
        if runner.counter is not None:
            runner.counter.plain(session, step)
        advance(session, step)
        return True

    def mark_copied(self, step: ShareStep, answer: Answer | None, original: ShareStep) -> Sequence[Verdict]:
        """Mark the step's connection as a copy of another one, which carried the same request as `original`."""
        if not step.settled:
            step.settle(answer)
        connection = step.connection
        self.copied_connections = {**self.copied_connections, connection: CopiedConnection(original.connection)}
        self._queue = [
            item for item in self._queue if not isinstance(item, ShareStep) or item.connection is not connection
        ]
        connection.leave(self)
        first = f"{original.story} on {original.connection.name}"
        text = f"{first}; {step.story} on {connection.name}, with the same answer"
        return (Verdict(connections.SEEN_TWICE, Argument(text, (original, step), EXCHANGE), NOTE),)

    def _overtake(self, step: ShareStep) -> None:
        """Move requests that were pipelined after a request: the broker processes them only after its answer."""
        if self.state.unread_on:
            self._look_up_unread()
        pipelined = [item for item in self._steps() if item.connection is step.connection and item.packet > step.packet]
        for item in pipelined:
            item.arrival = max(item.arrival, step.end)
        if pipelined:
            self._queue.sort(key=_turn)

    def ended(self, connection: ConnectionFacts, end: End) -> None:
        if self.copied_connections:
            self.copied_connections = {
                copied: echo for copied, echo in self.copied_connections.items() if connection not in (copied, echo.of)
            } or NOTHING
        self._queue.append(ConnectionEnded(end.packet, connection, end))

    def blind(self, packet: int, doubt: str) -> None:
        """Mark the session's state as unreliable from a packet on."""
        if self._queue and isinstance(self._queue[-1], SightLost):
            del self._queue[-1]  # the last of several is enough
        self._queue.append(SightLost(packet, doubt))
        self.state.unread = packet

    def lost_on(self, connection: ConnectionFacts) -> None:
        self.blind(connection.last_unread, "cut")
        self.state.unread_on.append(connection)
        self.state.member.listed = None

    def _look_up_unread(self) -> None:
        """Take the last unreadable request from its connections, and register for the next one there."""
        state = self.state
        state.unread = state.last_unread
        for connection in state.unread_on:
            if connection.users.get(self.owner) is self:
                connection.used_by(self)
        state.unread_on.clear()

    # -- verdicts

    def settle(self) -> Sequence[Verdict]:
        """Return the verdicts of all steps that wait for no answer. Beyond limits.WAITING_STEPS the first step stops
        waiting."""
        verdicts: list[Verdict] = []
        queue = self._queue
        while queue:
            head = queue[0]
            if isinstance(head, ShareStep):
                if len(queue) > 1 or not head.settled:
                    if len(queue) > limits.WAITING_STEPS:
                        self._give_up_waiting(head)
                    elif self._has_to_wait(head):
                        break
                del queue[0]
                later = [item for item in self._steps() if item.packet < head.end] if queue else ()
                if not self._advances_plainly(head, later):
                    self._judge(head, later, verdicts)
            else:
                del queue[0]
                self._apply(head, verdicts)
        if self._runner.waits(self.state):
            verdicts += self._runner.prove(self.state)
            self._note_waiting()
        return verdicts

    def _note_waiting(self) -> None:
        """Tell the member whether its next heartbeat may prove something for this session."""
        state = self.state
        if self._runner.waits(state):
            state.member.waiting[state.broker] = None
        else:
            state.member.waiting.pop(state.broker, None)

    def close(self) -> Sequence[Verdict]:
        """End the session. Steps without an answer get none."""
        for step in self._steps():
            step.settled = True
        verdicts = [*self.settle(), *self._runner.end(self.state)]
        self._note_waiting()
        self.listing.end(self.state)
        for trace in self.state.here.values():
            trace.last.connection.leave(self)
        self.state.lose_sight("beginning_not_seen")
        return verdicts

    def waits_on(self, connection: ConnectionFacts) -> bool:
        return any(not step.settled and step.connection is connection for step in self._steps())

    def _steps(self) -> list[ShareStep]:
        """Return the requests that wait."""
        return [item for item in self._queue if isinstance(item, ShareStep)]

    def _has_to_wait(self, head: ShareStep) -> bool:
        """True if the step has no answer, or a request that was sent before its answer has none."""
        return not head.settled or any(not step.settled and step.packet < head.end for step in self._steps())

    def _give_up_waiting(self, head: ShareStep) -> None:
        """Treat the first request as unanswered, with all requests that it waits for."""
        for step in self._steps():
            if step is head or step.packet < head.end:
                step.settled = True

    def moved(self, broker: Broker) -> None:
        """Move the session to the broker that its address belongs to."""
        self.state.member.waiting.pop(self.state.broker, None)
        self.state.broker = broker
        self._note_waiting()

    # -- one item of the queue

    def _apply(self, item: ConnectionEnded | SightLost, verdicts: list[Verdict]) -> None:
        match item:
            case ConnectionEnded(connection=connection, end=end):
                self._runner.ask(SessionEnd(self.state, connection, end), verdicts, self.state)
                self.listing.connection_ended(connection, end, self.state)
            case SightLost(doubt=doubt):
                self.state.lose_sight(doubt)

    def _judge(self, step: ShareStep, later: Sequence[ShareStep], verdicts: list[Verdict]) -> None:
        judged = situation(self.state, step, later)
        cause = self._runner.ask(judged, verdicts, self.state)
        self.listing.step(judged, cause)
        conclude(judged)


def _turn(item: ShareStep | ConnectionEnded | SightLost) -> tuple[int, int]:
    """Return the sort key of an item: the order in which the broker processed it."""
    return item.arrival if isinstance(item, ShareStep) else item.packet, item.packet
