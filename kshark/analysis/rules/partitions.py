"""The partitions of a session, and their assignment to members. Rules 43, 44, 47, 90 and 91."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, STATE, Argument, Position, ProofNeeds, at_least
from kshark.analysis.facts.bases import (
    ANSWER_RECEIVED,
    AT_LEAST,
    AT_MOST,
    BETWEEN_CONNECTIONS,
    NO_CONNECTION,
    NO_HOST,
    Ground,
    Limit,
)
from kshark.analysis.facts.calls import ACCEPTED, FINAL, INITIAL, SUBSEQUENT, Partition, ShareStep, next_epoch
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import ACKNOWLEDGED_ONLY, ASSIGNED, DEPARTED, FORGETS, OPENED
from kshark.analysis.states.member.state import (
    NOT_RECEIVED,
    ON_ITS_WAY_NS,
    Assignment,
    NotAssigned,
    NotBack,
    may_have_crossed,
)
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.tables import SESSION


def acknowledged_only_partition_served(situation: SessionSituation) -> Argument | None:
    """The broker still delivers records of a partition that the member listed once, to acknowledge, and never forgot.

    The partition is not assigned to the member. Reported once.
    """
    step, acknowledged_only = situation.step, situation.session.in_flight.acknowledged_only
    if not step.is_fetch or not acknowledged_only or step.answer is None:
        return None
    member = situation.session.member
    for partition, *_ in step.answer.acquired:
        brought = acknowledged_only.get(partition)
        if (
            brought is None
            or partition in step.forgotten
            or any(listed.partition == partition for listed in step.listed)
        ):
            continue
        if brought.connection is not step.connection or situation.session.moved > brought.packet:
            continue  # a third connection may have opened the session again
        if member.is_assigned(partition, step.packet):
            continue
        text = (
            f"{brought.here} listed partition {partition[1]} only to acknowledge its records ({brought.packets}) and "
            f"did not forget it; {step.here} received more of its records ({step.packets})"
        )
        needs = STATE.knowing(member.assignment_known(step.packet))
        needs = needs.and_proof(NotAssigned(member, partition, step.packet))
        position = Position(brought.connection, brought.packet, brought.time_ns)
        return Argument(text, (brought, step), needs, partition=partition, position=position)
    return None


def forgot_unlisted_partition(situation: SessionSituation) -> Argument | None:
    """The member forgets a partition that is not in the session."""
    step, partitions = situation.step, situation.session.in_flight.partitions
    if not step.forgotten or partitions is None or situation.session.anchor is None:
        return None
    listed = {listed.partition for listed in step.listed}
    strange = [partition for partition in step.forgotten if partition not in partitions and partition not in listed]
    if not strange:
        return None
    text = f"{step.here} forgets partition {strange[0][1]}, which the session does not hold ({step.packets})"
    return Argument(text, (step,), partition=strange[0])


def forgot_acquired_records(situation: SessionSituation) -> Argument | None:
    """The member forgets a partition while it has acquired records of it.

    They stay locked until they are acknowledged, or their lock expires.
    """
    step = situation.step
    for partition in step.forgotten:
        count = situation.session.in_flight.unacknowledged(partition, step)
        if count:
            text = (
                f"{step.here} forgets partition {partition[1]} with {count} records acquired and not acknowledged "
                f"({step.packets})"
            )
            return Argument(text, (step,), partition=partition)
    return None


def fetched_unassigned_partition(situation: SessionSituation) -> Argument | None:
    """The member adds a partition to an open session that is not in its assignment.

    It may list a partition that it had before until it has received the heartbeat answer that removed the partition.
    An empty assignment is no evidence: a coordinator of 4.3 sends it to members for which it has no assignment yet.
    """
    step, session, member = situation.step, situation.session, situation.session.member
    held, assignment = session.in_flight.partitions, member.assignment_at(step.packet)
    if not step.is_fetch or held is None or assignment is None or not assignment.partitions:
        return None
    settled = (
        situation.before_here is not None
        and situation.before_here.packet > assignment.packet
        and not may_have_crossed(assignment.time_ns, step)
    )
    for partition in step.asked_for:
        if partition in held or member.is_assigned(partition, step.packet) is not False:
            continue
        if member.never_had(partition, step.packet):
            return _unassigned(situation, step, assignment, partition)
        if settled:
            ground = at_least(ON_ITS_WAY_NS, PacketTime(assignment.packet, assignment.time_ns), step)
            by = member.assigned_by
            is_known = by is not None and by.end == assignment.packet
            needs = EXCHANGE.after(by) if by is not None and is_known else EXCHANGE.knowing(NOT_RECEIVED)
            return _unassigned(situation, step, assignment, partition, grounds=(ground,), needs=needs)
    return None


def kept_unassigned_partition(situation: SessionSituation) -> Argument | None:
    """The member opens a session with partitions that are not assigned, and does not forget them with its next fetch.

    Java clients open a session with all their previous partitions, and forget those that they lost with the next
    request.
    """
    step, member, opening = situation.step, situation.session.member, situation.session.opening
    if (
        not step.is_fetch
        or opening is None
        or situation.before_here is not opening
        or step.epoch != next_epoch(opening.epoch)
    ):
        return None
    assignment, held = member.assignment_at(opening.packet), sorted(situation.session.in_flight.partitions or ())
    if assignment is None or not assignment.partitions:
        return None
    for partition in held:
        strange = (
            member.is_assigned(partition, opening.packet) is False
            and member.is_assigned(partition, step.packet) is False
        )
        if strange and partition not in step.forgotten and member.never_had(partition, opening.packet):
            return _unassigned(situation, opening, assignment, partition, step)
    return None


def _unassigned(
    situation: SessionSituation,
    asking: ShareStep,
    assignment: Assignment,
    partition: Partition,
    kept: ShareStep | None = None,
    grounds: tuple[Ground, ...] = (),
    needs: ProofNeeds = EXCHANGE,
) -> Argument:
    """`kept`: the next request, which does not forget the partition."""
    text = f"{asking.here} asked for partition {partition[1]} ({asking.packets})"
    text = f"{text}, which is not in the member's last assignment (packet {assignment.packet})"
    position = None
    if kept is not None:
        text = f"{text}, and {kept.here} did not forget it ({kept.packets})"
        position = Position(asking.connection, asking.packet, asking.time_ns)
    member, witness = situation.session.member, (asking,) if kept is None else (asking, kept)
    proof = NotAssigned(member, partition, witness[-1].packet)
    needs = needs.knowing(member.has_assignment(asking)).and_proof(proof)
    return Argument(text, witness, needs, partition=partition, position=position, grounds=grounds)


def fetched_after_departure(situation: SessionSituation) -> Argument | None:
    """The member left its group or was removed from it, and still uses its session.

    Reported once, and once more on the connection of that heartbeat, where only its own bytes can excuse the member.
    """
    step, session = situation.step, situation.session
    gone = session.departure(step)
    if gone is None:
        return None
    here = gone.connection is step.connection
    if gone is session.departed and (session.departed_here or not here):
        return None
    needs = EXCHANGE if gone.kind is FINAL else EXCHANGE.after(gone)  # a member knows that it left
    if not here:
        needs = needs.and_proof(NotBack(session.member, gone, step))
    grounds = () if here and gone.kind is FINAL else (at_least(ON_ITS_WAY_NS, gone.ended, step),)
    return Argument(f"{gone.story}; after that {step.story}", (gone, step), needs, grounds=grounds)


_ACCEPTED: Final = ((SUBSEQUENT,), (ACCEPTED,))
ROWS: Final = (
    Rule(
        number=43,
        code="PHANTOM_SESSION_PARTITION",
        text="A partition that was listed only to acknowledge stays in the session, and its records keep coming.",
        act="acknowledged by listing a partition that then stayed in the share session: more records come",
        weight=50,
        must="A request that lists a partition only to acknowledge its records also forgets the partition.",
        advice="Add the partition to forgotten_topics_data too if it does not belong to the member any more.",
        wrong="ShareFetch epoch 0, list t[0] t[1] → 0, offsets 0-9; a is assigned t[1]; ShareFetch epoch 1, forget "
        "t[0] → 0; ShareFetch epoch 2, accept 0-9 → 0; ShareFetch epoch 3 → 0, offsets 10-19; a is assigned t[1]",
        right="ShareFetch epoch 0, list t[0] t[1] → 0, offsets 0-9; a is assigned t[1]; ShareFetch epoch 1, forget "
        "t[0] → 0; ShareFetch epoch 2, accept 0-9, forget t[0] → 0; ShareFetch epoch 3 → 0; a is assigned t[1]",
        provoked_by="Let the assignment of the member shrink: start a second member of the group.",
        source="Kafka: ShareSession.update",
        rests_on=(NO_CONNECTION, NO_HOST, Limit("SESSION_PARTITIONS")),
        tickets=("KAFKA-20736",),
        at="request",
        machine=SESSION,
        checks=(Check(acknowledged_only_partition_served, *_ACCEPTED, ACKNOWLEDGED_ONLY),),
    ),
    Rule(
        number=44,
        code="FORGET_UNKNOWN",
        text="A request forgets a partition that the session does not hold.",
        advice="Forget a partition once, and only if it was listed before.",
        wrong="ShareFetch epoch 0, list t[0] → 0; ShareFetch epoch 1, forget t[1] → 0",
        right="ShareFetch epoch 0, list t[0] → 0; ShareFetch epoch 1, forget t[0] → 0",
        source="Kafka: ShareSession.update",
        rests_on=(NO_CONNECTION, Limit("SESSION_PARTITIONS")),
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(Check(forgot_unlisted_partition, *_ACCEPTED, FORGETS),),
    ),
    Rule(
        number=47,
        code="UNRELEASED_ON_FORGET",
        text="A member forgets a partition while it still holds records of it. They stay locked until it acknowledges "
        "them or their locks expire.",
        advice="Acknowledge or release the acquired records of a partition before it is forgotten, or in the same "
        "request.",
        wrong="ShareFetch epoch 0, list t[0] → 0, offsets 0-9; ShareFetch epoch 1, forget t[0] → 0; 31000 ms later; "
        "ShareAcknowledge epoch -1 → 0",
        right="ShareFetch epoch 0, list t[0] → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; ShareFetch "
        "epoch 2, forget t[0] → 0",
        source="Kafka: SharePartitionManager.releaseSession",
        rests_on=(AT_MOST, Limit("HELD_RANGES")),
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(Check(forgot_acquired_records, *_ACCEPTED, FORGETS),),
    ),
    Rule(
        number=90,
        code="FETCH_UNASSIGNED_PARTITION",
        text="A member fetches a partition that is not in its assignment. Brokers serve it.",
        act="fetched partitions that were not assigned",
        weight=42,
        must="A share session holds only partitions of the member's assignment.",
        advice="List the partitions that the last answer to ShareGroupHeartbeat assigned, and forget those that it "
        "removed.",
        wrong="a is assigned t[0]; ShareFetch epoch 0, list t[0] t[1] → 0; ShareFetch epoch 1 → 0; a is assigned t[0]",
        right="a is assigned t[0]; ShareFetch epoch 0, list t[0] → 0; ShareFetch epoch 1 → 0; a is assigned t[0]",
        source="Kafka: KafkaApis.handleShareFetchRequest does not check the assignment",
        rests_on=(AT_LEAST, BETWEEN_CONNECTIONS, NO_CONNECTION, ANSWER_RECEIVED),
        tickets=("KAFKA-20736",),
        at="request",
        machine=SESSION,
        checks=(
            Check(fetched_unassigned_partition, *_ACCEPTED, ASSIGNED),
            Check(kept_unassigned_partition, *_ACCEPTED, OPENED),
        ),
    ),
    Rule(
        number=91,
        code="FETCH_BY_DEPARTED_MEMBER",
        text="A member that left its group or was removed from it still uses its share session. Brokers serve it.",
        act="used a share session after leaving the group, or after being removed",
        weight=47,
        must="A member that is not in the group joins it before its next share session request.",
        advice="Stop fetching when the member leaves the group. Join again after FENCED_MEMBER_EPOCH or "
        "UNKNOWN_MEMBER_ID.",
        wrong="ShareFetch epoch 0 → 0; a leaves; ShareFetch epoch 1 → 0",
        right="ShareFetch epoch 0 → 0; a leaves; a joins; ShareFetch epoch 0 → 0",
        provoked_by="Suspend the client (SIGSTOP) for longer than group.share.session.timeout.ms while records come "
        "in.",
        source="Kafka: KafkaApis.handleShareFetchRequest does not check the membership",
        rests_on=(AT_LEAST, BETWEEN_CONNECTIONS, NO_CONNECTION, ANSWER_RECEIVED),
        at="request",
        machine=SESSION,
        checks=(Check(fetched_after_departure, (INITIAL, SUBSEQUENT), (ACCEPTED,), DEPARTED),),
    ),
)
