"""Rules 75 to 78 and 86: the delivery counts of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.bases import (
    DELIVERY_LIMIT,
    MOST_DELIVERIES,
    NO_CONNECTION,
    NO_LEADER,
    NO_MEMBER,
    QUOTA,
    Shown,
)
from kshark.analysis.facts.calls import FAILED_LATER, ShareStep
from kshark.analysis.facts.known import NOTHING_HIDDEN
from kshark.analysis.facts.releases import Release
from kshark.analysis.facts.settings import Value
from kshark.analysis.rules.deliveries import acquisition_argument, redelivery_argument
from kshark.analysis.rules.rule import NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import AGAIN, ANEW, UNDUE
from kshark.analysis.states.partition.group_records import may_have_acquired
from kshark.analysis.states.partition.records_in_flight import AcquiredRange, Piece
from kshark.analysis.states.partition.situations import Acquiring
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import AVAILABLE

#: The highest delivery count limit that a broker accepts in its configuration: until 4.2 one for all groups, later one
#: per group (group.share.delivery.count.limit).
_HIGHEST_LIMIT: Final = {Release.V4_0: 10, Release.V4_1: 10, Release.V4_2: 25, Release.V4_4: 25}
#: Releases without a limit for each group.
_HAVE_ONE_LIMIT: Final = frozenset({Release.V4_0, Release.V4_1})
#: Events after which a leader knows only the stored state of the records, in words.
_STARTED_ANEW: Final = {
    "leader_moved": "the partition's leader has changed",
    "broker_restart": "the broker was restarted",
    "read": "the leader has read their stored state",
}


def counted_wrongly(situation: Acquiring) -> Argument | None:
    """Report a count that stays the same, or that skips numbers because deliveries are missing in the capture."""
    for range_, piece, counts in _counted(situation):
        hold = piece.value[0].hold
        if range_.number in counts:
            if hold is None or any(record.how == "session_released" for record in piece.value):
                continue
            text = _count(range_.number, range_.number)
            return redelivery_argument(situation, piece, hold.step, text, may_move=not _is_stored(piece))
        if range_.number > max(counts) + 1 and _lost(situation, piece) is None:
            text, before = _count(range_.number, max(counts)), () if hold is None else (hold.step,)
            return acquisition_argument(situation, piece, text, before, needs=EXCHANGE.knowing(NOTHING_HIDDEN))
    return None


def counted_back(situation: Acquiring) -> Argument | None:
    """Report a count that goes down."""
    for range_, piece, counts in _counted(situation):
        hold = piece.value[0].hold
        if hold is None or range_.number > min(counts):
            continue
        text = _count(range_.number, min(counts))
        if range_.number < min(counts) and all(record.how != "session_released" for record in piece.value):
            return redelivery_argument(situation, piece, hold.step, text, may_move=not _is_stored(piece))
    return None


def counted_anew(situation: Acquiring) -> Argument | None:
    """Note a count that goes down because the leader knows only stored counts; not every delivery is stored."""
    earlier, why = situation.share_partition.earlier or (None, "")
    if earlier is None or why not in _STARTED_ANEW:
        return None
    for range_ in situation.ranges:
        for piece in earlier.over(range_.first, range_.last):
            record = piece.value[0]
            if len(piece.value) != 1 or record.hold is None or record.count is None:
                continue
            if record.count >= range_.number:
                text = f"{_count(range_.number, record.count)}: {_STARTED_ANEW[why]}"
                return acquisition_argument(situation, piece, text, (record.hold.step,), noted=True)
    return None


def counted_none(situation: Acquiring) -> Argument | None:
    """Report a count below 1."""
    for range_ in situation.ranges:
        if range_.number < 1:
            return acquisition_argument(situation, range_, _count(range_.number))
    return None


def counted_too_many(situation: Acquiring) -> Argument | None:
    """Report a count above the highest limit that the broker accepts in its configuration."""
    most = max(_HIGHEST_LIMIT[release] for release in situation.session.releases)
    for range_ in situation.ranges:
        if range_.number > most:
            text = f"{_count(range_.number)}, and the highest possible limit is {most}"
            return acquisition_argument(situation, range_, text)
    return _counted_beyond_setting(situation)


def _counted_beyond_setting(situation: Acquiring) -> Argument | None:
    """Report another delivery by the broker whose limit, as the capture shows it, the one before had reached.

    After a lower limit is set, records that are available are delivered once more (KIP-1240). So the limit must not
    have changed since the delivery before: it is read-only, and the connection has been open all the time. A group's
    own limit may be raised outside the capture, so it never proves it.
    """
    broker, releases = situation.session.broker, situation.session.releases
    most = broker.shown(DELIVERY_LIMIT if releases <= _HAVE_ONE_LIMIT else MOST_DELIVERIES)
    own = None if releases <= _HAVE_ONE_LIMIT else broker.shown_of_group(DELIVERY_LIMIT, situation.step.group_id)
    limits = [limit for limit in (most, own) if limit is not None]
    return next((found for limit in limits if (found := _counted_beyond(situation, limit)) is not None), None)


def _counted_beyond(situation: Acquiring, limit: Value) -> Argument | None:
    step, broker = situation.step, situation.session.broker
    above = [range_ for range_ in situation.ranges if range_.number > limit.number]
    again = [(range_, piece) for range_ in above for piece in range_.pieces]
    for acquired, piece in again:
        hold = piece.value[0].hold
        is_next = all(record.count == acquired.number - 1 for record in piece.value)
        if hold is None or not is_next or hold.step.connection.broker is not broker:
            continue
        since = min(limit.packet, hold.step.packet)
        if limit.is_of_group and limit.packet > hold.step.packet:
            continue
        is_same = limit.is_read_only and step.connection.flow.first_packet < since
        count = _count(acquired.number, acquired.number - 1)
        whose = "the limit of the group" if limit.is_of_group else "the limit"
        text = f"{count}, and {whose} is {limit.number} (packet {limit.packet})"
        return redelivery_argument(situation, piece, hold.step, text, grounds=(Shown(DELIVERY_LIMIT, is_same),))
    return None


def acquired_by_lost_fetch(situation: Acquiring) -> Argument | None:
    """Note records that were acquired before for a fetch whose answer delivered none of them."""
    for range_ in situation.ranges:
        for piece in range_.pieces or (Piece(range_.first, range_.last, ()),):
            deliveries = _seen(situation, range_, piece)
            lost = None if deliveries is None or range_.number <= deliveries + 1 else _lost(situation, piece)
            if deliveries is not None and lost is not None:
                text = f"{_count(range_.number, deliveries)}: {lost.here} {_why_lost(lost)} ({lost.packets})"
                return acquisition_argument(situation, piece, text, (lost,), noted=True)
    return None


# -- deliveries before


def _is_stored(piece: Piece) -> bool:
    """True if the share coordinator has the count: the member released the records, and got an answer."""
    return all(record.how == "released" and record.by is not None for record in piece.value)


def _counted(situation: Acquiring) -> Iterator[tuple[AcquiredRange, Piece, list[int]]]:
    """Yield records that are available again, with their possible delivery counts, if this delivery contradicts these.

    If the leader stored their state while the answer was on its way, the state may include this very delivery and its
    end: then records whose last acknowledgement is unknown are left out.
    """
    _, by = situation.share_partition.stored or (0, None)
    was_stored = by is not None and by.call.end > situation.step.packet
    for range_ in situation.ranges:
        for piece in range_.pieces:
            if AVAILABLE not in [record.stage for record in piece.value]:
                continue
            if was_stored and any(record.by is None for record in piece.value):
                continue
            counts = [record.count for record in piece.value if record.count is not None]
            if len(counts) == len(piece.value) and range_.number - 1 not in counts:
                yield range_, piece, counts


def _seen(situation: Acquiring, range_: AcquiredRange, piece: Piece) -> int | None:
    """Return the number of deliveries of the records in the capture, or None if it is unknown."""
    end = situation.share_partition.end
    if not piece.value:
        return 0 if end is not None and range_.first >= end else None  # after all records acquired so far
    if any(record.count is None for record in piece.value):
        return None
    # stored counts are of deliveries that are in no captured answer
    return max(0 if record.how == "stored" else record.count or 0 for record in piece.value)


def _lost(situation: Acquiring, piece: Piece) -> ShareStep | None:
    """Return a fetch since the last delivery that may have acquired the records and delivered none.

    A fetch whose answer shows that comes before one without an answer.
    """
    holds = [(record.hold.step.end, record.hold.step.end_ns) for record in piece.value if record.hold is not None]
    since = max(holds, default=(situation.share_partition.known.since, 0))
    fetches = (
        fetch
        for fetch in situation.lost_fetches
        if fetch.packet < situation.answer.packet and fetch is not situation.step and may_have_acquired(fetch, *since)
    )
    return min(fetches, key=lambda fetch: (fetch.answer is None, fetch.packet), default=None)


# -- words


def _count(count: int, before: int | None = None) -> str:
    """`their delivery count is 4, after 2`; `before` 0: no earlier delivery was seen."""
    after = "" if before is None else f", after {before}" if before else ", and no earlier delivery was seen"
    return f"their delivery count is {count}{after}"


def _why_lost(lost: ShareStep) -> str:
    answer = lost.answer
    if answer is None or answer.throttled:
        return "was not answered" if answer is None else "was throttled"
    return "was counted, then failed" if lost.reply is FAILED_LATER else "was overtaken"


ROWS: Final = (
    Rule(
        number=75,
        code="DELIVERY_COUNT_JUMP",
        text="A delivery count does not follow the one before: a delivery was not captured, or was not counted.",
        act="skipped a delivery count",
        weight=75,
        must="While a partition keeps its leader, each delivery of a record raises its delivery count by one.",
        advice="Do not give up a record by its delivery_count alone: an uncounted delivery can repeat forever, and "
        "deliveries outside the capture use up the limit. Check whether the capture holds all members. Then report "
        "it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9, delivery 1; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 1; ShareFetch epoch 3 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9, delivery 1; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 2",
        source="Kafka: InFlightState.tryUpdateState",
        rests_on=(NO_MEMBER, NO_LEADER, NO_CONNECTION),
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
        act="lowered a delivery count",
        weight=75,
        must="While a partition keeps its leader, the delivery count of a record does not go down.",
        advice="If you may process a record only so many times, count the attempts yourself. After a leader change or "
        "a restart the broker knows only what was stored, and Kafka 4.1 lowers the count when a session ends. If "
        "neither happened, report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9, delivery 3; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 2; ShareFetch epoch 3 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9, delivery 3; ShareAcknowledge epoch 1, release 0-9 → 0; "
        "ShareFetch epoch 2 → 0, offsets 0-9, delivery 4",
        source="Kafka: SharePartition",
        rests_on=(NO_LEADER, NO_CONNECTION),
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
        act="sent a delivery count below 1",
        weight=85,
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
        act="sent a delivery count above every limit",
        weight=85,
        must="A record is delivered no more often than the limit: 5 times by default, and at most 25 times (10 before "
        "Kafka 4.3).",
        advice="If you cannot process a record, reject it instead of releasing it. Then you do not depend on the "
        "limit. Report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9, delivery 26",
        right="ShareFetch epoch 0 → 0, offsets 0-9, delivery 5",
        source="Kafka: GroupCoordinatorConfig (group.share.delivery.count.limit)",
        rests_on=(DELIVERY_LIMIT,),
        blame=("broker",),
        machine=IN_FLIGHT,
        checks=(Check(counted_too_many, trigger=UNDUE, about=Acquiring),),
    ),
    Rule(
        number=86,
        code="STRANDED_ACQUISITION",
        text="Records were acquired and locked for a fetch that delivered none. It was throttled, overtaken, not "
        "answered, or failed.",
        weight=33,
        advice="No records are lost: they are delivered again after their lock expires, but one delivery attempt is "
        "used up. Send one request per member at a time, wait longer for its answer than max_wait_ms, and check "
        "whether a quota throttles the client (throttle_time_ms above 0).",
        wrong="ShareFetch epoch 0 → 0, offsets 0-4; ShareFetch epoch 1 → …; A closes; 31000 ms later; "
        "on B: ShareFetch epoch 0 → 0, offsets 5-9, delivery 2",
        right="ShareFetch epoch 0 → 0, offsets 0-4; ShareFetch epoch 1 → 0, offsets 5-9",
        source="Kafka: KafkaApis.handleShareFetchRequest",
        rests_on=(QUOTA, NO_MEMBER),
        blame=(),
        verdicts=NOTES,
        machine=IN_FLIGHT,
        checks=(Check(acquired_by_lost_fetch, trigger=AGAIN, about=Acquiring),),
    ),
)
