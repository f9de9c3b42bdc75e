"""Records that reached their delivery limit and are not delivered again. Rules 79 and 80."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.bases import DELIVERY_LIMIT, LOCK_DURATION, NO_MEMBER
from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.facts.releases import agreed
from kshark.analysis.facts.settings import Value
from kshark.analysis.rules.refusals import named_ranges, offsets_text
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import GIVEN_UP
from kshark.analysis.states.partition.records_in_flight import Piece
from kshark.analysis.states.partition.situations import Acquiring
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import LEAST_LIMIT

#: Texts for the ways in which a delivery ended.
_HOW: Final = {
    "released": "released it with {by.here} ({by.packets})",
    "lock_timeout": "let its lock expire",
    "session_released": "lost it when the session ended",
}


def given_up_after_last_delivery(situation: Acquiring) -> Argument | None:
    """Records were not processed in their last delivery."""
    given_up = _at_limit(situation)
    if not given_up:
        return None
    record = given_up[0].value[0]
    last, limit = _last_delivery(given_up[0]), _limit(situation, given_up[0])
    same = [piece for piece in given_up if _last_delivery(piece) is last]
    rest = [piece for piece in given_up if _last_delivery(piece) is not last]
    shown = f" (the limit of the group is {limit.number}: packet {limit.packet})" if limit is not None else ""

    def text() -> str:
        others = f"; the same is true for {named_ranges(rest)}" if rest else ""
        return (
            f"{named_ranges(same)} of partition {situation.share_partition.partition[1]}: member {last.member_id} "
            f"received the last delivery, number {record.count}{shown}, with {last.here} ({last.packets}), and "
            f"{_HOW[record.how].format(by=record.by)}; {situation.step.here} receives "
            f"{offsets_text(*situation.ranges[0][:2])} instead ({situation.step.packets}){others}"
        )

    return _argument(situation, given_up, text, *([record.by] if record.by else []))


def last_delivered_together(situation: Acquiring) -> Argument | None:
    """Records had their last delivery in one answer, from a broker that should deliver each alone."""
    given_up = _at_limit(situation)
    if not given_up or not agreed(situation.session.releases, "delivers_last_alone"):
        return None
    for piece in given_up:
        last, count = _last_delivery(piece), piece.value[0].count or 0
        together = [other for other in given_up if _last_delivery(other) is last]
        if count > LEAST_LIMIT and sum(other.size for other in together) > 1:
            text = (
                f"{named_ranges(together)} of partition {situation.share_partition.partition[1]}: all had their last "
                f"delivery, number {count}, with {last.here} ({last.packets}), so a bad record makes the group "
                "lose the others"
            )
            return _argument(situation, together, text)
    return None


def _at_limit(situation: Acquiring) -> list[Piece]:
    """Return the records that were given up, without those that a shown limit of their group would deliver again."""
    return [
        piece
        for piece in situation.given_up
        if (limit := _limit(situation, piece)) is None or (piece.value[0].count or 0) >= limit.number
    ]


def _limit(situation: Acquiring, piece: Piece) -> Value | None:
    """Return the group's own delivery limit, if the capture shows it before the last delivery of the records."""
    limit = situation.session.broker.shown_of_group(DELIVERY_LIMIT, situation.step.group_id)
    return limit if limit is not None and limit.packet < _last_delivery(piece).packet else None


def _last_delivery(piece: Piece) -> ShareStep:
    hold = piece.value[0].hold
    assert hold is not None
    return hold.step


def _argument(
    situation: Acquiring, pieces: Sequence[Piece], text: str | Callable[[], str], *between: ShareStep
) -> Argument:
    offsets = pieces[0].first, pieces[-1].last
    witness = (_last_delivery(pieces[0]), *between, situation.step)
    return Argument(text, witness, EXCHANGE, partition=situation.share_partition.partition, offsets=offsets)


ROWS: Final = (
    Rule(
        number=79,
        code="POISON_RECORD",
        text="Records reached the delivery limit of the group without being processed. They are not delivered again.",
        weight=86,
        advice="Find out why consumers release these records or let their locks expire. The records are lost to the "
        "group, or are in its dead-letter queue (Kafka 4.4; kshark deliveries --offset N shows where). Reject "
        "records that cannot be processed. Raise share.delivery.count.limit only where another attempt helps.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-0, delivery 5; ShareAcknowledge epoch 1, release 0-0 → 0; 31000 ms "
        "later; ShareFetch epoch 2 → 0, offsets 1-9",
        right="ShareFetch epoch 0 → 0, offsets 0-0, delivery 5; ShareAcknowledge epoch 1, reject 0-0 → 0; ShareFetch "
        "epoch 2 → 0, offsets 1-9",
        source="Kafka: InFlightState.tryUpdateState (group.share.delivery.count.limit)",
        rests_on=(DELIVERY_LIMIT, LOCK_DURATION, NO_MEMBER),
        blame=(),
        verdicts=NOTES,
        rationed=10,
        machine=IN_FLIGHT,
        checks=(Check(given_up_after_last_delivery, trigger=GIVEN_UP, about=Acquiring),),
    ),
    Rule(
        number=80,
        code="LAST_ATTEMPT_NOT_ALONE",
        text="Records had their last delivery together with others. Brokers of 4.2 and later deliver each record "
        "alone in its last attempt.",
        advice="Process the records one by one outside the group: records delivered together with a bad one may be "
        "good.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-4, delivery 5; ShareAcknowledge epoch 1, release 0-4 → 0; 31000 ms "
        "later; ShareFetch epoch 2 → 0, offsets 5-9",
        right="ShareFetch epoch 0 → 0, offsets 0-0, delivery 5; ShareAcknowledge epoch 1, release 0-0 → 0; 31000 ms "
        "later; ShareFetch epoch 2 → 0, offsets 1-4, delivery 4",
        source="Kafka: SharePartition.acquireSubsetBatchRecords",
        rests_on=(DELIVERY_LIMIT, NO_MEMBER),
        blame=(),
        verdicts=NOTES,
        rationed=10,
        machine=IN_FLIGHT,
        checks=(Check(last_delivered_together, trigger=GIVEN_UP, about=Acquiring),),
    ),
)
