"""What is derived from rows of rules: the bodies that are read, the checks of each step, the fast path's triggers, Spark's buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kshark.analysis.machines import SESSION, Machine
from kshark.analysis.rules.rule import KINDS, REPLIES, Checked, Rule
from kshark.analysis.rules.triggers import Trigger, compiled
from kshark.analysis.steps import ACCEPTED, SUBSEQUENT, Kind, Reply

Checks = Mapping[tuple[Kind, Reply], tuple[Checked, ...]]


class RuleBook:
    """Rows, read in every way that they are needed."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: Final = tuple(sorted(rules, key=lambda rule: (rule.number is None, rule.number or 0, rule.code)))
        self.by_code: Final = {rule.code: rule for rule in self.rules}
        #: Rules of one exchange alone.
        self.of_exchanges: Final = tuple(rule for rule in self.rules if rule.when is not None)
        #: The machines that have rules.
        self.machines: Final[tuple[Machine, ...]] = tuple(dict.fromkeys(rule.machine for rule in self.rules if rule.machine is not None))
        ordered = [one for one in self.checks(SESSION) if one.check.order is not None]
        #: What explains a refusal, by the step's kind and reply, first things first: the first one proved gives it its one cause.
        self.explanations: Final[Checks] = _by_step(sorted(ordered, key=lambda one: one.check.order or 0))
        #: What else is worth saying of a request, refused or not.
        self.remarks: Final[Checks] = _by_step([one for one in self.checks(SESSION) if one.check.order is None])
        #: Whether a rule may have something to say of a request that was due and accepted.
        self.is_triggered: Final[Callable[[Any, Any], object]] = compiled(self.triggers)

    @property
    def apis(self) -> frozenset[int]:
        """The APIs whose bodies the rules read."""
        return frozenset().union(*(machine.apis for machine in self.machines), *(rule.apis for rule in self.rules))

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """What keeps a request that was due and accepted from the fast path, and a member from passing Spark's screen unseen."""
        return tuple(dict.fromkeys(one.check.trigger for one in self.remarks[SUBSEQUENT, ACCEPTED]))

    @property
    def bucket(self) -> tuple[str, ...]:
        """The columns by which exchanges have to lie together for every machine that has rules: what all their keys have in common."""
        first, *others = (machine.key for machine in self.machines)
        return tuple(column for column in first if all(column in key for key in others) and column != "broker")

    def checks(self, machine: Machine) -> list[Checked]:
        """The checks of a machine's steps."""
        return [Checked(rule, check) for rule in self.rules if rule.machine is machine for check in rule.checks]


def _by_step(checks: list[Checked]) -> Checks:
    return {
        (kind, reply): tuple(one for one in checks if kind in one.check.kinds and reply in one.check.replies)
        for kind in KINDS
        for reply in REPLIES
    }
