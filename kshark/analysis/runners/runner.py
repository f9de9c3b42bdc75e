"""The runner of a machine: it asks the rules about a situation, and keeps the verdicts that wait for a proof.

Every machine runs in the same way. A plain step only advances the state, if every check of the machine declares that
plain steps do not concern it. Any other step makes a situation. The rules are asked about it. Of the rules that explain
a refusal, the first proved one is reported, else the catch-all; then all other rules are asked. Then the state takes
the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from kshark import limits
from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.calls import Call, Partition
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.judge import GIVEN_UP, NO_CASE, NOTE, PENDING, Judgement, judge, unexplained, unproved
from kshark.analysis.facts.known import Known
from kshark.analysis.facts.machine import Machine, StepType
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.book import ALL_SIGNS
from kshark.analysis.rules.rule import CATCH_ALL, Checked, Rule
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.verdict import Verdict, judged
from kshark.model import Message
from kshark.rate_limit import RateLimit


class AnySituation(Protocol):
    """A step and the state before it: everything that a rule may look at."""

    @property
    def step_type(self) -> StepType:
        """The properties of the step that decide which checks look at it."""

    @property
    def call(self) -> Call | None:
        """The exchange that coverage counts it for."""

    @property
    def knowledge(self) -> Known:
        """The states that arguments are judged by; ALWAYS if each argument is judged by itself."""

    @property
    def subject(self) -> Partition | None:
        """The share partition of its findings if an argument names none."""


class Runner:
    """Ask the rules of one machine; keep verdicts that wait for a proof, by the owner that can prove them.

    `exact`: ask about plain steps too; the findings are the same. `room`: the most verdicts that may wait in all; the
    oldest beyond it becomes `unknown`. `notes_if_proved`: do not report a note that the capture does not prove, not
    even as unknown."""

    def __init__(
        self,
        book: RuleBook,
        counter: CoverageCounter | None = None,
        *,
        exact: bool = False,
        room: int | None = None,
        notes_if_proved: bool = False,
    ) -> None:
        self.book: Final = book
        self.counter: Final = counter
        self.exact: Final = exact
        self._room = room
        self._notes_if_proved = notes_if_proved
        self._rate = RateLimit()
        self._waiting: dict[Any, list[Verdict]] = {}
        self._count = 0
        #: Verdicts that only the end of a complete capture proves, by owner, and their number.
        self._absences: dict[Any, list[Verdict]] = {}
        self._absent = 0
        #: Rules that were noted once, by their code.
        self._noted: set[str] = set()

    def skips_plain(self, machine: Machine, about: type = object) -> bool:
        """True if plain steps of the machine, or of one of its situations, need no rule."""
        return not (self.exact or self.book.concerns_plain(machine, about))

    def ask(
        self, situation: AnySituation, verdicts: list[Verdict], owner: Any = None, signs: int = ALL_SIGNS
    ) -> str | None:
        """Ask about a situation and add to `verdicts`. Return the cause of a refusal, as explained.

        `owner` proves verdicts that wait; None: the argument's proof names it. `signs`: only checks whose trigger has
        one of these signs are asked.
        """
        self.count(situation)
        return self.ask_uncounted(situation, verdicts, owner, signs)

    def count(self, situation: AnySituation) -> None:
        """Count for coverage that the situation puts rules to the test."""
        if self.counter is not None:
            self.counter.step(situation, situation.step_type)

    def ask_uncounted(
        self, situation: AnySituation, verdicts: list[Verdict], owner: Any = None, signs: int = ALL_SIGNS
    ) -> str | None:
        """Do the same as `ask` for a situation that is counted already."""
        questions = self.book.questions(situation.step_type, signs)
        cause = None
        if questions.explanations:
            explained, *unproved = self._explain(situation, questions.explanations)
            cause = explained.argument.cause
            verdicts += self._settled(explained, owner)
            verdicts += unproved
        for group in questions.remarks:
            if (remark := self._remark(situation, group)) is not None:
                verdicts += self._settled(remark, owner)
        return cause

    def note_once(self, rule: Rule, argument: Argument) -> Sequence[Verdict]:
        """Return a note that needs no proof; none if the rule was noted before."""
        if rule.code in self._noted:
            return ()
        self._noted.add(rule.code)
        return (Verdict(rule, argument, NOTE),)

    def waits(self, owner: Any) -> bool:
        """True if verdicts wait for this owner."""
        return owner in self._waiting

    def prove(self, owner: Any) -> list[Verdict]:
        """Judge again the verdicts that wait for this owner; the undecided ones wait on."""
        waiting = self._waiting.pop(owner, ())
        self._count -= len(waiting)
        verdicts: list[Verdict] = []
        for verdict in waiting:
            judgement = judge(verdict.argument, accuses=verdict.rule.accuses)
            verdicts += self._settled(verdict._replace(judgement=judgement), owner)
        return verdicts

    def end(self, owner: Any) -> list[Verdict]:
        """End an owner, of which nothing more is seen. Return its waiting verdicts: as not proved, unless the capture
        is over and shows that nothing else happened."""
        waiting, absences = self._waiting.pop(owner, []), self._absences.pop(owner, [])
        self._count -= len(waiting)
        self._absent -= len(absences)
        verdicts = [_unproved(verdict) for verdict in waiting]
        for verdict in absences:
            judgement = judge(verdict.argument, accuses=verdict.rule.accuses)
            judged_again = verdict._replace(judgement=judgement)
            verdicts += [_unproved(verdict)] if judgement is PENDING else self._settled(judged_again, owner)
        return verdicts

    def close(self) -> list[Verdict]:
        """End the capture. Judge the waiting verdicts a last time."""
        verdicts: list[Verdict] = []
        for owner in [*self._waiting]:
            verdicts += self.prove(owner)
        for owner in [*self._waiting, *self._absences]:
            verdicts += self.end(owner)
        return verdicts

    def _explain(self, situation: AnySituation, checks: Iterable[Checked]) -> list[Verdict]:
        """Return the one verdict that explains a refusal. If it is not proved, the other candidates follow.

        Where an explanation that blames nobody is not proved, no later one proves a violation: fewer packets must not
        turn a note into an accusation.
        """
        unproved: list[Verdict] = []
        reportable: Verdict | None = None
        excuse: Judgement | None = None
        for rule, check in checks:
            argument = check.look(situation)
            if argument is None:
                continue
            if check.order == CATCH_ALL:
                return _unexplained(reportable or _caught(rule, argument, unproved), unproved)
            verdict = judged(rule, argument, situation.knowledge, "explanation")
            if verdict.judgement is NO_CASE:
                continue
            if excuse is not None and not _is_excuse(verdict):
                verdict = verdict._replace(judgement=excuse)
            if _is_proved(verdict):
                return [verdict]
            if excuse is None and _is_excuse(verdict):
                excuse = verdict.judgement
            unproved.append(verdict)
            if reportable is None and check.reported_unproved and verdict.is_reported:
                reportable = verdict
        raise AssertionError(f"{situation.step_type} has explanations and no catch-all")

    def _remark(self, situation: AnySituation, group: tuple[Checked, ...]) -> Verdict | None:
        """Return the verdict of a rule's alternative checks: the first reported one, else the first."""
        remark: Verdict | None = None
        for rule, check in group:
            argument = check.look(situation)
            if argument is None:
                continue
            if argument.partition is None and situation.subject is not None:
                argument = replace(argument, partition=situation.subject)
            verdict = judged(rule, argument, situation.knowledge)
            if verdict.judgement is NO_CASE:
                continue
            if verdict.is_reported:
                return verdict
            remark = remark or verdict
        return remark

    def _settled(self, verdict: Verdict, owner: Any) -> Iterator[Verdict]:
        """Yield a verdict that needs no more of the capture; keep the others until they are proved."""
        if verdict.judgement is PENDING:
            yield from self._wait(verdict, owner)
        elif verdict.instead is not None and not verdict.is_reported:
            yield verdict.instead
        else:
            yield verdict if self._is_reported(verdict) else verdict._replace(silent=True)

    def _wait(self, verdict: Verdict, owner: Any) -> Iterator[Verdict]:
        if verdict.argument.needs.absence is not None:
            yield from self._wait_for_end(verdict, owner)
            return
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

    def _wait_for_end(self, verdict: Verdict, owner: Any) -> Iterator[Verdict]:
        """Keep a verdict for the end of its owner; beyond the limits it is not proved."""
        absences = self._absences.setdefault(owner, [])
        if len(absences) >= limits.WAITING_VERDICTS or (self._room is not None and self._absent >= self._room):
            yield verdict.instead or verdict._replace(judgement=GIVEN_UP)
            return
        absences.append(verdict)
        self._absent += 1

    def _is_reported(self, verdict: Verdict) -> bool:
        """False for a note that is not proved, and if the rule was reported often enough of this member and topic."""
        if self._notes_if_proved and verdict.argument.noted and verdict.judgement.verdict != "note":
            return verdict.part == "explanation"
        if not verdict.rule.rationed or not verdict.is_reported:
            return True
        witness, partition = verdict.argument.witness[0], verdict.argument.partition
        key = verdict.rule.code, witness.group_id, witness.member_id, partition and partition[0]
        return self._rate.is_due(key, verdict.rule.rationed)


def _is_proved(verdict: Verdict) -> bool:
    """True if the verdict explains the refusal, or will once its proof is seen."""
    if verdict.judgement is PENDING:
        return "unknown" in verdict.rule.verdicts
    return verdict.judgement.verdict != "unknown" and verdict.is_reported


def _is_excuse(verdict: Verdict) -> bool:
    """True if the explanation blames nobody."""
    return verdict.argument.noted or not verdict.rule.accuses


def _caught(rule: Rule, argument: Argument, unproved: list[Verdict]) -> Verdict:
    """Return the catch-all's verdict."""
    first = (unproved[0].argument, unproved[0].judgement) if unproved else None
    return Verdict(rule, argument, unexplained(argument, first), "explanation")


def _unexplained(reported: Verdict, unproved: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdict, or the one that waits for a proof; silently each other rule that may explain it, once."""
    waiting = next((verdict for verdict in unproved if verdict.judgement is PENDING), None)
    if waiting is not None:
        reported = waiting._replace(instead=reported)
    others = [verdict for verdict in unproved if verdict.rule is not reported.rule]
    silent = {verdict.rule.code: verdict._replace(silent=True) for verdict in others}
    return [reported, *silent.values()]


def _unproved(verdict: Verdict) -> Verdict:
    """Return the verdict as unknown, or the one instead: the capture did not show its proof."""
    return verdict.instead or verdict._replace(judgement=unproved(verdict.argument))


class MachineRunner(Protocol):
    """Run machines over the exchanges of the APIs in `apis`, in the order of the time line."""

    @property
    def apis(self) -> frozenset[int]: ...

    def look(self, request: Message, response: Message | None, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on an exchange. `response` is None without an answer, `connection` if it is over."""

    def close(self) -> Sequence[Verdict]:
        """End the exchanges and return the verdicts that waited for the end."""


__all__ = ["AnySituation", "MachineRunner", "Runner"]
