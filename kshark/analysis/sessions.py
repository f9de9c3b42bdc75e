"""The share-session machine: one for each (broker, group, member), a pure object fed with its steps and what happened around them.

Steps wait until all before them have their answers, so that a long poll, pipelined requests and an overtaken fetch come out in the order
in which the broker took them; then the rules look at each, and it becomes memory. The machine knows no rule by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kshark import limits
from kshark.analysis.endings import endings_before
from kshark.analysis.evidence import PENDING, Argument, Judgement, Needs, judge
from kshark.analysis.listing import Listing
from kshark.analysis.memory import Memory, Situation
from kshark.analysis.rules import EXPLANATIONS, REMARKS, closing
from kshark.analysis.steps import Call, Kind, Reply, Step, next_epoch
from kshark.analysis.surroundings import Broker, Connection, End, Member
from kshark.analysis.table import ABSENT, proved_alone, states_after


class Verdict(NamedTuple):
    """A rule's argument, judged."""

    code: str
    argument: Argument
    judgement: Judgement


class Ended(NamedTuple):
    """A connection of the session ended."""

    connection: Connection
    end: End


class Left(NamedTuple):
    """The member left its group."""

    leave: Call


class Blind(NamedTuple):
    """Something was not seen, or cannot be relied on."""

    doubt: str


class Machine:
    """`ask`, `ended`, `left` take what happens in the time line; `settle` gives what can be said by now, `close` the rest."""

    def __init__(self, broker: Broker, member: Member, listing: Listing) -> None:
        self.memory = Memory(broker, member)
        self.listing = listing
        self._queue: list[Step | Ended | Left | Blind] = []
        self._pending: list[Verdict] = []

    # -- what happens

    def ask(self, step: Step) -> None:
        """A request; its answer is set on the step later."""
        self._queue.append(step)
        step.connection.users.add(self)

    def ended(self, connection: Connection, end: End) -> None:
        self._queue.append(Ended(connection, end))

    def left(self, leave: Call) -> None:
        self._queue.append(Left(leave))

    def blind(self, doubt: str) -> None:
        """What is known of the session may be wrong from here on."""
        self._queue.append(Blind(doubt))

    # -- what can be said

    def settle(self) -> Iterator[Verdict]:
        """Everything that no missing answer holds back."""
        while self._queue:
            head = self._queue[0]
            if isinstance(head, Step) and head.answer is None and not head.settled and len(self._queue) <= limits.WAITING_STEPS:
                break
            del self._queue[0]
            match head:
                case Step():
                    yield from self._take(head)
                case Ended(connection, end):
                    yield from self._left_open(closing.left_open(self.memory, connection, end))
                    self.listing.connection_ended(connection, end, self.memory)
                case Left(leave):
                    self.memory.leave = leave
                case Blind(doubt):
                    self._lose_sight(doubt)
        yield from self._proved_since()

    def close(self) -> Iterator[Verdict]:
        """No answer comes any more."""
        for item in self._queue:
            if isinstance(item, Step):
                item.settled = True
        yield from self.settle()
        self.listing.end(self.memory)
        self.memory.expected = None

    def _proved_since(self) -> Iterator[Verdict]:
        """Verdicts that had to wait for what the capture shows later."""
        waiting, self._pending = self._pending, []
        for code, argument, _ in waiting:
            yield from self._say(code, argument, judge(code, argument, None))

    def _say(self, code: str, argument: Argument, judgement: Judgement) -> Iterator[Verdict]:
        if judgement is PENDING:
            self._pending.append(Verdict(code, argument, judgement))
        else:
            yield Verdict(code, argument, judgement)

    def _left_open(self, argument: Argument | None) -> Iterator[Verdict]:
        if argument is not None:
            judgement = judge(closing.CODE, argument, None)
            if judgement.verdict == "note":
                yield Verdict(closing.CODE, argument, judgement)

    # -- one step

    def _take(self, step: Step) -> Iterator[Verdict]:
        now = self._situation(step)
        if step.refused:
            yield self._explain(now)
        for rule in REMARKS:
            argument = rule(now)
            if argument is not None:
                judgement = judge(rule.code, argument, now)
                if judgement.verdict != "unknown" or not argument.is_note(rule.code):
                    yield from self._say(rule.code, argument, judgement)
        self.listing.step(now)
        self._remember(now)

    def _situation(self, step: Step) -> Situation:
        memory = self.memory
        self._look_for_holes(step)
        endings = endings_before(memory, step)
        expected = memory.expected
        if expected is not None and endings:
            expected = expected | {ABSENT}
        overtaker, rivals = self._others_open(step)
        reply = Reply.TAKEN if overtaker is not None else step.reply
        agreeing = frozenset(state for state in expected or () if states_after(step, state, reply))
        doubt = memory.doubt if expected is None else None
        return Situation(step, memory, reply, expected, agreeing, doubt, endings, overtaker, rivals)

    def _lose_sight(self, doubt: str) -> None:
        self.memory.expected, self.memory.doubt = None, doubt
        self.memory.holdings.forget()

    def _look_for_holes(self, step: Step) -> None:
        """Requests of this session may have been lost on any connection that it uses."""
        memory = self.memory
        since = memory.anchor.packet if memory.anchor is not None else None
        if since is None or memory.expected is None:
            return
        used = [trace.last.connection for trace in memory.here.values()]
        reason = next((reason for one in (*used, step.connection) if one.lost and (reason := one.lost.between(since, step.packet))), None)
        if reason is not None:
            self._lose_sight(reason)
            if memory.opening is not None and step.connection is not memory.opening.connection:
                memory.opening = None

    def _others_open(self, step: Step) -> tuple[Step | None, tuple[Step, ...]]:
        """The request that overtook a refused one, and all accepted ones that were open at the same time on other connections."""
        if step.reply is not Reply.OTHER_EPOCH:
            return None, ()
        later = [item for item in self._queue if isinstance(item, Step) and item.packet < step.end]
        others = [
            other
            for other in (*self.memory.overlapping, *later)
            if other.connection is not step.connection and other.reply is Reply.TAKEN and other.end > step.packet
        ]
        overtaker = next(
            (other for other in others if other.end < step.end and step.is_fetch and _follows(other, step) and other in later), None
        )
        return overtaker, tuple(others)

    def _explain(self, now: Situation) -> Verdict:
        """The one finding that says why the request was refused."""
        weak: Judgement | None = None
        for rule in EXPLANATIONS:
            argument = rule(now)
            if argument is None:
                continue
            judgement = judge(rule.code, argument, now)
            if judgement.verdict != "unknown":
                return Verdict(rule.code, argument, judgement)
            weak = weak or judgement
        reason = weak.because if weak is not None else _why_unknown(now)
        code = "SESSION_UNKNOWN" if now.step.reply is Reply.NO_SESSION else "EPOCH_REFUSED"
        text = "; ".join(step.story for step in (*now.known, now.step))
        argument = Argument(text, (*now.known, now.step), Needs.EXCHANGE, "unknown", because=reason)
        return Verdict(code, argument, Judgement("unknown", reason))

    def _remember(self, now: Situation) -> None:
        """The states that are possible now, then everything else of the step."""
        memory, step = self.memory, now.step
        if step.any_doubt is not None:
            self._lose_sight(step.any_doubt)
        elif now.agreeing:
            memory.expected = frozenset().union(*(states_after(step, state, now.reply) for state in now.agreeing))
        else:
            state = proved_alone(step, now.reply)
            if state is not None:
                if now.expected is not None:
                    memory.holdings.forget()
                memory.expected = frozenset({state})
            elif now.expected is not None:
                self._lose_sight("hidden_traffic")
        if step.reply is Reply.TAKEN or proved_alone(step, step.reply) is not None:
            memory.anchor = step
        memory.remember(step, now.reply)


def _why_unknown(now: Situation) -> str:
    return now.doubt or now.step.any_doubt or ("unanswered" if now.agreeing else "hidden_traffic")


def _follows(other: Step, step: Step) -> bool:
    return other.kind is Kind.SUBSEQUENT and other.epoch == next_epoch(step.epoch)
