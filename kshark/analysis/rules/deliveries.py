"""Records handed out that should not have been. Rules 72 to 74 and 81 to 84."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument, Needs, Proof
from kshark.analysis.facts.calls import Call, Step
from kshark.analysis.rules.refusals import offsets_text
from kshark.analysis.rules.rule import NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import DISORDERED, LIMITED, OUT_OF_REACH, REACHED, UNDUE
from kshark.analysis.states.partition.missing_offsets import OUTSIDE, are_compacted, between, recorded
from kshark.analysis.states.partition.records_in_flight import AcquiredRange, Hold, Piece
from kshark.analysis.states.partition.situations import Acquiring
from kshark.analysis.states.session.copies import is_again
from kshark.analysis.states.session.state import BothUnbroken, Unbroken
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACQUIRED, TERMINAL

# -- records that were not to be had


def held_by_another(now: Acquiring) -> Argument | None:
    """Records whose lock another member still has."""
    for piece, hold in _locked(now):
        if hold.step.member_id != now.step.member_id:
            return redelivery_argument(
                now, piece, hold.step, f"member {hold.step.member_id} had acquired them with {_lock(hold)}"
            )
    return None


def held_already(now: Acquiring) -> Argument | None:
    """Records whose lock the member itself still has, not by this very request as another connection carried it."""
    for piece, hold in _locked(now):
        if (
            hold.step.member_id == now.step.member_id
            and hold.step is not now.step
            and not is_again(hold.step, now.step)
        ):
            return redelivery_argument(now, piece, hold.step, f"the member had acquired them with {_lock(hold)}")
    return None


def done_with(now: Acquiring) -> Argument | None:
    """Records that were accepted, rejected or passed over, and the acknowledgement was taken."""
    for handed in now.handed:
        for piece in handed.pieces:
            done = piece.value[0]
            by = done.by
            if by is None or not all(one.stage in TERMINAL and one.by is by for one in piece.value):
                continue
            if by.member_id == now.step.member_id and by.end >= now.step.packet:
                continue
            return redelivery_argument(
                now, piece, by, f"{by.here} had {_DONE[done.how]} them, and was taken ({by.packets})"
            )
    return None


def below_the_start(now: Acquiring) -> Argument | None:
    """Records below the start offset, which the leader itself had stored."""
    start, by = now.share_partition.stored or (0, None)
    low = next((handed for handed in now.handed if handed.first < start), None)
    if low is None or by is None or by.call.end >= now.step.packet:
        return None
    call = by.call
    needs = EXCHANGE.and_proof(Unbroken(now.session, call.packet, now.step.packet), None)
    text = f"all below {start} is done with, by {call.here} of their leader ({call.packets})"
    return acquisition_argument(now, low, text, (call,), needs=needs)


# -- the ranges of one answer


def outside_of_its_records(now: Acquiring) -> Argument | None:
    """Offsets before the first batch of the answer, or behind the last one; all of its batches were read.

    Where compaction has taken records a leader counts their offsets all the same (Kafka: SharePartition.acquire).
    Nothing is said where that is likely: others of the answer are missing, too, it has counted up to what was asked
    for, or did so before, for another delivery."""
    most, (_, acquired) = now.step.max_records, now.session.handed or (now.step, ())
    if most is not None and most <= sum(last - first + 1 for _, first, last, _ in acquired):
        return None
    if any(are_compacted(handed.lacks) for handed in now.handed):
        return None
    for handed in now.handed:
        for lack in handed.lacks or ():
            if lack.kind == OUTSIDE and handed.number <= 1:
                text = "none of the batches in the answer holds them"
                return acquisition_argument(
                    now, AcquiredRange(lack.first, lack.last, handed.number, ()), text, because="compaction"
                )
    return None


def had_records_all_the_time(now: Acquiring) -> Argument | None:
    """Offsets whose records come now were handed out before, and no batch of that answer held them."""
    for handed in now.handed:
        for piece in handed.pieces:
            hold = piece.value[0].hold
            if hold is None or not hold.lacks or handed.lacks is None:
                continue
            for lack in between(hold.lacks, piece.first, piece.last):
                found = recorded(handed.lacks, lack.first, lack.last) if lack.kind == OUTSIDE else None
                if found is not None:
                    text = (
                        f"{hold.step.here} was handed them, too, and none of the batches in its answer holds them "
                        f"({hold.step.packets})"
                    )
                    return acquisition_argument(now, AcquiredRange(*found, handed.number, ()), text, (hold.step,))
    return None


def ranges_contradict(now: Acquiring) -> Argument | None:
    """Ranges that end before they begin, overlap, or do not come in the order of their offsets."""
    for handed in now.handed:
        if handed.last < handed.first:
            return _malformed(now, handed, f"the range from {handed.first} to {handed.last} ends before it begins")
    for one, two in pairwise(now.handed):
        if two.first <= one.last:
            return _malformed(
                now, two, f"behind {offsets_text(one.first, one.last)} comes {offsets_text(two.first, two.last)}"
            )
    return None


def _malformed(now: Acquiring, handed: AcquiredRange, text: str) -> Argument:
    asked = "; it was asked for batches of less than one record" if now.step.wants_no_batch else ""
    return acquisition_argument(now, handed, f"{text}{asked}", noted=now.step.wants_no_batch)


def more_than_asked(now: Acquiring) -> Argument | None:
    """More records of one partition than the whole answer may have where that is a strict limit."""
    most, count = now.step.most_records, sum(one.last - one.first + 1 for one in now.handed)
    if most is None or count <= most:
        return None
    return acquisition_argument(
        now, now.handed[0], f"{count} records of the partition, and {most} were asked for at most"
    )


# -- what is known


def _locked(now: Acquiring) -> Iterator[tuple[Piece, Hold]]:
    """Records that were acquired, with a lock that surely was not out, and whose release nobody had asked for."""
    lock_ns, asked = now.answer.lock_ns or 0, [*chain(*now.share_partition.open)]
    for handed in now.handed:
        for piece in handed.pieces:
            hold = piece.value[0].hold
            if hold is None or not all(one.stage is ACQUIRED and one.hold is hold for one in piece.value):
                continue
            # had these been acquired before those, their lock would have been out in between
            in_order = hold.step.end < now.step.packet or hold.step.end_ns < now.step.time_ns + lock_ns
            if in_order and not any(run.first <= piece.last and run.last >= piece.first for run in asked):
                yield piece, hold


def _is_next(now: Acquiring, piece: Piece) -> bool:
    """Whether the delivery is behind all that the records had, as their numbers tell."""
    number = next(handed.number for handed in now.handed if handed.first <= piece.first <= handed.last)
    return all(one.count is not None and one.count < number for one in piece.value)


# -- words

_DONE: Final = {
    "accepted": "accepted",
    "rejected": "rejected",
    "gap": "passed over",
    "released": "released for the last time",
}


def _lock(hold: Hold) -> str:
    """`exchange 7 (ShareFetch) (packets 40, 44), 30 s before their lock is out`."""
    return (
        f"{hold.since.here} ({hold.since.packets}), and their lock was not out before {hold.lock_ns / 1e9:g} s had "
        f"gone by"
    )


def acquisition_argument(
    now: Acquiring,
    range_: AcquiredRange | Piece,
    text: str,
    before: tuple[Call, ...] = (),
    *,
    needs: Needs = EXCHANGE,
    noted: bool = False,
    because: str | None = None,
) -> Argument:
    """An argument about a range that is handed out; `before`: exchanges by which one knows."""
    step, (first, last) = now.step, range_[:2]
    said = (
        f"{step.here} is handed {offsets_text(first, last)} of partition {now.share_partition.partition[1]} "
        f"({step.packets}): "
        f"{text}"
    )
    partition = now.share_partition.partition
    return Argument(
        said, (*before, step), needs, noted=noted, because=because, partition=partition, offsets=(first, last)
    )


def redelivery_argument(now: Acquiring, piece: Piece, before: Step, text: str) -> Argument | None:
    """What holds as long as the session of the exchange before is known to have gone on behind the answer: then none of
    its requests is missing, on whatever connection. Of two that were under way together either may have been first, and
    its session have ended then."""
    session = before.connection.state_of(before.group_id, before.member_id)
    if session is None or before.packet <= now.share_partition.unreliable_until:
        return None
    unbroken = Unbroken(session, before.packet, now.answer.packet)
    proof: Proof = unbroken
    if before.end >= now.step.packet and session is not now.session and not _is_next(now, piece):
        proof = BothUnbroken(unbroken, Unbroken(now.session, now.step.packet, now.answer.packet))
    return acquisition_argument(now, piece, text, (before,), needs=EXCHANGE.and_proof(proof, None))


ROWS: Final = (
    Rule(
        number=72,
        code="OVERLAPPING_ACQUISITION",
        text="Records were delivered to a member while another member still held them.",
        must="A record is acquired by one member at a time.",
        advice="Make processing idempotent: until the broker is fixed, two consumers work on the same records, and "
        "one of their acknowledgements is refused with error 121. Look for a leader change or a restart before this. "
        "Kafka 4.2 fixed two such bugs. Otherwise report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; by b: ShareFetch epoch 0 → 0, offsets 0-9, delivery 2; ShareFetch "
        "epoch 1 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; by b: ShareFetch epoch 0 → 0, offsets 10-19; ShareFetch epoch 1 → "
        "0",
        source="Kafka: SharePartition.acquire",
        tickets=("KAFKA-19632", "KAFKA-19954"),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(held_by_another, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=73,
        code="EARLY_REDELIVERY",
        text="Records were delivered to the same member again before their lock expired.",
        must="Records are delivered to the same member again only after their lock expired or they were released.",
        advice="Drop the second copy if you still work on the first, and acknowledge the records once. Report it to "
        "Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1 → 0, offsets 0-4, delivery 2; ShareFetch epoch "
        "2 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1 → 0, offsets 10-19",
        source="Kafka: SharePartition.acquire",
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(held_already, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=74,
        code="REDELIVERY_AFTER_TERMINAL",
        text="Accepted or rejected records were delivered again.",
        must="A record that was accepted or rejected successfully is not delivered again, unless the group's offsets "
        "are reset.",
        advice="Make processing idempotent. Check whether the group's offsets were reset. Otherwise report it to "
        "Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 2; ShareFetch epoch 3 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; ShareFetch epoch 2 → 0, "
        "offsets 10-19",
        source="Kafka: SharePartition.acknowledge",
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(done_with, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=81,
        code="ACQUIRED_OUTSIDE_RECORDS",
        text="Acquired offsets lie outside the records of the answer. Clients treat them as gaps; if they are not "
        "gaps, the records are lost.",
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
        must="All records below the start offset are complete and are not delivered.",
        advice="Make processing idempotent: acknowledgements below the start offset are accepted without effect. "
        "Report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 90-99; WriteShareGroupState start offset 100 → 0; ShareFetch epoch 1 → "
        "0, offsets 50-59",
        right="ShareFetch epoch 0 → 0, offsets 90-99; WriteShareGroupState start offset 100 → 0; ShareFetch epoch 1 → "
        "0, offsets 100-109",
        source="Kafka: SharePartition.acquire",
        tickets=("KAFKA-19859",),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(below_the_start, trigger=DISORDERED, about=Acquiring),),
    ),
    Rule(
        number=84,
        code="MAX_RECORDS_EXCEEDED",
        text="A member with a strict limit received more records than it asked for.",
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
