"""The epochs of members: reasons for FENCED_MEMBER_EPOCH (110), wrong epochs. Rules 95 to 99 and 102."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, STATE, Argument
from kshark.analysis.facts.bases import ANSWER_RECEIVED, NO_CONNECTION, Limit
from kshark.analysis.facts.calls import INITIAL, NEGATIVE, SUBSEQUENT
from kshark.analysis.facts.heartbeats import ACCEPTED, FENCED, INVALID, Beat
from kshark.analysis.rules.rule import EXPLAINS, NOTES, Check, Rule
from kshark.analysis.rules.triggers import GIVEN_NEWER, JOINS_AGAIN, NOT_PLAIN
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.tables import CONSUMER, MEMBER
from kshark.analysis.states.tables.member import GREATER


def after_last(situation: MemberSituation) -> tuple[str, tuple[Beat, ...]]:
    """Return the last accepted heartbeat and this one: as text, and as witnesses."""
    beats = [beat for beat in (situation.member.last, situation.step) if beat is not None]
    return "; ".join(beat.story for beat in beats), tuple(beats)


def epoch_below_minus_one(situation: MemberSituation) -> Argument | None:
    """The lowest member epoch is -1, which leaves the group."""
    return Argument(
        f"{situation.step.story}; no member epoch is below -1", (situation.step,), EXCHANGE, "invalid_epoch"
    )


def rejoin_refused(situation: MemberSituation) -> Argument | None:
    """Epoch 0 is for members that were fenced. Brokers before 4.2 refuse it while they still have the member."""
    return Argument(
        f"{situation.step.story}, although a fenced member joins again with epoch 0",
        (situation.step,),
        EXCHANGE,
        "rejoin_refused",
    )


def epoch_never_given(situation: MemberSituation) -> Argument | None:
    """The coordinator never sent an epoch that high."""
    if situation.met is not None and situation.relations != {GREATER}:
        return None
    text, witness = after_last(situation)
    return Argument(text, witness, STATE, "ahead")


def sent_old_epoch_fenced(situation: MemberSituation) -> Argument | None:
    """The member sends the same epoch again after an answer with a newer one, and is fenced."""
    step, last = situation.step, situation.member.last
    if not situation.is_outdated or last is None or last is not situation.before_here or not _keeps(step, last):
        return None
    text, witness = after_last(situation)
    return Argument(text, witness, STATE.after(last), "not_adopted")


def _keeps(step: Beat, last: Beat) -> bool:
    return step.epoch == last.epoch and last.given is not None and step.epoch < last.given and last.end < step.packet


def outdated_epoch(situation: MemberSituation) -> Argument | None:
    """The epoch is neither the member's epoch nor the one before it.

    If an answer was lost, it may have held the newer epochs.
    """
    if not situation.is_outdated:
        return None
    text, witness = after_last(situation)
    lost, last = situation.member.unanswered, situation.member.last
    if lost is None or last is None or situation.step.epoch != last.given:
        return Argument(text, witness, STATE.after(*witness[:-1]), "behind")
    return Argument(
        f"{last.story}; {lost.story}; {situation.step.story}",
        (last, lost, situation.step),
        STATE,
        "answer_lost",
        noted=True,
    )


def epoch_went_back(situation: MemberSituation) -> Argument | None:
    """The answer has a lower epoch than its request, or than an earlier answer."""
    step, last = situation.step, situation.member.last
    if step.given is None:
        return None
    if step.given < step.epoch:
        return Argument(step.story, (step,), EXCHANGE)
    if last is None or last.given is None or step.given >= last.given or last.end >= step.packet:
        return None
    text, witness = after_last(situation)
    return Argument(text, witness, ABSENCE)


def sent_old_epoch_accepted(situation: MemberSituation) -> Argument | None:
    """The member keeps its old epoch after an answer with a newer one. The coordinator accepts that once."""
    step, last = situation.step, situation.member.last
    if last is None or last is not situation.before_here or not _keeps(step, last):
        return None
    text, witness = after_last(situation)
    return Argument(text, witness, EXCHANGE.after(last))


ROWS: Final = (
    Rule(
        number=95,
        code="MEMBER_EPOCH_INVALID",
        text="A heartbeat has a member epoch below -1.",
        act="sent a member epoch below -1",
        weight=45,
        must="A member epoch is -1 (leave), 0 (join), or an epoch that the coordinator sent.",
        advice="Look for an epoch that was never set. Share groups have no static members, so epoch -2 is not valid.",
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
        text="A heartbeat has a higher member epoch than the coordinator ever sent.",
        act="sent a member epoch that the coordinator never gave out",
        weight=45,
        must="A heartbeat has the member epoch of the last answer.",
        advice="Do not count member epochs: copy the epoch from the answer. After FENCED_MEMBER_EPOCH drop the "
        "assignment and join again with epoch 0.",
        wrong="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 3 → 110",
        right="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0",
        source="Kafka: GroupMetadataManager",
        rests_on=(NO_CONNECTION, Limit("SESSIONS")),
        verdicts=EXPLAINS,
        causes=("ahead",),
        machine=MEMBER,
        checks=(Check(epoch_never_given, (SUBSEQUENT,), (FENCED,), order=320),),
    ),
    Rule(
        number=97,
        code="MEMBER_EPOCH_BEHIND",
        text="A heartbeat has a member epoch that is neither the current one nor the one before it.",
        act="sent an outdated member epoch",
        weight=45,
        must="A heartbeat has the member epoch of the last answer. The coordinator also accepts the epoch before it.",
        advice="Copy member_epoch from each answer, and send no heartbeat while another one is open. After "
        "FENCED_MEMBER_EPOCH join again with epoch 0. If the network lost the answers, nothing else needs a "
        "fix.",
        wrong="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0, given 3; "
        "ShareGroupHeartbeat epoch 1 → 110",
        right="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0, given 3; "
        "ShareGroupHeartbeat epoch 3 → 0",
        source="Kafka: GroupMetadataManager",
        rests_on=(NO_CONNECTION, ANSWER_RECEIVED),
        verdicts=(*EXPLAINS, *NOTES),
        causes=("behind", "answer_lost"),
        machine=MEMBER,
        checks=(Check(outdated_epoch, (SUBSEQUENT,), (FENCED,), order=340),),
    ),
    Rule(
        number=98,
        code="EPOCH_REGRESSION_IN_RESPONSE",
        text="The coordinator sends a member a lower epoch than before, although the member did not join again.",
        act="lowered a member epoch, although the member did not join again",
        weight=85,
        must="A member epoch does not decrease until the member joins again.",
        advice="Copy the epoch from the answer: the coordinator compares the next heartbeat with it. Check whether "
        "two clients use the same member id. If not, report it to Kafka with these packets.",
        wrong="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0, given 1",
        right="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0, given 3",
        source="Kafka: GroupMetadataManager",
        rests_on=(NO_CONNECTION,),
        blame=("broker",),
        machine=MEMBER,
        checks=tuple(
            Check(epoch_went_back, (SUBSEQUENT,), (ACCEPTED,), NOT_PLAIN, machine=machine)
            for machine in (MEMBER, CONSUMER)
        ),
    ),
    Rule(
        number=99,
        code="EPOCH_NOT_ADOPTED",
        text="A member still uses its old epoch after an answer with a newer one.",
        act="kept its old member epoch after an answer with a newer one",
        weight=46,
        must="The heartbeat after an answer has the member epoch of that answer.",
        advice="Copy member_epoch from each answer, even if it has no assignment. The coordinator accepts the epoch "
        "before the last one, and fences the member after it has sent another one.",
        wrong="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 1 → 0, given 2",
        right="ShareGroupHeartbeat epoch 1 → 0, given 2; ShareGroupHeartbeat epoch 2 → 0",
        provoked_by="Let the assignment of the member change: start and stop a second member of the group.",
        source="KIP-932; Kafka: GroupMetadataManager",
        rests_on=(ANSWER_RECEIVED,),
        verdicts=EXPLAINS,
        causes=("not_adopted",),
        at="request",
        machine=MEMBER,
        checks=(
            Check(sent_old_epoch_fenced, (SUBSEQUENT,), (FENCED,), GIVEN_NEWER, order=330),
            Check(sent_old_epoch_accepted, (SUBSEQUENT,), (ACCEPTED,), GIVEN_NEWER),
            Check(sent_old_epoch_accepted, (SUBSEQUENT,), (ACCEPTED,), GIVEN_NEWER, machine=CONSUMER),
        ),
    ),
    Rule(
        number=102,
        code="REJOIN_REFUSED",
        text="The coordinator fences a member that joins again with epoch 0.",
        act="refused a member that joined again with epoch 0",
        weight=84,
        must="A member may join again with epoch 0 at any time.",
        advice="Join with a new member id, or upgrade the brokers to Kafka 4.2: older brokers refuse epoch 0 while "
        "they have the member, until its session timeout is over (45 s by default).",
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
