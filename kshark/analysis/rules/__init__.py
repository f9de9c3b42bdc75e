"""The rules: one row each, a file a topic; and what is derived from the rows."""

from __future__ import annotations

from typing import Final

from kshark.analysis.machines import SESSION, Machine
from kshark.analysis.rules import connections, ends, epochs, partitions, recovery, requests
from kshark.analysis.rules.rule import KINDS, REPLIES, Checked, Rule
from kshark.analysis.rules.triggers import Trigger
from kshark.analysis.steps import ACCEPTED, SUBSEQUENT, Kind, Reply

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (*epochs.ROWS, *ends.ROWS, *connections.ROWS, *recovery.ROWS, *partitions.ROWS, *requests.ROWS),
        key=lambda rule: (rule.number is None, rule.number or 0, rule.code),
    )
)


def by_code(rules: tuple[Rule, ...]) -> dict[str, Rule]:
    return {rule.code: rule for rule in rules}


def apis_of(rules: tuple[Rule, ...]) -> frozenset[int]:
    """The APIs whose bodies the rules read."""
    machines = (rule.machine.apis for rule in rules if rule.machine is not None)
    return frozenset().union(*machines, *(rule.apis for rule in rules))


def machines_of(rules: tuple[Rule, ...]) -> tuple[Machine, ...]:
    """The machines that have rules."""
    return tuple(dict.fromkeys(rule.machine for rule in rules if rule.machine is not None))


def bucket_of(rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """The columns by which exchanges have to lie together for every machine that has rules: what all their keys have in common."""
    first, *others = (machine.key for machine in machines_of(rules))
    return tuple(column for column in first if all(column in key for key in others) and column != "broker")


def _checks(rules: tuple[Rule, ...], machine: Machine) -> list[Checked]:
    return [Checked(rule, check) for rule in rules if rule.machine is machine for check in rule.checks]


_Steps = dict[tuple[Kind, Reply], tuple[Checked, ...]]


def by_step(checks: list[Checked]) -> _Steps:
    """The checks to be made of a step of a session, by its kind and reply, in the order given."""
    return {
        (kind, reply): tuple(one for one in checks if kind in one.check.kinds and reply in one.check.replies)
        for kind in KINDS
        for reply in REPLIES
    }


def explanations(rules: tuple[Rule, ...]) -> _Steps:
    """What explains a refusal, first things first: the first that the capture proves gives it its one cause."""
    ordered = [one for one in _checks(rules, SESSION) if one.check.order is not None]
    return by_step(sorted(ordered, key=lambda one: one.check.order or 0))


def remarks(rules: tuple[Rule, ...]) -> _Steps:
    """What else is worth saying of a request, refused or not."""
    return by_step([one for one in _checks(rules, SESSION) if one.check.order is None])


def triggers(rules: tuple[Rule, ...]) -> tuple[Trigger, ...]:
    """What keeps a request that was due and accepted from the fast path, and a member from passing Spark's screen unseen."""
    plain = remarks(rules)[SUBSEQUENT, ACCEPTED]
    return tuple(dict.fromkeys(one.check.trigger for one in plain))


__all__ = ["RULES", "Rule", "apis_of", "bucket_of", "by_code", "by_step", "explanations", "machines_of", "remarks", "triggers"]
