"""The epochs of members: why FENCED_MEMBER_EPOCH (110) was answered, and which ones were used or given that should not
have been. Rules 95 to 99 and 102."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, STATE, Argument
from kshark.analysis.facts.calls import INITIAL, NEGATIVE, SUBSEQUENT
from kshark.analysis.facts.heartbeats import ACCEPTED, FENCED, INVALID, Beat
from kshark.analysis.rules.rule import EXPLAINS, NOTES, Check, Rule
from kshark.analysis.rules.triggers import GIVEN_NEWER, JOINS_AGAIN, NOT_PLAIN
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.tables import MEMBER
from kshark.analysis.states.tables.member import AHEAD, BEHIND


def _after_last(situation: MemberSituation, more: str = "") -> tuple[str, tuple[Beat, ...]]:
    """The last heartbeat that was accepted, and this one: in words, and as witnesses."""
    told = [beat for beat in (situation.member.last, situation.step) if beat is not None]
    return "; ".join(beat.story for beat in told) + more, tuple(told)


def epoch_below_minus_one(situation: MemberSituation) -> Argument | None:
    """-1 leaves; nothing is below that."""
    return Argument(
        f"{situation.step.story}; no member epoch is below -1", (situation.step,), EXCHANGE, "invalid_epoch"
    )


def rejoin_refused(situation: MemberSituation) -> Argument | None:
    """Epoch 0 is for whoever was fenced; brokers before 4.2 refuse it while they still have the member."""
    return Argument(
        f"{situation.step.story}, though epoch 0 is how a fenced member joins again",
        (situation.step,),
        EXCHANGE,
        "rejoin_refused",
    )


def epoch_never_given(situation: MemberSituation) -> Argument | None:
    """An epoch that the coordinator never gave."""
    if situation.met is not None and situation.relations != {AHEAD}:
        return None
    text, witness = _after_last(situation)
    return Argument(text, witness, STATE, "ahead")


def sent_old_epoch_fenced(situation: MemberSituation) -> Argument | None:
    """The same epoch again, behind an answer that gave a newer one."""
    step, last = situation.step, situation.member.last
    if situation.relations != {BEHIND} or last is None or last is not situation.before_here or not _keeps(step, last):
        return None
    text, witness = _after_last(situation)
    return Argument(text, witness, STATE, "not_adopted")


def _keeps(step: Beat, last: Beat) -> bool:
    return step.epoch == last.epoch and last.given is not None and step.epoch < last.given and last.end < step.packet


def outdated_epoch(situation: MemberSituation) -> Argument | None:
    """Neither the member's epoch nor the one before it; where an answer was lost, the newer ones may have been in
    it."""
    if situation.relations != {BEHIND}:
        return None
    text, witness = _after_last(situation)
    lost, last = situation.member.unanswered, situation.member.last
    if lost is None or last is None or situation.step.epoch != last.given:
        return Argument(text, witness, STATE, "behind")
    return Argument(
        f"{last.story}; {lost.story}; {situation.step.story}",
        (last, lost, situation.step),
        STATE,
        "answer_lost",
        noted=True,
    )


def epoch_went_back(situation: MemberSituation) -> Argument | None:
    """The answer gives a lower epoch than the request had, or than an answer before it gave."""
    step, last = situation.step, situation.member.last
    if step.given is None:
        return None
    if step.given < step.epoch:
        return Argument(step.story, (step,), EXCHANGE)
    if last is None or last.given is None or step.given >= last.given or last.end >= step.packet:
        return None
    text, witness = _after_last(situation)
    return Argument(text, witness, ABSENCE)


def sent_old_epoch_accepted(situation: MemberSituation) -> Argument | None:
    """Answered with a newer epoch, the member goes on with the old one; the coordinator takes that once."""
    step, last = situation.step, situation.member.last
    if last is None or last is not situation.before_here or not _keeps(step, last):
        return None
    text, witness = _after_last(situation)
    return Argument(text, witness, EXCHANGE)


ROWS: Final = (
    Rule(
        number=95,
        code="MEMBER_EPOCH_INVALID",
        text="A member epoch below -1.",
        must="A member epoch is -1 (leave), 0 (join), or the one that the coordinator gave.",
        advice="Look for an epoch that was never set. Share groups have no static members, and so no epoch -2.",
        wrong="ShareGroupHeartbeat epoch 1 → 0; ShareGroupHeartbeat epoch -2 → 42",
        right="ShareGroupHeartbeat epoch 1 → 0; ShareGroupHeartbeat epoch -1 → 0",
        source="Kafka: GroupCoordinatorService",
        causes=("invalid_epoch",),
        machine=MEMBER,
        checks=(Check(epoch_below_minus_one, (NEGATIVE,), (INVALID,), order=240, reported_unproved=True),),
    ),
    Rule(
        number=96,
        code="MEMBER_EPOCH_AHEAD",
        text="A member epoch higher than any that the coordinator gave.",
        must="A heartbeat has the member epoch that the last answer gave.",
        advice="Never count a member epoch: copy it from the answer. After FENCED_MEMBER_EPOCH give up the assignment "
        "and join again with epoch 0.",
        wrong="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 3 → 110",
        right="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0",
        source="Kafka: GroupMetadataManager",
        verdicts=EXPLAINS,
        causes=("ahead",),
        machine=MEMBER,
        checks=(Check(epoch_never_given, (SUBSEQUENT,), (FENCED,), order=320),),
    ),
    Rule(
        number=97,
        code="MEMBER_EPOCH_BEHIND",
        text="A member epoch that is neither the member's own nor the one before it.",
        must="A heartbeat has the member epoch that the last answer gave; the one before that is taken, too.",
        advice="Take over member_epoch from each answer, and send no heartbeat while another one is open. After "
        "FENCED_MEMBER_EPOCH join again with epoch 0; where answers were lost on the way there is nothing else "
        "to mend.",
        wrong="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0, given 3; "
        "ShareGroupHeartbeat epoch 1 → 110",
        right="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0, given 3; "
        "ShareGroupHeartbeat epoch 3 → 0",
        source="Kafka: GroupMetadataManager",
        verdicts=(*EXPLAINS, *NOTES),
        causes=("behind", "answer_lost"),
        machine=MEMBER,
        checks=(Check(outdated_epoch, (SUBSEQUENT,), (FENCED,), order=340),),
    ),
    Rule(
        number=98,
        code="EPOCH_REGRESSION_IN_RESPONSE",
        text="The coordinator gives a member a lower epoch than before, though it did not join again.",
        must="A member epoch does not go back until the member joins again.",
        advice="Take over the epoch of the answer: the next heartbeat is compared with that. See whether two clients "
        "use the same member id; else report it to Kafka with these packets.",
        wrong="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0, given 1",
        right="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0, given 3",
        source="Kafka: GroupMetadataManager",
        blame=("broker",),
        machine=MEMBER,
        checks=(Check(epoch_went_back, (SUBSEQUENT,), (ACCEPTED,), trigger=NOT_PLAIN),),
    ),
    Rule(
        number=99,
        code="EPOCH_NOT_ADOPTED",
        text="A member goes on with its old epoch behind an answer that gave it a newer one.",
        must="The heartbeat behind an answer has the member epoch that the answer gave.",
        advice="Take over member_epoch from each answer, also from one without an assignment. The coordinator takes "
        "the epoch before the last one, and fences the member when it has given another.",
        wrong="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 1 → 0, given 2",
        right="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0",
        source="KIP-932; Kafka: GroupMetadataManager",
        verdicts=EXPLAINS,
        causes=("not_adopted",),
        at="request",
        machine=MEMBER,
        checks=(
            Check(sent_old_epoch_fenced, (SUBSEQUENT,), (FENCED,), GIVEN_NEWER, order=330),
            Check(sent_old_epoch_accepted, (SUBSEQUENT,), (ACCEPTED,), GIVEN_NEWER),
        ),
    ),
    Rule(
        number=102,
        code="REJOIN_REFUSED",
        text="The coordinator fences a member that joins again with epoch 0.",
        must="A member may join again with epoch 0 at any time.",
        advice="Join under a new member id, or bring the brokers to Kafka 4.2: older ones refuse epoch 0 for as long "
        "as they have the member, until its session timeout is over (45 s unless told otherwise).",
        wrong="ShareGroupHeartbeat epoch 1 → 0; ShareGroupHeartbeat epoch 0, topics t → 110",
        right="ShareGroupHeartbeat epoch 1 → 0; ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]",
        source="Kafka: GroupMetadataManager",
        tickets=("KAFKA-19233",),
        blame=("broker",),
        verdicts=EXPLAINS,
        causes=("rejoin_refused",),
        machine=MEMBER,
        checks=(Check(rejoin_refused, (INITIAL,), (FENCED,), JOINS_AGAIN, order=310),),
    ),
)
