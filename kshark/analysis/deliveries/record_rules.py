"""What rules say of records: why acknowledgements were refused, and what else is worth a word in a situation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kshark import limits
from kshark.analysis.deliveries.fast_path import ALL
from kshark.analysis.deliveries.record_situation import (
    Acknowledging,
    Acquiring,
    Misdirected,
    Persisted,
    Starving,
    Unserved,
)
from kshark.analysis.judge import PENDING, Judgement
from kshark.analysis.machines import IN_FLIGHT
from kshark.analysis.observed.coverage import Covering
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.acknowledgements import ACK_REFUSED, not_told
from kshark.analysis.rules.persisted import NotStored
from kshark.analysis.rules.rule import Checked
from kshark.analysis.sessions.session_state import BothUnbroken, SessionState, Unbroken
from kshark.analysis.verdict import Verdict, explanations, judged, unexplained
from kshark.rate_limit import RateLimit

Situation = Acknowledging | Acquiring | Misdirected | Persisted | Starving | Unserved
#: Errors of a partition's acknowledgements of which one finding has to say why they came.
EXPLAINED: Final = frozenset({3, 6, 42, 74, 100, 121})


class RecordRules:
    """The rules of share partitions. `covering` counts what puts them to the test.

    Verdicts may wait for what the session shows later that they are about; whatever other sessions do tells nothing of
    that."""

    def __init__(self, book: RuleBook, covering: Covering | None = None) -> None:
        checks = book.checks(IN_FLIGHT)
        ordered = [one for one in checks if one.check.order is not None]
        self._explanations = sorted(ordered, key=lambda one: one.check.order or 0)
        self._remarks = {
            about: [one for one in checks if one.check.order is None and one.check.about is about]
            for about in (Acknowledging, Acquiring, Misdirected, Persisted, Starving, Unserved)
        }
        #: Of these by what is odd about a situation: those whose trigger is among that.
        self._looking: dict[tuple[type[Situation], int], list[Checked]] = {}
        self._limit = RateLimit()
        self.covering: Final = covering
        self._pending: dict[SessionState, list[Verdict]] = {}
        self._pending_count = 0

    def cover(self, now: Situation, *, accepted: bool) -> None:
        """Counts the situation, where anybody wants to know."""
        if self.covering is not None:
            self.covering.step(now, type(now).__name__, now.step.api_key, accepted=accepted)

    def least(self, about: type[Situation]) -> int:
        """What each such situation is looked at for, plain as it may be: for all, where there is a rule without a
        trigger."""
        return 0 if all(one.check.trigger.sign for one in self._remarks[about]) else ALL

    def look_at(self, now: Situation, said: list[Verdict], *, accepted: bool = True) -> None:
        """Counts that rules are put to the test, and adds what they say."""
        self.cover(now, accepted=accepted)
        self.judge(now, said)

    def judge(self, now: Situation, said: list[Verdict], signs: int = ALL) -> None:
        """Adds what the rules say of it, of which `signs` are odd."""
        if isinstance(now, Acknowledging) and now.error in EXPLAINED:
            said += self._explain(now)
        for rule, check in self._looking.get((type(now), signs)) or self._look(type(now), signs):
            argument = check.look(now)
            if argument is not None:
                said += self._said(judged(rule, argument))

    def _look(self, about: type[Situation], signs: int) -> list[Checked]:
        looking = [one for one in self._remarks[about] if signs == ALL or one.check.trigger.sign & signs]
        self._looking[about, signs] = looking
        return looking

    def prove(self, session: SessionState, said: list[Verdict]) -> None:
        """Adds what waited for a session and is proved by now."""
        waiting = self._pending.pop(session, ())
        self._pending_count -= len(waiting)
        for verdict in waiting:
            said += self._said(judged(verdict.rule, verdict.argument))

    def close(self) -> Sequence[Verdict]:
        """No more is seen: what waits still is not proved."""
        said: list[Verdict] = []
        for session in [*self._pending]:
            self.prove(session, said)
        return [*said, *(_unproved(verdict) for waiting in self._pending.values() for verdict in waiting)]

    def _said(self, verdict: Verdict) -> Iterator[Verdict]:
        """What is proved by now; what more of the capture has to show waits."""
        if verdict.judgement is PENDING:
            yield from self._wait(verdict)
        else:  # of what could only be a note it is not worth a word that it is not certain
            noted = verdict.argument.noted and verdict.judgement.verdict != "note"
            yield verdict._replace(silent=noted or not self._is_in_turn(verdict))

    def _wait(self, verdict: Verdict) -> Iterator[Verdict]:
        """Where too many wait, one of the session that waits for longest does not any longer."""
        proof = verdict.argument.needs.proof
        assert isinstance(proof, (Unbroken, BothUnbroken, NotStored)), (
            "what it waits for is something that sessions show"
        )
        self._pending.setdefault(proof.session, []).append(verdict)
        self._pending_count += 1
        if self._pending_count > limits.PENDING_VERDICTS:
            session, waiting = next(iter(self._pending.items()))
            yield _unproved(waiting.pop(0))
            self._pending_count -= 1
            if not waiting:
                del self._pending[session]

    def _is_in_turn(self, verdict: Verdict) -> bool:
        """Whether it is told, or was often enough."""
        if not verdict.rule.rationed or not verdict.is_told:
            return True
        who, partition = verdict.argument.witness[0], verdict.argument.partition
        return self._limit.is_due(
            (verdict.rule.code, who.group_id, who.member_id, partition and partition[0]), verdict.rule.rationed
        )

    def _explain(self, now: Acknowledging) -> list[Verdict]:
        """The one finding that says why the acknowledgements of a partition were refused; where none is proved, behind
        it what may have."""
        weak: list[Verdict] = []
        for verdict in explanations(self._explanations, now, None):
            if verdict.is_told:
                return [verdict]
            weak.append(verdict)
        now.share_partition.shaken = now.step.end
        argument = not_told(now)
        because = weak[0].judgement.because if weak else argument.because
        return unexplained(Verdict(ACK_REFUSED, argument, Judgement("unknown", because), "explanation"), weak)


def _unproved(verdict: Verdict) -> Verdict:
    return verdict._replace(judgement=Judgement("unknown", "hidden_traffic"))
