"""Facts derived from the rows of rules: bodies to read, checks of a step, fast path triggers, Spark buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from kshark.analysis.facts.calls import ACCEPTED, SUBSEQUENT
from kshark.analysis.facts.machine import StepType
from kshark.analysis.rules.rule import CATCH_ALL, Checked, Rule
from kshark.analysis.rules.triggers import Trigger, compiled
from kshark.analysis.states.tables import SESSION, Machine

#: Every check, with any sign of its trigger.
ALL_SIGNS: Final = -1


class Questions(Struct, frozen=True):
    """Checks that look at a type of step.

    `explanations` say why the step was refused: in their order, the catch-all last, empty if there is no refusal.
    `remarks` report anything else: groups of checks, of which only one reports each step.
    """

    explanations: tuple[Checked, ...]
    remarks: tuple[tuple[Checked, ...], ...]


class RuleBook:
    """The rows, indexed for each use."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: Final = tuple(sorted(rules, key=lambda rule: (rule.number is None, rule.number or 0, rule.code)))
        self.by_code: Final = {rule.code: rule for rule in self.rules}
        #: Rules about a single exchange.
        self.of_exchanges: Final = tuple(rule for rule in self.rules if rule.when is not None)
        #: Rules about faults in bytes, by the code of the fault.
        noting = {rule.unproved_as for rule in self.rules}
        self.weirds: Final = {code: rule for rule in self.rules if rule.code not in noting for code in rule.weird}
        #: Machines that have rules.
        self.machines: Final[tuple[Machine, ...]] = tuple(
            dict.fromkeys(
                machine
                for rule in self.rules
                for machine in (rule.machine, *(check.machine for check in rule.checks))
                if machine is not None
            )
        )
        self._of_situation: dict[str, list[Checked]] = defaultdict(list)
        for machine in self.machines:
            for checked in self.checks(machine):
                self._of_situation[checked.situation].append(checked)
        self._questions: dict[tuple[StepType, int], Questions] = {}
        #: True if a rule may report a request that was due and accepted.
        self.is_triggered: Final[Callable[[Any, Any], object]] = compiled(self.triggers)

    @property
    def apis(self) -> frozenset[int]:
        """APIs whose bodies the rules read."""
        return frozenset().union(*(machine.apis for machine in self.machines), *(rule.apis for rule in self.rules))

    @property
    def visited(self) -> frozenset[int]:
        """APIs of the machines other than the session's that have rules, and of these rules."""
        others = (
            (rule, machine) for rule in self.rules if (machine := rule.machine) is not None and machine is not SESSION
        )
        return frozenset(api_key for rule, machine in others for api_key in (*machine.apis, *rule.apis))

    def questions(self, step: StepType, signs: int = ALL_SIGNS) -> Questions:
        """Return the checks of steps of this type.

        `signs`: return only remarks whose trigger has one of these signs.
        """
        questions = self._questions.get((step, signs))
        if questions is None:
            relevant = [checked for checked in self._of_situation.get(step.situation, ()) if _is_asked(checked, step)]
            explaining = [checked for checked in relevant if checked.check.order is not None] if step.refused else []
            if step.contested:
                explaining = [checked for checked in explaining if checked.check.order == CATCH_ALL]
            groups: dict[object, list[Checked]] = defaultdict(list)
            for checked in relevant:
                if checked.check.order is None and (signs == ALL_SIGNS or checked.check.trigger.sign & signs):
                    groups[checked.rule.code if checked.rule.alternatives else checked.check].append(checked)
            questions = self._questions[step, signs] = Questions(
                tuple(sorted(explaining, key=lambda checked: checked.check.order or 0)),
                tuple(map(tuple, groups.values())),
            )
        return questions

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """Triggers that keep a due and accepted request off the fast path, and its member in Spark's screen."""
        plain = StepType(SESSION.name, kind=SUBSEQUENT, reply=ACCEPTED, accepted=True)
        checks = (checked.check for checked in self._of_situation[SESSION.name] if _is_asked(checked, plain))
        return tuple(dict.fromkeys(check.trigger for check in checks if check.order is None))

    @property
    def catch_alls(self) -> dict[Any, Rule]:
        """Rule for share session refusals that no explanation fits, by the reply."""
        checks = (checked for checked in self.checks(SESSION) if checked.check.order == CATCH_ALL)
        return {reply: checked.rule for checked in checks for reply in checked.check.replies or ()}

    @property
    def bucket(self) -> tuple[str, ...]:
        """Columns that group exchanges for every machine that has rules: the columns common to all machine keys.

        An exchange that lacks one of them belongs to no machine, and may lie in any bucket.
        """
        first, *others = (machine.key for machine in self.machines)
        return tuple(column for column in first if all(column in key for key in others) and column != "broker")

    def concerns_plain(self, machine: Machine, about: type = object) -> bool:
        """True if a check of the machine, or of one of its situations, may report a plain step."""
        checks = (checked.check for checked in self.checks(machine) if about is object or checked.check.about is about)
        return any(check.concerns_plain for check in checks)

    def checks(self, machine: Machine) -> list[Checked]:
        """Return the checks of a machine's steps."""
        return [
            Checked(rule, check)
            for rule in self.rules
            for check in rule.checks
            if (check.machine or rule.machine) is machine
        ]


def _is_asked(checked: Checked, step: StepType) -> bool:
    """True if the check looks at steps of this type."""
    rule, check = checked
    return (
        (step.kind is None or step.kind in check.kinds)
        and (step.reply is None or check.is_about_reply(step.reply))
        and (not check.apis or step.api_key in check.apis)
        # with `when`, `apis` belong to the rule's exchanges
        and (not rule.apis or rule.when is not None or step.api_key in rule.apis)
    )
