"""The partitions of a session. Rules 43, 44 and 47."""

from __future__ import annotations

from kshark.analysis.evidence import Argument
from kshark.analysis.memory import Situation
from kshark.analysis.rules.registry import rule
from kshark.analysis.steps import Kind, Reply


@rule("PHANTOM_SESSION_PARTITION", kinds=(Kind.SUBSEQUENT,), replies=(Reply.TAKEN,))
def phantom(now: Situation) -> Argument | None:
    """Listed once to acknowledge, never forgotten, not assigned: and its records keep being handed out."""
    step, acknowledged_only = now.step, now.memory.holdings.acknowledged_only
    if not step.is_fetch or not acknowledged_only or step.answer is None:
        return None
    assignment = now.memory.member.assignment
    for partition, _, _ in step.answer.acquired:
        brought = acknowledged_only.get(partition)
        if brought is None or partition in step.forgotten or (assignment and partition in assignment):
            continue
        if any(listed.partition == partition for listed in step.listed):
            continue
        text = (
            f"{brought.here} listed partition {partition[1]} to acknowledge records of it ({brought.packets}) and did not forget it; "
            f"{step.here} was handed more of its records ({step.packets})"
        )
        because = "assignment_unknown" if assignment is None else None
        return Argument(text, (brought, step), because=because, partition=partition)
    return None


@rule("FORGET_UNKNOWN", kinds=(Kind.SUBSEQUENT,), replies=(Reply.TAKEN,))
def forgot_what_it_had_not(now: Situation) -> Argument | None:
    """A partition that is not in the session is to be forgotten."""
    step, partitions = now.step, now.memory.holdings.partitions
    if not step.forgotten or partitions is None or now.memory.anchor is None:
        return None
    listed = {listed.partition for listed in step.listed}
    strange = [partition for partition in step.forgotten if partition not in partitions and partition not in listed]
    if not strange:
        return None
    text = f"{step.here} forgets partition {strange[0][1]}, which the session does not hold ({step.packets})"
    return Argument(text, (step,), partition=strange[0])


@rule("UNRELEASED_ON_FORGET", kinds=(Kind.SUBSEQUENT,), replies=(Reply.TAKEN,))
def forgot_what_it_holds(now: Situation) -> Argument | None:
    """A partition is forgotten while records of it are acquired: they stay locked until the lock runs out."""
    step = now.step
    for partition in step.forgotten:
        count = now.memory.holdings.unacknowledged(partition, step)
        if count:
            text = f"{step.here} forgets partition {partition[1]} with {count} records acquired and not acknowledged ({step.packets})"
            return Argument(text, (step,), partition=partition)
    return None
