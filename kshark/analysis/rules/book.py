"""What is derived from rows of rules: the bodies that are read, the checks of each step, the fast path's triggers,
Spark's buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kshark.analysis.facts.calls import ACCEPTED, SUBSEQUENT, Kind
from kshark.analysis.facts.heartbeats import HeartbeatReply
from kshark.analysis.rules.rule import KINDS, REPLIES, Checked, Rule
from kshark.analysis.rules.triggers import Trigger, compiled
from kshark.analysis.states.session.situation import SessionEnd
from kshark.analysis.states.tables import MEMBER, SESSION, Machine

Checks = Mapping[tuple[Kind, Any], tuple[Checked, ...]]


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
        #: What explains a refusal, by the step's kind and reply, first things first: the first one proved gives it its
        #: one cause. And what else is worth saying of a request, refused or not.
        self.explanations, self.remarks = _by_step(
            [one for one in self.checks(SESSION) if one.check.about is not SessionEnd], REPLIES
        )
        #: What is worth saying where a connection of a session ends.
        self.endings: Final = tuple(one for one in self.checks(SESSION) if one.check.about is SessionEnd)
        #: The same of heartbeats.
        self.member_explanations, self.member_remarks = _by_step(self.checks(MEMBER), HeartbeatReply)
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

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """What keeps a request that was due and accepted from the fast path, and a member from passing Spark's screen
        unseen."""
        return tuple(dict.fromkeys(one.check.trigger for one in self.remarks[SUBSEQUENT, ACCEPTED]))

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


def _by_step(checks: list[Checked], replies: Iterable[Any]) -> tuple[Checks, Checks]:
    """Explanations in their order, and remarks."""
    ordered = sorted((one for one in checks if one.check.order is not None), key=lambda one: one.check.order or 0)
    remarks = [one for one in checks if one.check.order is None]
    every = [(kind, reply) for kind in KINDS for reply in replies]
    return _of_steps(ordered, every), _of_steps(remarks, every)


def _of_steps(checks: list[Checked], steps: list[tuple[Kind, Any]]) -> Checks:
    return {
        step: tuple(one for one in checks if step[0] in one.check.kinds and one.check.is_about_reply(step[1]))
        for step in steps
    }
