"""Coverage: how often a capture put each rule to the test, and how often the rule held, was broken, or stayed unknown.
For a client this shows how far it conforms.

Steps are counted by their kind, not rule by rule. The rows of the rules show afterwards which steps put a rule to the
test. A rule that explains refusals is also put to the test by accepted steps: it held there. A refusal that another
rule explains does not count for it. Where no explanation is proved, those that were considered stay unknown. Rules
about bytes are put to the test by everything that is read of the kind in their row (Rule.read)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from kshark.analysis.facts.calls import ACCEPTED, NEGATIVE, SUBSEQUENT, Call, ShareStep
from kshark.analysis.facts.machine import StepType
from kshark.analysis.facts.parties import Parties, Party
from kshark.analysis.rules import BOOK, RuleBook
from kshark.analysis.rules.premises import never_tested
from kshark.analysis.rules.rule import Checked, Read, Rule
from kshark.analysis.rules.triggers import Trigger
from kshark.analysis.runners.verdict import Part, Verdict
from kshark.analysis.states.session.state import SessionState
from kshark.analysis.states.tables import SESSION
from kshark.anomaly import Blame
from kshark.model import Flow, Message

#: Kinds of Rule.read whose count does not include the faulty ones.
_APART: Final = frozenset({"frames", "matched", "share_requests"})
_NOTHING: Final[Mapping[Read, int]] = {}


class Trial(Struct, frozen=True):
    """The properties of a step that decide which rules it puts to the test. `kind` and `reply` are None where checks
    do not ask for them.

    `situation`: Checked.situation of the checks that look at the step. `premises`: the names of their triggers whose
    premise holds."""

    situation: str
    api_key: Any
    kind: Any
    reply: Any
    accepted: bool
    premises: tuple[str, ...]


class RuleCoverage(NamedTuple):
    """How often one rule was put to the test, with the results. `noted`: it was not broken, and a note was made.

    `blame`: the parties that the rule may accuse, the main suspect first.
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
    """The counts of a capture or of a part of it. `trials`: steps. `asked`: exchanges, by the code of the rule of one
    exchange that they put to the test. `verdicts`: by the rule's code, verdict and part.
    """

    trials: Counter[Trial] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str | None, Part]] = field(default_factory=Counter)

    def join(self, other: Coverage) -> None:
        """Add the counts of another part."""
        for own, others in self._pairs(other):
            own.update(others)

    def without(self, other: Coverage) -> Coverage:
        """Return the counts less those of another part."""
        left = Coverage()
        left.join(self)
        for own, others in left._pairs(other):
            own.subtract(others)
        return left

    def _pairs(self, other: Coverage) -> tuple[tuple[Counter[Any], Counter[Any]], ...]:
        return (self.trials, other.trials), (self.asked, other.asked), (self.verdicts, other.verdicts)

    def rules(self, read: Mapping[Read, int] = _NOTHING, book: RuleBook = BOOK) -> list[RuleCoverage]:
        """Return every rule of the catalogue, in its order. `read`: how much of each kind was read (Observed.read)."""
        return [self._of(rule, read) for rule in book.rules if rule.number is not None]

    def _of(self, rule: Rule, read: Mapping[Read, int]) -> RuleCoverage:
        checks = [Checked(rule, check) for check in rule.checks]
        trials = sum(times for trial, times in self.trials.items() if any(_is_put_to(check, trial) for check in checks))
        verdicts_of_rule = {key[1:]: times for key, times in self.verdicts.items() if key[0] == rule.code}
        counts = rule.apis or any(
            check.order is None and check.trigger.premise is not never_tested and not rule.weird
            for check in rule.checks
        )
        remarks = sum(times for (_, part), times in verdicts_of_rule.items() if part == "remark") if counts else 0
        held = trials + self.asked[rule.code] - remarks
        verdicts = Counter[str | None]()
        for (verdict, _), times in verdicts_of_rule.items():
            verdicts[verdict] += times
        broken, unknown, noted = (verdicts[verdict] for verdict in ("violation", "unknown", "note"))
        unknown += verdicts["refuted"]
        if rule.read:  # frames that could not be cut, and answers without a request, are not in their counts
            faulty = 0 if rule.read in _APART else broken + unknown + noted
            held += max(0, read.get(rule.read, 0) - faulty)
        return RuleCoverage(
            rule.number, rule.code, rule.blame, held + broken + unknown + noted, held, broken, unknown, noted
        )


def _is_put_to(checked: Checked, trial: Trial) -> bool:
    """True if the step put the check's rule to the test.

    The kind of the step does not matter if a premise decides: a new session after a refusal shows that NO_RECOVERY was
    kept. It does not matter either if the kind is itself the mistake: every epoch shows that none is below -1.
    """
    check, explains = checked.check, checked.check.order is not None
    if checked.situation != trial.situation or (check.apis and trial.api_key not in check.apis):
        return False
    if not trial.accepted if explains else trial.reply is not None and not check.is_about_reply(trial.reply):
        return False
    if check.trigger.premise is not None:
        return check.trigger.name in trial.premises
    return trial.kind is None or trial.kind in check.kinds or tuple(check.kinds) == (NEGATIVE,)


class _Plain(Struct, frozen=True):
    """The part of a situation that premises of sessions read."""

    session: SessionState
    step: ShareStep

    @property
    def call(self) -> Call:
        return self.step


class CoverageCounter:
    """Count steps, before their state takes them, and verdicts, in `coverage`.

    `parties`: count also by client, in `of_parties`, and only what they select.
    """

    def __init__(self, book: RuleBook, parties: Parties | None = None) -> None:
        self.coverage = Coverage()
        self.of_parties: defaultdict[Party, Coverage] = defaultdict(Coverage)
        self._parties = parties
        self._premises: dict[str, dict[Trigger, None]] = {}
        for rule in book.rules:
            for check in rule.checks:
                if check.trigger.premise is not None:
                    self._premises.setdefault(Checked(rule, check).situation, {})[check.trigger] = None

    def step(self, met: Any, step: StepType) -> None:
        """Count a situation that rules are about to look at."""
        triggers = self._premises.get(step.situation, ())
        premises = tuple([trigger.name for trigger in triggers if trigger.premise is not None and trigger.premise(met)])
        trial = Trial(step.situation, step.api_key, step.kind, step.reply, step.accepted, premises)
        for coverage in self._counted_in(met.call):
            coverage.trials[trial] += 1

    def asked(self, codes: Iterable[str], request: Message, response: Message | None, flow: Flow | None) -> None:
        """Count an exchange that puts these rules of one exchange to the test. `flow` None: its connection is over."""
        last = request.packet if response is None else response.packet
        for coverage in self._at(flow, request.client_id, request.packet, last):
            coverage.asked.update(codes)

    def plain(self, session: SessionState, step: ShareStep) -> None:
        """Count a plain step, which no rule looks at."""
        self.step(_Plain(session, step), StepType(SESSION.name, step.api_key, SUBSEQUENT, ACCEPTED, accepted=True))

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """Count verdicts, reported or not."""
        for verdict in verdicts:
            total, *others = self._counted_in(verdict.argument.witness[-1]) or (None,)
            if total is not None:
                total.verdicts[verdict.rule.code, verdict.judgement.verdict, verdict.part] += 1
            if _may_be_clients(verdict):
                for coverage in others:
                    coverage.verdicts[verdict.rule.code, verdict.judgement.verdict, verdict.part] += 1

    def _counted_in(self, call: Call | None) -> tuple[Coverage, ...]:
        """Return the coverage that counts a call: the whole one, and that of its client; none if it is left out."""
        if call is None:
            return self._at(None, None, 0, 0)
        return self._at(call.connection.flow, call.client_id, call.packet, call.end)

    def _at(self, flow: Flow | None, client_id: Any, first: int, last: int) -> tuple[Coverage, ...]:
        if self._parties is None:
            return (self.coverage,)
        party = None if flow is None else self._parties.of(flow, client_id, first, last)
        return () if party is None else (self.coverage, self.of_parties[party])


def _may_be_clients(verdict: Verdict) -> bool:
    """False if the verdict names another party than a client."""
    return (verdict.argument.blame or "client") == "client"
