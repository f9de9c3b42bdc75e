"""The share-session machine: one for each (broker, group, member), a pure object fed with its steps and what happened around them.

Steps wait until all before them have their answers, so that a long poll, pipelined requests and an overtaken fetch come out in the order
in which the broker took them; then the rules look at each, and it becomes memory. The machine knows no rule by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kshark import limits
from kshark.analysis.belief import conclude, lose_sight, situation
from kshark.analysis.evidence import PENDING, Argument, Judgement, Needs, judge
from kshark.analysis.listing import Listing
from kshark.analysis.memory import Memory, Situation
from kshark.analysis.rules import EXPLANATIONS, REMARKS, closing
from kshark.analysis.steps import Answer, Call, Reply, Step
from kshark.analysis.surroundings import Broker, Connection, End, Member

#: Codes of refusals that nothing explains.
UNEXPLAINED: Final = {Reply.NO_SESSION: "SESSION_UNKNOWN", Reply.OTHER_EPOCH: "EPOCH_REFUSED"}


class Verdict(NamedTuple):
    """A rule's argument, judged."""

    code: str
    argument: Argument
    judgement: Judgement


class Ended(NamedTuple):
    """A connection of the session ended."""

    packet: int
    connection: Connection
    end: End


class Left(NamedTuple):
    """The member left its group."""

    packet: int
    leave: Call


class Blind(NamedTuple):
    """Something was not seen, or cannot be relied on."""

    packet: int
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
        step.connection.users[self] = None

    def answer(self, step: Step, answer: Answer | None) -> None:
        """The answer to a request, or that none will come. What is pipelined behind it is the broker's turn only now."""
        if step.settled:
            return
        step.settle(answer)
        step.settled = True
        behind = [
            item for item in self._queue if isinstance(item, Step) and item.connection is step.connection and item.packet > step.packet
        ]
        for item in behind:
            item.arrival = max(item.arrival, step.end)
        if behind:
            self._queue.sort(key=_turn)

    def ended(self, connection: Connection, end: End) -> None:
        self._queue.append(Ended(end.packet, connection, end))

    def left(self, leave: Call) -> None:
        self._queue.append(Left(leave.packet, leave))

    def blind(self, packet: int, doubt: str) -> None:
        """What is known of the session may be wrong from that packet on."""
        self._queue.append(Blind(packet, doubt))

    # -- what can be said

    @property
    def crowded(self) -> bool:
        """Whether more waits than may: the first answer is not waited for any longer."""
        return len(self._queue) > limits.WAITING_STEPS

    def settle(self) -> Iterator[Verdict]:
        """Everything that no missing answer holds back."""
        while self._queue:
            head = self._queue[0]
            if isinstance(head, Step) and not head.settled and not self.crowded:
                break
            del self._queue[0]
            match head:
                case Step():
                    head.settled = True
                    yield from self._take(head)
                case Ended(connection=connection, end=end):
                    yield from self._left_open(closing.left_open(self.memory, connection, end))
                    self.listing.connection_ended(connection, end, self.memory)
                case Left(leave=leave):
                    self.memory.leave = leave
                case Blind(doubt=doubt):
                    lose_sight(self.memory, doubt)
        yield from self._proved_since()

    def close(self) -> Iterator[Verdict]:
        """No answer comes any more."""
        for item in self._queue:
            if isinstance(item, Step):
                item.settled = True
        yield from self.settle()
        for code, argument, _ in self._pending:
            yield Verdict(code, argument, Judgement("unknown", "end_not_seen"))
        self._pending = []
        self.listing.end(self.memory)
        for trace in self.memory.here.values():
            trace.last.connection.users.pop(self, None)
        lose_sight(self.memory, "beginning_not_seen")

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
        later = [item for item in self._queue if isinstance(item, Step) and item.packet < step.end]
        now = situation(self.memory, step, later)
        if step.refused:
            yield self._explain(now)
        for rule in REMARKS:
            argument = rule(now)
            if argument is not None:
                judgement = judge(rule.code, argument, now)
                if judgement.verdict != "unknown" or not argument.is_note(rule.code):
                    yield from self._say(rule.code, argument, judgement)
        self.listing.step(now)
        conclude(now)

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
        reason = weak.because if weak is not None else now.why_unknown
        text = "; ".join(step.story for step in (*now.known, now.step))
        argument = Argument(text, (*now.known, now.step), Needs.EXCHANGE, "unknown", because=reason)
        return Verdict(UNEXPLAINED[now.step.reply], argument, Judgement("unknown", reason))


def _turn(item: Step | Ended | Left | Blind) -> tuple[int, int]:
    """The order in which the broker took what happened."""
    return item.arrival if isinstance(item, Step) else item.packet, item.packet
