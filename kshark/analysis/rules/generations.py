"""Generations, member epochs and instance ids that members of classic and consumer groups use. Rules 145 to 147."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument, ProofNeeds, at_least, refused_with
from kshark.analysis.facts.bases import ANSWER_RECEIVED, AT_LEAST, NO_CONNECTION, Duration, Lasted, Limit
from kshark.analysis.facts.generations import (
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    Use,
)
from kshark.analysis.rules.rule import CATCH_ALL, NOTES, Check, Rule
from kshark.analysis.rules.triggers import OWN_GENERATION, OWN_INSTANCE, OWN_MEMBER_EPOCH, UNTESTED
from kshark.analysis.states.generation.state import Using
from kshark.analysis.states.tables import GENERATION
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, SYNC_GROUP

_VIOLATION_OR_NOTE: Final = ("violation", *NOTES)


def _stale(situation: Using, error: int) -> Argument | None:
    """The member had used its newer number before it sent the older one again.

    Without that use, the request may have waited in the client while the answer came: ordinary.
    """
    step, newest, adopted = situation.step, situation.member.newest, situation.member.adopted
    if step.error != error or newest is None or newest.given is None or not 0 <= step.epoch < newest.given:
        return None
    if adopted is None:
        return Argument(f"{newest.story}; {step.story}", (newest, step), EXCHANGE, "not_yet_used", noted=True)
    return Argument(
        f"{newest.story}; {adopted.story}; {step.story}", (newest, adopted, step), EXCHANGE.after(newest), "stale"
    )


def stale_epoch(situation: Using) -> Argument | None:
    """A commit has an older member epoch than the member has used."""
    return _stale(situation, STALE_MEMBER_EPOCH)


def stale_generation(situation: Using) -> Argument | None:
    """A request has an older generation than the member has used."""
    return _stale(situation, ILLEGAL_GENERATION)


def group_moved_on(situation: Using) -> Argument | None:
    """The group has a newer generation, which the member had not joined yet."""
    step, moved = situation.step, situation.moved
    if step.error not in (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID) or moved is None or moved.given is None:
        return None
    if step.is_unnamed or not 0 <= step.epoch < moved.given:
        return None
    return Argument(f"{moved.story} of another member; {step.story}", (moved, step), EXCHANGE, "rebalanced", noted=True)


def used_after_leaving(situation: Using) -> Argument | None:
    """The member had left the group: after its poll interval, if it says so."""
    step, left = situation.step, situation.member.left
    if step.error != UNKNOWN_MEMBER_ID or left is None or step.api_key == JOIN_GROUP:
        return None
    if "poll" in left.reason:
        text = f'{left.story}, because "{left.reason}"; {step.story}'
        return Argument(text, (left, step), EXCHANGE.after(left), "poll_too_late")
    return Argument(f"{left.story}; {step.story}", (left, step), EXCHANGE, "left", noted=True)


def not_rejoined(situation: Using) -> Argument | None:
    """The member knew of a rebalance, did not join again, and the coordinator went on without it.

    The coordinator waits for a member without instance id until its rebalance timeout, for clients of Kafka their
    max.poll.interval.ms.
    """
    step, member, passed = situation.step, situation.member, situation.passed
    informed, last, timeout_ns = member.informed, member.last, member.rebalance_ns
    if step.error != UNKNOWN_MEMBER_ID or informed is None or last is None or passed is None or not timeout_ns:
        return None
    begun = min(informed, passed, key=lambda use: use.time_ns)
    is_in_time = passed.end_ns - begun.time_ns < timeout_ns or informed.end > passed.end
    if is_in_time or passed.end_ns - last.end_ns >= member.session_ns or member.left is not None or step.instance:
        return None
    text = (
        f"{informed.story}; the member did not join again within its rebalance timeout of {timeout_ns / 1e9:g} s, and "
        f"the group went on without it: {passed.story}; {step.story}"
    )
    grounds = (Lasted(step.connection.clock.durations, begun.sent, passed.ended, Duration.AT_LEAST, timeout_ns),)
    return Argument(text, (informed, passed, step), EXCHANGE, "not_rejoined", noted=True, grounds=grounds)


def session_over(situation: Using) -> Argument | None:
    """The member sent nothing for its session timeout. A paused process and an outage look the same."""
    step, last, session_ns = situation.step, situation.member.last, situation.member.session_ns
    if step.error != UNKNOWN_MEMBER_ID or last is None or not 0 < session_ns < step.time_ns - last.end_ns:
        return None
    silence = (step.time_ns - last.end_ns) / 1e9
    silent = f"no heartbeat or commit was accepted for {silence:.1f} s (session timeout {session_ns / 1e9:g} s)"
    text = f"{last.story}; {silent}; {step.story}"
    grounds = (at_least(session_ns, last.ended, step),)
    return Argument(text, (last, step), EXCHANGE, "expired", noted=True, grounds=grounds)


def used_by_two_processes(situation: Using) -> Argument | None:
    """Two hosts take the instance id from each other: each of them goes on after it was fenced."""
    step, instance = situation.step, situation.instance
    holder, before, fenced = (None, None, None) if instance is None else (
        instance.holder, instance.before, instance.fenced
    )  # fmt: skip
    if step.error != FENCED_INSTANCE_ID or holder is None or not _is_elsewhere(holder, step):
        return None
    if fenced is None or before is None or _is_elsewhere(before, step) or _is_elsewhere(fenced, holder):
        return Argument(
            f"{holder.story} on {holder.connection.name} took the instance id {step.instance!r}; {step.story}",
            (holder, step),
            EXCHANGE,
            "replaced",
            noted=True,
        )
    text = (
        f"{fenced.story} on {fenced.connection.name}; {holder.story} on {holder.connection.name}, which took the "
        f"instance id {step.instance!r} again; {step.story} on {step.connection.name}"
    )
    return Argument(text, (fenced, holder, step), EXCHANGE, "two_processes")


def _is_elsewhere(one: Use, other: Use) -> bool:
    return one.connection.host != other.connection.host


def not_released(situation: Using) -> Argument | None:
    """The instance id still belongs to a member whose session runs."""
    step, instance = situation.step, situation.instance
    if step.error != UNRELEASED_INSTANCE_ID:
        return None
    holder = None if instance is None else instance.holder
    if holder is None:
        return Argument(step.story, (step,), EXCHANGE, "not_released", noted=True)
    silence = (step.time_ns - holder.end_ns) / 1e9
    text = f"{holder.story} with the instance id {step.instance!r}; {silence:.1f} s later {step.story}"
    return Argument(text, (holder, step), EXCHANGE, "not_released", noted=True)


def left_for_good(situation: Using) -> Argument | None:
    """A static member leaves with epoch -1: legal, and its partitions move at once."""
    step = situation.step
    if step.error != 0 or step.epoch != -1 or not step.instance:
        return None
    text = f"{step.here} of the static member {step.instance!r} left the group for good ({step.packets})"
    return Argument(text, (step,), EXCHANGE, "left_for_good", noted=True)


def names_nobody(situation: Using) -> Argument | None:
    """The request has a generation, but no member id."""
    step = situation.step
    if step.error != UNKNOWN_MEMBER_ID or not step.is_unnamed:
        return None
    text = f"{step.here} {refused_with(step.error)}: the request names no member ({step.packets})"
    return Argument(text, (step,), EXCHANGE, noted=True)


def not_explained(situation: Using) -> Argument:
    """No other check explains the refusal."""
    needs = ProofNeeds(proof=situation.explanation)
    return Argument(situation.step.story, (situation.step,), needs, "unknown")


ROWS: Final = (
    Rule(
        number=145,
        code="CONSUMER_EPOCH_STALE",
        text="A commit has an older member epoch than the one of its member.",
        act="committed with an older member epoch than it had used before",
        weight=46,
        must="A commit has the member epoch of the last answer to a heartbeat.",
        advice="Take the member epoch when the request is sent, not when it is queued, and send a refused commit again "
        "with the new one.",
        wrong="ConsumerGroupHeartbeat epoch 0, topics t → 0, given 1; ConsumerGroupHeartbeat epoch 1 → 0, given 2; "
        "ConsumerGroupHeartbeat epoch 2 → 0; OffsetCommit epoch 1 → 113",
        right="ConsumerGroupHeartbeat epoch 0, topics t → 0, given 1; OffsetCommit epoch 1 → 0",
        source="KIP-848; Kafka: ConsumerGroup.validateMemberEpoch",
        rests_on=(ANSWER_RECEIVED, Limit("SESSIONS")),
        verdicts=_VIOLATION_OR_NOTE,
        causes=("stale", "not_yet_used"),
        machine=GENERATION,
        checks=(Check(stale_epoch, trigger=OWN_MEMBER_EPOCH, apis=(OFFSET_COMMIT,), order=410),),
    ),
    Rule(
        number=146,
        code="INSTANCE_ID_TAKEN",
        text="A group.instance.id is in use by another member, or its member left for good.",
        act="used the group.instance.id of another process that runs",
        weight=57,
        must="Each process has a group.instance.id of its own.",
        advice="Give each process its own group.instance.id, for example the name of its pod. After FENCED_INSTANCE_ID "
        "stop: another process has taken over. UNRELEASED_INSTANCE_ID ends when the session of the process before is "
        "over (group.consumer.session.timeout.ms, 45 s by default), or when it leaves with epoch -2. A static member "
        "that comes back leaves with -2: after -1 its partitions move at once, and each restart costs two rebalances.",
        wrong="JoinGroup, instance i → 0, generation 1; by b: JoinGroup, instance i → 0, generation 1; "
        "Heartbeat generation 1, instance i → 82; JoinGroup, instance i → 0, generation 1; "
        "by b: Heartbeat generation 1, instance i → 82; by b: JoinGroup, instance i → 0, generation 1",
        right="JoinGroup, instance i → 0, generation 1; by b: JoinGroup, instance j → 0, generation 1; Heartbeat "
        "generation 1, instance i → 0",
        source="KIP-345, KIP-848; Kafka: GroupMetadataManager",
        rests_on=(NO_CONNECTION, Limit("SESSIONS")),
        verdicts=_VIOLATION_OR_NOTE,
        causes=("two_processes", "replaced", "not_released", "left_for_good"),
        machine=GENERATION,
        checks=(
            Check(used_by_two_processes, trigger=OWN_INSTANCE, order=420),
            Check(not_released, trigger=UNTESTED, order=430),
            Check(left_for_good, trigger=UNTESTED, apis=(CONSUMER_GROUP_HEARTBEAT,)),
        ),
    ),
    Rule(
        number=147,
        code="GENERATION_STALE",
        text="A member uses a generation that is not the group's, or is not in the group any more.",
        act="used an older generation than it had used before, or the one of a group that it had left",
        weight=47,
        must="A commit, a heartbeat and a SyncGroup have the generation of the last JoinGroup answer.",
        advice="Commit before the partitions are revoked. If the application takes longer than max.poll.interval.ms "
        "between polls, the client leaves the group and its commits fail: raise it, or fetch fewer records at a time "
        "(max.poll.records). A commit that a rebalance overtakes is ordinary.",
        wrong="JoinGroup → 0, generation 1; Heartbeat generation 1 → 0; JoinGroup → 0, generation 2; "
        "Heartbeat generation 2 → 0; Heartbeat generation 1 → 22",
        right="JoinGroup → 0, generation 1; Heartbeat generation 1 → 0",
        source="Kafka: ClassicGroup.validateOffsetCommit",
        rests_on=(ANSWER_RECEIVED, AT_LEAST, Limit("SESSIONS")),
        verdicts=_VIOLATION_OR_NOTE,
        causes=("stale", "not_yet_used", "rebalanced", "poll_too_late", "left", "not_rejoined", "expired"),
        machine=GENERATION,
        checks=(
            Check(stale_generation, trigger=OWN_GENERATION, order=440),
            Check(used_after_leaving, trigger=UNTESTED, order=450),
            Check(not_rejoined, trigger=UNTESTED, order=455),
            Check(session_over, trigger=UNTESTED, order=460),
            Check(group_moved_on, trigger=UNTESTED, order=470),
        ),
    ),
    Rule(
        number=None,
        code="MEMBER_UNNAMED",
        text="A request of a classic group has a generation, and names no member.",
        weight=40,
        advice="Send the member id from the answer to JoinGroup.",
        wrong="JoinGroup → 0, generation 1; Heartbeat generation 1, no member → 25",
        right="JoinGroup → 0, generation 1; Heartbeat generation 1 → 0",
        source="Kafka: GroupMetadataManager.validateClassicGroupHeartbeat",
        blame=(),
        verdicts=NOTES,
        machine=GENERATION,
        checks=(Check(names_nobody, trigger=UNTESTED, apis=(HEARTBEAT, SYNC_GROUP, OFFSET_COMMIT), order=480),),
    ),
    Rule(
        number=None,
        code="GENERATION_REFUSED",
        text="The coordinator refused a member's generation, epoch or instance id, and the capture does not show why.",
        advice="Join again. The capture shows the reason if it begins before the member joins, and holds all "
        "connections of the group.",
        source="Kafka: GroupMetadataManager",
        blame=(),
        verdicts=("unknown",),
        causes=("unknown",),
        machine=GENERATION,
        checks=(Check(not_explained, trigger=UNTESTED, order=CATCH_ALL),),
    ),
)
