"""How often a capture put each rule to the test, and how often it held, was broken, or stayed unknown: for a client,
how far it conforms.

Steps are counted by what they were, not rule by rule; which rules a step put to the test is read from their rows when
all are counted. A rule that explains refusals was put to the test by what was accepted, too: it held there. What
somebody else's mistake explains says nothing of it, and where no explanation is proved, those that came near stay
unknown. Rules that are about bytes are put to the test by whatever is read of the kind that their row names
(Rule.read)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from kshark.analysis.facts.calls import ACCEPTED, NEGATIVE, SUBSEQUENT, ShareStep
from kshark.analysis.facts.machine import StepType
from kshark.analysis.rules import BOOK, RuleBook
from kshark.analysis.rules.premises import never_tested
from kshark.analysis.rules.rule import Checked, Read, Rule
from kshark.analysis.rules.triggers import Trigger
from kshark.analysis.runners.verdict import Part, Verdict
from kshark.analysis.states.session.state import SessionState
from kshark.analysis.states.tables import SESSION
from kshark.anomaly import Blame

#: Kinds of what is read, of which what is amiss is no part.
_APART: Final = frozenset({"frames", "matched", "share_requests"})
_NOTHING: Final[Mapping[Read, int]] = {}


class Trial(NamedTuple):
    """What a step was, as far as that tells which rules it put to the test; `kind` and `reply` are None where checks
    ask for none.

    `situation`: Checked.situation of the checks that look at it; `premises`: the names of their triggers whose premise
    holds."""

    situation: str
    api_key: Any
    kind: Any
    reply: Any
    accepted: bool
    premises: tuple[str, ...]


class RuleCoverage(NamedTuple):
    """Of one rule: how often it was put to the test, and what came of that; `noted`: nobody broke it, and there was
    something to note.

    `blame`: whom the rule may accuse, the chief suspect first.
    """

    rule: int | None
    code: str
    blame: tuple[Blame, ...]
    tested: int
    held: int
    broken: int
    unknown: int
    noted: int


class Coverage(Struct):
    """Counts of a capture or of a part of it. `trials` are steps, `asked` exchanges that were put to a rule of one
    exchange, by its code;
    `said` is what rules said, by code and verdict.
    """

    trials: Counter[Trial] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    said: Counter[tuple[str, str | None, Part]] = field(default_factory=Counter)

    def join(self, other: Coverage) -> None:
        """Adds what was counted elsewhere."""
        for mine, theirs in self._pairs(other):
            mine.update(theirs)

    def without(self, other: Coverage) -> Coverage:
        """All but what is counted elsewhere, too."""
        left = Coverage()
        left.join(self)
        for mine, theirs in left._pairs(other):
            mine.subtract(theirs)
        return left

    def _pairs(self, other: Coverage) -> tuple[tuple[Counter[Any], Counter[Any]], ...]:
        return (self.trials, other.trials), (self.asked, other.asked), (self.said, other.said)

    def rules(self, read: Mapping[Read, int] = _NOTHING, book: RuleBook = BOOK) -> list[RuleCoverage]:
        """Every rule of the catalogue, in its order; `read`: how much of each kind was read (Observed.read)."""
        return [self._of(rule, read) for rule in book.rules if rule.number is not None]

    def _of(self, rule: Rule, read: Mapping[Read, int]) -> RuleCoverage:
        checks = [Checked(rule, check) for check in rule.checks]
        trials = sum(times for trial, times in self.trials.items() if any(_is_put_to(one, trial) for one in checks))
        said = {key[1:]: times for key, times in self.said.items() if key[0] == rule.code}
        counts = rule.apis or any(
            one.order is None and one.trigger.premise is not never_tested and not rule.weird for one in rule.checks
        )
        remarks = sum(times for (_, part), times in said.items() if part == "remark") if counts else 0
        held = trials + self.asked[rule.code] - remarks
        verdicts = Counter[str | None]()
        for (verdict, _), times in said.items():
            verdicts[verdict] += times
        broken, unknown, noted = (verdicts[verdict] for verdict in ("violation", "unknown", "note"))
        unknown += verdicts["refuted"]
        if rule.read:  # what could not be cut, or has no request, is none of those that could, or have one
            amiss = 0 if rule.read in _APART else broken + unknown + noted
            held += max(0, read.get(rule.read, 0) - amiss)
        return RuleCoverage(
            rule.number, rule.code, rule.blame, held + broken + unknown + noted, held, broken, unknown, noted
        )


def _is_put_to(one: Checked, trial: Trial) -> bool:
    """Whether the step put the check's rule to the test.

    Where a premise says which steps do, their kind does not matter: a new session behind a refusal shows that
    NO_RECOVERY was kept. No more does it where the kind is itself the mistake: each epoch shows that none is below -1.
    """
    check, explains = one.check, one.check.order is not None
    if one.situation != trial.situation or (check.apis and trial.api_key not in check.apis):
        return False
    if not trial.accepted if explains else trial.reply is not None and not check.is_about_reply(trial.reply):
        return False
    if check.trigger.premise is not None:
        return check.trigger.name in trial.premises
    return trial.kind is None or trial.kind in check.kinds or tuple(check.kinds) == (NEGATIVE,)


class _Plain(NamedTuple):
    """As much of a situation as premises of sessions ask for."""

    session: SessionState
    step: ShareStep


class CoverageCounter:
    """Takes steps before they belong to the past, and what rules say; counts into `coverage`."""

    def __init__(self, book: RuleBook) -> None:
        self.coverage = Coverage()
        self._premises: dict[str, dict[Trigger, None]] = {}
        for rule in book.rules:
            for check in rule.checks:
                if check.trigger.premise is not None:
                    self._premises.setdefault(Checked(rule, check).situation, {})[check.trigger] = None

    def step(self, now: Any, step: StepType) -> None:
        """Count a situation that rules are about to look at."""
        triggers = self._premises.get(step.situation, ())
        holding = tuple([trigger.name for trigger in triggers if trigger.premise is not None and trigger.premise(now)])
        self.coverage.trials[Trial(step.situation, step.api_key, step.kind, step.reply, step.accepted, holding)] += 1

    def plain(self, session: SessionState, step: ShareStep) -> None:
        """Count a plain step, which no rule looks at."""
        self.step(_Plain(session, step), StepType(SESSION.name, step.api_key, SUBSEQUENT, ACCEPTED, accepted=True))

    def say(self, verdicts: Iterable[Verdict]) -> None:
        """What rules say of steps, told or not."""
        self.coverage.said.update((verdict.rule.code, verdict.judgement.verdict, verdict.part) for verdict in verdicts)
