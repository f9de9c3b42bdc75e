"""The partitions of a session. Rules 43, 44 and 47."""

from __future__ import annotations

from typing import Final

from kshark.analysis.argument import STATE, Argument, Place
from kshark.analysis.machines import SESSION
from kshark.analysis.members import NotAssigned
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import ACKNOWLEDGED_ONLY, FORGETS
from kshark.analysis.situation import Situation
from kshark.analysis.steps import ACCEPTED, SUBSEQUENT


def phantom(now: Situation) -> Argument | None:
    """Listed once to acknowledge, never forgotten, not assigned: and its records keep being handed out. Said once."""
    step, acknowledged_only = now.step, now.session.in_flight.acknowledged_only
    if not step.is_fetch or not acknowledged_only or step.answer is None:
        return None
    member = now.session.member
    for partition, _, _ in step.answer.acquired:
        brought = acknowledged_only.get(partition)
        if brought is None or partition in step.forgotten or any(listed.partition == partition for listed in step.listed):
            continue
        assigned = member.is_assigned(partition, step.packet)
        if assigned:
            continue
        text = (
            f"{brought.here} listed partition {partition[1]} to acknowledge records of it ({brought.packets}) and did not forget it; "
            f"{step.here} was handed more of its records ({step.packets})"
        )
        needs = STATE.and_proof(NotAssigned(member, partition, step.packet), "assignment_unknown")
        because = "assignment_unknown" if assigned is None else None
        place = Place(brought.connection, brought.packet, brought.time_ns)
        return Argument(text, (brought, step), needs, because=because, partition=partition, place=place)
    return None


def forgot_what_it_had_not(now: Situation) -> Argument | None:
    """A partition that is not in the session is to be forgotten."""
    step, partitions = now.step, now.session.in_flight.partitions
    if not step.forgotten or partitions is None or now.session.anchor is None:
        return None
    listed = {listed.partition for listed in step.listed}
    strange = [partition for partition in step.forgotten if partition not in partitions and partition not in listed]
    if not strange:
        return None
    text = f"{step.here} forgets partition {strange[0][1]}, which the session does not hold ({step.packets})"
    return Argument(text, (step,), partition=strange[0])


def forgot_what_it_holds(now: Situation) -> Argument | None:
    """A partition is forgotten while records of it are acquired: they stay locked until the lock runs out."""
    step = now.step
    for partition in step.forgotten:
        count = now.session.in_flight.unacknowledged(partition, step)
        if count:
            text = f"{step.here} forgets partition {partition[1]} with {count} records acquired and not acknowledged ({step.packets})"
            return Argument(text, (step,), partition=partition)
    return None


_ACCEPTED: Final = ((SUBSEQUENT,), (ACCEPTED,))
ROWS: Final = (
    Rule(
        number=43,
        code="PHANTOM_SESSION_PARTITION",
        text="A partition listed only to acknowledge stays in the session, and its data keeps coming.",
        source="Kafka: ShareSession.update",
        at="request",
        machine=SESSION,
        checks=(Check(phantom, *_ACCEPTED, ACKNOWLEDGED_ONLY),),
    ),
    Rule(
        number=44,
        code="FORGET_UNKNOWN",
        text="A partition is forgotten that the session does not hold.",
        source="Kafka: ShareSession.update",
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(Check(forgot_what_it_had_not, *_ACCEPTED, FORGETS),),
    ),
    Rule(
        number=47,
        code="UNRELEASED_ON_FORGET",
        text="A partition is forgotten while the member still holds records of it; they stay locked.",
        source="Kafka: SharePartitionManager.releaseSession",
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(Check(forgot_what_it_holds, *_ACCEPTED, FORGETS),),
    ),
)
