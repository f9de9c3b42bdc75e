"""The runner of a machine: it asks the rules about a situation, and keeps the verdicts that wait for a proof.

Every machine is run in the same way. A plain step only advances the state, if every check of the machine declares that
plain steps do not concern it. Any other step makes a situation. The rules are asked about it: of those that explain a
refusal the first one that is proved, else the catch-all; then all others. Then the state takes the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from kshark import limits
from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.calls import Partition
from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.judge import PENDING, Judgement, judge
from kshark.analysis.facts.judge import Known as Knowledge
from kshark.analysis.facts.machine import Machine, StepType
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.book import ALL_SIGNS
from kshark.analysis.rules.rule import CATCH_ALL, Checked, Rule
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.verdict import Verdict, judged
from kshark.model import Message
from kshark.rate_limit import RateLimit


class Situation(Protocol):
    """A step, and the state that it met: all that a rule may look at."""

    @property
    def step_type(self) -> StepType:
        """What the step is, as far as that decides which checks look at it."""

    @property
    def knowledge(self) -> Knowledge | None:
        """The state by which arguments are judged; None where each argument is judged by itself."""

    @property
    def subject(self) -> Partition | None:
        """The share partition of its findings, where arguments name none."""


class Runner:
    """Ask the rules of one machine; keep verdicts that wait for a proof, by the owner that can prove them.

    `exact`: ask about plain steps too; the findings are the same. `room`: so many verdicts may wait in all; beyond it
    the oldest is `unknown`. `notes_if_proved`: a note that the capture does not prove is not reported, not even as
    unknown."""

    def __init__(
        self,
        book: RuleBook,
        covering: CoverageCounter | None = None,
        *,
        exact: bool = False,
        room: int | None = None,
        notes_if_proved: bool = False,
    ) -> None:
        self.book: Final = book
        self.covering: Final = covering
        self.exact: Final = exact
        self._room = room
        self._notes_if_proved = notes_if_proved
        self._rate = RateLimit()
        self._waiting: dict[Any, list[Verdict]] = {}
        self._count = 0

    def skips_plain(self, machine: Machine, about: type = object) -> bool:
        """True if plain steps of the machine, or of one of its situations, need no rule."""
        return not (self.exact or self.book.concerns_plain(machine, about))

    def ask(self, now: Situation, said: list[Verdict], owner: Any = None, signs: int = ALL_SIGNS) -> str | None:
        """Ask about a situation and add the verdicts to `said`. Return the cause of a refusal, as explained.

        `owner` proves verdicts that wait; None: the argument's proof names it. `signs`: only checks whose trigger has
        one of these signs are asked.
        """
        self.count(now)
        return self.ask_uncounted(now, said, owner, signs)

    def count(self, now: Situation) -> None:
        """Count for coverage that the situation puts rules to the test."""
        if self.covering is not None:
            self.covering.step(now, now.step_type)

    def ask_uncounted(
        self, now: Situation, said: list[Verdict], owner: Any = None, signs: int = ALL_SIGNS
    ) -> str | None:
        """Do the same as `ask` for a situation that is counted already."""
        questions = self.book.questions(now.step_type, signs)
        cause = None
        if questions.explanations:
            explained, *weak = self._explain(now, questions.explanations)
            cause = explained.argument.cause
            said += self._settled(explained, owner)
            said += weak
        for group in questions.remarks:
            said += self._remark(now, group, owner)
        return cause

    def waits(self, owner: Any) -> bool:
        """True if verdicts wait for this owner."""
        return owner in self._waiting

    def prove(self, owner: Any) -> list[Verdict]:
        """Judge again the verdicts that wait for this owner; those that are still open go on waiting."""
        waiting = self._waiting.pop(owner, ())
        self._count -= len(waiting)
        said: list[Verdict] = []
        for verdict in waiting:
            judgement = judge(verdict.argument, None, accuses=verdict.rule.accuses)
            said += self._settled(verdict._replace(judgement=judgement), owner)
        return said

    def end(self, owner: Any) -> list[Verdict]:
        """Nothing more is seen of the owner: what still waits is not proved."""
        waiting = self._waiting.pop(owner, [])
        self._count -= len(waiting)
        return [_unproved(verdict) for verdict in waiting]

    def close(self) -> list[Verdict]:
        """Nothing more is seen: judge everything that waits a last time."""
        said: list[Verdict] = []
        for owner in [*self._waiting]:
            said += self.prove(owner)
        for owner in [*self._waiting]:
            said += self.end(owner)
        return said

    def _explain(self, now: Situation, checks: Iterable[Checked]) -> list[Verdict]:
        """Return the one verdict that says why the step was refused. If none is proved, the weak ones follow it."""
        weak: list[Verdict] = []
        reportable: Verdict | None = None
        for rule, check in checks:
            argument = check.look(now)
            if argument is None:
                continue
            if check.order == CATCH_ALL:
                return _unexplained(reportable or _caught(rule, argument, weak), weak)
            verdict = judged(rule, argument, now.knowledge, "explanation")
            if _is_proved(verdict):
                return [verdict]
            weak.append(verdict)
            if reportable is None and check.reported_unproved and verdict.is_reported:
                reportable = verdict
        raise AssertionError(f"{now.step_type} has explanations and no catch-all")

    def _remark(self, now: Situation, group: tuple[Checked, ...], owner: Any) -> Iterator[Verdict]:
        """Yield what a rule says by one of its checks: of alternatives the first that is reported, else the first."""
        found: list[Verdict] = []
        for rule, check in group:
            argument = check.look(now)
            if argument is None:
                continue
            if argument.partition is None and now.subject is not None:
                argument = replace(argument, partition=now.subject)
            verdict = judged(rule, argument, now.knowledge)
            found.append(verdict)
            if verdict.is_reported:
                break
        if found:
            yield from self._settled(next((one for one in found if one.is_reported), found[0]), owner)

    def _settled(self, verdict: Verdict, owner: Any) -> Iterator[Verdict]:
        """Yield a verdict that needs no more of the capture; keep the others until they are proved."""
        if verdict.judgement is PENDING:
            yield from self._wait(verdict, owner)
        else:
            yield verdict if self._is_reported(verdict) else verdict._replace(silent=True)

    def _wait(self, verdict: Verdict, owner: Any) -> Iterator[Verdict]:
        proof: Any = verdict.argument.needs.proof
        waiting = self._waiting.setdefault(proof.session if owner is None else owner, [])
        if len(waiting) >= limits.WAITING_VERDICTS:
            yield _unproved(verdict)
            return
        waiting.append(verdict)
        self._count += 1
        if self._room is not None and self._count > self._room:
            oldest, longest = next(iter(self._waiting.items()))
            yield _unproved(longest.pop(0))
            self._count -= 1
            if not longest:
                del self._waiting[oldest]

    def _is_reported(self, verdict: Verdict) -> bool:
        """False for a note that is not proved, and if the rule was reported often enough of this member and topic."""
        if self._notes_if_proved and verdict.argument.noted and verdict.judgement.verdict != "note":
            return verdict.part == "explanation"
        if not verdict.rule.rationed or not verdict.is_reported:
            return True
        who, partition = verdict.argument.witness[0], verdict.argument.partition
        key = verdict.rule.code, who.group_id, who.member_id, partition and partition[0]
        return self._rate.is_due(key, verdict.rule.rationed)


def _is_proved(verdict: Verdict) -> bool:
    """True if the verdict explains the refusal, or will once its proof is seen."""
    if verdict.judgement is PENDING:
        return "unknown" in verdict.rule.verdicts
    return verdict.judgement.verdict != "unknown" and verdict.is_reported


def _caught(rule: Rule, argument: Argument, weak: list[Verdict]) -> Verdict:
    """Return the catch-all's verdict: unknown, for the reason of the first explanation that was not proved."""
    because = (weak[0].judgement.because if weak else None) or argument.because
    return Verdict(rule, argument, Judgement("unknown", because), "explanation")


def _unexplained(told: Verdict, weak: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdict, and the rules that might explain it all the same, once each and silent."""
    silent = {one.rule.code: one._replace(silent=True) for one in weak if one.rule is not told.rule}
    return [told, *silent.values()]


def _unproved(verdict: Verdict) -> Verdict:
    """Return the verdict as unknown: the capture did not show its proof."""
    because = verdict.argument.needs.unproved or "hidden_traffic"
    return verdict._replace(judgement=Judgement("unknown", because))


class MachineRunner(Protocol):
    """Run machines over the exchanges of the APIs in `apis`, in the order of the time line."""

    @property
    def apis(self) -> frozenset[int]: ...

    def look(self, request: Message, response: Message | None, connection: Connection | None) -> Sequence[Verdict]:
        """Return the verdicts on an exchange. `response` is None without an answer, `connection` if it is over."""

    def close(self) -> Sequence[Verdict]:
        """End the exchanges and return the verdicts that waited for the end."""


__all__ = ["MachineRunner", "Runner", "Situation"]
