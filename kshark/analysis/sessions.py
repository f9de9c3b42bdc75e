"""The share-session machine: one for each (broker, group, member), a pure object fed with its steps and what happened around them.

Steps wait until all before them have their answers, so that a long poll, pipelined requests and an overtaken fetch come out in the order
in which the broker took them; then the rules look at each, and it becomes memory. The machine knows no rule by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kshark import limits
from kshark.analysis.belief import conclude, lose_sight, situation
from kshark.analysis.evidence import PENDING, Argument, Judgement, Needs, judge
from kshark.analysis.listing import Listing
from kshark.analysis.memory import Memory, Situation
from kshark.analysis.routine import advance, is_routine
from kshark.analysis.rules import EXPLANATIONS, REMARKS, by_step, closing
from kshark.analysis.steps import NO_SESSION, OTHER_EPOCH, Answer, Call, Step
from kshark.analysis.surroundings import Broker, Connection, End, Member

#: Codes of refusals that nothing explains.
UNEXPLAINED: Final = {NO_SESSION: "SESSION_UNKNOWN", OTHER_EPOCH: "EPOCH_REFUSED"}


#: The rules of either sort by the steps on which they may fire.
_EXPLANATIONS: Final = by_step(EXPLANATIONS)
_REMARKS: Final = by_step(REMARKS)


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
    """`ask`, `answer`, `ended`, `left` take what happens in the time line; `settle` gives what can be said by now, `close` the rest.

    Of requests and answers there are many: `ask` and `answer` settle at once.
    """

    def __init__(self, broker: Broker, member: Member, listing: Listing, *, exact: bool = False) -> None:
        self.memory = Memory(broker, member)
        self.listing = listing
        self._exact = exact
        self._queue: list[Step | Ended | Left | Blind] = []
        self._pending: list[Verdict] = []

    # -- what happens

    def ask(self, step: Step) -> Sequence[Verdict]:
        """A request; its answer is set on the step later."""
        self._queue.append(step)
        step.connection.users[self] = None
        return self.settle() if len(self._queue) > limits.WAITING_STEPS else ()

    def answer(self, step: Step, answer: Answer | None) -> Sequence[Verdict]:
        """The answer to a request, or that none will come."""
        if not step.settled:
            step.settle(answer)
            if self._queue[-1] is not step:
                self._overtake(step)
        return self.settle()

    def _overtake(self, step: Step) -> None:
        """What is pipelined behind a request is the broker's turn only with its answer."""
        behind = [item for item in self._steps() if item.connection is step.connection and item.packet > step.packet]
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

    def settle(self) -> Sequence[Verdict]:
        """Everything that no missing answer holds back; where more waits than may, the first answer is not waited for any longer."""
        said: list[Verdict] = []
        queue = self._queue
        while queue:
            head = queue[0]
            if isinstance(head, Step):
                if not head.settled and len(queue) <= limits.WAITING_STEPS:
                    break
                head.settled = True
                del queue[0]
                if not self._exact and is_routine(self.memory, head) and self.listing.count(head):
                    advance(self.memory, head)
                else:
                    self._take(head, said)
            else:
                del queue[0]
                self._happened(head, said)
        if self._pending:
            self._proved_since(said)
        return said

    def close(self) -> Sequence[Verdict]:
        """No answer comes any more."""
        for step in self._steps():
            step.settled = True
        said = [*self.settle(), *(Verdict(code, argument, Judgement("unknown", "end_not_seen")) for code, argument, _ in self._pending)]
        self._pending = []
        self.listing.end(self.memory)
        for trace in self.memory.here.values():
            trace.last.connection.users.pop(self, None)
        lose_sight(self.memory, "beginning_not_seen")
        return said

    def _steps(self) -> list[Step]:
        """The requests that wait."""
        return [item for item in self._queue if isinstance(item, Step)]

    def _proved_since(self, said: list[Verdict]) -> None:
        """Verdicts that had to wait for what the capture shows later."""
        waiting, self._pending = self._pending, []
        for code, argument, _ in waiting:
            self._say(Verdict(code, argument, judge(code, argument, None)), said)

    def _say(self, verdict: Verdict, said: list[Verdict]) -> None:
        (self._pending if verdict.judgement is PENDING else said).append(verdict)

    # -- one thing that happened

    def _happened(self, item: Ended | Left | Blind, said: list[Verdict]) -> None:
        match item:
            case Ended(connection=connection, end=end):
                argument = closing.left_open(self.memory, connection, end)
                if argument is not None and judge(closing.CODE, argument, None).verdict == "note":
                    said.append(Verdict(closing.CODE, argument, Judgement("note")))
                self.listing.connection_ended(connection, end, self.memory)
            case Left(leave=leave):
                self.memory.leave = leave
            case Blind(doubt=doubt):
                lose_sight(self.memory, doubt)

    def _take(self, step: Step, said: list[Verdict]) -> None:
        later = [item for item in self._steps() if item.packet < step.end] if self._queue else ()
        now = situation(self.memory, step, later)
        if step.refused:
            said.append(self._explain(now))
        for rule in _REMARKS[step.kind, step.reply]:
            argument = rule.check(now)
            if argument is not None:
                judgement = judge(rule.code, argument, now)
                if judgement.verdict != "unknown" or not argument.is_note(rule.code):
                    self._say(Verdict(rule.code, argument, judgement), said)
        self.listing.step(now)
        conclude(now)

    def _explain(self, now: Situation) -> Verdict:
        """The one finding that says why the request was refused."""
        weak: Judgement | None = None
        for rule in _EXPLANATIONS[now.step.kind, now.step.reply]:
            argument = rule.check(now)
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
