"""How often records are said to have been delivered. Rules 75 to 78 and 86."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.calls import FAILED_LATER, Step
from kshark.analysis.facts.releases import Release
from kshark.analysis.rules.deliveries import acquisition_argument, redelivery_argument
from kshark.analysis.rules.rule import NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import AGAIN, ANEW, UNDUE
from kshark.analysis.states.partition.group_records import may_have_acquired
from kshark.analysis.states.partition.records_in_flight import AcquiredRange, Piece
from kshark.analysis.states.partition.situations import Acquiring
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import AVAILABLE

#: The highest delivery count limit that brokers can be told: until 4.2 for all groups, then for one
#: (group.share.delivery.count.limit).
_HIGHEST_LIMIT: Final = {Release.V4_0: 10, Release.V4_1: 10, Release.V4_2: 25, Release.V4_4: 25}
#: Behind these a leader knows of the records what was stored.
_STARTED_ANEW: Final = {
    "leader_moved": "the partition's leader has moved",
    "broker_restart": "the broker was started again",
    "read": "the leader has read what was stored of them",
}


def counted_wrongly(now: Acquiring) -> Argument | None:
    """The count stays, or leaves some out: deliveries that the capture does not hold."""
    for handed, piece, counts in _counted(now):
        if handed.number in counts:
            hold = piece.value[0].hold
            if hold is None or any(one.how == "session_released" for one in piece.value):
                continue
            return redelivery_argument(now, piece, hold.step, _count(handed.number, handed.number))
        if handed.number > max(counts) + 1 and _lost(now, piece) is None:
            hold = piece.value[0].hold
            text = _count(handed.number, max(counts))
            return acquisition_argument(
                now, piece, text, () if hold is None else (hold.step,), because="hidden_traffic"
            )
    return None


def counted_back(now: Acquiring) -> Argument | None:
    """The count goes back."""
    for handed, piece, counts in _counted(now):
        hold = piece.value[0].hold
        if hold is None or handed.number > min(counts):
            continue
        text = _count(handed.number, min(counts))
        if handed.number < min(counts) and all(one.how != "session_released" for one in piece.value):
            return redelivery_argument(now, piece, hold.step, text)
    return None


def counted_anew(now: Acquiring) -> Argument | None:
    """The leader knows them as they were stored, and not every delivery is."""
    earlier, why = now.share_partition.earlier or (None, "")
    if earlier is None or why not in _STARTED_ANEW:
        return None
    for handed in now.handed:
        for piece in earlier.over(handed.first, handed.last):
            one = piece.value[0]
            if len(piece.value) == 1 and one.hold is not None and one.count is not None and one.count >= handed.number:
                text = f"{_count(handed.number, one.count)}: {_STARTED_ANEW[why]}"
                return acquisition_argument(now, piece, text, (one.hold.step,), noted=True)
    return None


def counted_none(now: Acquiring) -> Argument | None:
    """A count that no delivery can have."""
    for handed in now.handed:
        if handed.number < 1:
            return acquisition_argument(now, handed, _count(handed.number))
    return None


def counted_too_many(now: Acquiring) -> Argument | None:
    """More deliveries than the highest limit that the broker can have been told."""
    most = max(_HIGHEST_LIMIT[release] for release in now.session.releases)
    for handed in now.handed:
        if handed.number > most:
            return acquisition_argument(now, handed, f"{_count(handed.number)}, and no limit is above {most}")
    return None


def acquired_by_lost_fetch(now: Acquiring) -> Argument | None:
    """They were acquired before for a fetch that handed out none of them."""
    for handed in now.handed:
        for piece in handed.pieces or (Piece(handed.first, handed.last, ()),):
            seen = _seen(now, handed, piece)
            lost = None if seen is None or handed.number <= seen + 1 else _lost(now, piece)
            if seen is not None and lost is not None:
                text = f"{_count(handed.number, seen)}: {lost.here} {_why_lost(lost)} ({lost.packets})"
                return acquisition_argument(now, piece, text, (lost,), noted=True)
    return None


# -- what is known


def _counted(now: Acquiring) -> Iterator[tuple[AcquiredRange, Piece, list[int]]]:
    """Records that are available again, and how often they may have been delivered; not those of which somebody may
    have stored this very delivery, and that it is over, while the answer was under way."""
    _, by = now.share_partition.stored or (0, None)
    was_stored = by is not None and by.call.end > now.step.packet
    for handed in now.handed:
        for piece in handed.pieces:
            if AVAILABLE not in [one.stage for one in piece.value] or (
                was_stored and any(one.by is None for one in piece.value)
            ):
                continue
            counts = [one.count for one in piece.value if one.count is not None]
            if len(counts) == len(piece.value) and handed.number - 1 not in counts:
                yield handed, piece, counts


def _seen(now: Acquiring, handed: AcquiredRange, piece: Piece) -> int | None:
    """How many deliveries of the records were seen; None where that is not known."""
    end = now.share_partition.end
    if not piece.value:
        return 0 if end is not None and handed.first >= end else None  # behind all that were acquired so far
    if any(one.count is None for one in piece.value):
        return None
    return max(
        0 if one.how == "stored" else one.count or 0 for one in piece.value
    )  # stored, and handed out by no answer


def _lost(now: Acquiring, piece: Piece) -> Step | None:
    """A fetch since the last delivery that may have acquired the records and handed out none; rather one whose answer
    shows that."""
    holds = [(one.hold.step.end, one.hold.step.end_ns) for one in piece.value if one.hold is not None]
    since = max(holds, default=(now.share_partition.doubt[0], 0))
    others = (
        one
        for one in now.stranded
        if one.packet < now.answer.packet and one is not now.step and may_have_acquired(one, *since)
    )
    return min(others, key=lambda one: (one.answer is None, one.packet), default=None)


# -- words


def _count(count: int, before: int | None = None) -> str:
    """What the delivery's number is, and what that of the one before was (0: there was none)."""
    after = "" if before is None else f", after number {before}" if before else ", and none was seen before"
    return f"their delivery is number {count}{after}"


def _why_lost(lost: Step) -> str:
    answer = lost.answer
    if answer is None or answer.throttled:
        return "was not answered" if answer is None else "was throttled"
    return "failed behind the session" if lost.reply is FAILED_LATER else "was overtaken"


ROWS: Final = (
    Rule(
        number=75,
        code="DELIVERY_COUNT_JUMP",
        text="A delivery count does not follow the one before: a delivery was not captured, or was not counted.",
        must="While a partition keeps its leader, each delivery of a record raises its delivery count by one.",
        advice="Do not give up a record by its delivery_count alone: an uncounted delivery can repeat forever, and "
        "deliveries outside the capture use up the limit. Check whether the capture holds all members. Then report "
        "it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9, delivery 1; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 1; ShareFetch epoch 3 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9, delivery 1; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 2",
        source="Kafka: InFlightState.tryUpdateState",
        tickets=("KAFKA-17541", "KAFKA-19972"),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(counted_wrongly, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=76,
        code="DELIVERY_COUNT_REGRESSION",
        text="A delivery count went down. After a leader change the broker knows only stored counts, and not every "
        "delivery is stored.",
        must="While a partition keeps its leader, the delivery count of a record does not go down.",
        advice="If you may process a record only so many times, count the attempts yourself. After a leader change or "
        "a restart the broker knows only what was stored, and Kafka 4.1 lowers the count when a session ends. If "
        "neither happened, report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9, delivery 3; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 2; ShareFetch epoch 3 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9, delivery 3; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 4",
        source="Kafka: SharePartition",
        tickets=("KAFKA-17541", "KAFKA-19972"),
        blame=("broker",),
        verdicts=NOTES_TOO,
        machine=IN_FLIGHT,
        checks=(
            Check(counted_back, trigger=UNDUE, about=Acquiring),
            Check(counted_anew, trigger=ANEW, about=Acquiring),
        ),
    ),
    Rule(
        number=77,
        code="DELIVERY_COUNT_INVALID",
        text="A delivery count is below 1.",
        must="The first delivery of a record has delivery count 1.",
        advice="Treat such a record as delivered for the first time. Report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9, delivery 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9, delivery 1",
        source="Kafka: InFlightState.tryUpdateState",
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(counted_none, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=78,
        code="DELIVERY_COUNT_OVER_LIMIT",
        text="A delivery count is above every limit that the broker can be configured with.",
        must="A record is delivered no more often than the limit: 5 times by default, and at most 25 times (10 before "
        "Kafka 4.3).",
        advice="If you cannot process a record, reject it instead of releasing it. Then you do not depend on the "
        "limit. Report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9, delivery 26",
        right="ShareFetch epoch 0 → 0, offsets 0-9, delivery 5",
        source="Kafka: GroupCoordinatorConfig (group.share.delivery.count.limit)",
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(counted_too_many, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=86,
        code="STRANDED_ACQUISITION",
        text="Records were acquired and locked for a fetch that delivered none: it was throttled, overtaken, not "
        "answered, or failed.",
        advice="No records are lost: they are delivered again after their lock expires, but one delivery attempt is "
        "used up. Send one request per member at a time, wait longer for its answer than max_wait_ms, and check "
        "whether a quota throttles the client (throttle_time_ms above 0).",
        wrong="ShareFetch epoch 0 → 0, offsets 0-4; ShareFetch epoch 1 → …; A closes; 31000 ms later; "
        "on B: ShareFetch epoch 0 → 0, offsets 5-9, delivery 2",
        right="ShareFetch epoch 0 → 0, offsets 0-4; ShareFetch epoch 1 → 0, offsets 5-9",
        source="Kafka: KafkaApis.handleShareFetchRequest",
        blame=(),
        verdicts=NOTES,
        machine=IN_FLIGHT,
        checks=(Check(acquired_by_lost_fetch, trigger=AGAIN, about=Acquiring),),
    ),
)
