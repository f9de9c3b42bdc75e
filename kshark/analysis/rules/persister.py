"""Rights to store the state of a share partition: state epochs, leader epochs, coordinators, administrators. Rules
109, 110, 111, 113, 116, 120, 121 and 123.

The sender of a request is accused as the client of its connection, even if it is a broker or imitates one. Two
requests on one connection have the same sender. While the connection is open, the sender uses no other: a request that
is not on it was not sent.
"""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import BROKER_ABSENCE, EXCHANGE, Argument
from kshark.analysis.facts.bases import ANSWER_RECEIVED, NO_ADMIN, NO_CONNECTION, SESSION_TIMEOUT, Limit
from kshark.analysis.facts.known import BEGINNING
from kshark.analysis.facts.state_steps import ACCEPTED, ELSEWHERE, FENCED_LEADER, FENCED_STATE, INVALID, StateStep
from kshark.analysis.rules.rule import NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import FIRST_WRITE, NOT_PLAIN
from kshark.analysis.states.stored.state import StoredSituation
from kshark.analysis.states.tables import PERSISTER
from kshark.analysis.states.tables.persister import NEWER_LEADER, NEWER_STATE, reply_due
from kshark.api_keys import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_STATE,
    FIND_COORDINATOR,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
)
from kshark.conditions import ALWAYS, ELEMENT, F, any_of, by_version
from kshark_dissectors.enums import CoordinatorType, ErrorCode

#: Requests that read, write, store and report a state.
_READS: Final = (READ_SHARE_GROUP_STATE,)
_WRITES: Final = (WRITE_SHARE_GROUP_STATE,)
_STORES: Final = (INITIALIZE_SHARE_GROUP_STATE, *_WRITES)
_REPORTS: Final = (*_READS, READ_SHARE_GROUP_STATE_SUMMARY)
_INVALID_REQUEST: Final = int(ErrorCode.INVALID_REQUEST)
_NON_EMPTY_GROUP: Final = int(ErrorCode.NON_EMPTY_GROUP)
#: Group id, topic id, partition; read from the right, because a group id may contain colons. Kafka: SharePartitionKey.
_SHARE_KEY: Final = r"^[\s\S]+:[A-Za-z0-9_-]{22}:[+-]?[0-9]+$"


# -- epochs


def negative_state_epoch(situation: StoredSituation) -> Argument | None:
    """No stored state has a state epoch below zero."""
    step = situation.step
    if step.reply is not FENCED_STATE or step.state_epoch is None or step.state_epoch >= 0:
        return None
    return Argument(step.story, (step.call,), EXCHANGE, "negative")


def went_back_and_was_fenced(situation: StoredSituation) -> Argument | None:
    """The same sender stored a higher state epoch before."""
    step, before = situation.step, situation.own_before
    if step.reply is not FENCED_STATE or before is None or not _is_above(before.state_epoch, step.state_epoch):
        return None
    return Argument(step.story_after(before), (before.call, step.call), EXCHANGE, "went_back")


def fenced_by_seen_state(situation: StoredSituation) -> Argument | None:
    """The state was reset. The sender did not know, and is not to blame."""
    step, by = situation.step, situation.stored.state_epoch_by
    if step.reply is not FENCED_STATE or by is None or situation.stored.held(step) is not NEWER_STATE:
        return None
    return Argument(step.story_after(by), (by.call, step.call), EXCHANGE, "newer_state", noted=True)


def fenced_by_unseen_state(situation: StoredSituation) -> Argument | None:
    step = situation.step
    return (
        Argument(step.story, (step.call,), EXCHANGE, "newer_state", noted=True) if step.reply is FENCED_STATE else None
    )


def fenced_by_seen_leader(situation: StoredSituation) -> Argument | None:
    """Another leader has read the state since. The sender is no longer leader and does not know it yet."""
    step, by = situation.step, situation.stored.leader_epoch_by
    if (
        step.reply is not FENCED_LEADER
        or step.negative
        or by is None
        or situation.stored.held(step) is not NEWER_LEADER
    ):
        return None
    return Argument(step.story_after(by), (by.call, step.call), EXCHANGE, "newer_leader")


def fenced_by_unseen_leader(situation: StoredSituation) -> Argument | None:
    step, cause = situation.step, "newer_leader" if situation.step.negative is None else "negative"
    return Argument(step.story, (step.call,), EXCHANGE, cause) if step.reply is FENCED_LEADER else None


def state_epoch_went_back(situation: StoredSituation) -> Argument | None:
    """A sender stores a lower state epoch than before, and the coordinator accepts it."""
    step, before = situation.step, situation.own_before
    if step.reply is not ACCEPTED or before is None or not _is_above(before.state_epoch, step.state_epoch):
        return None
    return Argument(step.story_after(before), (before.call, step.call), EXCHANGE)


def state_epoch_is_lower(situation: StoredSituation) -> Argument | None:
    """A state epoch below the stored one is accepted or reported. Only a deletion explains that."""
    step, by = situation.step, situation.stored.state_epoch_by
    if step.reply is not ACCEPTED or by is None or by.call.end >= step.packet:
        return None
    reported_lower = (
        step.given is not None
        and situation.stored.exists
        and _is_above(situation.stored.state_epoch, step.given.state_epoch)
    )
    accepted_lower = (
        situation.stored.held(step) is NEWER_STATE and reply_due(step.call.api_key, NEWER_STATE) is FENCED_STATE
    )
    return (
        Argument(step.story_after(by), (by.call, step.call), BROKER_ABSENCE)
        if reported_lower or accepted_lower
        else None
    )


def _is_above(before: int | None, epoch: int | None) -> bool:
    return before is not None and epoch is not None and before > epoch


# -- the right to write


def wrote_after_a_refused_read(situation: StoredSituation) -> Argument | None:
    """The leader received no state, because none is stored, and still writes."""
    step, read = situation.step, _refused_read(situation)
    if read is None:
        return None
    return Argument(step.story_after(read), (read.call, step.call), EXCHANGE.after(read.call))


def wrote_without_reading(situation: StoredSituation) -> Argument | None:
    """The first Write with a leader epoch for which the capture shows no Read."""
    step, stored = situation.step, situation.stored
    if not step.accepted or not stored.begun or step.leader_epoch is None or step.leader_epoch <= stored.read_epoch:
        return None
    before = stored.sender(step).write
    if before is not None and before.is_same_leader(step):  # not the leader's first Write
        return None
    return Argument(
        f"{step.story}; the capture shows no Read by a leader with that epoch", (step.call,), BROKER_ABSENCE
    )


def _refused_read(situation: StoredSituation) -> StateStep | None:
    """Return the refused Read before a Write that is refused for the same reason: nothing is stored."""
    sender = situation.stored.sender(situation.step)
    if (
        not _is_unwanted(situation.step)
        or sender.read is None
        or sender.read.reply is not INVALID
        or sender.read.negative is not None
    ):
        return None
    return None if sender.write is not None and sender.write.packet > sender.read.packet else sender.read


def read_too_early(situation: StoredSituation) -> Argument | None:
    """A leader reads before the group coordinator has initialized the state. It will read again."""
    step = situation.step
    if step.reply is not INVALID or step.negative is not None:
        return None
    return Argument(f"{step.story}: no state is stored yet", (step.call,), EXCHANGE, "not_initialized", noted=True)


def wrote_after_a_deletion(situation: StoredSituation) -> Argument | None:
    """The state was deleted since. The leader did not know, and is not to blame."""
    step, reset = situation.step, situation.stored.reset
    if (
        not _is_unwanted(step)
        or reset is None
        or reset.call.api_key != DELETE_SHARE_GROUP_STATE
        or situation.stored.exists
    ):
        return None
    return Argument(step.story_after(reset), (reset.call, step.call), EXCHANGE, "deleted", noted=True)


def wrote_without_a_state(situation: StoredSituation) -> Argument | None:
    """The leader knew from its Read that there is no state."""
    step, read = situation.step, _refused_read(situation)
    if read is None:
        return None
    return Argument(step.story_after(read), (read.call, step.call), EXCHANGE.after(read.call), "not_initialized")


def wrote_once_more(situation: StoredSituation) -> Argument | None:
    """The Write repeats an earlier refused one.

    Leaders try again with the next acknowledgement or expired lock, until they learn that the topic or group is gone.
    """
    step, refused = situation.step, situation.stored.refused
    if not _is_unwanted(step) or refused is None:
        return None
    return Argument(step.story_after(refused), (refused.call, step.call), EXCHANGE, "refused_before", noted=True)


def wrote_where_nothing_is_stored(situation: StoredSituation) -> Argument | None:
    """The capture shows neither what happened to the state, nor a Read that returned it to the sender."""
    step, by = situation.step, situation.stored.state_epoch_by or situation.stored.start_offset_by
    if not _is_unwanted(step):
        return None
    if by is None:
        return Argument(step.story, (step.call,), EXCHANGE.knowing(BEGINNING), "not_initialized")
    return Argument(step.story_after(by), (by.call, step.call), BROKER_ABSENCE, "not_initialized")


def _is_unwanted(step: StateStep) -> bool:
    """True for a Write that is refused because nothing is stored."""
    return step.reply is INVALID and step.negative is None


# -- wrong broker, limits of kshark


def asked_the_wrong_broker(situation: StoredSituation) -> Argument | None:
    """Another broker coordinates the share partition now. The sender looks it up and asks again."""
    step = situation.step
    return Argument(step.story, (step.call,), EXCHANGE, "coordinator_moved") if step.reply is ELSEWHERE else None


def forgotten(step: StateStep) -> Argument:
    """Return the argument reported once: later states are incomplete."""
    text = (
        f"too many share partitions at once: from {step.call.here} on ({step.call.packets}) kshark drops the states "
        "that were not used for the longest time"
    )
    return Argument(text, (step.call,), EXCHANGE)


STATES_FORGOTTEN: Final = Rule(
    number=None,
    code="STATES_FORGOTTEN",
    text="Too many share partitions at once: kshark dropped the stored state of the longest unused ones. It is "
    "missing as evidence.",
    advice="Change nothing in the client. Capture fewer brokers at a time.",
    source="",
    blame=(),
    verdicts=NOTES,
    at="request",
    machine=PERSISTER,
    alternatives=True,
)
ROWS: Final = (
    Rule(
        number=109,
        code="STATE_EPOCH_FENCED",
        text="A request stores state with a lower state epoch than the stored one.",
        act="stored share state with an outdated state epoch",
        weight=40,
        must="State is stored with the state epoch of the last Read answer.",
        advice="Keep the state epoch of the last Read, and write with no other. After FENCED_STATE_EPOCH drop the "
        "partition's records in flight and read its state again: it was reset.",
        wrong="WriteShareGroupState state epoch 2 → 0; WriteShareGroupState state epoch 1 → 124",
        right="WriteShareGroupState state epoch 2 → 0; WriteShareGroupState state epoch 2 → 0",
        source="Kafka: ShareCoordinatorShard",
        rests_on=(Limit("SENDERS_OF_A_STATE"),),
        verdicts=NOTES_TOO,
        causes=("negative", "went_back", "newer_state"),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(negative_state_epoch, apis=_STORES, trigger=NOT_PLAIN),
            Check(went_back_and_was_fenced, apis=_STORES, trigger=NOT_PLAIN),
            Check(fenced_by_seen_state, apis=_STORES, trigger=NOT_PLAIN),
            Check(fenced_by_unseen_state, apis=_STORES, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=110,
        code="LEADER_EPOCH_FENCED",
        text="A leader that was replaced reads or stores state.",
        advice="Deliver no more records of the partition, and answer its members with NOT_LEADER_OR_FOLLOWER: another "
        "broker leads it. A leader epoch below -1 is not valid.",
        wrong="ReadShareGroupState leader epoch 2 → 0; WriteShareGroupState leader epoch 1 → 74",
        right="ReadShareGroupState leader epoch 2 → 0; WriteShareGroupState leader epoch 2 → 0",
        source="Kafka: ShareCoordinatorShard",
        blame=(),
        verdicts=NOTES,
        causes=("negative", "newer_leader"),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(fenced_by_seen_leader, apis=_READS + _WRITES, trigger=NOT_PLAIN),
            Check(fenced_by_unseen_leader, apis=_READS + _WRITES, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=111,
        code="STATE_EPOCH_REGRESSION",
        text="A coordinator accepts or reports a lower state epoch than before.",
        act="lowered the state epoch of a share partition",
        weight=80,
        must="State epochs never decrease while the state exists.",
        advice="Write with the state epoch of the last Read answer. Coordinators also accept a higher one, and since "
        "4.2 do not store it: an accepted write does not prove that its epoch is right.",
        wrong="WriteShareGroupState state epoch 3 → 0; WriteShareGroupState state epoch 2 → 0",
        right="WriteShareGroupState state epoch 2 → 0; WriteShareGroupState state epoch 2 → 0",
        source="Kafka: ShareCoordinatorShard",
        rests_on=(NO_CONNECTION, Limit("SENDERS_OF_A_STATE")),
        tickets=("KAFKA-19456",),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(state_epoch_went_back, apis=_STORES, trigger=NOT_PLAIN),
            Check(state_epoch_is_lower, apis=_STORES + _REPORTS, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=113,
        code="WRITE_UNINITIALIZED",
        text="A request stores or reads the state of a share partition that has none.",
        act="stored or read share state that was never initialized",
        weight=60,
        must="A leader writes state only after a Read that returned state.",
        advice="If a Read is refused, deliver no records and read again later: the group coordinator initializes the "
        "state before it assigns the partition. If a Write is refused, drop the records in flight: the state "
        "was deleted with its group or topic.",
        wrong="ReadShareGroupState → 42; WriteShareGroupState acknowledged 0-9 → 42",
        right="ReadShareGroupState → 42; on B: InitializeShareGroupState state epoch 2 → 0; ReadShareGroupState → 0; "
        "WriteShareGroupState acknowledged 0-9 → 0",
        source="Kafka: ShareCoordinatorShard",
        rests_on=(NO_CONNECTION, NO_ADMIN, Limit("SENDERS_OF_A_STATE"), ANSWER_RECEIVED),
        verdicts=NOTES_TOO,
        causes=("not_initialized", "deleted", "refused_before"),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(read_too_early, apis=_READS, trigger=NOT_PLAIN),
            Check(wrote_after_a_deletion, apis=_WRITES, trigger=NOT_PLAIN),
            Check(wrote_without_a_state, apis=_WRITES, trigger=NOT_PLAIN),
            Check(wrote_once_more, apis=_WRITES, trigger=NOT_PLAIN),
            Check(wrote_where_nothing_is_stored, apis=_WRITES, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=116,
        code="WRITE_BEFORE_READ",
        text="A leader stores state that it has not read.",
        act="stored share state that it had not read",
        weight=70,
        must="A leader reads the state before it writes it for the first time.",
        advice="Read once at the beginning of each leadership, with its leader epoch, and wait for the answer: it has "
        "the start offset. The Read also fences earlier leaders.",
        wrong="ReadShareGroupState → 42; WriteShareGroupState acknowledged 0-9 → 42",
        right="ReadShareGroupState → 0; WriteShareGroupState acknowledged 0-9 → 0",
        source="Kafka: SharePartition.maybeInitialize",
        rests_on=(NO_CONNECTION, Limit("SENDERS_OF_A_STATE"), ANSWER_RECEIVED),
        at="request",
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(wrote_after_a_refused_read, trigger=FIRST_WRITE, apis=_WRITES),
            Check(wrote_without_reading, trigger=FIRST_WRITE, apis=_WRITES),
        ),
    ),
    Rule(
        number=120,
        code="SHARE_KEY_MALFORMED",
        text="FindCoordinator has an invalid share coordinator key, or a version without such keys.",
        act="asked for a share coordinator with an invalid key",
        weight=50,
        must="The key of a share coordinator is group:topic id:partition, in FindCoordinator version 6 or later.",
        advice="Write the topic id, not the topic's name, as 22 characters of base64, and the partition as a number. "
        "Ask the broker for its versions first.",
        wrong="FindCoordinator share key g:t:0 → 42",
        right="FindCoordinator share key g:AAAAAAAAAAAAAAAAAAAABw:0 → 0",
        source="KIP-932; Kafka: SharePartitionKey",
        apis=(FIND_COORDINATOR,),
        given=F("key_type") == int(CoordinatorType.SHARE),
        when=by_version({"0-5": ALWAYS, "6+": any_of("coordinator_keys", ~ELEMENT.matches(_SHARE_KEY))}),
        answer=(F("error_code") == _INVALID_REQUEST) | any_of("coordinators", F("error_code") == _INVALID_REQUEST),
        sentence="the key of a share coordinator is group:topic id:partition, in version 6 or later",
    ),
    Rule(
        number=121,
        code="WRONG_SHARE_COORDINATOR",
        text="A broker receives a request for the state of a share partition that another broker coordinates.",
        advice="Find the coordinator again (FindCoordinator, key type 2), and send the request there: it is the "
        "leader of the partition of __share_group_state.",
        wrong="ReadShareGroupState → 16",
        right="ReadShareGroupState → 0",
        source="Kafka: ShareCoordinatorService",
        blame=(),
        verdicts=NOTES,
        causes=("coordinator_moved",),
        machine=PERSISTER,
        alternatives=True,
        checks=(Check(asked_the_wrong_broker, trigger=NOT_PLAIN),),
    ),
    Rule(
        number=123,
        code="OFFSETS_ADMIN_NON_EMPTY",
        text="A request sets or deletes offsets of a share group that has members.",
        act="changed the offsets of a share group that has members",
        weight=40,
        must="Offsets of a share group are set or deleted only while it has no members.",
        advice="Stop its consumers and wait until the group is empty (kafka-share-groups --describe --state). Members "
        "that did not leave stay in the group until their session timeout, 45 s.",
        wrong="ShareFetch epoch 0 → 0; on B: AlterShareGroupOffsets t[0] 5 → 68",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch -1 → 0; a leaves; on B: AlterShareGroupOffsets t[0] 5 → 0",
        provoked_by="Alter or delete the group's offsets (kafka-share-groups.sh --reset-offsets) while it has members.",
        source="Kafka: GroupMetadataManager",
        rests_on=(SESSION_TIMEOUT,),
        apis=(ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS),
        when=ALWAYS,
        answer=F("error_code") == _NON_EMPTY_GROUP,
        sentence="the group has members",
    ),
    STATES_FORGOTTEN,
)
