"""Records that nobody gets any more, because nobody was done with them in as many deliveries as there may be. Rules 79
and 80."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.calls import Step
from kshark.analysis.facts.releases import agreed
from kshark.analysis.rules.refusals import named_ranges, offsets_text
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import GIVEN_UP
from kshark.analysis.states.partition.records_in_flight import Piece
from kshark.analysis.states.partition.situations import Acquiring
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import LEAST_LIMIT

#: How a member was rid of records again.
_HOW: Final = {
    "released": "released it with {by.here} ({by.packets})",
    "lock_timeout": "let its lock run out",
    "session_released": "left it when the session ended",
}


def given_up_after_last_delivery(situation: Acquiring) -> Argument | None:
    """Records were given back after their last delivery."""
    if not situation.given_up:
        return None
    record = situation.given_up[0].value[0]
    last = _last_delivery(situation.given_up[0])
    same = [piece for piece in situation.given_up if _last_delivery(piece) is last]
    rest = [piece for piece in situation.given_up if _last_delivery(piece) is not last]

    def text() -> str:
        others = f"; the same goes for {named_ranges(rest)}" if rest else ""
        return (
            f"{named_ranges(same)} of partition {situation.share_partition.partition[1]}: member {last.member_id} had "
            f"the last delivery, number {record.count}, with {last.here} ({last.packets}), and "
            f"{_HOW[record.how].format(by=record.by)}; {situation.step.here} is handed "
            f"{offsets_text(*situation.handed[0][:2])} instead ({situation.step.packets}){others}"
        )

    return _argument(situation, situation.given_up, text, *([record.by] if record.by else []))


def last_delivered_together(situation: Acquiring) -> Argument | None:
    """Records that were delivered for the last time in one answer, by a broker that delivers each alone then."""
    if not situation.given_up or not agreed(situation.session.releases, "delivers_last_alone"):
        return None
    for piece in situation.given_up:
        last, count = _last_delivery(piece), piece.value[0].count or 0
        together = [one for one in situation.given_up if _last_delivery(one) is last]
        if count > LEAST_LIMIT and sum(one.size for one in together) > 1:
            text = (
                f"{named_ranges(together)} of partition {situation.share_partition.partition[1]}: all had their last "
                f"delivery, number {count}, with {last.here} ({last.packets}), so one that cannot be processed costs "
                "the others"
            )
            return _argument(situation, together, text)
    return None


def _last_delivery(piece: Piece) -> Step:
    hold = piece.value[0].hold
    assert hold is not None
    return hold.step


def _argument(situation: Acquiring, pieces: Sequence[Piece], text: str | Callable[[], str], *between: Step) -> Argument:
    offsets = pieces[0].first, pieces[-1].last
    witness = (_last_delivery(pieces[0]), *between, situation.step)
    return Argument(text, witness, EXCHANGE, partition=situation.share_partition.partition, offsets=offsets)


ROWS: Final = (
    Rule(
        number=79,
        code="POISON_RECORD",
        text="Records were delivered as often as a group may try, nobody was done with them, and they are not "
        "delivered any more.",
        advice="Find out why consumers give these records back or let their locks run out: they are lost to the "
        "group, or lie in its dead-letter queue (Kafka 4.4; kshark deliveries --offset N says where). Reject "
        "what cannot be processed, and raise share.delivery.count.limit only where trying again helps.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-0, delivery 5; ShareAcknowledge epoch 1, release 0-0 → 0; 31000 ms "
        "later; ShareFetch epoch 2 → 0, offsets 1-9",
        right="ShareFetch epoch 0 → 0, offsets 0-0, delivery 5; ShareAcknowledge epoch 1, reject 0-0 → 0; ShareFetch "
        "epoch 2 → 0, offsets 1-9",
        source="Kafka: InFlightState.tryUpdateState (group.share.delivery.count.limit)",
        blame=(),
        verdicts=NOTES,
        rationed=10,
        machine=IN_FLIGHT,
        checks=(Check(given_up_after_last_delivery, trigger=GIVEN_UP, about=Acquiring),),
    ),
    Rule(
        number=80,
        code="LAST_ATTEMPT_NOT_ALONE",
        text="Records were delivered for the last time together with others: brokers of 4.2 and later deliver each "
        "alone then.",
        advice="Process the records one by one outside the group: those that came together with a bad one may be good.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-4, delivery 5; ShareAcknowledge epoch 1, release 0-4 → 0; 31000 ms "
        "later; ShareFetch epoch 2 → 0, offsets 5-9",
        right="ShareFetch epoch 0 → 0, offsets 0-0, delivery 5; ShareAcknowledge epoch 1, release 0-0 → 0; 31000 ms "
        "later; ShareFetch epoch 2 → 0, offsets 1-4, delivery 4",
        source="Kafka: SharePartition.acquireSubsetBatchRecords",
        blame=(),
        verdicts=NOTES,
        rationed=10,
        machine=IN_FLIGHT,
        checks=(Check(last_delivered_together, trigger=GIVEN_UP, about=Acquiring),),
    ),
)
