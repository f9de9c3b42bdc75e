"""Who may store the state of a share partition: state epochs, leader epochs, coordinators, administrators. Rules 109,
110, 111, 113, 116, 120, 121 and 123.

Whoever sends a request is accused as the client of its connection, be it a broker or something that plays one. Two
requests on one connection come from one sender, and while it is open the sender has no other: what it did not say there
it did not say elsewhere."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, Argument
from kshark.analysis.facts.state_steps import ELSEWHERE, FENCED_LEADER, FENCED_STATE, INVALID, TAKEN, StateStep
from kshark.analysis.rules.rule import NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import FIRST_WRITE, NOT_PLAIN
from kshark.analysis.states.stored.state import Storing
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

#: Requests by what they do to a state, or ask of it.
_READS: Final = (READ_SHARE_GROUP_STATE,)
_WRITES: Final = (WRITE_SHARE_GROUP_STATE,)
_STORES: Final = (INITIALIZE_SHARE_GROUP_STATE, *_WRITES)
_TELLS: Final = (*_READS, READ_SHARE_GROUP_STATE_SUMMARY)
_INVALID_REQUEST: Final = int(ErrorCode.INVALID_REQUEST)
_NON_EMPTY_GROUP: Final = int(ErrorCode.NON_EMPTY_GROUP)
#: Group id, topic id, partition; read from the right, for a group id may contain colons. Kafka: SharePartitionKey.
_SHARE_KEY: Final = r"^[\s\S]+:[A-Za-z0-9_-]{22}:[+-]?[0-9]+$"


# -- epochs


def negative_state_epoch(now: Storing) -> Argument | None:
    """No state was ever stored with a state epoch below zero."""
    step = now.step
    if step.reply is not FENCED_STATE or step.state_epoch is None or step.state_epoch >= 0:
        return None
    return Argument(step.story, (step.call,), EXCHANGE, "negative")


def went_back_and_was_fenced(now: Storing) -> Argument | None:
    """The same sender stored with a higher state epoch before."""
    step, before = now.step, now.own_before
    if step.reply is not FENCED_STATE or before is None or not _is_above(before.state_epoch, step.state_epoch):
        return None
    return Argument(step.story_after(before), (before.call, step.call), EXCHANGE, "went_back")


def fenced_by_a_known_state(now: Storing) -> Argument | None:
    """The state was set anew since; that the sender had not heard of it is nobody's fault."""
    step, by = now.step, now.stored.state_epoch_by
    if step.reply is not FENCED_STATE or by is None or now.stored.held(step) is not NEWER_STATE:
        return None
    return Argument(step.story_after(by), (by.call, step.call), EXCHANGE, "newer_state", noted=True)


def fenced_by_some_state(now: Storing) -> Argument | None:
    step = now.step
    return (
        Argument(step.story, (step.call,), EXCHANGE, "newer_state", noted=True) if step.reply is FENCED_STATE else None
    )


def fenced_by_a_known_leader(now: Storing) -> Argument | None:
    """Another leader has read the state since: the sender leads no more and does not know it yet."""
    step, by = now.step, now.stored.leader_epoch_by
    if step.reply is not FENCED_LEADER or step.negative or by is None or now.stored.held(step) is not NEWER_LEADER:
        return None
    return Argument(step.story_after(by), (by.call, step.call), EXCHANGE, "newer_leader")


def fenced_by_some_leader(now: Storing) -> Argument | None:
    step, cause = now.step, "newer_leader" if now.step.negative is None else "negative"
    return Argument(step.story, (step.call,), EXCHANGE, cause) if step.reply is FENCED_LEADER else None


def state_epoch_went_back(now: Storing) -> Argument | None:
    """A sender stores with a lower state epoch than before, and the coordinator takes it."""
    step, before = now.step, now.own_before
    if step.reply is not TAKEN or before is None or not _is_above(before.state_epoch, step.state_epoch):
        return None
    return Argument(step.story_after(before), (before.call, step.call), EXCHANGE)


def state_epoch_is_lower(now: Storing) -> Argument | None:
    """A state epoch is taken, or told, that is below the stored one: only after a deletion could it be."""
    step, by = now.step, now.stored.state_epoch_by
    if step.reply is not TAKEN or by is None or by.call.end >= step.packet:
        return None
    told = step.given is not None and now.stored.exists and _is_above(now.stored.state_epoch, step.given.state_epoch)
    taken = now.stored.held(step) is NEWER_STATE and reply_due(step.call.api_key, NEWER_STATE) is FENCED_STATE
    return Argument(step.story_after(by), (by.call, step.call), ABSENCE) if told or taken else None


def _is_above(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and before > now


# -- who may write


def wrote_after_a_refused_read(now: Storing) -> Argument | None:
    """The leader was not given a state, for there is none, and writes all the same."""
    step, read = now.step, _refused_read(now)
    if read is None:
        return None
    return Argument(step.story_after(read), (read.call, step.call), EXCHANGE)


def wrote_without_reading(now: Storing) -> Argument | None:
    """The first write of a leader epoch of which no Read was seen."""
    step, stored = now.step, now.stored
    if not step.taken or not stored.begun or step.leader_epoch is None or step.leader_epoch <= stored.read_epoch:
        return None
    before = stored.sender(step).write
    if before is not None and before.is_same_leader(step):  # not its first
        return None
    return Argument(f"{step.story}; no leader with that epoch was seen to read the state", (step.call,), ABSENCE)


def _refused_read(now: Storing) -> StateStep | None:
    """Of a Write that was refused because nothing is stored: the Read before it that was refused for the same
    reason."""
    sender = now.stored.sender(now.step)
    if (
        not _is_unwanted(now.step)
        or sender.read is None
        or sender.read.reply is not INVALID
        or sender.read.negative is not None
    ):
        return None
    return None if sender.write is not None and sender.write.packet > sender.read.packet else sender.read


def read_too_early(now: Storing) -> Argument | None:
    """A leader reads before the group coordinator has initialized the state: it does so again."""
    step = now.step
    if step.reply is not INVALID or step.negative is not None:
        return None
    return Argument(f"{step.story}: nothing is stored yet", (step.call,), EXCHANGE, "not_initialized", noted=True)


def wrote_behind_a_deletion(now: Storing) -> Argument | None:
    """The state was deleted since: that the leader had not heard of it is nobody's fault."""
    step, reset = now.step, now.stored.reset
    if not _is_unwanted(step) or reset is None or reset.call.api_key != DELETE_SHARE_GROUP_STATE or now.stored.exists:
        return None
    return Argument(step.story_after(reset), (reset.call, step.call), EXCHANGE, "deleted", noted=True)


def wrote_without_a_state(now: Storing) -> Argument | None:
    """The leader knew from its Read that there is no state."""
    step, read = now.step, _refused_read(now)
    if read is None:
        return None
    return Argument(step.story_after(read), (read.call, step.call), EXCHANGE, "not_initialized")


def wrote_once_more(now: Storing) -> Argument | None:
    """Leaders try again with the next acknowledgement or lock that ends, until they hear what became of the topic or
    the group."""
    step, refused = now.step, now.stored.refused
    if not _is_unwanted(step) or refused is None:
        return None
    return Argument(step.story_after(refused), (refused.call, step.call), EXCHANGE, "refused_before", noted=True)


def wrote_where_nothing_is_stored(now: Storing) -> Argument | None:
    """What became of the state, or whether the sender was ever given one, the capture does not show."""
    step, by = now.step, now.stored.state_epoch_by or now.stored.start_offset_by
    if not _is_unwanted(step):
        return None
    if by is None:
        return Argument(step.story, (step.call,), EXCHANGE, "not_initialized", because="beginning_not_seen")
    return Argument(step.story_after(by), (by.call, step.call), ABSENCE, "not_initialized")


def _is_unwanted(step: StateStep) -> bool:
    """A Write that was refused because nothing is stored."""
    return step.reply is INVALID and step.negative is None


# -- where else


def asked_the_wrong_broker(now: Storing) -> Argument | None:
    """Another broker coordinates that share partition by now; the sender looks for it and asks again."""
    step = now.step
    return Argument(step.story, (step.call,), EXCHANGE, "coordinator_moved") if step.reply is ELSEWHERE else None


def forgotten(step: StateStep) -> Argument:
    """Said once: from here on states are missing."""
    text = (
        f"too many share partitions at once: from {step.call.here} on ({step.call.packets}) the states longest unused "
        f"are forgotten"
    )
    return Argument(text, (step.call,), EXCHANGE)


STATES_FORGOTTEN: Final = Rule(
    number=None,
    code="STATES_FORGOTTEN",
    text="Too many share partitions at once; what was stored of the longest unused ones was forgotten and is no "
    "evidence any more.",
    advice="Nothing in the client: capture fewer brokers at a time.",
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
        text="State is stored with a lower state epoch than the stored one.",
        must="State is stored with the state epoch that the last Read was answered with.",
        advice="Keep the state epoch of the last Read, and write with no other. On FENCED_STATE_EPOCH drop what is in "
        "flight of the "
        "partition and read its state again: it was set anew.",
        wrong="WriteShareGroupState state epoch 2 → 0; WriteShareGroupState state epoch 1 → 124",
        right="WriteShareGroupState state epoch 2 → 0; WriteShareGroupState state epoch 2 → 0",
        source="Kafka: ShareCoordinatorShard",
        verdicts=NOTES_TOO,
        causes=("negative", "went_back", "newer_state"),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(negative_state_epoch, apis=_STORES, trigger=NOT_PLAIN),
            Check(went_back_and_was_fenced, apis=_STORES, trigger=NOT_PLAIN),
            Check(fenced_by_a_known_state, apis=_STORES, trigger=NOT_PLAIN),
            Check(fenced_by_some_state, apis=_STORES, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=110,
        code="LEADER_EPOCH_FENCED",
        text="A leader that was replaced reads or stores state.",
        advice="Hand out no more records of the partition, and answer its members NOT_LEADER_OR_FOLLOWER: another "
        "broker leads it. A "
        "leader epoch below -1 is none.",
        wrong="ReadShareGroupState leader epoch 2 → 0; WriteShareGroupState leader epoch 1 → 74",
        right="ReadShareGroupState leader epoch 2 → 0; WriteShareGroupState leader epoch 2 → 0",
        source="Kafka: ShareCoordinatorShard",
        blame=(),
        verdicts=NOTES,
        causes=("negative", "newer_leader"),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(fenced_by_a_known_leader, apis=_READS + _WRITES, trigger=NOT_PLAIN),
            Check(fenced_by_some_leader, apis=_READS + _WRITES, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=111,
        code="STATE_EPOCH_REGRESSION",
        text="A state epoch is accepted that is lower than one before it.",
        must="State epochs never go down while the state is there.",
        advice="Write with the state epoch that the last Read was answered with. A higher one is accepted, too, and "
        "since 4.2 not stored: "
        "that a write was accepted does not make its epoch the right one.",
        wrong="WriteShareGroupState state epoch 3 → 0; WriteShareGroupState state epoch 2 → 0",
        right="WriteShareGroupState state epoch 2 → 0; WriteShareGroupState state epoch 2 → 0",
        source="Kafka: ShareCoordinatorShard",
        tickets=("KAFKA-19456",),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(state_epoch_went_back, apis=_STORES, trigger=NOT_PLAIN),
            Check(state_epoch_is_lower, apis=_STORES + _TELLS, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=113,
        code="WRITE_UNINITIALIZED",
        text="State is stored or read of a share partition that has none.",
        must="State is written where a Read was answered with some.",
        advice="Where a Read is refused hand out no records, and read again later: the group coordinator initializes "
        "the state before it "
        "assigns the partition. Where a write is refused drop what is in flight: the state was deleted, with its "
        "group or its topic.",
        wrong="ReadShareGroupState → 42; WriteShareGroupState acknowledged 0-9 → 42",
        right="ReadShareGroupState → 42; on B: InitializeShareGroupState state epoch 2 → 0; ReadShareGroupState → 0; "
        "WriteShareGroupState acknowledged 0-9 → 0",
        source="Kafka: ShareCoordinatorShard",
        verdicts=NOTES_TOO,
        causes=("not_initialized", "deleted", "refused_before"),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(read_too_early, apis=_READS, trigger=NOT_PLAIN),
            Check(wrote_behind_a_deletion, apis=_WRITES, trigger=NOT_PLAIN),
            Check(wrote_without_a_state, apis=_WRITES, trigger=NOT_PLAIN),
            Check(wrote_once_more, apis=_WRITES, trigger=NOT_PLAIN),
            Check(wrote_where_nothing_is_stored, apis=_WRITES, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=116,
        code="WRITE_BEFORE_READ",
        text="A leader stores state that it has not read.",
        must="A leader reads the state before it writes it for the first time.",
        advice="Read once at the beginning of each leadership, with its leader epoch, and wait for the answer: it "
        "says where to begin, and "
        "fences the leaders before.",
        wrong="ReadShareGroupState → 42; WriteShareGroupState acknowledged 0-9 → 42",
        right="ReadShareGroupState → 0; WriteShareGroupState acknowledged 0-9 → 0",
        source="Kafka: SharePartition.maybeInitialize",
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
        text="A share coordinator is looked for by a key that is none, or in a version before there were any.",
        must="A share coordinator is looked for by group:topic id:partition, in version 6 or later.",
        advice="Write the topic id as 22 characters of base64, not the topic's name, and the partition as a number. "
        "Ask a broker for its "
        "versions first.",
        wrong="FindCoordinator share key g:t:0 → 42",
        right="FindCoordinator share key g:AAAAAAAAAAAAAAAAAAAABw:0 → 0",
        source="KIP-932; Kafka: SharePartitionKey",
        apis=(FIND_COORDINATOR,),
        given=F("key_type") == int(CoordinatorType.SHARE),
        when=by_version({"0-5": ALWAYS, "6+": any_of("coordinator_keys", ~ELEMENT.matches(_SHARE_KEY))}),
        answer=(F("error_code") == _INVALID_REQUEST) | any_of("coordinators", F("error_code") == _INVALID_REQUEST),
        told="a share coordinator has a key of group, topic id and partition, and is looked for in version 6 or later",
    ),
    Rule(
        number=121,
        code="WRONG_SHARE_COORDINATOR",
        text="A broker is asked for the state of a share partition that another one coordinates.",
        advice="Look for the coordinator again (FindCoordinator, key type 2), and ask there: it is whoever leads the "
        "partition of "
        "__share_group_state.",
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
        text="Offsets of a share group are set or deleted while it has members.",
        must="Offsets of a share group are set or deleted while it has no members.",
        advice="Stop its consumers and wait until the group is empty (kafka-share-groups --describe --state): members "
        "that did not leave "
        "are in it until their session timeout, 45 s.",
        wrong="ShareFetch epoch 0 → 0; on B: AlterShareGroupOffsets t[0] 5 → 68",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch -1 → 0; a leaves; on B: AlterShareGroupOffsets t[0] 5 → 0",
        source="Kafka: GroupMetadataManager",
        apis=(ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS),
        when=ALWAYS,
        answer=F("error_code") == _NON_EMPTY_GROUP,
        told="the group has members",
    ),
    STATES_FORGOTTEN,
)
