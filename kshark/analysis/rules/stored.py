"""The stored state of a share partition: start offsets, batches, counts, and state that a share coordinator loses.
Rules 112, 114, 115 and 119.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import BROKER_ABSENCE, EXCHANGE, Argument, ProofNeeds
from kshark.analysis.facts.bases import ANSWER_RECEIVED, NO_ADMIN, NO_CONNECTION, RECORD_LOCKS, Limit
from kshark.analysis.facts.releases import release_known
from kshark.analysis.facts.state_steps import INVALID, StateBatch, StateStep
from kshark.analysis.rules.rule import NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN
from kshark.analysis.states.stored.batches import Kept, rank_of
from kshark.analysis.states.stored.state import StoredSituation
from kshark.analysis.states.tables import PERSISTER
from kshark.analysis.states.tables.in_flight import ARCHIVED, STORED
from kshark.analysis.states.tables.persister import LONGEST_WINDOW
from kshark.api_keys import READ_SHARE_GROUP_STATE, READ_SHARE_GROUP_STATE_SUMMARY, WRITE_SHARE_GROUP_STATE
from kshark.offset_ranges import OffsetRanges, Ranged

_READS: Final = (READ_SHARE_GROUP_STATE,)
_WRITES: Final = (WRITE_SHARE_GROUP_STATE,)


# -- what a leader stores


def start_went_back(situation: StoredSituation) -> Argument | None:
    """A leader writes a lower start offset than it stored or received."""
    step, read = situation.step, situation.stored.sender(situation.step).read
    before = situation.own_before or (read if read is not None and _is_since_reset(situation, read) else None)
    if before is None or not _writes_below(step, before.given or before):
        return None
    if not step.is_same_leader(before) or (before.given or before).state_epoch != step.state_epoch:
        return None
    return _lower(step, before, EXCHANGE if before.given is None else EXCHANGE.after(before.call))


def start_is_below_the_stored_one(situation: StoredSituation) -> Argument | None:
    """Another leader writes a lower start offset than the stored one. An unseen Initialize would explain it."""
    step, by = situation.step, situation.stored.start_offset_by
    if by is None or by.call.end >= step.packet or not _writes_below(step, by.given or by):
        return None
    return _lower(step, by, BROKER_ABSENCE)


def _lower(step: StateStep, before: StateStep, needs: ProofNeeds) -> Argument:
    """Return the argument: a note if the coordinator keeps the higher start offset."""
    text, calls = step.story_after(before), (before.call, step.call)
    keeps = step.coordinator_behaviour("keeps_highest_start")
    if keeps:
        return Argument(f"{text}; its coordinator keeps the higher one", calls, EXCHANGE, noted=True)
    return Argument(text, calls, needs.knowing(release_known(keeps)))


def _writes_below(step: StateStep, before: StateStep) -> bool:
    """True if an accepted start offset is lower than an earlier one. -1 leaves it unchanged."""
    if not step.accepted or step.start_offset is None or before.start_offset is None:
        return False
    return 0 <= step.start_offset < before.start_offset


def _is_since_reset(situation: StoredSituation, read: StateStep) -> bool:
    return situation.stored.reset is None or read.packet > situation.stored.reset.packet


def wrote_invalid_batch(situation: StoredSituation) -> Argument | None:
    """A Write has a batch that no leader should send."""
    step = situation.step
    fault = _fault_in(step) if step.negative is None else None
    if fault is None:
        return None
    (first, last, *_), reason = fault
    return Argument(f"{step.story}; its batch {first}-{last} {reason}", (step.call,), EXCHANGE, offsets=(first, last))


def _fault_in(step: StateStep) -> tuple[StateBatch, str] | None:
    for batch in step.batches:
        first, last, state, delivery_count = batch
        if first > last:
            return batch, "ends before it begins"
        if state not in STORED:
            return batch, f"has state {state}, which is never stored"
        if delivery_count < 0:
            return batch, f"has delivery count {delivery_count}"
        if step.start_offset is not None and first < step.start_offset and not _is_past(batch, step.start_offset):
            return batch, "begins below its start offset"
    overlapping = (after for before, after in pairwise(sorted(step.batches)) if after.first <= before.last)
    return next(((batch, "overlaps another") for batch in overlapping), None)


def _is_past(batch: StateBatch, start_offset: int) -> bool:
    """True for archived records below the start offset, as after a log truncation.

    Their lock ended after the start offset had passed them. Leaders then store them as archived (Kafka:
    SharePartition.releaseAcquisitionLockOnTimeout).
    """
    return batch.last < start_offset and STORED[batch.state] is ARCHIVED


def refused_below_zero(situation: StoredSituation) -> Argument | None:
    """A partition or an epoch is negative, and refused."""
    step = situation.step
    if step.reply is not INVALID or step.negative is None:
        return None
    return Argument(f"{step.story}; its {step.negative} is negative", (step.call,), EXCHANGE, "negative")


def counts_below_zero(situation: StoredSituation) -> Argument | None:
    """A count of finished deliveries is below -1, which means "not counted"."""
    step = situation.step
    if step.complete_count is None or step.complete_count >= -1:
        return None
    return Argument(f"{step.story}; its delivery complete count is {step.complete_count}", (step.call,), EXCHANGE)


def counts_too_many(situation: StoredSituation) -> Argument | None:
    """More records are counted as finished than lie between the start offset and the highest offset ever stored.

    Leaders count offsets that compaction removed, sometimes once too often. A count up to the longest possible window
    is no evidence.
    """
    step, stored = situation.step, situation.stored
    if not stored.writes.is_certain or step.complete_count is None or step.start_offset is None:
        return None
    highest = max((stored.batches.highest, *(batch.last for batch in step.batches)))
    window = max(highest - step.start_offset + 1, 0)
    if step.complete_count <= max(window, LONGEST_WINDOW):
        return None
    text = (
        f"{step.story}; its delivery complete count is {step.complete_count}, but only {window} offsets are stored "
        "from its start offset on"
    )
    return Argument(text, (step.call,), BROKER_ABSENCE)


# -- what a coordinator loses


def reported_a_lower_start(situation: StoredSituation) -> Argument | None:
    """The coordinator reports a lower start offset than the stored one. An unseen Initialize would explain it."""
    step, by, stored = situation.step, situation.stored.start_offset_by, situation.stored
    if (
        step.given is None
        or not stored.exists
        or by is None
        or by.call.end >= step.packet
        or _lost(situation) is not None
    ):
        return None
    if step.given.start_offset is None or stored.start_offset is None or step.given.start_offset >= stored.start_offset:
        return None
    return _coordinator_lost(situation, by)


def reported_less(situation: StoredSituation) -> Argument | None:
    """The answer to a Read lacks state that was written."""
    lost = _lost(situation)
    if lost is None:
        return None
    argument = _coordinator_lost(situation, lost.value.by, f"; the answer lacks the stored {_described(lost)}")
    return replace(argument, offsets=(lost.first, lost.last))


def reported_no_state(situation: StoredSituation) -> Argument | None:
    """The coordinator answers that nothing is stored, although it accepted state before."""
    step, stored = situation.step, situation.stored
    by = stored.write or stored.state_epoch_by
    if (
        step.reply is not INVALID
        or step.negative is not None
        or not stored.exists
        or by is None
        or by.call.end >= step.packet
    ):
        return None
    return Argument(step.story_after(by), (by.call, step.call), BROKER_ABSENCE)


def _coordinator_lost(situation: StoredSituation, by: StateStep, details: str = "") -> Argument:
    """Return the argument, with proof where no unseen Initialize or Delete can explain the loss.

    The proof: the answer still has older batches, and the same leader asks. Another leader would have another leader
    epoch. The writes of this one are on its connection, and an Initialize leaves no batch.
    """
    kept = _kept(situation, by) if by.is_same_leader(situation.step) else None
    if kept is None:
        return Argument(situation.step.story_after(by) + details, (by.call, situation.step.call), BROKER_ABSENCE)
    text = (
        f"{situation.step.story_after(by)}{details}; it still has {_described(kept)}, which an Initialize would have "
        "removed"
    )
    first = min(kept.value.by, by, key=lambda write: write.packet)
    return Argument(text, (first.call, by.call, situation.step.call), EXCHANGE, blame="broker")


def _lost(situation: StoredSituation) -> Ranged[Kept] | None:
    """Return the first stored batch that the answer to a Read lacks, or has in an earlier state."""
    step, given = situation.step, situation.step.given
    if not step.is_read or given is None:
        return None
    reported = _ranges(given)
    for batch in situation.stored.batches.over(max(given.start_offset or 0, 0), situation.stored.batches.highest):
        older = any(other.value < rank_of(batch.value) for other in reported.over(batch.first, batch.last))
        if (older or reported.gaps(batch.first, batch.last)) and batch.value.by.call.end < step.packet:
            return batch
    return None


def _kept(situation: StoredSituation, by: StateStep) -> Ranged[Kept] | None:
    """Return a batch of the same leader, stored no later, that the answer to a Read has as it was stored."""
    if situation.step.given is None:
        return None
    reported = _ranges(situation.step.given)
    for batch in situation.stored.batches:
        same = all(other.value == rank_of(batch.value) for other in reported.over(batch.first, batch.last))
        whole = same and not reported.gaps(batch.first, batch.last)
        if whole and batch.value.by.packet <= by.packet and batch.value.by.is_same_leader(situation.step):
            return batch
    return None


def _ranges(step: StateStep) -> OffsetRanges[tuple[int, int]]:
    """Return the delivery count and state of each offset that the step reports."""
    ranges: OffsetRanges[tuple[int, int]] = OffsetRanges()
    for batch in step.batches:
        ranges.put(batch.first, batch.last, (batch.delivery_count, batch.state))
    return ranges


def _described(batch: Ranged[Kept]) -> str:
    state = STORED.get(batch.value.state, f"state {batch.value.state}")
    return f"{batch.first}-{batch.last} ({state}, delivery count {batch.value.delivery_count})"


ROWS: Final = (
    Rule(
        number=112,
        code="START_OFFSET_REGRESSION",
        text="A stored or reported start offset is lower than an earlier one, with no Initialize between them.",
        act="lowered the start offset of a share partition: records may be delivered again",
        weight=90,
        must="A start offset never decreases, except by an Initialize.",
        advice="Send the writes of a share partition one after another, each with its current start offset. Before "
        "Kafka 4.4 coordinators store the last write, and processed records are delivered again. Later ones "
        "keep the highest start offset (a note).",
        wrong="WriteShareGroupState start offset 100 → 0; WriteShareGroupState start offset 90 → 0",
        right="WriteShareGroupState start offset 100 → 0; WriteShareGroupState start offset 110 → 0",
        source="Kafka: ShareCoordinatorShard",
        rests_on=(NO_CONNECTION, NO_ADMIN, Limit("SENDERS_OF_A_STATE"), ANSWER_RECEIVED),
        tickets=("KAFKA-19859", "apache/kafka#23074"),
        blame=("client", "broker"),
        verdicts=NOTES_TOO,
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(start_went_back, apis=_WRITES, trigger=NOT_PLAIN),
            Check(start_is_below_the_stored_one, apis=_WRITES, trigger=NOT_PLAIN),
            Check(reported_a_lower_start, apis=(*_READS, READ_SHARE_GROUP_STATE_SUMMARY), trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=114,
        code="STATE_BATCH_INVALID",
        text="A request has invalid state: inverted or overlapping batches, unknown states, or negative numbers.",
        act="stored share state that contradicts itself",
        weight=80,
        must="Batches do not overlap, have a stored state (0, 2, 3, 4) and counts from 0, and begin at the start "
        "offset or above. Only archived batches lie below it.",
        advice="Check batches before they are sent: coordinators store even inverted batches and unknown states, and "
        "the next leader receives them.",
        wrong="WriteShareGroupState acknowledged 9-5 → 0",
        right="WriteShareGroupState acknowledged 5-9 → 0",
        source="Kafka: PersisterStateBatch",
        causes=("negative",),
        at="request",
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(refused_below_zero, trigger=NOT_PLAIN),
            Check(wrote_invalid_batch, apis=_WRITES, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=115,
        code="COMPLETE_COUNT_INVALID",
        text="A delivery complete count is below -1, or above the number of possible offsets.",
        act="stored an impossible delivery complete count",
        weight=70,
        must="A delivery complete count is -1 (not counted), or a number of records from the start offset on.",
        advice="Count only the finished records from the start offset on. Send -1 if they were not counted.",
        wrong="WriteShareGroupState complete count -5 → 0",
        right="WriteShareGroupState complete count -1 → 0",
        source="Kafka: ShareCoordinatorShard",
        rests_on=(RECORD_LOCKS, NO_CONNECTION, Limit("STORED_RANGES")),
        tickets=("apache/kafka#23112",),
        at="request",
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(counts_below_zero, apis=_WRITES, trigger=NOT_PLAIN),
            Check(counts_too_many, apis=_WRITES, trigger=NOT_PLAIN),
        ),
    ),
    Rule(
        number=119,
        code="STATE_LOST",
        text="A share coordinator lost state that it had confirmed as stored.",
        act="lost share state that it had confirmed as stored",
        weight=95,
        must="A coordinator returns the state that it has confirmed as stored.",
        advice="Change nothing in the client: processed records are delivered again. Check what happened to the "
        "coordinator between the two exchanges, and report it to Kafka with these packets.",
        wrong="WriteShareGroupState acknowledged 100-109 → 0; WriteShareGroupState acknowledged 110-119 → 0; "
        "ReadShareGroupState → 0, acknowledged 100-109",
        right="WriteShareGroupState acknowledged 100-109 → 0; WriteShareGroupState acknowledged 110-119 → 0; "
        "ReadShareGroupState → 0, acknowledged 100-119",
        source="Kafka: ShareCoordinatorShard",
        rests_on=(NO_CONNECTION, NO_ADMIN, Limit("STORED_RANGES")),
        blame=("broker",),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(reported_less, apis=_READS, trigger=NOT_PLAIN),
            Check(reported_no_state, apis=_READS + _WRITES, trigger=NOT_PLAIN),
        ),
    ),
)
