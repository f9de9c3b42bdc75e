"""Locks of acquired records: locks that block a partition, locks with a changed duration. Rules 85 and 89."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.bases import LOCK_DURATION, RECORD_LOCKS
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN, RELOCKED
from kshark.analysis.states.partition.situations import Acquiring, Starving
from kshark.analysis.states.partition.window import usual_size
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACQUIRED


def window_full(situation: Starving) -> Argument | None:
    """The limit of offsets in flight is reached: the last acquisition reached it, and none began beyond it."""
    step, window, partition = situation.step, situation.share_partition.window, situation.share_partition.partition
    (record, *others), hold = situation.first_left.value, situation.first_left.value[0].hold
    low, last, width = situation.first_left.first, window.last, window.width
    setting = situation.session.broker.shown(RECORD_LOCKS, step.group_id)
    size = usual_size(situation.session.releases) if setting is None else setting.number
    acknowledging = any(run.first <= low <= run.last for run in situation.share_partition.awaited)
    if others or acknowledging or record.stage is not ACQUIRED or hold is None or window.by is None:
        return None
    if not window.tip - low < size <= width or max(window.by.end, hold.step.end) >= step.packet:
        return None
    limit = f"default limit is {size}" if setting is None else f"limit is {size} (packet {setting.packet})"
    text = (
        f"{step.here} receives no records ({step.packets}): {width} offsets of partition {partition[1]} are in "
        f"flight, and the {limit}; member {hold.step.member_id} has held the first, {low}, since "
        f"{hold.step.here} ({hold.step.packets}), for {_seconds(step.end_ns - hold.step.end_ns)}"
    )
    return Argument(text, (hold.step, window.by, step), EXCHANGE, partition=partition, offsets=(low, last))


def lock_changed(situation: Acquiring) -> Argument | None:
    """The locks of a group last longer or shorter than before."""
    step, lock_ns = situation.step, situation.answer.lock_ns
    before, before_ns = situation.locked_before or (step, lock_ns)
    if lock_ns is None or before_ns is None or before_ns == lock_ns:
        return None
    at = "" if before.connection.broker is situation.session.broker else f" by {before.connection.flow.broker}"
    text = (
        f"{step.here} receives records with a lock of {_seconds(lock_ns)} ({step.packets}); with {before.here} the "
        f"lock was {_seconds(before_ns)}{at} ({before.packets})"
    )
    return Argument(text, (before, step), EXCHANGE)


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3g} s" if time_ns < 1_000_000_000_000 else f"{time_ns / 1e9:.0f} s"


ROWS: Final = (
    Rule(
        number=85,
        code="WINDOW_SATURATED",
        text="A fetch gets no records from a full partition. It has the maximum number of offsets in flight, and the "
        "first one blocks the rest.",
        weight=45,
        advice="Check what the member that holds the first offset does with it: until then the partition delivers "
        "nothing new. Acknowledge each record as soon as it is processed. Raise "
        "group.share.partition.max.record.locks only where many records take long.",
        wrong="by b: ShareFetch epoch 0 → 0, offsets 0-499 500-1999; ShareFetch epoch 0, list t[0] → 0",
        right="by b: ShareFetch epoch 0 → 0, offsets 0-499 500-1999; by b: ShareAcknowledge epoch 1, accept 0-499 → "
        "0; ShareFetch epoch 0, list t[0] → 0, offsets 2000-2499",
        source="Kafka: SharePartition.canAcquireRecords (group.share.partition.max.record.locks)",
        rests_on=(RECORD_LOCKS,),
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(window_full, about=Starving, trigger=NOT_PLAIN),),
    ),
    Rule(
        number=89,
        code="LOCK_DURATION_CHANGED",
        text="The locks of a group's records last longer or shorter than before.",
        advice="If nobody changed share.record.lock.duration.ms of the group, set the same "
        "group.share.record.lock.duration.ms on all brokers.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1 → 0, offsets 10-19, locked 60000 ms",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1 → 0, offsets 10-19",
        source="Kafka: KafkaApis (acquisition_lock_timeout_ms)",
        rests_on=(LOCK_DURATION,),
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(lock_changed, trigger=RELOCKED, about=Acquiring),),
    ),
)
