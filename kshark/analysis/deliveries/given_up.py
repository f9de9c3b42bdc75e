"""Records that nobody gets any more: given back after the last delivery that they may have (Kafka: InFlightState.tryUpdateState)."""

from __future__ import annotations

from operator import itemgetter

from kshark.analysis.deliveries.records_in_flight import Piece, Record
from kshark.analysis.deliveries.share_partition import SharePartition
from kshark.analysis.machines.in_flight import ACQUIRED, ARCHIVED, GIVEN_BACK, LEAST_LIMIT


def given_up(partition: SharePartition, first: int, since_ns: int) -> list[Piece]:
    """Those of which one knows when records from `first` on are handed out to a fetch sent at `since_ns`; each is told once.

    Either their share coordinator has them stored as archived, or the start offset is behind them. Or they come before `first`, though
    brokers hand out what is first, and have been free for longer than anybody could have held them unseen. Of a partition that members
    outside the capture fetch from, offsets would be missing here.
    """
    found, waiting = [], []
    pieces = [piece for one in partition.worn.ranges for piece in partition.over(*one, since_ns, since_ns)]
    for piece in pieces if len(pieces) == 1 else sorted(set(pieces), key=itemgetter(0)):
        archived = [one for one in piece.value if _is_given_up(one, partition.highest)]
        if not archived or any(one.stage is ACQUIRED for one in piece.value):
            continue
        is_done = partition.start is not None and piece.last < partition.start
        if is_done or len(archived) == len(piece.value):
            found.append(piece._replace(value=tuple(archived)))
        elif piece.last >= first or _free_since_ns(archived[0]) >= since_ns:
            waiting.append((piece.first, piece.last))
        elif not partition.records.gaps(partition.records.first or 0, partition.records.last or 0):
            found.append(piece._replace(value=tuple(archived)))
    partition.worn.keep(waiting)
    return found


def _is_given_up(record: Record, most: int) -> bool:
    """Whether it was given back after as many deliveries as any, and archived."""
    if record.stage is not ARCHIVED or record.hold is None or record.how not in GIVEN_BACK:
        return False
    return record.count is not None and record.count >= max(most, LEAST_LIMIT)


def _free_since_ns(record: Record) -> int:
    """When it was free for certain, and whoever got it unseen then would have lost it again."""
    hold = record.hold
    assert hold is not None
    return hold.lock_ns + (hold.late_ns if record.by is None else record.by.end_ns)
