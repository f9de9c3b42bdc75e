"""Members and their coordinator: join, leave, reasons for refused heartbeats. Rules 94, 100, 101, 103 to 108."""

from __future__ import annotations

import re
from typing import Final

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, STATE, Argument, ProofNeeds, at_least
from kshark.analysis.facts.bases import (
    ANSWER_RECEIVED,
    AT_LEAST,
    GROUP_SIZE,
    HEARTBEAT_INTERVAL,
    NO_CONNECTION,
    SESSION_TIMEOUT,
    Ground,
    Limit,
)
from kshark.analysis.facts.calls import FINAL, INITIAL, SUBSEQUENT
from kshark.analysis.facts.heartbeats import ACCEPTED, ELSEWHERE, FULL, INVALID, NO_GROUP, OUT, UNKNOWN_MEMBER, Beat
from kshark.analysis.rules.rule import CATCH_ALL, EXPLAINS, KINDS, NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import NAMES_TOPICS, NOT_LATE_YET, NOT_PLAIN, REMOVED_FROM_GROUP, UNTESTED
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.tables import CONSUMER, MEMBER
from kshark.api_keys import OFFSET_COMMIT, SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT, TXN_OFFSET_COMMIT
from kshark.conditions import F, any_of

_STAYING: Final = (SUBSEQUENT, FINAL)
_NO_MEMBER: Final = (UNKNOWN_MEMBER, NO_GROUP)
#: Words of brokers about a group of another type.
_OTHER_TYPE: Final = re.compile("is not a (share|consumer) group")
#: Machines of members whose heartbeats have an epoch.
_MACHINES: Final = (MEMBER, CONSUMER)
#: Why a broker that coordinates the group, or may, cannot answer yet.
_NOT_READY_CAUSES: Final = {14: "loading", 15: "not_available"}


# -- reasons for refused heartbeats


def empty_id(situation: MemberSituation) -> Argument | None:
    """Group, member and rack ids are not empty."""
    step = situation.step
    empty = [name for name in ("group_id", "member_id", "rack_id") if getattr(step, name) == ""]
    return Argument(f"{step.story}; its {empty[0]} is empty", (step,), EXCHANGE, "empty_id") if empty else None


def subscribed_to_nothing(situation: MemberSituation) -> Argument | None:
    """A member that joins names its topics."""
    step = situation.step
    return (
        None
        if step.topics
        else Argument(f"{step.story}; it subscribes to no topic", (step,), EXCHANGE, "no_subscription")
    )


def group_full(situation: MemberSituation) -> Argument | None:
    """The group has its maximum number of members (group.share.max.size)."""
    return Argument(situation.step.story, (situation.step,), EXCHANGE, "group_full", noted=True)


def coordinator_not_ready(situation: MemberSituation) -> Argument | None:
    """The coordinator still loads the group, or there is none yet."""
    error = situation.step.answer.error if situation.step.answer is not None else None
    cause = _NOT_READY_CAUSES.get(error or 0)
    return None if cause is None else Argument(situation.step.story, (situation.step,), EXCHANGE, cause, noted=True)


def wrong_coordinator(situation: MemberSituation) -> Argument | None:
    """This broker does not coordinate the group."""
    return Argument(situation.step.story, (situation.step,), EXCHANGE, "not_coordinator", noted=True)


def other_group_type(situation: MemberSituation) -> Argument | None:
    """The id belongs to a group of another type.

    A join of a share group creates the group if there is none. So GROUP_ID_NOT_FOUND as its answer means another type.
    """
    step = situation.step
    creates = step.kind is INITIAL and step.api_key == SHARE_GROUP_HEARTBEAT
    if not creates and _OTHER_TYPE.search(step.message) is None:
        return None
    return Argument(f"{step.story}: a group of another type has that id", (step,), EXCHANGE, "other_type")


# -- members that are not in the group


def sent_after_leave(situation: MemberSituation) -> Argument | None:
    """The member left, and still sends heartbeats.

    Leaving twice does no harm. An epoch that no answer in the capture holds shows that the member joined again.
    """
    step, leave, last = situation.step, situation.member.leave, situation.member.last
    if situation.gone != "left" or leave is None:
        return None
    joined = last is None or last.given is None or step.epoch > last.given
    noted = step.kind is FINAL or joined
    return Argument(f"{leave.story}; {step.story}", (leave, step), STATE, "left", noted=noted)


def expired(situation: MemberSituation) -> Argument | None:
    """The coordinator removed the member, which sent no heartbeat: its answer proves that the session timeout was over.

    If the member sent nothing else meanwhile, a paused process and a network outage look the same. The member is at
    fault if it sent a share request instead, after an answer that reached it later than that to its last heartbeat.
    Only on the connection of its heartbeats does that show that it sent none: on another one TCP sends a heartbeat that
    was lost again after ever longer pauses, even if the network carries the other connections meanwhile.
    """
    step, last = situation.step, situation.member.last
    if situation.gone != "expired" or last is None:
        return None
    noted = (
        step.kind is FINAL
        or last.connection is not step.connection
        or situation.member.unanswered is not None
        or situation.was_down
    )
    if (heard := situation.member.heard_instead(step)) is None:
        text = (
            f"{last.story}; {late_by(situation)}, and the coordinator received no share request from it meanwhile; "
            f"{step.story}"
        )
        return Argument(text, (last, step), STATE, "expired", noted=True, grounds=silent(last, step))
    noted = noted or heard.knows < last.end or heard.connection is not step.connection
    text = (
        f"{last.story}; {late_by(situation)}, although {heard.here} arrived meanwhile{heard.on(step)} "
        f"({heard.packets}); {step.story}"
    )
    return Argument(text, (last, heard, step), STATE, "expired", noted=noted, grounds=silent(last, step))


def never_joined(situation: MemberSituation) -> Argument | None:
    """A member epoch without a join. The member may have joined before the capture began."""
    step, member = situation.step, situation.member
    if member.last is not None or member.leave is not None:
        return None
    needs = EXCHANGE if step.kind is FINAL else EXCHANGE.knowing(member.states_known)
    return Argument(
        f"{step.story}; the capture does not show the member join", (step,), needs, "never_joined", noted=True
    )


def did_not_rejoin(situation: MemberSituation) -> Argument | None:
    """A removed member has to join again.

    If it is refused again, the refusal shows that it did not join.
    """
    step, before = situation.step, situation.before_here
    if before is None or before.reply not in OUT or before.end >= step.packet or before.kind is FINAL:
        return None
    text = f"{before.story}; {step.story} instead of joining again"
    return Argument(text, (before, step), (EXCHANGE if step.reply in OUT else ABSENCE).after(before))


def late(situation: MemberSituation) -> Argument | None:
    """The member missed more than one interval.

    Reported once, until a heartbeat is in time again. Real clients are late by milliseconds, or by a restart.
    """
    step, last = situation.step, situation.member.last
    if not step.late or last is None or last.late or situation.was_down:
        return None
    text = f"{last.story}; {late_by(situation)}; {step.story}"
    return Argument(text, (last, step), EXCHANGE, noted=True, grounds=silent(last, step))


def silent(last: Beat, step: Beat) -> tuple[Ground, ...]:
    """Return the ground that the member missed more than one interval since the answer."""
    return (at_least(2 * last.interval_ns, last.ended, step),)


def late_by(situation: MemberSituation) -> str:
    interval_ns = situation.member.last.interval_ns if situation.member.last is not None else 0
    return f"no heartbeat for {situation.gap_ns / 1e9:.1f} s, due every {interval_ns / 1e9:g} s"


# -- incomplete answers, other brokers


def assignment_missing(situation: MemberSituation) -> Argument | None:
    """The answer to a member that joins or sends its topics has an assignment, even if that is empty."""
    step = situation.step
    if step.assigned is not None or (step.kind is not INITIAL and step.topics is None):
        return None
    return Argument(f"{step.story}, without an assignment", (step,), EXCHANGE)


def coordinator_moved(situation: MemberSituation) -> Argument | None:
    """Heartbeats go to another broker than before."""
    step, last = situation.step, situation.member.last
    here, there = step.connection.broker, None if last is None else last.connection.broker
    if last is None or here is None or there is None or not here.is_not(there):
        return None
    return Argument(
        f"{last.story} at {last.connection.flow.broker}; {step.story} at {step.connection.flow.broker}",
        (last, step),
        EXCHANGE,
    )


def refused(situation: MemberSituation) -> Argument:
    """No other check explains the refusal."""
    witness = [beat for beat in (situation.member.last, situation.step) if beat is not None]
    needs = ProofNeeds(facts=(situation.observed,), proof=situation.explanation)
    return Argument("; ".join(beat.story for beat in witness), witness, needs, "unknown")


MEMBER_REFUSED: Final = Rule(
    number=None,
    code="MEMBER_REFUSED",
    text="The coordinator refused a heartbeat, and the capture does not show why.",
    advice="Join again with epoch 0. After INVALID_REQUEST correct the request: error_message says what is wrong. The "
    "capture shows the reason if it begins before the member joins, holds all its connections and lacks no "
    "packets.",
    source="KIP-932",
    blame=(),
    verdicts=("unknown",),
    causes=("unknown",),
    machine=MEMBER,
    checks=tuple(Check(refused, trigger=UNTESTED, order=CATCH_ALL, machine=machine) for machine in _MACHINES),
)
ROWS: Final = (
    Rule(
        number=94,
        code="JOIN_WITHOUT_SUBSCRIPTION",
        text="A member joins without naming the topics that it subscribes to.",
        act="joined a group without naming its topics",
        weight=50,
        must="A member that joins names the topics that it subscribes to.",
        advice="Send subscribed_topic_names with at least one topic in every heartbeat with epoch 0, also when the "
        "member joins again.",
        wrong="ShareGroupHeartbeat epoch 0 → 42",
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="KIP-932; Kafka: GroupCoordinatorService",
        causes=("no_subscription",),
        machine=MEMBER,
        checks=(Check(subscribed_to_nothing, (INITIAL,), (INVALID,), order=230, reported_unproved=True),),
    ),
    Rule(
        number=100,
        code="HEARTBEAT_AFTER_LEAVE",
        text="A heartbeat comes from a member that is not in the group: it has left, or has never joined.",
        act="sent a heartbeat to a group that it is not a member of",
        weight=44,
        must="A member that left its group, or never joined it, joins with epoch 0 before any other heartbeat.",
        advice="Stop heartbeats before the one with epoch -1: it is the last. After UNKNOWN_MEMBER_ID or "
        "GROUP_ID_NOT_FOUND join with epoch 0, or do nothing if the member should leave.",
        wrong="ShareGroupHeartbeat epoch -1 → 0; ShareGroupHeartbeat epoch 1 → 25",
        right="ShareGroupHeartbeat epoch -1 → 0; ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupMetadataManager",
        rests_on=(NO_CONNECTION, Limit("SESSIONS")),
        verdicts=NOTES_TOO,
        causes=("left", "never_joined"),
        machine=MEMBER,
        checks=(
            Check(sent_after_leave, _STAYING, _NO_MEMBER, order=360, reported_unproved=True),
            Check(never_joined, _STAYING, _NO_MEMBER, order=380, reported_unproved=True),
            Check(sent_after_leave, _STAYING, _NO_MEMBER, order=360, reported_unproved=True, machine=CONSUMER),
            Check(never_joined, _STAYING, _NO_MEMBER, order=380, reported_unproved=True, machine=CONSUMER),
        ),
    ),
    Rule(
        number=101,
        code="NO_REJOIN_AFTER_FENCE",
        text="A member that was removed from its group does not join again.",
        act="did not join again after being removed from its group",
        weight=55,
        must="The heartbeat after FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID or GROUP_ID_NOT_FOUND joins again: it has "
        "epoch 0.",
        advice="Drop the assignment, stop fetching, and join again with epoch 0 and the subscription: the coordinator "
        "refuses every other epoch.",
        wrong="ShareGroupHeartbeat epoch 8 → 110; ShareGroupHeartbeat epoch 8 → 110",
        right="ShareGroupHeartbeat epoch 8 → 110; ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        provoked_by="Suspend the client (SIGSTOP) for longer than group.share.session.timeout.ms, then continue it.",
        source="KIP-932; Kafka: AbstractHeartbeatRequestManager",
        rests_on=(NO_CONNECTION, ANSWER_RECEIVED),
        at="request",
        machine=MEMBER,
        checks=tuple(
            Check(did_not_rejoin, (SUBSEQUENT,), (ACCEPTED, *OUT), REMOVED_FROM_GROUP, machine=machine)
            for machine in _MACHINES
        ),
    ),
    Rule(
        number=103,
        code="HEARTBEAT_LATE",
        text="A member missed more than one heartbeat interval. The group removes it when its session timeout is over.",
        act="sent a heartbeat late: at the end of the session timeout, the group removes the member",
        weight=52,
        must="A member sends a heartbeat every heartbeat_interval_ms. The group removes a member that sends none for "
        "the session timeout (45 s by default).",
        advice="Send heartbeats independently of processing. Look for a process that was paused (garbage collection, "
        "too little CPU, a sleeping machine) and for a network outage. A removed member joins again with epoch "
        "0: meanwhile other members have its partitions.",
        wrong="ShareGroupHeartbeat epoch 1 → 0; ShareFetch epoch 0 → 0; 30000 ms later; ShareFetch epoch 1 → 0; 16000 "
        "ms later; ShareGroupHeartbeat epoch 1 → 25",
        right="ShareGroupHeartbeat epoch 1 → 0; 5000 ms later; ShareGroupHeartbeat epoch 1 → 0",
        source="KIP-932; Kafka: GroupMetadataManager",
        rests_on=(HEARTBEAT_INTERVAL, SESSION_TIMEOUT, AT_LEAST, ANSWER_RECEIVED),
        verdicts=(*EXPLAINS, *NOTES),
        causes=("expired",),
        machine=MEMBER,
        checks=(
            Check(expired, _STAYING, _NO_MEMBER, NOT_LATE_YET, order=370),
            Check(late, (SUBSEQUENT,), (ACCEPTED,), NOT_LATE_YET),
            Check(late, (SUBSEQUENT,), (ACCEPTED,), NOT_LATE_YET, machine=CONSUMER),
        ),
    ),
    Rule(
        number=104,
        code="ASSIGNMENT_MISSING",
        text="A member joins or sends its topics, and the answer has no assignment.",
        act="gave a joining member no assignment",
        weight=80,
        must="The answer to a member that joins or sends its topics has an assignment, even if it is empty.",
        advice="Treat it as no change: keep the assignment from before, or none after a join. Report it to Kafka with "
        "these packets.",
        wrong="ShareGroupHeartbeat epoch 0, topics t → 0",
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="KIP-932; Kafka: GroupMetadataManager",
        blame=("broker",),
        machine=MEMBER,
        checks=(Check(assignment_missing, (INITIAL, SUBSEQUENT), (ACCEPTED,), NAMES_TOPICS),),
    ),
    Rule(
        number=105,
        code="GROUP_FULL",
        text="The group has its maximum number of members.",
        weight=58,
        advice="Run fewer members, or raise group.share.max.size (200 by default). Killed members count until their "
        "session timeout is over (45 s): let members leave with epoch -1.",
        wrong="ShareGroupHeartbeat epoch 0, topics t → 81",
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupMetadataManager (group.share.max.size)",
        rests_on=(GROUP_SIZE,),
        blame=(),
        verdicts=NOTES,
        causes=("group_full",),
        machine=MEMBER,
        checks=tuple(Check(group_full, KINDS, (FULL,), UNTESTED, order=390, machine=machine) for machine in _MACHINES),
    ),
    Rule(
        number=106,
        code="GROUP_TYPE_CONFLICT",
        text="A request uses the id of a group of another type.",
        act="used the id of a group of another type",
        weight=58,
        must="A group id belongs to one group of one type.",
        advice="Give the share group its own id. kshark groups shows the type of each group. A group that is empty "
        "and no longer needed can be deleted.",
        wrong="ShareGroupHeartbeat epoch 0, topics t → 69",
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupMetadataManager",
        verdicts=EXPLAINS,
        causes=("other_type",),
        machine=MEMBER,
        checks=tuple(Check(other_group_type, KINDS, (NO_GROUP,), order=350, machine=machine) for machine in _MACHINES),
        # If there is no group, a commit without a member creates it, and other transactions get ILLEGAL_GENERATION
        # (Kafka: OffsetMetadataManager).
        apis=(OFFSET_COMMIT, TXN_OFFSET_COMMIT),
        when=~(F("generation_id_or_member_epoch") >= 0),
        answer=any_of("topics.partitions", F("error_code") == NO_GROUP.value),
        sentence="a group of another type has that id",
    ),
    Rule(
        number=107,
        code="COORDINATOR_MOVED",
        text="The broker does not coordinate the group: another one does, or it has not taken the group over yet.",
        advice="After NOT_COORDINATOR send FindCoordinator again. The group survives the move: keep the member epoch.",
        wrong="ShareGroupHeartbeat epoch 1 → 16",
        right="ShareGroupHeartbeat epoch 1 → 0",
        source="KIP-932",
        rests_on=(NO_CONNECTION,),
        blame=(),
        verdicts=NOTES,
        causes=("not_coordinator",),
        machine=MEMBER,
        checks=(
            Check(wrong_coordinator, KINDS, (ELSEWHERE,), order=400),
            Check(coordinator_moved, KINDS, (ACCEPTED,), trigger=NOT_PLAIN),
            Check(wrong_coordinator, KINDS, (ELSEWHERE,), order=400, machine=CONSUMER),
            Check(coordinator_moved, KINDS, (ACCEPTED,), trigger=NOT_PLAIN, machine=CONSUMER),
        ),
    ),
    Rule(
        number=None,
        code="COORDINATOR_NOT_READY",
        text="The coordinator of the group is not ready yet: it loads the group, or is not available.",
        advice="After COORDINATOR_LOAD_IN_PROGRESS wait and send the heartbeat again. After COORDINATOR_NOT_AVAILABLE "
        "send FindCoordinator again. This is normal while a broker starts. Keep the member epoch.",
        wrong="ShareGroupHeartbeat epoch 1 → 14",
        right="ShareGroupHeartbeat epoch 1 → 0",
        source="KIP-932",
        blame=(),
        verdicts=NOTES,
        causes=tuple(_NOT_READY_CAUSES.values()),
        machine=MEMBER,
        checks=tuple(
            Check(coordinator_not_ready, KINDS, (ELSEWHERE,), order=395, machine=machine) for machine in _MACHINES
        ),
    ),
    Rule(
        number=108,
        code="EMPTY_IDS",
        text="A heartbeat has an empty group, member or rack id, or a share session request has no group id.",
        act="sent an empty group, member or rack id",
        weight=45,
        must="The group id and the member id are not empty. The rack id is null or not empty.",
        advice="Set group.id. Create the member id once: a random UUID in Kafka's format (22 characters). If there is "
        "no rack, send null, not an empty string.",
        wrong='ShareGroupHeartbeat epoch 0, member id "", topics t → 42',
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupCoordinatorService",
        causes=("empty_id",),
        machine=MEMBER,
        checks=(Check(empty_id, KINDS, (INVALID,), order=210, reported_unproved=True),),
        apis=(SHARE_FETCH, SHARE_ACKNOWLEDGE),
        when=~F("group_id").present() | (F("group_id") == ""),
        answer=F("error_code") == INVALID.value,
        sentence="it has no group id",
    ),
    MEMBER_REFUSED,
)
