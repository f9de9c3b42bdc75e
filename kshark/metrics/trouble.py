"""Why a member gets no records: what its fetches came to since the last ones, and where the records are instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Final

from kshark.metrics.counts import FAILED, UNANSWERED, UNREAD, MemberCounts, PartitionCounts, PartitionId
from kshark_dissectors.enums import ErrorCode

#: A member that had records is in want of them after so long, and so many fetches.
_LONG_NS: Final = 2_000_000_000
_OFTEN: Final = 3
#: One in so many that fail is too many.
_MANY: Final = 10
#: Partitions, and errors, that are named.
_NAMED: Final = 3
#: What is said of so many fetches, and of their errors.
_FAILING: Final = {
    FAILED: "{0} failed with {1}",
    UNANSWERED: "the capture holds no answer to {0}",
    UNREAD: "the capture does not hold the whole answer to {0}",
}
_NAMES: Final = {member.value: member.name for member in ErrorCode}


def trouble_of(
    member_id: str | None,
    counts: MemberCounts,
    partitions: Mapping[PartitionId, PartitionCounts],
    members: Mapping[str | None, MemberCounts],
    names: Mapping[str, str],
) -> str | None:
    """A sentence without its full stop; None for a member that gets records, or of which nothing is known that keeps it
    from getting some.

    `partitions` and `members` are those of its group, `names` of topic ids.
    """
    since_ns, asked_ns = counts.drought.since_ns, counts.last_fetch.time_ns
    if asked_ns is None:
        return f"got no records: {_unasked(counts)}"
    outcomes = counts.drought.outcomes
    is_long = since_ns is None or (asked_ns - since_ns >= _LONG_NS and outcomes.total() >= _OFTEN)
    keeps = (_failing(outcomes) or _held(member_id, counts, partitions, members, names)) if is_long else None
    if since_ns is None:
        times = f"{outcomes.total():,} {'fetch' if outcomes.total() == 1 else 'fetches'}"
        return f"got no records: {keeps or f'{times} brought none, {_elsewhere(counts, partitions)}'}"
    if keeps:
        return f"got no records for {(asked_ns - since_ns) / 1e9:.3g} s, to its last fetch: {keeps}"
    return _often_refused(counts)


def _often_refused(counts: MemberCounts) -> str | None:
    """Of a member that gets records: what else goes wrong with it."""
    refused = Counter[int]()
    for (_, error), count in counts.acknowledged.items():
        if error:
            refused[error] += count
    told = [
        f"{codes.total():,} of {all_:,} {what} with {errors(codes)}"
        for codes, all_, what in (
            (counts.failed, counts.fetches.total(), "fetches failed"),
            (refused, counts.acknowledged.total(), "acknowledgements were refused"),
        )
        if codes and _MANY * codes.total() >= all_
    ]
    return f"got records, but {'; '.join(told)}" if told else None


def _unasked(counts: MemberCounts) -> str:
    """Why no fetch was sent."""
    if counts.refused:
        return f"it sent no ShareFetch; its heartbeats were refused with {errors(counts.refused)}"
    if counts.assigned.value is None:
        return "it sent no ShareFetch, and what it was assigned the capture does not show"
    if not counts.assigned.value:
        return "no partition was assigned to it"
    return f"it sent no ShareFetch, though it was assigned partitions ({len(counts.assigned.value):,})"


def _failing(outcomes: Counter[tuple[str, int]]) -> str | None:
    """What most fetches came to, where that is not merely that nothing was there."""
    total = outcomes.total()
    for outcome, what in _FAILING.items():
        codes = Counter({code: count for (came, code), count in outcomes.items() if came == outcome})
        if codes and 2 * codes.total() >= total:
            return what.format(f"{codes.total():,} of {total:,} fetches", errors(codes))
    return None


def _held(
    member_id: str | None,
    counts: MemberCounts,
    partitions: Mapping[PartitionId, PartitionCounts],
    members: Mapping[str | None, MemberCounts],
    names: Mapping[str, str],
) -> str | None:
    """Records of its partitions that somebody has acquired and not acknowledged by the capture's end."""
    asked = sorted(counts.asked_for & partitions.keys())
    holders = ((one, holder, records) for one in asked for holder, records in partitions[one].held.most_common(_NAMED))
    told = []
    for one, holder, records in islice(holders, _NAMED):
        client = members[holder].client.value if holder in members else None
        name = "itself" if holder == member_id else client[0] if client and client[0] else holder or "nobody known"
        told.append(
            f"{records:,} records of {names.get(one.topic_id, one.topic_id)}[{one.partition}] are acquired by {name}"
        )
    more = sum(len(partitions[one].held) for one in asked) - len(told)
    return f"{', '.join(told)}{f' and {more:,} more' if more else ''}" if told else None


def _elsewhere(counts: MemberCounts, partitions: Mapping[PartitionId, PartitionCounts]) -> str:
    """Who got records of its partitions."""
    if not counts.asked_for:
        return "and none names a partition"
    handed = sum(partitions[one].acquired.total() for one in counts.asked_for if one in partitions)
    return (
        f"others acquired {handed:,} of its partitions and hold none now"
        if handed
        else "and nobody acquired any of its partitions"
    )


def errors(codes: Counter[int]) -> str:
    """`123 INVALID_SHARE_SESSION_EPOCH ×12`, the most frequent first."""
    told = [f"{code} {_NAMES.get(code, '')}".rstrip() + f" ×{count:,}" for code, count in codes.most_common(_NAMED)]
    return ", ".join(told) + (f" and {len(codes) - _NAMED} more" if len(codes) > _NAMED else "")
