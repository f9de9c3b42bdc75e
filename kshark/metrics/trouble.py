"""Why a member gets no records: the outcomes of its fetches since its last records, and who has the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from kshark.analysis import WaitingGroup
from kshark.error_names import ERROR_NAMES
from kshark.metrics.counts import FAILED, UNANSWERED, UNREAD, MemberCounts, PartitionCounts, PartitionId

#: A member that had records lacks them after this time and this number of fetches.
_LONG_NS: Final = 2_000_000_000
_OFTEN: Final = 3
#: One failure in this many is worth a sentence.
_MANY: Final = 10
#: Most partitions, and errors, in a sentence.
_NAMED: Final = 3
#: The sentence about fetches ({0}) and their errors ({1}), by outcome.
_FAILING: Final = {
    FAILED: "{0} failed with {1}",
    UNANSWERED: "the capture has no response to {0}",
    UNREAD: "the capture has no complete response to {0}",
}


def trouble_of(
    member_id: str | None,
    counts: MemberCounts,
    partitions: Mapping[PartitionId, PartitionCounts],
    members: Mapping[str | None, MemberCounts],
    names: Mapping[str, str],
) -> str | None:
    """Return a sentence without its full stop; None if the member gets records, or if no reason is known.

    `partitions` and `members` are those of its group; `names`: topic names by id.
    """
    since_ns, asked_ns = counts.drought.since_ns, counts.last_fetch.time_ns
    if asked_ns is None:
        return f"got no records: {_unasked(counts)}"
    outcomes = counts.drought.outcomes
    is_long = since_ns is None or (asked_ns - since_ns >= _LONG_NS and outcomes.total() >= _OFTEN)
    reason = _failing(outcomes) or _held(member_id, counts, partitions, members, names)
    reason = (reason or waiting_of(counts.asked_for & partitions.keys(), partitions, names)) if is_long else None
    if since_ns is None:
        times = f"{outcomes.total():,} {'fetch' if outcomes.total() == 1 else 'fetches'}"
        return f"got no records: {reason or f'{times} returned none, {_elsewhere(counts, partitions)}'}"
    if reason:
        return f"got no records for {(asked_ns - since_ns) / 1e9:.3g} s, until its last fetch: {reason}"
    return _often_refused(counts)


def _often_refused(counts: MemberCounts) -> str | None:
    """Return the errors of a member that gets records."""
    refused = Counter[int]()
    for (_, error), count in counts.acknowledged.items():
        if error:
            refused[error] += count
    parts = [
        f"{codes.total():,} of {total:,} {event} with {errors(codes)}"
        for codes, total, event in (
            (counts.failed, counts.fetches.total(), "fetches failed"),
            (refused, counts.acknowledged.total(), "acknowledgements were rejected"),
        )
        if codes and _MANY * codes.total() >= total
    ]
    return f"got records, but {'; '.join(parts)}" if parts else None


def _unasked(counts: MemberCounts) -> str:
    """Return why no fetch was sent."""
    if counts.refused:
        return f"it sent no ShareFetch; its heartbeats failed with {errors(counts.refused)}"
    if counts.assigned.value is None:
        return "it sent no ShareFetch, and its assignment is not in the capture"
    if not counts.assigned.value:
        return "no partition was assigned to it"
    return f"it sent no ShareFetch, although partitions are assigned to it ({len(counts.assigned.value):,})"


def _failing(outcomes: Counter[tuple[str, int]]) -> str | None:
    """Return the outcome of most fetches, unless it is only a lack of records."""
    total = outcomes.total()
    for outcome, sentence in _FAILING.items():
        codes = Counter({code: count for (fetch_outcome, code), count in outcomes.items() if fetch_outcome == outcome})
        if codes and 2 * codes.total() >= total:
            return sentence.format(f"{codes.total():,} of {total:,} fetches", errors(codes))
    return None


def _held(
    member_id: str | None,
    counts: MemberCounts,
    partitions: Mapping[PartitionId, PartitionCounts],
    members: Mapping[str | None, MemberCounts],
    names: Mapping[str, str],
) -> str | None:
    """Return who has acquired records of its partitions and not acknowledged them at the end of the capture."""
    asked = sorted(counts.asked_for & partitions.keys())
    holders = (
        (partition, holder, records)
        for partition in asked
        for holder, records in partitions[partition].held.most_common(_NAMED)
    )
    parts = []
    for partition, holder, records in islice(holders, _NAMED):
        client = members[holder].client.value if holder in members else None
        name = "itself" if holder == member_id else client[0] if client and client[0] else holder or "an unknown member"
        topic = names.get(partition.topic_id, partition.topic_id)
        parts.append(f"{records:,} records of {topic}[{partition.partition}] are acquired by {name}")
    others = sum(len(partitions[partition].held) for partition in asked) - len(parts)
    return f"{', '.join(parts)}{f' and {others:,} more' if others else ''}" if parts else None


def waiting_of(
    asked: Iterable[PartitionId], partitions: Mapping[PartitionId, PartitionCounts], names: Mapping[str, str]
) -> str | None:
    """Return the open transactions that partitions have come to at the end; None if there are none."""
    parts = []
    for partition in sorted(asked):
        waiting: WaitingGroup | None = partitions[partition].waiting.value
        if waiting is not None:
            topic = names.get(partition.topic_id, partition.topic_id)
            parts.append(
                f"{topic}[{partition.partition}] waits at offset {waiting.offset:,} for the open transaction of "
                f"{waiting.producer_named}"
            )
    others = len(parts) - _NAMED
    return f"{', '.join(parts[:_NAMED])}{f' and {others:,} more' if others > 0 else ''}" if parts else None


def _elsewhere(counts: MemberCounts, partitions: Mapping[PartitionId, PartitionCounts]) -> str:
    """Return who got records of its partitions."""
    if not counts.asked_for:
        return "and none lists a partition"
    acquired = sum(partitions[partition].acquired.total() for partition in counts.asked_for if partition in partitions)
    return (
        f"others acquired {acquired:,} records of its partitions and hold none now"
        if acquired
        else "and no member acquired records of its partitions"
    )


def errors(codes: Counter[int]) -> str:
    """Return the most frequent errors: `123 INVALID_SHARE_SESSION_EPOCH ×12`."""
    parts = [
        f"{code} {ERROR_NAMES.get(code, '')}".rstrip() + f" ×{count:,}" for code, count in codes.most_common(_NAMED)
    ]
    return ", ".join(parts) + (f" and {len(codes) - _NAMED} more" if len(codes) > _NAMED else "")
