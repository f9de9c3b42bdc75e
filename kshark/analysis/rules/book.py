"""What is derived from rows of rules: the bodies that are read, the checks of each step, the fast path's triggers,
Spark's buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from kshark.analysis.facts.calls import ACCEPTED, SUBSEQUENT
from kshark.analysis.facts.machine import StepType
from kshark.analysis.rules.rule import CATCH_ALL, Checked, Rule
from kshark.analysis.rules.triggers import Trigger, compiled
from kshark.analysis.states.tables import SESSION, Machine

#: Every check, whatever its trigger's sign.
ALL_SIGNS: Final = -1


class Questions(NamedTuple):
    """The checks that look at a type of step.

    `explanations` say why it was refused, in their order, the catch-all last; empty where nothing has to be explained.
    `remarks` say what else is worth reporting: checks in groups, of each of which one speaks.
    """

    explanations: tuple[Checked, ...]
    remarks: tuple[tuple[Checked, ...], ...]


class RuleBook:
    """Rows, read in every way that they are needed."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: Final = tuple(sorted(rules, key=lambda rule: (rule.number is None, rule.number or 0, rule.code)))
        self.by_code: Final = {rule.code: rule for rule in self.rules}
        #: Rules of one exchange alone.
        self.of_exchanges: Final = tuple(rule for rule in self.rules if rule.when is not None)
        #: Rules of what is odd about bytes, by its code.
        self.weirds: Final = {code: rule for rule in self.rules for code in rule.weird}
        #: The machines that have rules.
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
            for one in self.checks(machine):
                self._of_situation[one.situation].append(one)
        self._questions: dict[tuple[StepType, int], Questions] = {}
        #: Whether a rule may have something to say of a request that was due and accepted.
        self.is_triggered: Final[Callable[[Any, Any], object]] = compiled(self.triggers)

    @property
    def apis(self) -> frozenset[int]:
        """The APIs whose bodies the rules read."""
        return frozenset().union(*(machine.apis for machine in self.machines), *(rule.apis for rule in self.rules))

    @property
    def visited(self) -> frozenset[int]:
        """The APIs of machines that have rules, but for the session's, and of these rules."""
        others = (
            (rule, machine) for rule in self.rules if (machine := rule.machine) is not None and machine is not SESSION
        )
        return frozenset(api_key for rule, machine in others for api_key in (*machine.apis, *rule.apis))

    def questions(self, step: StepType, signs: int = ALL_SIGNS) -> Questions:
        """Return the checks that look at steps of this type; of remarks those whose trigger has one of these signs."""
        found = self._questions.get((step, signs))
        if found is None:
            asked = [one for one in self._of_situation.get(step.situation, ()) if _is_asked(one, step)]
            explaining = [one for one in asked if one.check.order is not None] if step.refused else []
            if step.contested:
                explaining = [one for one in explaining if one.check.order == CATCH_ALL]
            groups: dict[object, list[Checked]] = defaultdict(list)
            for one in asked:
                if one.check.order is None and (signs == ALL_SIGNS or one.check.trigger.sign & signs):
                    groups[one.rule.code if one.rule.alternatives else one.check].append(one)
            found = self._questions[step, signs] = Questions(
                tuple(sorted(explaining, key=lambda one: one.check.order or 0)), tuple(map(tuple, groups.values()))
            )
        return found

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """What keeps a request that was due and accepted from the fast path, and a member from passing Spark's screen
        unseen."""
        plain = StepType(SESSION.name, kind=SUBSEQUENT, reply=ACCEPTED, accepted=True)
        asked = (one.check for one in self._of_situation[SESSION.name] if _is_asked(one, plain))
        return tuple(dict.fromkeys(check.trigger for check in asked if check.order is None))

    @property
    def catch_alls(self) -> dict[Any, Rule]:
        """The rule that takes refusals of share-session requests which nothing explains, by the reply."""
        checks = (one for one in self.checks(SESSION) if one.check.order == CATCH_ALL)
        return {reply: one.rule for one in checks for reply in one.check.replies or ()}

    @property
    def bucket(self) -> tuple[str, ...]:
        """The columns by which exchanges have to lie together for every machine that has rules: what all their keys
        have in common.

        An exchange that lacks one of them is no machine's, and may lie anywhere.
        """
        first, *others = (machine.key for machine in self.machines)
        return tuple(column for column in first if all(column in key for key in others) and column != "broker")

    def concerns_plain(self, machine: Machine, about: type = object) -> bool:
        """True if a check of the machine, or of one of its situations, may have something to say of a plain step."""
        checks = (one.check for one in self.checks(machine) if about is object or one.check.about is about)
        return any(check.concerns_plain for check in checks)

    def checks(self, machine: Machine) -> list[Checked]:
        """The checks of a machine's steps."""
        return [
            Checked(rule, check)
            for rule in self.rules
            for check in rule.checks
            if (check.machine or rule.machine) is machine
        ]


def _is_asked(one: Checked, step: StepType) -> bool:
    """True if the check looks at steps of this type."""
    rule, check = one
    return (
        (step.kind is None or step.kind in check.kinds)
        and (step.reply is None or check.is_about_reply(step.reply))
        and (not check.apis or step.api_key in check.apis)
        # with `when` the APIs are those of its exchanges
        and (not rule.apis or rule.when is not None or step.api_key in rule.apis)
    )
