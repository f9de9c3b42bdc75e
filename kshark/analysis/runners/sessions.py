"""The runner of one share session: one for each (broker, group, member), fed with its steps and what happened around
them.

Steps wait until all before them, and all that were sent before their answer, have theirs, so that a long poll,
pipelined requests and an overtaken fetch come out in the order in which the broker took them; then the rules look at
each, and it becomes the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kshark import limits
from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.brokers import Broker, End
from kshark.analysis.facts.calls import NOTHING, Answer, Step
from kshark.analysis.facts.connections import Connection, Owner
from kshark.analysis.facts.judge import Judgement
from kshark.analysis.rules import connections
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.session.copies import CopiedConnection, passed_on
from kshark.analysis.states.session.plain import advance, is_plain
from kshark.analysis.states.session.possible import conclude, situation
from kshark.analysis.states.session.situation import SessionEnd, Situation
from kshark.analysis.states.session.state import SessionState


class Listing(Protocol):
    """Takes what a session does, for lists of sessions and their requests (kshark.analysis.results.sessions)."""

    def count(self, step: Step) -> bool:
        """Take a step of the fast path. False where it has to be listed with its situation."""

    def step(self, now: Situation, cause: str | None) -> None: ...

    def connection_ended(self, connection: Connection, end: End, session: SessionState) -> None: ...

    def end(self, session: SessionState) -> None: ...


class Ended(NamedTuple):
    """A connection of the session ended."""

    packet: int
    connection: Connection
    end: End


class Blind(NamedTuple):
    """Something was not seen, or cannot be relied on."""

    packet: int
    doubt: str


class SessionQueue:
    """`ask`, `answer`, `ended` take what happens in the time line; `settle` gives what can be said by now, `close` the
    rest.

    Of requests and answers there are many: `ask` and `answer` settle at once. `copied_connections` are connections that
    carry what another one does, too: nothing is looked at twice."""

    __slots__ = ("_queue", "_runner", "copied_connections", "listing", "owner", "state")

    def __init__(self, runner: Runner, state: SessionState, listing: Listing, owner: Owner) -> None:
        self._runner = runner
        self.state = state
        self.listing = listing
        self._queue: list[Step | Ended | Blind] = []
        self.owner = owner
        self.copied_connections: dict[Connection, CopiedConnection] = NOTHING

    # -- what happens

    def ask(self, step: Step) -> Sequence[Verdict]:
        """A request; its answer is set on the step later."""
        if step.connection in self.copied_connections:
            if self.copied_connections[step.connection].goes_on():
                return ()
            del self.copied_connections[step.connection]
        if self.state.unread_on:
            self._look_up_unread()
        self._queue.append(step)
        step.connection.used_by(self)
        return self.settle() if len(self._queue) > limits.WAITING_STEPS else ()

    def answer(self, step: Step, answer: Answer | None) -> Sequence[Verdict]:
        """The answer to a request, or that none will come."""
        if not step.settled and step.connection not in self.copied_connections:
            step.settle(answer)
            queue = self._queue
            if len(queue) > 1:
                if (other := passed_on(step, self._steps())) is not None:
                    return [*self.mark_copied(step, answer, other), *self.settle()]
                self._overtake(step)
            elif queue and queue[0] is step and not self._runner.waits(self.state) and self._goes_on(step, ()):
                queue.clear()  # the usual: nothing else waits
                return ()
        return self.settle()

    def _goes_on(self, step: Step, later: Sequence[Step]) -> bool:
        """Whether the step takes the fast path; then it is the past."""
        session, runner = self.state, self._runner
        if (
            runner.exact
            or not is_plain(session, step, later)
            or runner.book.is_triggered(session, step)
            or not self.listing.count(step)
        ):
            return False
        if runner.covering is not None:
            runner.covering.plain(session, step)
        advance(session, step)
        return True

    def mark_copied(self, step: Step, answer: Answer | None, other: Step) -> Sequence[Verdict]:
        """What the step's connection carries the other one does, too."""
        if not step.settled:
            step.settle(answer)
        connection = step.connection
        self.copied_connections = {**self.copied_connections, connection: CopiedConnection(other.connection)}
        self._queue = [item for item in self._queue if not isinstance(item, Step) or item.connection is not connection]
        connection.leave(self)
        text = f"{other.story} on {other.connection.client}; {step.story} on {connection.client}, with the same answer"
        return (Verdict(connections.SEEN_TWICE, Argument(text, (other, step), EXCHANGE), Judgement("note")),)

    def _overtake(self, step: Step) -> None:
        """What is pipelined behind a request is the broker's turn only with its answer."""
        if self.state.unread_on:
            self._look_up_unread()
        behind = [item for item in self._steps() if item.connection is step.connection and item.packet > step.packet]
        for item in behind:
            item.arrival = max(item.arrival, step.end)
        if behind:
            self._queue.sort(key=_turn)

    def ended(self, connection: Connection, end: End) -> None:
        if self.copied_connections:
            self.copied_connections = {
                one: echo for one, echo in self.copied_connections.items() if connection not in (one, echo.of)
            } or NOTHING
        self._queue.append(Ended(end.packet, connection, end))

    def blind(self, packet: int, doubt: str) -> None:
        """What is known of the session may be wrong from that packet on."""
        if self._queue and isinstance(self._queue[-1], Blind):
            del self._queue[-1]  # one is as good as many
        self._queue.append(Blind(packet, doubt))
        self.state.unread = packet

    def lost_on(self, connection: Connection) -> None:
        self.blind(connection.last_unread, "cut")
        self.state.unread_on.append(connection)
        self.state.member.listed = None

    def _look_up_unread(self) -> None:
        """The last request that its connections did not tell it of: only what it does itself brings back what an
        earlier one took."""
        state = self.state
        state.unread = state.last_unread
        for connection in state.unread_on:
            if connection.users.get(self.owner) is self:
                connection.used_by(self)
        state.unread_on.clear()

    # -- what can be said

    def settle(self) -> Sequence[Verdict]:
        """Everything that no missing answer holds back; where more waits than may, the first answer is not waited for
        any longer."""
        said: list[Verdict] = []
        queue = self._queue
        while queue:
            head = queue[0]
            if isinstance(head, Step):
                if len(queue) > 1 or not head.settled:
                    if len(queue) > limits.WAITING_STEPS:
                        self._give_up_waiting(head)
                    elif self._has_to_wait(head):
                        break
                del queue[0]
                later = [item for item in self._steps() if item.packet < head.end] if queue else ()
                if not self._goes_on(head, later):
                    self._take(head, later, said)
            else:
                del queue[0]
                self._happened(head, said)
        if self._runner.waits(self.state):
            said += self._runner.prove(self.state)
            self._note_waiting()
        return said

    def _note_waiting(self) -> None:
        """Tell the member whether its next heartbeat may prove something for this session."""
        state = self.state
        if self._runner.waits(state):
            state.member.waiting[state.broker] = None
        else:
            state.member.waiting.pop(state.broker, None)

    def close(self) -> Sequence[Verdict]:
        """No answer comes any more."""
        for step in self._steps():
            step.settled = True
        said = [*self.settle(), *self._runner.end(self.state)]
        self._note_waiting()
        self.listing.end(self.state)
        for trace in self.state.here.values():
            trace.last.connection.leave(self)
        self.state.lose_sight("beginning_not_seen")
        return said

    def waits_on(self, connection: Connection) -> bool:
        return any(not step.settled and step.connection is connection for step in self._steps())

    def _steps(self) -> list[Step]:
        """The requests that wait."""
        return [item for item in self._queue if isinstance(item, Step)]

    def _has_to_wait(self, head: Step) -> bool:
        """For its own answer, and for those to requests that were sent before that."""
        return not head.settled or any(not step.settled and step.packet < head.end for step in self._steps())

    def _give_up_waiting(self, head: Step) -> None:
        """Too much waits: what is open beside the first request counts as unanswered."""
        for step in self._steps():
            if step is head or step.packet < head.end:
                step.settled = True

    def moved(self, broker: Broker) -> None:
        """The broker turned out to be this one."""
        self.state.member.waiting.pop(self.state.broker, None)
        self.state.broker = broker
        self._note_waiting()

    # -- one thing that happened

    def _happened(self, item: Ended | Blind, said: list[Verdict]) -> None:
        match item:
            case Ended(connection=connection, end=end):
                self._runner.ask(SessionEnd(self.state, connection, end), said, self.state)
                self.listing.connection_ended(connection, end, self.state)
            case Blind(doubt=doubt):
                self.state.lose_sight(doubt)

    def _take(self, step: Step, later: Sequence[Step], said: list[Verdict]) -> None:
        now = situation(self.state, step, later)
        cause = self._runner.ask(now, said, self.state)
        self.listing.step(now, cause)
        conclude(now)


def _turn(item: Step | Ended | Blind) -> tuple[int, int]:
    """The order in which the broker took what happened."""
    return item.arrival if isinstance(item, Step) else item.packet, item.packet
