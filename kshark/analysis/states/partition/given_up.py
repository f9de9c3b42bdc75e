"""Records that are never delivered again: they were given back after their last delivery attempt (Kafka:

InFlightState.tryUpdateState).
"""

from __future__ import annotations

from operator import itemgetter

from kshark.analysis.states.partition.last_attempts import LastAttempt
from kshark.analysis.states.partition.records_in_flight import Piece, RecordState
from kshark.analysis.states.partition.share_partition import SharePartition
from kshark.analysis.states.tables.in_flight import ACQUIRED, ARCHIVED, GIVEN_BACK, LEAST_LIMIT


def given_up(partition: SharePartition, first: int, since_ns: int) -> list[Piece]:
    """Return the records that are certainly given up when a fetch of `since_ns` acquires records from `first` on.

    Each record is returned once. One of these must be true:
    - The share coordinator stores the record as archived, or the start offset is above it.
    - The record is below `first`, and has been free for longer than an unseen lock lasts. Brokers deliver the lowest
      offsets first. If members outside the capture fetched from the partition, offsets would be missing here.
    """
    pieces: list[Piece] = []
    certain, waiting, looked = [], [], -1
    for attempt in sorted(partition.last_attempts.ranges, key=itemgetter(0)):
        if _still_waits(partition, attempt, first, since_ns):
            waiting.append(attempt)
        else:
            pieces += partition.over(max(attempt.first, looked + 1), attempt.last, since_ns, since_ns)
            looked = max(looked, attempt.last)
    for piece in pieces:
        archived = [record for record in piece.value if _is_given_up(record, partition.highest)]
        if not archived or any(record.stage is ACQUIRED for record in piece.value):
            continue
        is_done = partition.start is not None and piece.last < partition.start
        free_ns = _free_since_ns(archived[0])
        if is_done or len(archived) == len(piece.value):
            certain.append(piece._replace(value=tuple(archived)))
        elif piece.last >= first or free_ns >= since_ns:
            waiting.append(_looked_at(partition, piece, free_ns))
        elif partition.records.is_gapless():
            certain.append(piece._replace(value=tuple(archived)))
    if looked >= 0:
        partition.last_attempts.keep(sorted(waiting, key=itemgetter(0)))
    return certain


def _still_waits(partition: SharePartition, attempt: LastAttempt, first: int, since_ns: int) -> bool:
    """True if nothing changed since the last check."""
    if attempt.may is None or (partition.start is not None and attempt.last < partition.start):
        return False
    return (attempt.last >= first or attempt.free_ns >= since_ns) and partition.records.is_whole(
        attempt.first, attempt.last, attempt.may
    )


def _looked_at(partition: SharePartition, piece: Piece, free_ns: int) -> LastAttempt:
    """Return the attempt to check again after a change, or at every call if a member may still have the records."""
    may = partition.records.at(piece.first)
    if may is None or any(record.stage is ACQUIRED for record in may):
        return LastAttempt(piece.first, piece.last)
    return LastAttempt(piece.first, piece.last, may, free_ns)


def _is_given_up(record: RecordState, most: int) -> bool:
    """True if the record was archived after the highest number of deliveries."""
    if record.stage is not ARCHIVED or record.hold is None or record.how not in GIVEN_BACK:
        return False
    return record.count is not None and record.count >= max(most, LEAST_LIMIT)


def _free_since_ns(record: RecordState) -> int:
    """Return the time since which the record is certainly free: an unseen later lock would have expired by then."""
    hold = record.hold
    assert hold is not None
    return hold.lock_ns + (hold.late_ns if record.by is None else record.by.end_ns)
