"""What records may be in once a leader has stored what they are in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kshark.analysis.facts.calls import Step
from kshark.analysis.facts.releases import Release, all_say
from kshark.analysis.states.partition.records_in_flight import TIMER_NS, May, Record, Stored, is_done
from kshark.analysis.states.tables.in_flight import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE
from kshark.offset_ranges import OffsetRanges

#: The word for records that are stored in a state which the capture does not explain.
UNEXPLAINED: Final = "stored"
#: The word for records that have left for a dead-letter queue (KIP-1191).
_ARCHIVED: Final = "archived"


def settled(
    may: May, stored: Stored, sent_ns: int, time_ns: int, releases: frozenset[Release], *, is_late: bool
) -> tuple[May, str | None, Step | None]:
    """What is left of what records may be in; the word for what that shows to have happened to them, and the request
    that held them.

    The write was sent and answered at two times; `releases` may be its leader's. `is_late`: it may be of what was
    handed out before its leader began anew."""
    agreeing = tuple(
        [one for one in may if one.stage is stored.stage and (one.count is None or one.count == stored.deliveries)]
    )
    if len(agreeing) == len(may) or (not agreeing and is_done(may)):
        return may, None, None  # a broker that read the state anew may still write what it knew before
    if agreeing:
        told = agreeing[0].by is None or agreeing[0].how == "session_released"
        return agreeing, agreeing[0].how if told else None, may[0].by
    is_old = stored.stage is AVAILABLE and all(_is_later(one, stored) for one in may)
    if is_old and all_say(releases, "release_uncounts") is False:
        return may, None, None  # no session that ended has taken its delivery back: an earlier one was stored late
    held = may[0]
    if (
        held.stage is ARCHIVING
        and len(may) == 1
        and stored.stage is ARCHIVED
        and held.count in (None, stored.deliveries)
    ):
        return (Record(ARCHIVED, stored.deliveries, held.hold, held.by, held.how),), _ARCHIVED, None
    how = UNEXPLAINED  # somebody else acquired them, and the capture lacks that
    if held.stage is ACQUIRED and held.hold is not None and stored.deliveries <= (held.count or 0):
        how = "lock_timeout" if time_ns >= held.hold.early_ns else "session_released"
    now = Record(stored.stage, stored.deliveries, held.hold, None, how)
    if is_late or is_old or any(one.by is not None and one.by.end_ns > sent_ns - TIMER_NS for one in may):
        return (*may, now), None, None  # what is stored may be older than what is known
    return (now,), None if how == UNEXPLAINED else how, None if held.hold is None else held.hold.step


def keep_stored(records: OffsetRanges[May], step: Step, stored: Iterable[Stored]) -> None:
    """Records that a request has just given back or was done with are in what their leader had stored before it
    answered.

    One that was released for the last time, or rejected, may be on its way to a dead-letter queue.
    """
    for one in stored:
        for first, last, may in records.over(one.first, one.last) if one.stage is not ACKNOWLEDGED else ():
            held = may[0]
            is_known = len(may) == 1 and held.stage in (one.stage, ACQUIRED, ACKNOWLEDGED)
            if not is_known and all(record.by is step and record.count in (None, one.deliveries) for record in may):
                records.put(first, last, (Record(one.stage, one.deliveries, held.hold, step, held.how),))


def _is_later(record: Record, stored: Stored) -> bool:
    """Whether it was delivered once more behind the delivery whose end was stored."""
    return record.count is not None and record.count > stored.deliveries
