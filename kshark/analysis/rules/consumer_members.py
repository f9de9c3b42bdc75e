"""Members of consumer groups (KIP-848): why the coordinator fenced or forgot them. Rule 144.

What holds for members of share groups, too, is in member_epochs.py and membership.py.
"""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, STATE, Argument
from kshark.analysis.facts.bases import ANSWER_RECEIVED, AT_LEAST, NO_CONNECTION, Limit
from kshark.analysis.facts.calls import FINAL, INITIAL, NEGATIVE, SUBSEQUENT
from kshark.analysis.facts.heartbeats import FENCED, NO_GROUP, UNKNOWN_MEMBER
from kshark.analysis.rules.member_epochs import (
    after_last,
    epoch_never_given,
    outdated_epoch,
    sent_old_epoch_fenced,
)
from kshark.analysis.rules.membership import late_by, silent
from kshark.analysis.rules.rule import NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import GIVEN_NEWER, JOINS_AGAIN, NOT_LATE_YET
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.tables import CONSUMER


def used_by_two(situation: MemberSituation) -> Argument | None:
    """Another host used the member id since: the capture does not show which of them is right."""
    step, last = situation.step, situation.member.last
    if last is None or last.connection.host == step.connection.host:
        return None
    text, witness = after_last(situation)
    return Argument(f"{text}; they come from two hosts", witness, EXCHANGE, "replaced", noted=True)


def fell_silent(situation: MemberSituation) -> Argument | None:
    """The coordinator removed the member, which sent no heartbeat. A paused process and an outage look the same."""
    step, last = situation.step, situation.member.last
    if situation.gone != "expired" or last is None:
        return None
    text = f"{last.story}; {late_by(situation)}; {step.story}"
    return Argument(text, (last, step), STATE, "expired", noted=True, grounds=silent(last, step))


def rejoined_too_early(situation: MemberSituation) -> Argument | None:
    """Brokers before 4.2 fence a member that joins again while they still have it (KAFKA-19233)."""
    step = situation.step
    return Argument(
        f"{step.story}: the coordinator still had the member", (step,), EXCHANGE, "rejoin_refused", noted=True
    )


ROWS: Final = (
    Rule(
        number=144,
        code="CONSUMER_EPOCH_FENCED",
        text="The coordinator fenced a member of a consumer group, or has removed it.",
        act="sent a member epoch that is not the one of the last answer",
        weight=46,
        must="A heartbeat has the member epoch of the last answer. After FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID the "
        "member joins again with epoch 0.",
        advice="Copy member_epoch from each answer, and use each member id in one process only. A member that was "
        "silent for the session timeout (group.consumer.session.timeout.ms, 45 s by default) was paused or cut off: "
        "look at its host. After the refusal drop the partitions, and join again with epoch 0.",
        wrong="ConsumerGroupHeartbeat epoch 0, topics t → 0, given 1; ConsumerGroupHeartbeat epoch 7 → 110",
        right="ConsumerGroupHeartbeat epoch 0, topics t → 0, given 1; ConsumerGroupHeartbeat epoch 1 → 0",
        provoked_by="Suspend the client (SIGSTOP) for longer than group.consumer.session.timeout.ms, then continue it.",
        source="KIP-848; Kafka: GroupMetadataManager",
        rests_on=(NO_CONNECTION, ANSWER_RECEIVED, AT_LEAST, Limit("SESSIONS")),
        verdicts=tuple(verdict for verdict in NOTES_TOO if verdict != "unknown"),
        causes=("ahead", "behind", "answer_lost", "not_adopted", "replaced", "rejoin_refused", "expired"),
        machine=CONSUMER,
        checks=(
            Check(rejoined_too_early, (INITIAL,), (FENCED,), JOINS_AGAIN, order=310),
            Check(used_by_two, (SUBSEQUENT,), (FENCED,), order=315),
            Check(epoch_never_given, (SUBSEQUENT,), (FENCED,), order=320),
            Check(sent_old_epoch_fenced, (SUBSEQUENT,), (FENCED,), GIVEN_NEWER, order=330),
            Check(outdated_epoch, (SUBSEQUENT,), (FENCED,), order=340),
            Check(fell_silent, (SUBSEQUENT, FINAL, NEGATIVE), (UNKNOWN_MEMBER, NO_GROUP), NOT_LATE_YET, order=370),
        ),
    ),
)
