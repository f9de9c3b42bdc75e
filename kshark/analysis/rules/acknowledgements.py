"""Rules 56 to 59, 63, 65 and 70: why acknowledgements were refused, and faults in accepted ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.bases import (
    ANSWER_RECEIVED,
    AT_LEAST,
    BETWEEN_CONNECTIONS,
    LOCK_DURATION,
    NO_CONNECTION,
    NO_MEMBER,
    RENEWALS,
    Limit,
)
from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.rules.refusals import acknowledged, offsets_text, refusal
from kshark.analysis.rules.rule import CATCH_ALL, EXPLAINS, NOTES, Check, Rule
from kshark.analysis.rules.triggers import NOT_APPLIED, NOT_HELD, RENEWS, UNTESTED
from kshark.analysis.states.partition.records_in_flight import Hold, Piece, RecordState
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.session.copies import is_again
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACQUIRED, AVAILABLE, RENEW, TERMINAL

_INVALID_REQUEST: Final = 42
_INVALID_RECORD_STATE: Final = 121
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
#: After these acknowledgements of its member a record is complete.
_DONE: Final = frozenset({"accepted", "rejected", "gap"})
#: After these the member no longer holds the record: other members can acquire it, or it is archived after its last
#: delivery.
_GIVEN_BACK: Final = frozenset({"released", "session_released"})
#: All acknowledgements that end the member's lock.
_ACKNOWLEDGED: Final = _DONE | {"released"}
_NOT_LEADER: Final = frozenset({3, 6, 74})
#: Why the share coordinator did not store acknowledgements, by the partition's error, and in words.
#: Kafka: SharePartition.fetchPersisterError.
_NOT_STORED: Final = {15: "not_available", 69: "no_such_group", 124: "state_fenced"}
_WHY_NOT_STORED: Final = {
    "not_available": "their leader could not store them, because the share coordinator was not available",
    "no_such_group": "their leader could not store them, because the group no longer exists",
    "state_fenced": "the share coordinator has newer state of the partition, and fenced this leader's Write; the "
    "leader reads the state again, and delivers the records again",
}


# -- records that the member does not hold


def renewal_refused(situation: Acknowledging) -> Argument | None:
    """Report locks that could not be renewed.

    They had expired, or never existed, or the group does not allow renewals (share.renew.acknowledge.enable).
    """
    if situation.error not in (_INVALID_REQUEST, _INVALID_RECORD_STATE):
        return None
    if all(run.type != RENEW for run in situation.runs):
        return None
    if _holds_all(situation):
        piece = situation.pieces[0]
        offsets = (piece.first, piece.last)
        text = f"the member still held {offsets_text(*offsets)}, so the group does not allow renewals"
        return refusal(situation, text, "renew_disabled", offsets, _acquisition(piece), noted=True)
    if any(run.type != RENEW for run in situation.runs):
        return None
    late = _late(situation)
    if late is not None:
        return _lock_expired(situation, late)
    if situation.error == _INVALID_REQUEST:
        return _past_the_end(situation)
    return None


def _holds_all(situation: Acknowledging) -> bool:
    """True if the member still holds every record that it acknowledges."""
    if not situation.pieces or situation.missing:
        return False
    member_id = situation.step.member_id
    return all(record.is_held_by(member_id) for piece in situation.pieces for record in piece.value)


def beyond_the_end(situation: Acknowledging) -> Argument | None:
    """Report well-formed batches with offsets after the last acquired one."""
    if situation.error != _INVALID_REQUEST or situation.fault is not None:
        return None
    return _past_the_end(situation)


def _past_the_end(situation: Acknowledging) -> Argument:
    needs = EXCHANGE.knowing(situation.acquired_before)
    return refusal(situation, "no member has acquired records that far", "beyond_end", situation.extent, needs=needs)


def after_the_lock(situation: Acknowledging) -> Argument | None:
    """Note an acknowledgement that came after the lock expired."""
    late = _late(situation) if situation.error == _INVALID_RECORD_STATE else None
    return None if late is None else _lock_expired(situation, late)


def for_each_delivery(situation: Acknowledging) -> Argument | None:
    """Note a second acknowledgement of records that the member received twice because their lock expired.

    The broker applied the first acknowledgement to the second delivery.
    """
    if situation.error != _INVALID_RECORD_STATE:
        return None
    for piece in situation.pieces:
        by = _acknowledged_before(situation, piece)
        if by is None:
            continue
        record = piece.value[0]
        again, *earlier = [hold.step for hold in _acquisitions(record, by)]
        if earlier:
            first = earlier[0]
            text = (
                f"{first.here} had delivered {offsets_text(piece.first, piece.last)} ({first.packets}), and "
                f"{again.here} delivered them again after their lock expired ({again.packets}); {by.here} had "
                f"already {_did(record, 'them')} ({by.packets})"
            )
            return refusal(situation, text, "after_lock", (piece.first, piece.last), (first, again, by), noted=True)
    return None


def not_owned(situation: Acknowledging) -> Argument | None:
    """Report records that another member has acquired, and that this member did not hold until their lock expired.

    The argument may be unproved.
    """
    if situation.error != _INVALID_RECORD_STATE or _late(situation) is not None:
        return None
    for piece in situation.pieces:
        owner = piece.value[0].hold
        if owner is None or not all(_is_held_by_another(record, situation.step) for record in piece.value):
            continue
        offsets, step = (piece.first, piece.last), owner.step
        text = f"member {step.member_id} had acquired {offsets_text(*offsets)} with {step.here} ({step.packets})"
        needs = EXCHANGE.knowing(situation.results)  # without all deliveries, the member may have held them before
        return refusal(situation, text, "not_owner", offsets, (step,), needs=needs)
    return None


def twice(situation: Acknowledging) -> Argument | None:
    """Report records that the member has acknowledged before."""
    if situation.error not in (_INVALID_RECORD_STATE, 0):
        return None
    for piece in situation.pieces:
        record, before = piece.value[0], piece.value[0].by
        if len(piece.value) != 1 or before is None or not _is_repeated(situation, record, before):
            continue
        offsets = (piece.first, piece.last)
        text = f"{before.here} had already {_did(record, offsets_text(*offsets))} ({before.packets})"
        needs = EXCHANGE.after(before).knowing(situation.delivered_once(record))
        return refusal(situation, text, "twice", offsets, (before,), needs=needs)
    return None


def _is_repeated(situation: Acknowledging, record: RecordState, before: ShareStep) -> bool:
    """True if the member completed this record with the request `before`, and the broker applied that."""
    if record.how not in _DONE or before.member_id != situation.step.member_id:
        return False
    if record.hold is None:  # no acquisition was seen: the broker may have ignored the first acknowledgement, too
        return False
    if situation.error == 0 and record.hold.step.connection is not before.connection:
        return False  # the broker may have ignored it because the session that acquired the record had ended
    return before.end < situation.step.packet and not is_again(before, situation.step)


def not_acquired(situation: Acknowledging) -> Argument | None:
    """Report records that the member had released, or has never acquired."""
    if situation.error != _INVALID_RECORD_STATE:
        return None
    for piece in situation.pieces:
        record, release = piece.value[0], piece.value[0].by
        if record.how not in _GIVEN_BACK or release is None or any(other.by is not release for other in piece.value):
            continue
        if release.member_id == situation.step.member_id and release.end < situation.step.packet:
            offsets = (piece.first, piece.last)
            text = f"{release.here} had {_did(record, offsets_text(*offsets))} ({release.packets})"
            needs = EXCHANGE.after(release).knowing(situation.not_delivered_since(record))
            return refusal(situation, text, "not_acquired", offsets, (release,), needs=needs)
    if situation.missing and situation.results.is_certain:
        offsets = situation.missing[0]
        # in a disordered capture the delivery may come after the acknowledgement
        needs = EXCHANGE.knowing(situation.step.connection.clock.order)
        text = f"no answer delivered {offsets_text(*offsets)} to the member"
        return refusal(situation, text, "not_acquired", offsets, needs=needs)
    return None


# -- partitions that cannot be acknowledged to this broker


def nothing_acquired(situation: Acknowledging) -> Argument | None:
    """Report a partition in which the broker has no state of the group; another broker may have led it.

    Kafka: SharePartitionManager.acknowledge.
    """
    if situation.error != _UNKNOWN_TOPIC_OR_PARTITION:
        return None
    session = situation.session
    if situation.share_partition.acquired_here or not situation.results.is_certain or session is None:
        return None
    join, partition = session.member.join, situation.partition
    if not session.broker.is_alone and (join is None or not session.member.never_had(partition, join.packet)):
        return None
    text = "the member received no records of this partition"
    return refusal(situation, text, "nothing_acquired", situation.extent)


def not_led_here(situation: Acknowledging) -> Argument | None:
    """Note a partition that the broker does not lead, or no longer leads. After a leader change this is no fault."""
    if situation.error not in _NOT_LEADER:
        return None
    is_unknown = situation.error == _UNKNOWN_TOPIC_OR_PARTITION
    text = "the broker does not lead this partition, or " + (
        "has delivered none of its records" if is_unknown else "no longer leads it"
    )
    return refusal(situation, text, "not_leader", situation.extent)


def not_stored(situation: Acknowledging) -> Argument | None:
    """Note acknowledgements that the leader could not store with the share coordinator, so they do not count."""
    cause = _NOT_STORED.get(situation.error or 0)
    return None if cause is None else refusal(situation, _WHY_NOT_STORED[cause], cause, situation.extent)


def unexplained(situation: Acknowledging) -> Argument:
    """Return the argument about a refusal that no other check explains."""
    needs = EXCHANGE.knowing(situation.explanation)
    return refusal(situation, "the capture does not show why", "unknown", situation.extent, needs=needs)


# -- accepted


def no_result(situation: Acknowledging) -> Argument | None:
    """Report an answer without a result for an acknowledged partition."""
    if situation.error is not None or not situation.runs or situation.step.answer is None:
        return None
    text = (
        f"{situation.step.here} acknowledges {acknowledged(situation)}; its answer has no result for partition "
        f"{situation.partition[1]} ({situation.step.packets})"
    )
    return Argument(text, (situation.step,), EXCHANGE, partition=situation.partition, offsets=situation.extent)


def accepted_twice(situation: Acknowledging) -> Argument | None:
    """Report a second acknowledgement below the start offset, which the broker ignores without an error."""
    return twice(situation) if situation.error == 0 else None


# -- holds and locks


def _did(record: RecordState, records: str) -> str:
    """`accepted offsets 0 to 4`: how the records were acknowledged."""
    if record.how == "gap":
        return f"acknowledged {records} as gaps"
    return f"{'released' if record.how in _GIVEN_BACK else record.how} {records}"


def _acquisition(piece: Piece) -> tuple[ShareStep, ...]:
    hold = piece.value[0].hold
    return () if hold is None else (hold.step,)


def _lock_expired(situation: Acknowledging, piece: Piece) -> Argument:
    hold, offsets = piece.value[0].hold, (piece.first, piece.last)
    assert hold is not None
    text = f"the lock of {offsets_text(*offsets)} began with {hold.since.here} ({hold.since.packets}) and had expired"
    return refusal(situation, text, "after_lock", offsets, _acquisition(piece), noted=True)


def _is_held_by_another(record: RecordState, step: ShareStep) -> bool:
    return record.stage is ACQUIRED and _went_to_another(record, step)


def _went_to_another(record: RecordState, step: ShareStep) -> bool:
    """True if another member acquired the record last, in whatever state it is since."""
    return record.hold is not None and record.hold.step.member_id != step.member_id


def _acquisitions(record: RecordState, step: ShareStep) -> Iterator[Hold]:
    """Yield the member's acquisitions of the record, the last one first."""
    hold = record.hold
    while hold is not None:
        if hold.is_of(step):
            yield hold
        hold = hold.before


def _acknowledged_before(situation: Acknowledging, piece: Piece) -> ShareStep | None:
    """Return the earlier request with which the member acknowledged its last acquisition of the records."""
    record, step = piece.value[0], situation.step
    by, hold = record.by, record.hold
    if by is None or hold is None or record.how not in _ACKNOWLEDGED:
        return None
    if any(other.by is not by or other.hold is not hold for other in piece.value):
        return None
    return by if step.member_id == by.member_id and hold.is_of(by) and by.end < step.packet else None


def _late(situation: Acknowledging) -> Piece | None:
    """Return records whose lock expired while they were the member's; `hold` is its last acquisition of them."""
    step = situation.step
    for piece in situation.pieces:
        holds = [next(_acquisitions(record, step), None) for record in piece.value]
        hold = holds[0]
        if hold is None or any(other is None or other.step is not hold.step for other in holds):
            continue
        # the leader stored it, or time shows it; another member acquires them only after the lock has expired
        is_stored = all(record.how == "lock_timeout" and record.hold is hold for record in piece.value)
        is_lost = all(record.hold is not hold and _went_to_another(record, step) for record in piece.value)
        is_expired = hold.late_ns < step.time_ns and all(
            record.stage not in TERMINAL and record.how != "released" for record in piece.value
        )
        if is_lost or is_expired or is_stored:
            return piece._replace(value=(RecordState(AVAILABLE, None, hold),))
    return None


ACK_REFUSED: Final = Rule(
    number=None,
    code="ACK_REFUSED",
    text="Acknowledgements of a partition were refused, and the capture does not show why.",
    advice="Treat the records as not acknowledged: they will be delivered again. To find the cause, capture the "
    "member's join and all its connections, without loss.",
    source="KIP-932",
    blame=(),
    verdicts=("unknown",),
    causes=("unknown",),
    machine=IN_FLIGHT,
    checks=(Check(unexplained, about=Acknowledging, trigger=UNTESTED, order=CATCH_ALL),),
)
ROWS: Final = (
    Rule(
        number=56,
        code="ACK_NOT_ACQUIRED",
        text="A member acknowledged records that were never acquired, or that it had released.",
        act="acknowledged records that it had not acquired",
        weight=50,
        must="A member acknowledges only records that it has acquired.",
        advice="Acknowledge the acquired_records of the answer, not the record batches next to them. Do not "
        "acknowledge released records.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 10-19 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0",
        source="Kafka: SharePartition.acknowledge",
        rests_on=(
            NO_CONNECTION,
            BETWEEN_CONNECTIONS,
            Limit("IN_FLIGHT_RANGES"),
            Limit("SHARE_PARTITIONS"),
            ANSWER_RECEIVED,
        ),
        tickets=("confluentinc/librdkafka#5277",),
        causes=("not_acquired", "beyond_end", "nothing_acquired"),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(
            Check(beyond_the_end, order=30, about=Acknowledging),
            Check(nothing_acquired, order=35, about=Acknowledging),
            Check(not_acquired, order=80, about=Acknowledging),
        ),
    ),
    Rule(
        number=57,
        code="ACK_NOT_OWNER",
        text="A member acknowledged records that another member had acquired.",
        act="acknowledged records that another member had acquired",
        weight=55,
        must="Only the member that acquired a record acknowledges it.",
        advice="Keep pending acknowledgements with the member and the session that acquired the records. Drop them "
        "when the lock expires.",
        wrong="by b: ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 0 → 0; ShareAcknowledge epoch 1, accept "
        "0-9 → 0, t[0] 121",
        right="by b: ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 0 → 0; by b: ShareAcknowledge epoch 1, "
        "accept 0-9 → 0",
        provoked_by="Run two members, and let locks of one expire before it acknowledges.",
        source="Kafka: SharePartition.acknowledge",
        rests_on=(NO_CONNECTION, BETWEEN_CONNECTIONS, Limit("IN_FLIGHT_RANGES"), Limit("SHARE_PARTITIONS")),
        causes=("not_owner",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(Check(not_owned, order=60, about=Acknowledging),),
    ),
    Rule(
        number=58,
        code="DOUBLE_ACK",
        text="A member acknowledged records that were already acknowledged.",
        act="acknowledged records twice",
        weight=40,
        must="A record is acknowledged once.",
        advice="Remove records from the list when you send their acknowledgement. The answer says whether it "
        "succeeded.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 5-9 → 0; "
        "ShareAcknowledge epoch 2, accept 5-9 → 0, t[0] 121",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 5-9 → 0; ShareAcknowledge epoch "
        "2, accept 0-4 → 0",
        provoked_by="Acknowledge explicitly (share.acknowledgement.mode=explicit), in several commits for each poll.",
        source="Kafka: SharePartition.acknowledge",
        rests_on=(LOCK_DURATION, NO_CONNECTION, Limit("IN_FLIGHT_RANGES"), ANSWER_RECEIVED),
        tickets=("confluentinc/librdkafka#5393",),
        causes=("twice",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(
            Check(twice, order=70, about=Acknowledging),
            Check(accepted_twice, trigger=NOT_HELD, about=Acknowledging),
        ),
    ),
    Rule(
        number=59,
        code="ACK_AFTER_LOCK_TIMEOUT",
        text="Records were acknowledged after their lock had expired: the consumer was too slow.",
        advice="Process faster, fetch fewer records at once (max.poll.records), renew their locks, or raise "
        "share.record.lock.duration.ms. Another consumer may have received the records too, or this one may have "
        "received them again.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; 31000 ms later; ShareAcknowledge epoch 1, accept 0-9 → 0, t[0] 121",
        right="ShareFetch epoch 0 → 0, offsets 0-9; 20000 ms later; ShareAcknowledge epoch 1, accept 0-9 → 0",
        source="Kafka: SharePartition.acknowledge",
        rests_on=(LOCK_DURATION, AT_LEAST),
        blame=(),
        causes=("after_lock",),
        verdicts=NOTES,
        machine=IN_FLIGHT,
        checks=(
            Check(after_the_lock, order=50, about=Acknowledging),
            Check(for_each_delivery, order=55, about=Acknowledging),
        ),
    ),
    Rule(
        number=63,
        code="ACK_RESULT_MISSING",
        text="The answer has no result for an acknowledged partition.",
        act="gave no result for acknowledgements",
        weight=80,
        must="An answer has a result for each acknowledged partition.",
        advice="Treat the acknowledgements as failed, as Java clients do (INVALID_RECORD_STATE): the records will be "
        "delivered again. Report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0, no t[0]",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0",
        source="Kafka: KafkaApis.handleShareAcknowledgeRequest",
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(no_result, trigger=NOT_APPLIED, about=Acknowledging),),
    ),
    Rule(
        number=65,
        code="ACK_WRONG_LEADER",
        text="A partition was acknowledged to a broker that does not lead it.",
        advice="Find the leader (current_leader of the answer, or Metadata) and drop the acknowledgements: the leader "
        "delivers the records again.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0, t[0] 6",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0",
        source="Kafka: SharePartitionManager.acknowledge",
        rests_on=(NO_MEMBER,),
        blame=(),
        causes=("not_leader",),
        verdicts=("unknown", "note"),
        machine=IN_FLIGHT,
        checks=(Check(not_led_here, order=40, about=Acknowledging, reported_unproved=True),),
    ),
    Rule(
        number=None,
        code="ACK_NOT_STORED",
        text="Acknowledgements did not count, because their leader could not store them with the share coordinator.",
        advice="Nothing is wrong with the request. Drop the acknowledgements: the records are delivered again. If this "
        "repeats, look at the share coordinator.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0, t[0] 124",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0",
        source="Kafka: SharePartition.fetchPersisterError",
        blame=(),
        causes=("state_fenced", "not_available", "no_such_group"),
        verdicts=("unknown", "note"),
        machine=IN_FLIGHT,
        checks=(Check(not_stored, order=45, about=Acknowledging, reported_unproved=True),),
    ),
    Rule(
        number=70,
        code="RENEW_REFUSED",
        text="The broker refused to renew locks.",
        act="renewed locks, and the broker refused",
        weight=45,
        must="A lock is renewed before it expires, by the member that holds it.",
        advice="Renew well before the lock expires (acquisition_lock_timeout_ms), and only records that the member "
        "holds. The group may forbid renewals (share.renew.acknowledge.enable).",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, renew 10-19 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, renew 0-9 → 0",
        provoked_by="Renew the locks of records in time, and once more after group.share.record.lock.duration.ms.",
        source="KIP-1222",
        rests_on=(LOCK_DURATION, RENEWALS, NO_CONNECTION),
        causes=("after_lock", "beyond_end", "renew_disabled"),
        verdicts=("violation", "note"),
        machine=IN_FLIGHT,
        checks=(Check(renewal_refused, trigger=RENEWS, order=25, about=Acknowledging),),
    ),
    ACK_REFUSED,
)
