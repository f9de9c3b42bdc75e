"""Acknowledgements with another effect than their client expects, or none, so that records are delivered again.
Rules 60, 64, 67 to 69, 87 and 88.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.bases import (
    AT_LEAST,
    AT_MOST,
    BETWEEN_CONNECTIONS,
    BETWEEN_DIRECTIONS,
    LOCK_DURATION,
    NO_CONNECTION,
    NO_LEADER,
    Limit,
)
from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.rules.deliveries import locked_until
from kshark.analysis.rules.persisted import refused_and_stored
from kshark.analysis.rules.refusals import named_ranges, offsets_text, refusal
from kshark.analysis.rules.rule import EXPLAINS, NOTES, Check, Rule
from kshark.analysis.rules.triggers import AGAIN, AHEAD, LOST_MEANWHILE, MANY_BACK, REFUSED_BEFORE, UNDUE, UNTESTED
from kshark.analysis.states.partition.rates import Rate
from kshark.analysis.states.partition.records_in_flight import AcknowledgedRange, Hold, Piece, RecordState
from kshark.analysis.states.partition.situations import Acknowledging, Acquiring, LeaderUnchanged, Persisted
from kshark.analysis.states.session.state import Unbroken
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACCEPT, ACQUIRED, TERMINAL

_INVALID_RECORD_STATE: Final = 121


# -- accepted for another delivery


def acknowledged_previous_delivery(situation: Acknowledging) -> Argument | None:
    """The acknowledgement is for the previous delivery, and counts for the current one.

    It was sent before the answer that delivered the records again.
    """
    step, partition, session = situation.step, situation.share_partition, situation.session
    if situation.error != 0 or partition.last_delivery_packet < step.packet or session is None:
        return None
    for run in situation.runs:
        for piece in partition.records.over(run.first, run.last):
            hold = piece.value[0].hold
            if hold is None or not all(record.stage is ACQUIRED and record.hold is hold for record in piece.value):
                continue
            before = hold.before
            if before is None or not before.is_of(step) or hold.step.member_id != step.member_id:
                continue
            if hold.is_ahead_of(step) and step.connection.clock.is_before(step.time_ns, hold.step.end_ns):
                return _stale(situation, piece, before, hold)
    return None


def _stale(situation: Acknowledging, piece: Piece, before: Hold, hold: Hold) -> Argument:
    step, (first, last, _) = situation.step, piece
    text = (
        f"{step.here} acknowledges {offsets_text(first, last)} of partition {situation.partition[1]} before the "
        f"member receives them again with {hold.step.here} ({hold.step.packets}): it means the delivery with "
        f"{before.step.here} ({before.step.packets}), but counts for the new one ({step.packets})"
    )
    return Argument(
        text, (before.step, hold.step, step), EXCHANGE, partition=situation.partition, offsets=(first, last)
    )


# -- refused, but partly applied


def refused_and_partly_applied(situation: Acknowledging) -> Argument | None:
    """The member holds records, and their acknowledgement is refused.

    An earlier request with these and other records was refused too. The broker applied part of it.
    """
    step, partition = situation.step, situation.share_partition
    if (
        situation.error != _INVALID_RECORD_STATE
        or not partition.refused
        or situation.fault is not None
        or situation.missing
    ):
        return None
    for piece in situation.pieces:
        hold = piece.value[0].hold
        if (
            hold is None
            or not all(record.is_held_by(step.member_id) and record.hold is hold for record in piece.value)
            or not hold.is_of(step)
        ):
            return None
    for request in partition.refused:
        before, runs = request.step, request.runs
        if before.member_id != step.member_id or before.end >= step.packet:
            continue
        for piece in situation.pieces:
            hold = piece.value[0].hold
            again = any(run.first <= piece.last and run.last >= piece.first for run in runs)
            if again and hold is not None and hold.step.end < before.packet:
                return _partly_applied(situation, piece, hold, before)
    return None


def _partly_applied(situation: Acknowledging, piece: Piece, hold: Hold, before: ShareStep) -> Argument | None:
    step, partition = situation.step, situation.share_partition
    session = step.connection.state_of(step.group_id, step.member_id)
    overlapping = any(run.first <= situation.extent[1] and run.last >= situation.extent[0] for run in partition.awaited)
    if session is None or overlapping:
        return None
    text = (
        f"the member holds all of them ({offsets_text(piece.first, piece.last)} with {hold.step.here}, "
        f"{hold.step.packets}); {before.here} was refused with some of them ({before.packets}), and should have "
        "changed none"
    )
    if step.answer is None:
        return None
    unbroken = Unbroken(session, hold.step.packet, step.packet)
    proof = LeaderUnchanged(unbroken, partition, [session.member], hold.step.packet, step.answer, may_move=True)
    needs, offsets = EXCHANGE.knowing(partition.changes).and_proof(proof), (piece.first, piece.last)
    grounds = (locked_until(step, hold),)
    return refusal(situation, text, "half_taken", offsets, (hold.step, before), needs=needs, grounds=grounds)


# -- lost, or never sent


def acknowledgement_lost(situation: Acquiring) -> Argument | None:
    """An acknowledgement was not answered, and the records are delivered again: it was not applied."""
    lost = [
        (piece, record) for piece in _pieces(situation) for record in piece.value if _is_lost(record, situation.step)
    ]
    if not lost:
        return None
    (_, record), by = lost[0], lost[0][1].by
    assert by is not None
    text = f"{by.here} acknowledged them as {record.how} and was not answered ({by.packets}); they are processed again"
    return _again(situation, [piece for piece, record in lost if record.by is by], lambda: text, by)


def _is_lost(record: RecordState, step: ShareStep) -> bool:
    by = record.by
    return (
        record.stage in TERMINAL
        and record.how in _FINISHED
        and by is not None
        and by.answer is None
        and by.packet < step.end
    )


def never_acknowledged(situation: Acquiring) -> Argument | None:
    """The member acknowledged none of the records before their lock expired."""
    for by, pieces, work in _timed_out(situation):
        if work is None:
            return _again(situation, pieces, partial(_had, by, "acknowledged none of them"), by)
    return None


def too_slow(situation: Acquiring) -> Argument | None:
    """The lock expired before the member finished the records, although it was working on them."""
    for by, pieces, work in _timed_out(situation):
        if work is not None:
            return _again(
                situation,
                pieces,
                partial(_had, by, f"was still working on them with {work.here} ({work.packets})"),
                by,
                work,
            )
    return None


def _had(by: ShareStep, outcome: str) -> str:
    return (
        f"member {by.member_id} had acquired them with {by.here} ({by.packets}), and {outcome} before the lock expired"
    )


def _timed_out(situation: Acquiring) -> Iterator[tuple[ShareStep, list[Piece], ShareStep | None]]:
    """Yield records whose lock expired or may have, by acquisition.

    With them comes the request that shows their member at work. Each acquisition is yielded when its first record is
    delivered again.
    """
    expired = [
        (piece, hold)
        for piece in _pieces(situation)
        if (hold := _out(piece)) is not None and not _continues_redelivery(situation, piece, hold)
    ]
    for by in dict.fromkeys(hold.step for _, hold in expired):
        work = [
            work for piece, hold in expired if hold.step is by and (work := _work(situation, piece, hold)) is not None
        ]
        yield by, [piece for piece, hold in expired if hold.step is by], work[0] if work else None


def _out(piece: Piece) -> Hold | None:
    """Return the acquisition of records whose lock expired or may have."""
    hold, is_out = piece.value[0].hold, False
    for record in piece.value:
        by_time = record.how == "lock_timeout"
        if record.hold is not hold or not (by_time or record.stage is ACQUIRED):
            return None
        is_out = is_out or by_time
    return hold if is_out else None


def _continues_redelivery(situation: Acquiring, piece: Piece, hold: Hold) -> bool:
    """True if the record before was acquired together with these, and was delivered again after their lock expired."""
    before = situation.share_partition.records.at(piece.first - 1)
    again = None if before is None else before[0].hold
    return (
        again is not None
        and again.before is not None
        and again.before.step is hold.step
        and again.step.end_ns >= hold.early_ns
    )


def _work(situation: Acquiring, piece: Piece, hold: Hold) -> ShareStep | None:
    """Return the request that shows the member at work.

    It renewed the lock, or acknowledged the record before these, which was acquired together with them.
    """
    if hold.renewal is not None:
        return hold.renewal
    before = situation.share_partition.records.at(piece.first - 1)
    if before is None or before[0].hold is None or before[0].hold.step is not hold.step:
        return None
    by = before[0].by
    return by if by is not hold.step and by is not None and by.member_id == hold.step.member_id else None


def _pieces(situation: Acquiring) -> Iterator[Piece]:
    return (piece for acquired in situation.ranges for piece in acquired.pieces)


def _again(situation: Acquiring, pieces: Sequence[Piece], why: Callable[[], str], *before: ShareStep) -> Argument:
    """Return the argument for records that are delivered again. `before`: earlier exchanges that prove it."""
    step, partition, first, last = situation.step, situation.share_partition.partition, pieces[0].first, pieces[-1].last

    def text() -> str:
        are = "is" if first == last else "are"
        again = f"{named_ranges(pieces)} of partition {partition[1]} {are} delivered again with {step.here}"
        return f"{again} ({step.packets}): {why()}"

    return Argument(text, (*before, step), EXCHANGE, partition=partition, offsets=(first, last))


# -- processed twice


def processed_meanwhile(situation: Acknowledging) -> Argument | None:
    """An acceptance is late: another member acquired the records meanwhile, and accepted them too."""
    if situation.error not in (0, _INVALID_RECORD_STATE):
        return None
    for piece in situation.pieces:
        (record, *others), by = piece.value, piece.value[0].by
        if others or record.how != "accepted" or by is None or by.answer is None or record.hold is None:
            continue
        own_hold, other_step = record.hold.before, record.hold.step
        if own_hold is None or by.member_id != other_step.member_id or by.end >= situation.step.packet:
            continue
        if (
            _accepts(situation.runs, piece)
            and own_hold.is_of(situation.step)
            and other_step.member_id != situation.step.member_id
        ):
            return _twice(situation, piece, own_hold.step, by)
    return None


def processed_before(situation: Acknowledging) -> Argument | None:
    """A member accepts records that another member had before. That member's acceptance was late and refused."""
    if situation.error != 0 or not situation.share_partition.refused:
        return None
    for request in situation.share_partition.refused:
        before, runs = request.step, request.runs
        if before.member_id == situation.step.member_id:
            continue
        for piece in situation.pieces:
            hold = piece.value[0].hold
            own_hold = None if hold is None or len(piece.value) > 1 or not hold.is_of(situation.step) else hold.before
            if (
                own_hold is not None
                and own_hold.is_of(before)
                and _accepts(situation.runs, piece)
                and _accepts(runs, piece)
            ):
                return _twice(situation, piece, own_hold.step, before)
    return None


def _accepts(runs: Sequence[AcknowledgedRange], piece: Piece) -> bool:
    return any(run.type == ACCEPT and run.first <= piece.last and run.last >= piece.first for run in runs)


def _twice(situation: Acknowledging, piece: Piece, first: ShareStep, other: ShareStep) -> Argument:
    step, offsets = situation.step, offsets_text(piece.first, piece.last)
    text = (
        f"{step.here} accepts {offsets} of partition {situation.partition[1]} ({step.packets}), and so does "
        f"{other.here} of member {other.member_id} ({other.packets}): both processed the records first delivered with "
        f"{first.here} ({first.packets})"
    )
    return Argument(
        text, (first, other, step), EXCHANGE, partition=situation.partition, offsets=(piece.first, piece.last)
    )


# -- released or rejected


def mostly_released(situation: Acknowledging) -> Argument | None:
    """The member releases most records, to be delivered again."""
    return (
        _often(situation, situation.rate, situation.rate.released, "released")
        if situation.rate is not None and situation.rate.is_release_storm
        else None
    )


def often_rejected(situation: Acknowledging) -> Argument | None:
    """The member rejects many records."""
    return (
        _often(situation, situation.rate, situation.rate.rejected, "rejected")
        if situation.rate is not None and situation.rate.is_rejecting
        else None
    )


def _often(situation: Acknowledging, rate: Rate, count: int, how: str) -> Argument:
    step = situation.step
    text = (
        f"{step.here} ({step.packets}): of the {rate.total} records of the topic that the member acknowledged since "
        f"{rate.by.here} ({rate.by.packets}), {count} were {how}"
    )
    return Argument(text, (step,), EXCHANGE, partition=situation.partition, offsets=situation.extent)


_FINISHED: Final = frozenset({"accepted", "rejected", "gap"})
ROWS: Final = (
    Rule(
        number=60,
        code="STALE_ACK_ACCEPTED",
        text="An acknowledgement for one delivery counts for the next one: the records were delivered again meanwhile.",
        act="acknowledged an earlier delivery of records that were delivered again meanwhile",
        weight=72,
        must="Records are acknowledged before their lock expires.",
        advice="Send acknowledgements before the lock expires (acquisition_lock_timeout_ms), and drop late ones: the "
        "records are delivered again, and are acknowledged then.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; 31000 ms later; ShareFetch epoch 1 → …; ShareAcknowledge epoch 2, "
        "accept 0-9 → …; … → 0, offsets 0-9; … → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; ShareFetch epoch 2 → 0",
        provoked_by="Process records for longer than group.share.record.lock.duration.ms, and acknowledge them then.",
        source="Kafka: SharePartition.acknowledge",
        rests_on=(BETWEEN_CONNECTIONS, BETWEEN_DIRECTIONS, NO_CONNECTION),
        machine=IN_FLIGHT,
        checks=(Check(acknowledged_previous_delivery, trigger=AHEAD, about=Acknowledging),),
    ),
    Rule(
        number=64,
        code="ACK_ATOMICITY_BROKEN",
        text="Acknowledgements of a partition were refused, but some of them took effect.",
        act="refused acknowledgements of a partition, and applied some of them",
        weight=88,
        must="The acknowledgements of a partition are either all applied or all refused.",
        advice="Treat all records of a refused partition as not acknowledged: they are delivered again. Report it to "
        "Kafka with these packets.",
        wrong="by b: ShareFetch epoch 0 → 0, offsets 10-19; ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge "
        "epoch 1, accept 5-14 → 0, t[0] 121; ShareAcknowledge epoch 2, accept 5-9 → 0, t[0] 121",
        right="by b: ShareFetch epoch 0 → 0, offsets 10-19; ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge "
        "epoch 1, accept 5-14 → 0, t[0] 121; ShareAcknowledge epoch 2, accept 5-9 → 0",
        source="Kafka: SharePartition.rollbackOrProcessStateUpdates",
        rests_on=(LOCK_DURATION, AT_MOST, NO_CONNECTION, NO_LEADER),
        blame=("broker",),
        causes=("half_taken",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(
            Check(refused_and_partly_applied, order=90, about=Acknowledging),
            Check(refused_and_stored, trigger=UNTESTED, about=Persisted),
        ),
    ),
    Rule(
        number=67,
        code="ACK_LOST_IN_FLIGHT",
        text="An acknowledgement was not answered and had no effect. The records are delivered again.",
        weight=34,
        advice="Make sure that processing a record twice does no harm: delivery is at least once. Check why the "
        "connection ended before the answer came.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → …; A closes; by b: "
        "ShareFetch epoch 0 → 0, offsets 0-9, delivery 2",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; A closes",
        source="KIP-932",
        rests_on=(BETWEEN_CONNECTIONS,),
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(acknowledgement_lost, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=68,
        code="NEVER_ACKED",
        text="Records were acquired, but neither acknowledged nor renewed before their lock expired.",
        weight=35,
        advice="Check whether the consumer still polls: it may hang, need too long for one fetch (max.poll.records), "
        "or forget to acknowledge. If processing takes long, renew the lock or make it longer "
        "(share.record.lock.duration.ms).",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; 31000 ms later; by b: ShareFetch epoch 0 → 0, offsets 0-9, "
        "delivery 2",
        right="ShareFetch epoch 0 → 0, offsets 0-9; 20000 ms later; ShareAcknowledge epoch 1, renew 0-9 → 0; 11000 ms "
        "later; ShareAcknowledge epoch 2, accept 0-9 → 0",
        source="Kafka: SharePartition",
        rests_on=(LOCK_DURATION, AT_LEAST, NO_CONNECTION),
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(never_acknowledged, trigger=AGAIN, about=Acquiring),),
    ),
    Rule(
        number=87,
        code="LOCK_TIMEOUT_REDELIVERY",
        text="Records are delivered again because their lock expired during processing. The consumer is too slow.",
        weight=36,
        advice="Acknowledge records or renew their locks before these expire: fetch fewer at once (max.poll.records), "
        "or raise share.record.lock.duration.ms.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; 20000 ms later; ShareAcknowledge epoch 1, accept 0-4 → 0; 11000 "
        "ms later; by b: ShareFetch epoch 0 → 0, offsets 5-9, delivery 2",
        right="ShareFetch epoch 0 → 0, offsets 0-9; 20000 ms later; ShareAcknowledge epoch 1, accept 0-9 → 0",
        source="Kafka: SharePartition.releaseAcquisitionLockOnTimeout (group.share.record.lock.duration.ms)",
        rests_on=(LOCK_DURATION, AT_LEAST, NO_CONNECTION),
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(too_slow, trigger=AGAIN, about=Acquiring),),
    ),
    Rule(
        number=69,
        code="RELEASE_STORM",
        text="A member releases most of the records of a topic that it acquires. They are delivered again until they "
        "reach the delivery limit.",
        weight=45,
        advice="Check why the consumer cannot process them. Reject records that always fail instead of releasing them.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-12; ShareAcknowledge epoch 1, accept 0-2, release 3-5 → 0; "
        "ShareAcknowledge epoch 2, release 6-9 → 0; ShareAcknowledge epoch 3, release 10-12 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-12; ShareAcknowledge epoch 1, accept 0-11, release 12-12 → 0",
        source="KIP-932",
        rests_on=(Limit("RATIONED"),),
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(mostly_released, trigger=MANY_BACK, about=Acknowledging),),
    ),
    Rule(
        number=69,
        code="REJECT_RATE",
        text="A member rejects many records of a topic. They are not delivered again.",
        weight=50,
        advice="Check why the consumer rejects them (unreadable records, a CRC that does not match), and whether they "
        "are stored elsewhere: the group does not deliver them again.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-39; ShareAcknowledge epoch 1, accept 0-29, reject 30-32 → 0; "
        "ShareAcknowledge epoch 2, reject 33-36 → 0; ShareAcknowledge epoch 3, reject 37-39 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-39; ShareAcknowledge epoch 1, accept 0-38, reject 39-39 → 0",
        source="KIP-932",
        rests_on=(Limit("RATIONED"),),
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(often_rejected, trigger=MANY_BACK, about=Acknowledging),),
    ),
    Rule(
        number=88,
        code="DUPLICATE_PROCESSING_WINDOW",
        text="Two members accept the same records. The first one was too late, and both have processed them.",
        weight=60,
        advice="Make sure that processing a record twice does no harm. If processing takes longer than the lock, "
        "renew the lock, make it longer (share.record.lock.duration.ms), or fetch fewer records at once "
        "(max.poll.records).",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; 31000 ms later; by b: ShareFetch epoch 0 → 0, offsets 0-9, "
        "delivery 2; by b: ShareAcknowledge epoch 1, accept 0-9 → 0; ShareAcknowledge epoch 1, accept 0-9 → 0, "
        "t[0] 121",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0",
        source="Kafka: SharePartition.acknowledge",
        rests_on=(BETWEEN_CONNECTIONS,),
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(
            Check(processed_meanwhile, trigger=LOST_MEANWHILE, about=Acknowledging),
            Check(processed_before, trigger=REFUSED_BEFORE, about=Acknowledging),
        ),
    ),
)
