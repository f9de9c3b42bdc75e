"""Members and their coordinator: joining, staying, leaving, and why a heartbeat was refused. Rules 94, 100, 101 and 103
to 108."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, STATE, Argument
from kshark.analysis.facts.calls import FINAL, INITIAL, SUBSEQUENT
from kshark.analysis.facts.heartbeats import ACCEPTED, ELSEWHERE, FULL, INVALID, NO_GROUP, OUT, UNKNOWN_MEMBER
from kshark.analysis.facts.judge import judge
from kshark.analysis.rules.rule import CATCH_ALL, EXPLAINS, KINDS, NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import NAMES_TOPICS, NOT_LATE_YET, NOT_PLAIN, REMOVED_FROM_GROUP, UNTESTED
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.tables import MEMBER
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.conditions import F

_STAYING: Final = (SUBSEQUENT, FINAL)
_NOT_THERE: Final = (UNKNOWN_MEMBER, NO_GROUP)
_SENT_AWAY: Final = {14: "loading", 15: "not_available", 16: "not_coordinator"}


# -- why a heartbeat is refused as it is


def empty_id(situation: MemberSituation) -> Argument | None:
    """Group, member and rack ids may not be empty."""
    step = situation.step
    empty = [name for name in ("group_id", "member_id", "rack_id") if getattr(step, name) == ""]
    return Argument(f"{step.story}; its {empty[0]} is empty", (step,), EXCHANGE, "empty_id") if empty else None


def subscribed_to_nothing(situation: MemberSituation) -> Argument | None:
    """Whoever joins says to what."""
    step = situation.step
    return (
        None
        if step.topics
        else Argument(f"{step.story}; it subscribes to no topic", (step,), EXCHANGE, "no_subscription")
    )


def group_full(situation: MemberSituation) -> Argument | None:
    """The group has as many members as it may (group.share.max.size)."""
    return Argument(situation.step.story, (situation.step,), EXCHANGE, "group_full", noted=True)


def wrong_coordinator(situation: MemberSituation) -> Argument | None:
    """This broker does not coordinate the group, or not yet."""
    error = situation.step.answer.error if situation.step.answer is not None else None
    return Argument(situation.step.story, (situation.step,), EXCHANGE, _SENT_AWAY[error or 0], noted=True)


def other_group_type(situation: MemberSituation) -> Argument | None:
    """A join makes the group where there is none: refused with GROUP_ID_NOT_FOUND, the id belongs to a group of another
    type."""
    step = situation.step
    if step.kind is not INITIAL and "is not a share group" not in step.message:
        return None
    return Argument(f"{step.story}: a group of another type has that id", (step,), EXCHANGE, "other_type")


# -- members that the group does not have


def sent_after_leave(situation: MemberSituation) -> Argument | None:
    """The member left, and goes on. Leaving twice harms nobody; an epoch that was not seen to be given shows that it
    joined again."""
    step, leave, last = situation.step, situation.member.leave, situation.member.last
    if situation.gone != "left" or leave is None:
        return None
    joined = last is None or last.given is None or step.epoch > last.given
    noted = step.kind is FINAL or joined
    return Argument(f"{leave.story}; {step.story}", (leave, step), STATE, "left", noted=noted)


def expired(situation: MemberSituation) -> Argument | None:
    """No heartbeat for so long that the coordinator gave the member up: its answer proves that the session timeout was
    over.

    Where nothing else came from the member meanwhile, a process that stood still and a network that was down look the
    same."""
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
            f"{last.story}; {_late(situation)}, and its coordinator got no share request of it meanwhile; {step.story}"
        )
        return Argument(text, (last, step), STATE, "expired", blame="unknown", noted=noted)
    text = f"{last.story}; {_late(situation)}, though {heard.here} came meanwhile ({heard.packets}); {step.story}"
    return Argument(text, (last, heard, step), STATE, "expired", noted=noted)


def never_joined(situation: MemberSituation) -> Argument | None:
    """An epoch without a join: where the capture does not show the beginning, that may have been before."""
    step, member = situation.step, situation.member
    if member.last is not None or member.leave is not None:
        return None
    because = None if step.kind is FINAL else member.doubt
    return Argument(
        f"{step.story}, and was not seen to join", (step,), EXCHANGE, "never_joined", noted=True, because=because
    )


def did_not_rejoin(situation: MemberSituation) -> Argument | None:
    """Told that it is out, the member has to join again; refused once more, it shows that it did not."""
    step, before = situation.step, situation.before_here
    if before is None or before.reply not in OUT or before.end >= step.packet or before.kind is FINAL:
        return None
    text = f"{before.story}; {step.story} instead of joining again"
    return Argument(text, (before, step), EXCHANGE if step.reply in OUT else ABSENCE)


def late(situation: MemberSituation) -> Argument | None:
    """More than an interval missed; said once, until one is in time again. Real clients are late by milliseconds, or by
    a restart."""
    step, last = situation.step, situation.member.last
    if not step.late or last is None or last.late or situation.was_down:
        return None
    return Argument(f"{last.story}; {_late(situation)}; {step.story}", (last, step), EXCHANGE, noted=True)


def _late(situation: MemberSituation) -> str:
    interval_ns = situation.member.last.interval_ns if situation.member.last is not None else 0
    return f"no heartbeat for {situation.gap_ns / 1e9:.1f} s, one is due every {interval_ns / 1e9:g} s"


# -- what answers lack


def assignment_missing(situation: MemberSituation) -> Argument | None:
    """A member that joins, or tells its topics, is told its assignment, even if that is empty."""
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
    """Nothing else explains the refusal."""
    witness = [beat for beat in (situation.member.last, situation.step) if beat is not None]
    argument = Argument("; ".join(beat.story for beat in witness), witness, EXCHANGE, "unknown")
    because = situation.doubt or judge(argument, None).because or situation.why_unknown
    return replace(argument, because=because)


MEMBER_REFUSED: Final = Rule(
    number=None,
    code="MEMBER_REFUSED",
    text="The coordinator refused a heartbeat, and the capture cannot tell why.",
    advice="Join again with epoch 0, but after INVALID_REQUEST mend the request: its error_message says what is "
    "wrong. A capture that begins before the member joined, holds all its connections and loses nothing tells "
    "why.",
    source="KIP-932",
    blame=(),
    verdicts=("unknown",),
    causes=("unknown",),
    machine=MEMBER,
    checks=(Check(refused, trigger=UNTESTED, order=CATCH_ALL),),
)
ROWS: Final = (
    Rule(
        number=94,
        code="JOIN_WITHOUT_SUBSCRIPTION",
        text="A member joins without saying to which topics it subscribes.",
        must="A member that joins says to which topics it subscribes.",
        advice="Send subscribed_topic_names, with one topic or more, in every heartbeat with epoch 0, also when the "
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
        text="A heartbeat of a member that is not in the group: it had left, or never joined.",
        must="Who has left a group, or never joined it, joins with epoch 0 before any other heartbeat.",
        advice="Stop heartbeats before the one with epoch -1 is sent: it is the last. Answered UNKNOWN_MEMBER_ID or "
        "GROUP_ID_NOT_FOUND, join with epoch 0, or do nothing where the member was to leave.",
        wrong="ShareGroupHeartbeat epoch -1 → 0; ShareGroupHeartbeat epoch 1 → 25",
        right="ShareGroupHeartbeat epoch -1 → 0; ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupMetadataManager",
        verdicts=NOTES_TOO,
        causes=("left", "never_joined"),
        machine=MEMBER,
        checks=(
            Check(sent_after_leave, _STAYING, _NOT_THERE, order=360, reported_unproved=True),
            Check(never_joined, _STAYING, _NOT_THERE, order=380, reported_unproved=True),
        ),
    ),
    Rule(
        number=101,
        code="NO_REJOIN_AFTER_FENCE",
        text="Told that the group goes on without it, a member does not join again.",
        must="The heartbeat behind FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID or GROUP_ID_NOT_FOUND joins again: it has "
        "epoch 0.",
        advice="Give up the assignment, stop fetching, and join again with epoch 0 and the subscription: every other "
        "epoch is refused again.",
        wrong="ShareGroupHeartbeat epoch 8 → 110; ShareGroupHeartbeat epoch 8 → 110",
        right="ShareGroupHeartbeat epoch 8 → 110; ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="KIP-932; Kafka: AbstractHeartbeatRequestManager",
        at="request",
        machine=MEMBER,
        checks=(Check(did_not_rejoin, (SUBSEQUENT,), (ACCEPTED, *OUT), REMOVED_FROM_GROUP),),
    ),
    Rule(
        number=103,
        code="HEARTBEAT_LATE",
        text="More than a heartbeat interval missed; once the session timeout is over, the group goes on without the "
        "member.",
        must="A heartbeat comes every heartbeat_interval_ms; who sends none for the session timeout (45 s unless told "
        "otherwise) is given up.",
        advice="Send heartbeats apart from processing. Look for a process that stood still (garbage collection, too "
        "little CPU, a machine that slept) and for a network that was down. Given up, join again with epoch 0: "
        "meanwhile others have got the partitions.",
        wrong="ShareGroupHeartbeat epoch 1 → 0; ShareFetch epoch 0 → 0; 30000 ms later; ShareFetch epoch 1 → 0; 16000 "
        "ms later; ShareGroupHeartbeat epoch 1 → 25",
        right="ShareGroupHeartbeat epoch 1 → 0; 5000 ms later; ShareGroupHeartbeat epoch 1 → 0",
        source="KIP-932; Kafka: GroupMetadataManager",
        blame=("client", "network"),
        verdicts=(*EXPLAINS, *NOTES),
        causes=("expired",),
        machine=MEMBER,
        checks=(
            Check(expired, _STAYING, _NOT_THERE, NOT_LATE_YET, order=370),
            Check(late, (SUBSEQUENT,), (ACCEPTED,), NOT_LATE_YET),
        ),
    ),
    Rule(
        number=104,
        code="ASSIGNMENT_MISSING",
        text="A member that joins, or tells its topics, is not told its assignment.",
        must="The answer to a member that joins, or tells its topics, has an assignment, be it an empty one.",
        advice="Take it for no change: go on with what was assigned before, with nothing after a join. Report it to "
        "Kafka with these packets.",
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
        text="The group has as many members as it may.",
        advice="Run fewer members, or raise group.share.max.size (200 unless told otherwise). Members that were "
        "killed count until their session timeout is over (45 s): let them leave with epoch -1.",
        wrong="ShareGroupHeartbeat epoch 0, topics t → 81",
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupMetadataManager (group.share.max.size)",
        blame=(),
        verdicts=NOTES,
        causes=("group_full",),
        machine=MEMBER,
        checks=(Check(group_full, KINDS, (FULL,), UNTESTED, order=390),),
    ),
    Rule(
        number=106,
        code="GROUP_TYPE_CONFLICT",
        text="A group id is used that belongs to a group of another type.",
        must="An id belongs to one group, and that is of one type.",
        advice="Give the share group an id of its own. kshark groups tells what types of groups there are; one that "
        "is empty and not needed any more can be deleted.",
        wrong="ShareGroupHeartbeat epoch 0, topics t → 69",
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupMetadataManager",
        verdicts=EXPLAINS,
        causes=("other_type",),
        machine=MEMBER,
        checks=(Check(other_group_type, KINDS, (NO_GROUP,), order=350),),
        apis=(CONSUMER_GROUP_HEARTBEAT,),
        when=F("group_id") != "",
        answer=(F("error_code") == NO_GROUP.value) & F("error_message").matches("is not a consumer group"),
        sentence="a group of another type has that id",
    ),
    Rule(
        number=107,
        code="COORDINATOR_MOVED",
        text="Another broker coordinates the group, or will.",
        advice="Ask FindCoordinator again after NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE; after "
        "COORDINATOR_LOAD_IN_PROGRESS wait, and send the heartbeat again. That is ordinary while a broker "
        "starts. The group outlives the move: go on with the same member epoch.",
        wrong="ShareGroupHeartbeat epoch 1 → 16",
        right="ShareGroupHeartbeat epoch 1 → 0",
        source="KIP-932",
        blame=(),
        verdicts=NOTES,
        causes=tuple(_SENT_AWAY.values()),
        machine=MEMBER,
        checks=(
            Check(wrong_coordinator, KINDS, (ELSEWHERE,), order=400),
            Check(coordinator_moved, KINDS, (ACCEPTED,), trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=108,
        code="EMPTY_IDS",
        text="A heartbeat whose group, member or rack id is empty, or a request of a share session without a group id.",
        must="Group id and member id are not empty, and neither is the rack id where there is one.",
        advice="Set group.id; make the member id once, a random uuid as Kafka writes it (22 characters); send null, "
        "not an empty text, where there is no rack.",
        wrong='ShareGroupHeartbeat epoch 0, member id "", topics t → 42',
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupCoordinatorService",
        causes=("empty_id",),
        machine=MEMBER,
        checks=(Check(empty_id, KINDS, (INVALID,), order=210, reported_unproved=True),),
        apis=(SHARE_FETCH, SHARE_ACKNOWLEDGE),
        when=~F("group_id").present() | (F("group_id") == ""),
        answer=F("error_code") == INVALID.value,
        sentence="it names no group",
    ),
    MEMBER_REFUSED,
)
