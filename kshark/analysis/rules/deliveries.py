"""Rules 72 to 74 and 81 to 84: deliveries of records that should not happen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument, ProofNeeds, at_most
from kshark.analysis.facts.bases import (
    AT_MOST,
    BETWEEN_CONNECTIONS,
    LOCK_DURATION,
    NO_ADMIN,
    NO_CONNECTION,
    NO_LEADER,
    Ground,
)
from kshark.analysis.facts.calls import Call, ShareStep
from kshark.analysis.rules.refusals import offsets_text
from kshark.analysis.rules.rule import NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import DISORDERED, LIMITED, OUT_OF_REACH, REACHED, UNDUE
from kshark.analysis.states.partition.missing_offsets import NOT_COMPACTED, OUTSIDE, are_compacted, between, recorded
from kshark.analysis.states.partition.records_in_flight import AcquiredRange, Hold, Piece
from kshark.analysis.states.partition.situations import Acquiring, LeaderUnchanged
from kshark.analysis.states.session.copies import is_again
from kshark.analysis.states.session.state import BothUnbroken, Unbroken
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACQUIRED, TERMINAL

# -- records that were not available


def held_by_another(situation: Acquiring) -> Argument | None:
    """Report records that another member still holds."""
    for piece, hold in _locked(situation):
        if hold.step.member_id != situation.step.member_id:
            text = f"member {hold.step.member_id} had acquired them with {_lock(hold)}"
            return redelivery_argument(situation, piece, hold.step, text, grounds=(locked_until(situation.step, hold),))
    return None


def held_already(situation: Acquiring) -> Argument | None:
    """Report records that the member itself still holds, unless another connection carried the same request."""
    step = situation.step
    for piece, hold in _locked(situation):
        if hold.step.member_id == step.member_id and hold.step is not step and not is_again(hold.step, step):
            text = f"the member had acquired them with {_lock(hold)}"
            return redelivery_argument(situation, piece, hold.step, text, grounds=(locked_until(step, hold),))
    return None


def done_with(situation: Acquiring) -> Argument | None:
    """Report records that were successfully accepted, rejected or acknowledged as a gap."""
    for acquired in situation.ranges:
        for piece in acquired.pieces:
            record = piece.value[0]
            by = record.by
            if by is None or not all(other.stage in TERMINAL and other.by is by for other in piece.value):
                continue
            if by.member_id == situation.step.member_id and by.end >= situation.step.packet:
                continue
            text = f"{by.here} had {_DONE[record.how]}, and the broker had confirmed it ({by.packets})"
            return redelivery_argument(situation, piece, by, text, may_move=False)
    return None


def below_the_start(situation: Acquiring) -> Argument | None:
    """Report records below the start offset that the leader itself had read or stored."""
    start, by = situation.share_partition.stored or (0, None)
    low = next((acquired for acquired in situation.ranges if acquired.first < start), None)
    if low is None or by is None or by.call.end >= situation.step.packet:
        return None
    call = by.call
    unbroken = Unbroken(situation.session, call.packet, situation.step.packet)
    needs = EXCHANGE.and_proof(_unchanged(situation, unbroken, call, may_move=False))
    text = f"{call.here} of their leader has start offset {start} ({call.packets})"
    return acquisition_argument(situation, low, text, (call,), needs=needs)


# -- the ranges of one answer


def outside_of_its_records(situation: Acquiring) -> Argument | None:
    """Report offsets before the first or after the last batch of an answer whose batches were all read.

    A leader also acquires offsets that compaction removed (Kafka: SharePartition.acquire). Nothing is reported if that
    is likely: other offsets of the answer are missing too, the leader acquired as many offsets as the fetch asked for,
    or it did so for an earlier delivery.
    """
    most, (_, acquired) = situation.step.max_records, situation.session.last_acquisition or (situation.step, ())
    if most is not None and most <= sum(last - first + 1 for _, first, last, _ in acquired):
        return None
    if any(are_compacted(range_.lacks) for range_ in situation.ranges):
        return None
    for range_ in situation.ranges:
        for lack in range_.lacks or ():
            if lack.kind == OUTSIDE and range_.number <= 1:
                outside = AcquiredRange(lack.first, lack.last, range_.number, ())
                text = "no batch of the answer contains them"
                return acquisition_argument(situation, outside, text, needs=EXCHANGE.knowing(NOT_COMPACTED))
    return None


def had_records_all_the_time(situation: Acquiring) -> Argument | None:
    """Report offsets that come with records now, but were acquired before in an answer without a batch for them."""
    for range_ in situation.ranges:
        for piece in range_.pieces:
            hold = piece.value[0].hold
            if hold is None or not hold.lacks or range_.lacks is None:
                continue
            for lack in between(hold.lacks, piece.first, piece.last):
                offsets = recorded(range_.lacks, lack.first, lack.last) if lack.kind == OUTSIDE else None
                if offsets is not None:
                    first = hold.step
                    text = f"{first.here} acquired them before, without a batch that contains them ({first.packets})"
                    outside = AcquiredRange(*offsets, range_.number, ())
                    return acquisition_argument(situation, outside, text, (first,))
    return None


def ranges_contradict(situation: Acquiring) -> Argument | None:
    """Report ranges that end before they begin, overlap, or are not sorted by offset."""
    for range_ in situation.ranges:
        if range_.last < range_.first:
            text = f"the range from {range_.first} to {range_.last} ends before it begins"
            return _malformed(situation, range_, text)
    for before, after in pairwise(situation.ranges):
        if after.first <= before.last:
            text = f"{offsets_text(after.first, after.last)} follow {offsets_text(before.first, before.last)}"
            return _malformed(situation, after, text)
    return None


def _malformed(situation: Acquiring, range_: AcquiredRange, text: str) -> Argument:
    is_asked = situation.step.wants_no_batch
    asked = "; the fetch asked for batches of less than one record" if is_asked else ""
    return acquisition_argument(situation, range_, f"{text}{asked}", noted=is_asked)


def more_than_asked(situation: Acquiring) -> Argument | None:
    """Report one partition with more records than the strict limit allows for the whole answer."""
    most, count = situation.step.most_records, sum(range_.last - range_.first + 1 for range_ in situation.ranges)
    if most is None or count <= most:
        return None
    text = f"these are {count} records of the partition, and the fetch asked for at most {most}"
    return acquisition_argument(situation, situation.ranges[0], text)


# -- locks and order of deliveries


def _locked(situation: Acquiring) -> Iterator[tuple[Piece, Hold]]:
    """Yield records that were acquired before, whose lock had surely not expired, and that no open request releases."""
    lock_ns, asked = situation.answer.lock_ns or 0, situation.share_partition.awaited
    step = situation.step
    for range_ in situation.ranges:
        for piece in range_.pieces:
            hold = piece.value[0].hold
            if hold is None or not all(record.stage is ACQUIRED and record.hold is hold for record in piece.value):
                continue
            # for this answer to have acquired them before `hold`, its own lock would have had to expire in between
            in_order = hold.step.end < step.packet or hold.step.end_ns < step.time_ns + lock_ns
            if in_order and not any(run.first <= piece.last and run.last >= piece.first for run in asked):
                yield piece, hold


def locked_until(step: ShareStep, hold: Hold) -> Ground:
    """Return the ground that the lock had not expired before the answer to the request."""
    return at_most(hold.lock_ns, hold.since.sent, step, step.ended)


def _is_next(situation: Acquiring, piece: Piece) -> bool:
    """True if, by its delivery count, this delivery comes after all earlier ones of the records."""
    number = next(range_.number for range_ in situation.ranges if range_.first <= piece.first <= range_.last)
    return all(record.count is not None and record.count < number for record in piece.value)


# -- words

_DONE: Final = {
    "accepted": "accepted them",
    "rejected": "rejected them",
    "gap": "acknowledged them as gaps",
    "released": "released them for the last time",
}


def _lock(hold: Hold) -> str:
    """`ShareFetch #7 (packets 40, 44), and their lock lasted at least 30 s`."""
    return f"{hold.since.here} ({hold.since.packets}), and their lock lasted at least {hold.lock_ns / 1e9:g} s"


def acquisition_argument(
    situation: Acquiring,
    range_: AcquiredRange | Piece,
    reason: str,
    before: tuple[Call, ...] = (),
    *,
    needs: ProofNeeds = EXCHANGE,
    noted: bool = False,
    grounds: tuple[Ground, ...] = (),
) -> Argument:
    """Return an argument about an acquired range; `before`: the earlier exchanges that prove it."""
    step, partition, (first, last) = situation.step, situation.share_partition.partition, range_[:2]
    text = f"{step.here} acquired {offsets_text(first, last)} of partition {partition[1]} ({step.packets}): {reason}"
    witness = (*before, step)
    return Argument(
        text,
        witness,
        needs,
        noted=noted,
        partition=partition,
        offsets=(first, last),
        grounds=grounds,
    )


def redelivery_argument(
    situation: Acquiring,
    piece: Piece,
    before: ShareStep,
    reason: str,
    *,
    may_move: bool = True,
    grounds: tuple[Ground, ...] = (),
) -> Argument | None:
    """Return an argument that holds if the session of the exchange `before` is proved to continue after the answer.

    Then none of its requests is missing, on any connection. If the two exchanges overlap, either may have been first,
    and its session may have ended then: so both sessions have to continue. Also the leader must have kept the state of
    the records; `may_move`: see LeaderUnchanged.
    """
    session = before.connection.state_of(before.group_id, before.member_id)
    if session is None:
        return None
    unbroken = Unbroken(session, before.packet, situation.answer.packet)
    proof: Unbroken | BothUnbroken = unbroken
    if before.end >= situation.step.packet and session is not situation.session and not _is_next(situation, piece):
        proof = BothUnbroken(unbroken, Unbroken(situation.session, situation.step.packet, situation.answer.packet))
    needs = EXCHANGE.knowing(situation.share_partition.changes)
    needs = needs.and_proof(_unchanged(situation, proof, before, may_move=may_move))
    return acquisition_argument(situation, piece, reason, (before,), needs=needs, grounds=grounds)


def _unchanged(
    situation: Acquiring, unbroken: Unbroken | BothUnbroken, before: Call, *, may_move: bool
) -> LeaderUnchanged:
    """Return the proof that the leader has kept its state between an exchange and the answer."""
    members = [unbroken.session.member, situation.session.member]
    return LeaderUnchanged(unbroken, situation.share_partition, members, before.packet, situation.answer, may_move)


ROWS: Final = (
    Rule(
        number=72,
        code="OVERLAPPING_ACQUISITION",
        text="Records were delivered to a member while another member still held them.",
        act="delivered records to a member while another still held them",
        weight=92,
        must="A record is acquired by one member at a time.",
        advice="Make processing idempotent: until the broker is fixed, two consumers work on the same records, and "
        "one of their acknowledgements is refused with error 121. Look for a leader change or a restart before this. "
        "Kafka 4.2 fixed two such bugs. Otherwise report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; by b: ShareFetch epoch 0 → 0, offsets 0-9, delivery 2; ShareFetch "
        "epoch 1 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; by b: ShareFetch epoch 0 → 0, offsets 10-19; ShareFetch epoch 1 → "
        "0",
        source="Kafka: SharePartition.acquire",
        rests_on=(LOCK_DURATION, AT_MOST, NO_CONNECTION, NO_LEADER, BETWEEN_CONNECTIONS),
        tickets=("KAFKA-19632", "KAFKA-19954"),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(held_by_another, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=73,
        code="EARLY_REDELIVERY",
        text="Records were delivered to the same member again before their lock expired.",
        act="delivered records again to the same member before their lock had expired",
        weight=86,
        must="Records are delivered to the same member again only after their lock expired or they were released.",
        advice="Drop the second copy if you still work on the first, and acknowledge the records once. Report it to "
        "Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1 → 0, offsets 0-4, delivery 2; ShareFetch epoch "
        "2 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1 → 0, offsets 10-19",
        source="Kafka: SharePartition.acquire",
        rests_on=(LOCK_DURATION, AT_MOST, NO_CONNECTION, NO_LEADER),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(held_already, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=74,
        code="REDELIVERY_AFTER_TERMINAL",
        text="Accepted or rejected records were delivered again.",
        act="delivered records again that were accepted or rejected",
        weight=93,
        must="A record that was accepted or rejected successfully is not delivered again, unless the group's offsets "
        "are reset.",
        advice="Make processing idempotent. Check whether the group's offsets were reset. Otherwise report it to "
        "Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 2; ShareFetch epoch 3 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; ShareFetch epoch 2 → 0, "
        "offsets 10-19",
        source="Kafka: SharePartition.acknowledge",
        rests_on=(NO_CONNECTION, NO_LEADER, NO_ADMIN, BETWEEN_CONNECTIONS),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(done_with, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=81,
        code="ACQUIRED_OUTSIDE_RECORDS",
        text="Acquired offsets lie outside the records of the answer. Clients treat them as gaps; if they are not "
        "gaps, the records are lost.",
        act="acquired offsets for a member without sending the records: they may be lost",
        weight=95,
        must="The acquired ranges of an answer lie between the first and the last offset of its records, except where "
        "compaction removed records.",
        advice="On a compacted topic these offsets are gaps, and nothing is lost. If they are delivered again with "
        "records, report it to Kafka with these packets. Until this is fixed, release the offsets outside the "
        "batches and do not acknowledge them as gaps.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9, batch 0-4; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 2, batch 0-9",
        right="ShareFetch epoch 0 → 0, offsets 0-9, batch 0-9; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 2, batch 0-9",
        source="Kafka: ShareFetchUtils.processFetchResponse",
        rests_on=(NO_LEADER,),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(
            Check(had_records_all_the_time, trigger=REACHED, about=Acquiring),
            Check(outside_of_its_records, trigger=OUT_OF_REACH, about=Acquiring),
        ),
    ),
    Rule(
        number=82,
        code="ACQUIRED_MALFORMED",
        text="Acquired ranges end before they begin, overlap, or are not sorted by offset.",
        act="sent acquired ranges that are inverted, overlap or are not sorted",
        weight=85,
        must="The acquired ranges of an answer are sorted by offset, do not overlap, and do not end before they begin.",
        advice="Ask for batches of one record or more: a batch_size below 1 makes a broker answer like this. With any "
        "other batch_size, process each record once, and report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9 5-14",
        right="ShareFetch epoch 0 → 0, offsets 0-9 10-14",
        source="Kafka: SharePartition.acquire",
        tickets=("KAFKA-19632", "KAFKA-19954"),
        blame=("broker",),
        verdicts=NOTES_TOO,
        machine=IN_FLIGHT,
        checks=(Check(ranges_contradict, trigger=DISORDERED, about=Acquiring),),
    ),
    Rule(
        number=83,
        code="ACQUIRED_BELOW_SPSO",
        text="Completed records were delivered: they lie below the start offset.",
        act="delivered records below the start offset: they were completed",
        weight=92,
        must="All records below the start offset are complete and are not delivered.",
        advice="Make processing idempotent: acknowledgements below the start offset are accepted without effect. "
        "Report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 90-99; WriteShareGroupState start offset 100 → 0; ShareFetch epoch 1 → "
        "0, offsets 50-59",
        right="ShareFetch epoch 0 → 0, offsets 90-99; WriteShareGroupState start offset 100 → 0; ShareFetch epoch 1 → "
        "0, offsets 100-109",
        source="Kafka: SharePartition.acquire",
        rests_on=(NO_CONNECTION, NO_LEADER, NO_ADMIN),
        tickets=("KAFKA-19859",),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(below_the_start, trigger=DISORDERED, about=Acquiring),),
    ),
    Rule(
        number=84,
        code="MAX_RECORDS_EXCEEDED",
        text="A member with a strict limit received more records than it asked for.",
        act="sent more records than the strict limit of the request",
        weight=70,
        must="A fetch with a strict limit (record_limit) receives at most max_records records.",
        advice="Make room for the records, or release the surplus: their locks are held until then. Report it to "
        "Kafka with these packets.",
        wrong="ShareFetch epoch 0, record_limit 5 → 0, offsets 0-9",
        right="ShareFetch epoch 0, record_limit 5 → 0, offsets 0-4",
        source="KIP-1206",
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(more_than_asked, trigger=LIMITED, about=Acquiring),),
    ),
)
