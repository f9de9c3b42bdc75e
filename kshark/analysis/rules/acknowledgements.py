"""Why acknowledgements were refused, and what was wrong with some that were taken. Rules 56 to 59, 63, 65 and 70."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.calls import Step
from kshark.analysis.facts.releases import agreed
from kshark.analysis.rules.refusals import acknowledged, offsets_text, refusal
from kshark.analysis.rules.rule import CATCH_ALL, EXPLAINS, NOTES, Check, Rule
from kshark.analysis.rules.triggers import NOT_APPLIED, NOT_HELD, RENEWS, UNTOLD
from kshark.analysis.states.partition.records_in_flight import Hold, Piece, Record
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.session.copies import is_again
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACQUIRED, AVAILABLE, RENEW, TERMINAL

_INVALID_REQUEST: Final = 42
_INVALID_RECORD_STATE: Final = 121
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
#: Behind these a record is done with by its member's own word.
_DONE: Final = frozenset({"accepted", "rejected", "gap"})
#: And behind these it has given it back: to others, or, at its last delivery, for good.
_GIVEN_BACK: Final = frozenset({"released", "session_released"})
#: All that its member may have said of it.
_SAID: Final = _DONE | {"released"}
_NOT_LEADER: Final = frozenset({3, 6, 74})
#: Ranges that a sentence names one by one.
_NAMED: Final = 8


# -- records that are not the member's


def renewal_refused(now: Acknowledging) -> Argument | None:
    """Locks that could not be renewed: they had run out, or never were; or the group may not renew
    (share.renew.acknowledge.enable)."""
    if now.error not in (_INVALID_REQUEST, _INVALID_RECORD_STATE):
        return None
    if all(run.type != RENEW for run in now.runs):
        return None
    held = [piece for piece in now.pieces if all(one.is_held_by(now.step.member_id) for one in piece.value)]
    if held and len(held) == len(now.pieces) and not now.missing:
        one = held[0]
        text = f"the member still held {offsets_text(one.first, one.last)}, so the group does not let its members renew"
        return refusal(now, text, "renew_disabled", (one.first, one.last), _holds(one), noted=True)
    if any(run.type != RENEW for run in now.runs):
        return None
    late = _late(now)
    if late is not None:
        return refusal(now, _out(late), "after_lock", (late.first, late.last), _holds(late), noted=True)
    if now.error == _INVALID_REQUEST:
        return _past_the_end(now)
    return None


def beyond_the_end(now: Acknowledging) -> Argument | None:
    """Offsets past the last one that was acquired; the batches themselves are well-formed."""
    return None if now.error != _INVALID_REQUEST or now.fault is not None else _past_the_end(now)


def _past_the_end(now: Acknowledging) -> Argument:
    """A leader that has begun anew does not know of all that it or another one handed out before; of this nobody was
    handed any."""
    if now.extent[1] <= now.share_partition.reached:
        because: str | None = "leader_moved"
    else:
        because = None if now.seen_since is not None else now.share_partition.doubt[1]
    return refusal(now, "nobody has acquired records that far", "beyond_end", now.extent, because=because)


def after_the_lock(now: Acknowledging) -> Argument | None:
    """The lock had run out before the acknowledgement came."""
    late = _late(now) if now.error == _INVALID_RECORD_STATE else None
    if late is None:
        return None
    return refusal(now, _out(late), "after_lock", (late.first, late.last), _holds(late), noted=True)


def for_each_delivery(now: Acknowledging) -> Argument | None:
    """The member was handed the records twice, as their lock had run out, and acknowledges each: the first one was
    taken for both."""
    if now.error != _INVALID_RECORD_STATE:
        return None
    for piece in now.pieces:
        by = _said_before(now, piece)
        if by is None:
            continue
        again, *earlier = [hold.step for hold in _mine(piece.value[0], by)]
        if earlier:
            text = (
                f"{earlier[0].here} had handed out {offsets_text(piece.first, piece.last)} ({earlier[0].packets}), and "
                f"{again.here} did again when "
                f"the lock was out ({again.packets}); {by.here} had {piece.value[0].how} them already ({by.packets})"
            )
            return refusal(now, text, "after_lock", (piece.first, piece.last), (earlier[0], again, by), noted=True)
    return None


def not_owned(now: Acknowledging) -> Argument | None:
    """Records that another member has acquired, and that were not this one's until their lock was out: whether that is
    proved or not."""
    if now.error != _INVALID_RECORD_STATE or _late(now) is not None:
        return None
    for piece in now.pieces:
        owner = piece.value[0].hold
        if owner is None or not all(_is_of_another(one, now.step) for one in piece.value):
            continue
        records, step = offsets_text(piece.first, piece.last), owner.step
        text = f"member {step.member_id} had acquired {records} with {step.here} ({step.packets})"
        because = None if now.is_all_seen else now.share_partition.doubt[1]  # they may have been the member's before
        return refusal(now, text, "not_owner", (piece.first, piece.last), (owner.step,), because=because)
    return None


def twice(now: Acknowledging) -> Argument | None:
    """Records that the member has acknowledged before."""
    if now.error not in (_INVALID_RECORD_STATE, 0):
        return None
    for piece in now.pieces:
        record, before = piece.value[0], piece.value[0].by
        if before is None or len(piece.value) != 1 or record.how not in _DONE or before.member_id != now.step.member_id:
            continue
        if record.hold is None:  # nobody was seen to acquire it: the broker may have passed over the first one, too
            continue
        if now.error == 0 and record.hold.step.connection is not before.connection:
            continue  # so it may where the session that had acquired it was over
        if before.end >= now.step.packet or is_again(before, now.step):
            continue
        text = f"{before.here} had {record.how} {offsets_text(piece.first, piece.last)} already ({before.packets})"
        because = None if _is_first(now, record) else "lock_unknown"  # it may have been handed to the member twice
        return refusal(now, text, "twice", (piece.first, piece.last), (before,), because=because)
    return None


def not_acquired(now: Acknowledging) -> Argument | None:
    """Records that the member had given back, or has never acquired."""
    if now.error != _INVALID_RECORD_STATE:
        return None
    for piece in now.pieces:
        record, given = piece.value[0], piece.value[0].by
        if record.how not in _GIVEN_BACK or given is None or any(one.by is not given for one in piece.value):
            continue
        if given.member_id == now.step.member_id and given.end < now.step.packet:
            text = f"{given.here} had {record.how} {offsets_text(piece.first, piece.last)} ({given.packets})"
            because = None if _goes_on(now, given) and _is_first(now, record) else "hidden_traffic"
            return refusal(now, text, "not_acquired", (piece.first, piece.last), (given,), because=because)
    if now.missing and now.is_all_seen:
        first, last = now.missing[0]
        because = "disorder" if now.step.connection.clock.disorder_ns else None  # the answer may stand behind it
        return refusal(
            now,
            f"the member was handed {offsets_text(first, last)} by no answer",
            "not_acquired",
            (first, last),
            because=because,
        )
    return None


# -- partitions that cannot be acknowledged to this broker


def nothing_acquired(now: Acknowledging) -> Argument | None:
    """The broker knows nothing of the group in this partition; another one may have led it. Kafka:
    SharePartitionManager.acknowledge."""
    if now.error != _UNKNOWN_TOPIC_OR_PARTITION or now.share_partition.acquired_here or not now.is_all_seen:
        return None
    session = now.session
    if session is None:
        return None
    join = session.member.join
    if not session.broker.is_alone and (join is None or not session.member.never_had(now.partition, join.packet)):
        return None
    return refusal(now, "the member was handed no records of this partition", "nothing_acquired", now.extent)


def not_led_here(now: Acknowledging) -> Argument | None:
    """The broker does not lead the partition, or not any more: nobody's fault when a leader moves."""
    if now.error not in _NOT_LEADER:
        return None
    unknown = now.error == _UNKNOWN_TOPIC_OR_PARTITION
    text = "the broker does not lead this partition, or " + (
        "has handed out none of its records" if unknown else "not any more"
    )
    return refusal(now, text, "not_leader", now.extent)


def unexplained(now: Acknowledging) -> Argument:
    """What is left."""
    known = now.pieces and not now.missing
    because = (
        "lock_unknown" if known and any(len(one.value) > 1 for one in now.pieces) else now.share_partition.doubt[1]
    )
    return refusal(now, "the capture does not tell why", "unknown", now.extent, because=because)


# -- accepted


def no_result(now: Acknowledging) -> Argument | None:
    """The answer says nothing of a partition that was acknowledged."""
    if now.error is not None or not now.runs or now.step.answer is None:
        return None
    text = (
        f"{now.step.here} acknowledges {acknowledged(now)}; its answer says nothing of partition {now.partition[1]} "
        f"({now.step.packets})"
    )
    return Argument(text, (now.step,), EXCHANGE, partition=now.partition, offsets=now.extent)


def accepted_twice(now: Acknowledging) -> Argument | None:
    """Below the start offset an acknowledgement that comes twice is passed over in silence."""
    return twice(now) if now.error == 0 else None


# -- what is known


def _holds(piece: Piece) -> tuple[Step, ...]:
    hold = piece.value[0].hold
    return () if hold is None else (hold.step,)


def _out(piece: Piece) -> str:
    hold = piece.value[0].hold
    assert hold is not None
    return (
        f"the lock of {offsets_text(piece.first, piece.last)} began with {hold.since.here} ({hold.since.packets}) and "
        f"had run "
        f"out"
    )


def _is_of_another(record: Record, step: Step) -> bool:
    return record.stage is ACQUIRED and _went_to_another(record, step)


def _went_to_another(record: Record, step: Step) -> bool:
    """Whether another member acquired it last, whatever it did with it."""
    return record.hold is not None and record.hold.step.member_id != step.member_id


def _mine(record: Record, step: Step) -> Iterator[Hold]:
    """The member's acquisitions of it, the last one first."""
    hold = record.hold
    while hold is not None:
        if hold.is_of(step):
            yield hold
        hold = hold.before


def _said_before(now: Acknowledging, piece: Piece) -> Step | None:
    """The request with which the member has acknowledged records that it was handed last."""
    record = piece.value[0]
    by, hold = record.by, record.hold
    if by is None or hold is None or record.how not in _SAID:
        return None
    if any(one.by is not by or one.hold is not hold for one in piece.value):
        return None
    return by if now.step.member_id == by.member_id and hold.is_of(by) and by.end < now.step.packet else None


def _is_first(now: Acknowledging, record: Record) -> bool:
    """Whether the member was handed these once, as all that it was handed tells, or their count. 4.1 takes some
    deliveries back."""
    hold, session = record.hold, now.session
    if now.is_all_seen:
        return True
    if record.count == 1:
        return session is not None and agreed(session.releases, "release_uncounts") is False
    return (
        record.count == 2
        and hold is not None
        and hold.before is not None
        and hold.before.step.member_id != now.step.member_id
    )


def _goes_on(now: Acknowledging, before: Step) -> bool:
    """Whether the member's session went on since an exchange before, and no answer of it that may have handed records
    out is missing."""
    session = now.session
    if (
        session is None
        or session.unbroken is None
        or max(session.last_unread, session.last_unanswered_fetch) > before.packet
    ):
        return False
    waits = session.last is None or session.last.packet < now.step.packet  # for an answer to what was sent before
    return not waits and session.unbroken.packet <= before.packet


def _late(now: Acknowledging) -> Piece | None:
    """Records that were the member's until their lock ran out, the last acquisition of his."""
    step = now.step
    for piece in now.pieces:
        mine = [next(_mine(one, step), None) for one in piece.value]
        hold = mine[0]
        if hold is None or any(one is None or one.step is not hold.step for one in mine):
            continue
        lost = all(
            one.hold is not hold and _went_to_another(one, step) for one in piece.value
        )  # not before the lock was out
        out = hold.late_ns < step.time_ns and all(
            one.stage not in TERMINAL and one.how != "released" for one in piece.value
        )
        if lost or out:
            return piece._replace(value=(Record(AVAILABLE, None, hold),))
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
    checks=(Check(unexplained, about=Acknowledging, trigger=UNTOLD, order=CATCH_ALL),),
)
ROWS: Final = (
    Rule(
        number=56,
        code="ACK_NOT_ACQUIRED",
        text="A member acknowledged records that were never acquired, or that it had released.",
        must="A member acknowledges only records that it has acquired.",
        advice="Acknowledge the acquired_records of the answer, not the record batches next to them. Do not "
        "acknowledge released records.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 10-19 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0",
        source="Kafka: SharePartition.acknowledge",
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
        must="Only the member that acquired a record acknowledges it.",
        advice="Keep pending acknowledgements with the member and the session that acquired the records. Drop them "
        "when the lock expires.",
        wrong="by b: ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 0 → 0; ShareAcknowledge epoch 1, accept "
        "0-9 → 0, t[0] 121",
        right="by b: ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 0 → 0; by b: ShareAcknowledge epoch 1, "
        "accept 0-9 → 0",
        source="Kafka: SharePartition.acknowledge",
        causes=("not_owner",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(Check(not_owned, order=60, about=Acknowledging),),
    ),
    Rule(
        number=58,
        code="DOUBLE_ACK",
        text="A member acknowledged records that were already acknowledged.",
        must="A record is acknowledged once.",
        advice="Remove records from the list when you send their acknowledgement. The answer says whether it "
        "succeeded.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 5-9 → 0; "
        "ShareAcknowledge epoch 2, accept 5-9 → 0, t[0] 121",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 5-9 → 0; ShareAcknowledge epoch "
        "2, accept 0-4 → 0",
        source="Kafka: SharePartition.acknowledge",
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
        blame=(),
        causes=("not_leader",),
        verdicts=NOTES,
        machine=IN_FLIGHT,
        checks=(Check(not_led_here, order=40, about=Acknowledging),),
    ),
    Rule(
        number=70,
        code="RENEW_REFUSED",
        text="The broker refused to renew locks.",
        must="A lock is renewed before it expires, by the member that holds it.",
        advice="Renew well before the lock expires (acquisition_lock_timeout_ms), and only records that the member "
        "holds. The group may forbid renewals (share.renew.acknowledge.enable).",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, renew 10-19 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, renew 0-9 → 0",
        source="KIP-1222",
        causes=("after_lock", "beyond_end", "renew_disabled"),
        verdicts=("violation", "note"),
        machine=IN_FLIGHT,
        checks=(Check(renewal_refused, trigger=RENEWS, order=25, about=Acknowledging),),
    ),
    ACK_REFUSED,
)
