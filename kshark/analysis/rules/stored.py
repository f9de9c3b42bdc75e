"""What is stored of a share partition: start offsets, batches, counts, and what a share coordinator loses of them.
Rules 112, 114, 115 and 119."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, Argument, Needs
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
    """A leader goes back behind the start offset that it stored, or was given."""
    step, read = situation.step, situation.stored.sender(situation.step).read
    before = situation.own_before or (read if read is not None and _is_since_reset(situation, read) else None)
    if before is None or not _writes_below(step, before.given or before):
        return None
    if not step.is_same_leader(before) or (before.given or before).state_epoch != step.state_epoch:
        return None
    return _lower(step, before, EXCHANGE)


def start_is_below_the_stored_one(situation: StoredSituation) -> Argument | None:
    """Another leader writes a lower start offset than the stored one; an Initialize in between would explain it."""
    step, by = situation.step, situation.stored.start_offset_by
    if by is None or by.call.end >= step.packet or not _writes_below(step, by.given or by):
        return None
    return _lower(step, by, ABSENCE)


def _lower(step: StateStep, before: StateStep, needs: Needs) -> Argument:
    """Where a coordinator keeps the higher start offset nothing comes of it."""
    text, calls = step.story_after(before), (before.call, step.call)
    keeps = step.coordinator_behaviour("keeps_highest_start")
    if keeps:
        return Argument(f"{text}; its coordinator keeps the higher one", calls, EXCHANGE, noted=True)
    return Argument(text, calls, needs, because="release_unknown" if keeps is None else None)


def _writes_below(step: StateStep, before: StateStep) -> bool:
    """Whether a start offset was taken that is lower than one before; -1 leaves it as it was."""
    if not step.taken or step.start_offset is None or before.start_offset is None:
        return False
    return 0 <= step.start_offset < before.start_offset


def _is_since_reset(situation: StoredSituation, read: StateStep) -> bool:
    return situation.stored.reset is None or read.packet > situation.stored.reset.packet


def wrote_invalid_batch(situation: StoredSituation) -> Argument | None:
    """Something in a Write that no leader can mean."""
    step = situation.step
    found = _wrong_in(step) if step.negative is None else None
    if found is None:
        return None
    (first, last, *_), wrong = found
    return Argument(f"{step.story}; its batch {first}-{last} {wrong}", (step.call,), EXCHANGE, offsets=(first, last))


def _wrong_in(step: StateStep) -> tuple[StateBatch, str] | None:
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
    overlapping = (two for one, two in pairwise(sorted(step.batches)) if two.first <= one.last)
    return next(((two, "overlaps another") for two in overlapping), None)


def _is_past(batch: StateBatch, start_offset: int) -> bool:
    """Whether that is of records whose lock ended behind a start offset that had passed them, as it does where a log is
    truncated.

    Leaders store that they are archived, which they were by the start offset (Kafka:
    SharePartition.releaseAcquisitionLockOnTimeout)."""
    return batch.last < start_offset and STORED[batch.state] is ARCHIVED


def refused_below_zero(situation: StoredSituation) -> Argument | None:
    """A partition or an epoch is refused that cannot be."""
    step = situation.step
    if step.reply is not INVALID or step.negative is None:
        return None
    return Argument(f"{step.story}; its {step.negative} is negative", (step.call,), EXCHANGE, "negative")


def counts_below_zero(situation: StoredSituation) -> Argument | None:
    """A count of finished deliveries below the -1 that stands for none."""
    step = situation.step
    if step.complete_count is None or step.complete_count >= -1:
        return None
    return Argument(f"{step.story}; its delivery complete count is {step.complete_count}", (step.call,), EXCHANGE)


def counts_too_many(situation: StoredSituation) -> Argument | None:
    """More records are said to be finished than lie between the start offset and the highest offset that was ever
    stored.

    Leaders count offsets that compaction took, once too often now and then: up to the longest window that they may
    have, that is no sign."""
    step, stored = situation.step, situation.stored
    if stored.doubt is not None or step.complete_count is None or step.start_offset is None:
        return None
    highest = max((stored.batches.highest, *(batch.last for batch in step.batches)))
    window = max(highest - step.start_offset + 1, 0)
    if step.complete_count <= max(window, LONGEST_WINDOW):
        return None
    text = (
        f"{step.story}; its delivery complete count is {step.complete_count}, and {window} offsets are stored from "
        "its start offset on"
    )
    return Argument(text, (step.call,), ABSENCE)


# -- what a coordinator loses


def reported_a_lower_start(situation: StoredSituation) -> Argument | None:
    """The coordinator tells a start offset below the one that was stored; an Initialize in between would explain it."""
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
    """What was written is not in the answer to a Read."""
    lost = _lost(situation)
    if lost is None:
        return None
    argument = _coordinator_lost(situation, lost.value.by, f"; it lacks {_told(lost)} as it was stored")
    return replace(argument, offsets=(lost.first, lost.last))


def reported_no_state(situation: StoredSituation) -> Argument | None:
    """The coordinator says that nothing was ever stored, though it took what was."""
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
    return Argument(step.story_after(by), (by.call, step.call), ABSENCE)


def _coordinator_lost(situation: StoredSituation, by: StateStep, more: str = "") -> Argument:
    """Whether an unseen Initialize or Delete explains it: not where the answer still has what was stored before, and
    one leader asks.

    Any other leader would have another leader epoch; what this one wrote is on its connection, and an Initialize leaves
    no batch."""
    kept = _kept(situation, by) if by.is_same_leader(situation.step) else None
    if kept is None:
        return Argument(situation.step.story_after(by) + more, (by.call, situation.step.call), ABSENCE)
    text = f"{situation.step.story_after(by)}{more}; it still has {_told(kept)}, which no Initialize would have left"
    first = min(kept.value.by, by, key=lambda one: one.packet)
    return Argument(text, (first.call, by.call, situation.step.call), EXCHANGE, blame="broker")


def _lost(situation: StoredSituation) -> Ranged[Kept] | None:
    """The first stored batch that the answer to a Read lacks, or has in an earlier state."""
    step, given = situation.step, situation.step.given
    if not step.is_read or given is None:
        return None
    told = _ranges(given)
    for one in situation.stored.batches.over(max(given.start_offset or 0, 0), situation.stored.batches.highest):
        older = any(other.value < rank_of(one.value) for other in told.over(one.first, one.last))
        if (older or told.gaps(one.first, one.last)) and one.value.by.call.end < step.packet:
            return one
    return None


def _kept(situation: StoredSituation, by: StateStep) -> Ranged[Kept] | None:
    """A batch stored no later, by the same leader, that the answer to a Read has as it was stored."""
    if situation.step.given is None:
        return None
    told = _ranges(situation.step.given)
    for one in situation.stored.batches:
        same = all(other.value == rank_of(one.value) for other in told.over(one.first, one.last))
        whole = same and not told.gaps(one.first, one.last)
        if whole and one.value.by.packet <= by.packet and one.value.by.is_same_leader(situation.step):
            return one
    return None


def _ranges(told: StateStep) -> OffsetRanges[tuple[int, int]]:
    """Delivery count and state of each offset that it tells."""
    ranges: OffsetRanges[tuple[int, int]] = OffsetRanges()
    for batch in told.batches:
        ranges.put(batch.first, batch.last, (batch.delivery_count, batch.state))
    return ranges


def _told(one: Ranged[Kept]) -> str:
    state = STORED.get(one.value.state, f"state {one.value.state}")
    return f"{one.first}-{one.last} ({state}, delivery count {one.value.delivery_count})"


ROWS: Final = (
    Rule(
        number=112,
        code="START_OFFSET_REGRESSION",
        text="A start offset is stored or told that is lower than one before it, and no Initialize came between them.",
        must="A start offset never goes down, but by an Initialize.",
        advice="Send the writes of a share partition one behind the other, each with the start offset of its time. "
        "Before Kafka 4.4 coordinators store what comes last, and records that were done with come again; "
        "since then they keep the highest (a note).",
        wrong="WriteShareGroupState start offset 100 → 0; WriteShareGroupState start offset 90 → 0",
        right="WriteShareGroupState start offset 100 → 0; WriteShareGroupState start offset 110 → 0",
        source="Kafka: ShareCoordinatorShard",
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
        text="State is stored that no leader can mean: inverted or overlapping batches, unknown states, negative "
        "numbers.",
        must="Batches lie apart, in a state that is stored (0, 2, 3, 4), with counts from 0, at the start offset or "
        "above; below it lie archived ones alone.",
        advice="Check batches before they are sent: coordinators store what comes, inverted batches and unknown "
        "states as well, and the next leader is given it.",
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
        text="A delivery complete count below -1, or above the number of offsets that can be meant.",
        must="A delivery complete count is -1, which stands for none, or a number of records from the start offset on.",
        advice="Count the records that are done with from the start offset on, and no others; say -1 where they were "
        "not counted.",
        wrong="WriteShareGroupState complete count -5 → 0",
        right="WriteShareGroupState complete count -1 → 0",
        source="Kafka: ShareCoordinatorShard",
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
        text="A share coordinator does not have what it said it had stored.",
        must="What a coordinator said it had stored it gives to whoever reads.",
        advice="Nothing in the client: records that were done with come again. Look what happened to the coordinator "
        "between the two, and report it to Kafka with these packets.",
        wrong="WriteShareGroupState acknowledged 100-109 → 0; WriteShareGroupState acknowledged 110-119 → 0; "
        "ReadShareGroupState → 0, acknowledged 100-109",
        right="WriteShareGroupState acknowledged 100-109 → 0; WriteShareGroupState acknowledged 110-119 → 0; "
        "ReadShareGroupState → 0, acknowledged 100-119",
        source="Kafka: ShareCoordinatorShard",
        blame=("broker",),
        machine=PERSISTER,
        alternatives=True,
        checks=(
            Check(reported_less, apis=_READS, trigger=NOT_PLAIN),
            Check(reported_no_state, apis=_READS + _WRITES, trigger=NOT_PLAIN),
        ),
    ),
)
