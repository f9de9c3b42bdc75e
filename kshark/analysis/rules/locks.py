"""Locks of acquired records: that hold all others up, that last longer than before. Rules 85 and 89."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN, RELOCKED
from kshark.analysis.states.partition.situations import Acquiring, Starving
from kshark.analysis.states.partition.window import usual_size
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACQUIRED


def window_full(situation: Starving) -> Argument | None:
    """As many offsets are in flight as may be by default: the last acquisition went that far, and none began beyond."""
    step, window, partition = situation.step, situation.share_partition.window, situation.share_partition.partition
    (record, *others), hold = situation.first_left.value, situation.first_left.value[0].hold
    size, low, last, width = (
        usual_size(situation.session.releases),
        situation.first_left.first,
        window.last,
        window.width,
    )
    asked = any(run.first <= low <= run.last for runs in situation.share_partition.open for run in runs)
    if others or asked or record.stage is not ACQUIRED or hold is None or window.by is None:
        return None
    if not window.tip - low < size <= width or max(window.by.end, hold.step.end) >= step.packet:
        return None
    text = (
        f"{step.here} is handed nothing ({step.packets}): {width} offsets of partition {partition[1]} are in flight, "
        f"and by default there is room for {size}; the first is {low}, which member {hold.step.member_id} has had "
        f"since {hold.step.here} ({hold.step.packets}), for {_seconds(step.end_ns - hold.step.end_ns)}"
    )
    return Argument(text, (hold.step, window.by, step), EXCHANGE, partition=partition, offsets=(low, last))


def lock_changed(situation: Acquiring) -> Argument | None:
    """The locks of a group last longer than before, or not as long."""
    step, lock_ns = situation.step, situation.answer.lock_ns
    before, before_ns = situation.locked_before or (step, lock_ns)
    if lock_ns is None or before_ns is None or before_ns == lock_ns:
        return None
    at = "" if before.connection.broker is situation.session.broker else f" by {before.connection.flow.broker}"
    text = (
        f"{step.here} is handed records with a lock of {_seconds(lock_ns)} ({step.packets}); with {before.here} it "
        f"was {_seconds(before_ns)}{at} ({before.packets})"
    )
    return Argument(text, (before, step), EXCHANGE)


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3g} s" if time_ns < 1_000_000_000_000 else f"{time_ns / 1e9:.0f} s"


ROWS: Final = (
    Rule(
        number=85,
        code="WINDOW_SATURATED",
        text="A fetch gets nothing: as many offsets of a partition are in flight as may be, and the first holds the "
        "others up.",
        advice="See what the member that has the first offset does with it: the partition hands out nothing new "
        "before that. Acknowledge each record when it is done with, and raise "
        "group.share.partition.max.record.locks only where many take long.",
        wrong="by b: ShareFetch epoch 0 → 0, offsets 0-499 500-1999; ShareFetch epoch 0, list t[0] → 0",
        right="by b: ShareFetch epoch 0 → 0, offsets 0-499 500-1999; by b: ShareAcknowledge epoch 1, accept 0-499 → "
        "0; ShareFetch epoch 0, list t[0] → 0, offsets 2000-2499",
        source="Kafka: SharePartition.canAcquireRecords (group.share.partition.max.record.locks)",
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(window_full, about=Starving, trigger=NOT_PLAIN),),
    ),
    Rule(
        number=89,
        code="LOCK_DURATION_CHANGED",
        text="The locks of a group's records last longer than before, or not as long.",
        advice="Where nobody changed share.record.lock.duration.ms of the group, give all brokers the same "
        "group.share.record.lock.duration.ms.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1 → 0, offsets 10-19, locked 60000 ms",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1 → 0, offsets 10-19",
        source="Kafka: KafkaApis (acquisition_lock_timeout_ms)",
        blame=(),
        verdicts=NOTES,
        rationed=1,
        machine=IN_FLIGHT,
        checks=(Check(lock_changed, trigger=RELOCKED, about=Acquiring),),
    ),
)
