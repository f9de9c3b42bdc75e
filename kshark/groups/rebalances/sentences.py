"""Rebalances in words."""

from __future__ import annotations

from typing import Final

from kshark.groups.rebalances.listing import Party, Rebalance, Trigger, Wait, Waiting
from kshark.groups.rebalances.rows import NOTICED_NS

__all__ = ["NOTICED_NS", "party_name", "trigger_of", "wait_of"]

_WITH_MEMBER: Final[dict[Trigger, str]] = {
    "join": "{} joined",
    "leave": "{} left",
    "poll_too_late": "{} exceeded its poll interval",
    "expired": "{}: session expired",
    "gone": "{} is gone, its end is not in the capture",
    "subscription": "{} subscribed to other topics",
    "topics": "{} saw its topics change",
    "revocation": "{} had given up partitions",
    "rejoin": "{} joined again by itself",
    "not_synced": "{} did not fetch its assignment",
}
_ALONE: Final[dict[Trigger, str]] = {"topics": "an administrator changed topics", "unknown": "unknown"}
_KINDS: Final[dict[Trigger, str]] = {
    "join": "joined",
    "leave": "left",
    "poll_too_late": "poll interval exceeded",
    "expired": "session expired",
    "gone": "gone",
    "subscription": "other subscription",
    "topics": "topics changed",
    "revocation": "partitions given up",
    "rejoin": "joined again",
    "not_synced": "assignment not fetched",
    "unknown": "unknown",
}
_WAITS: Final[dict[Waiting, str]] = {
    "joined_last": "{}, the last to join",
    "never_joined": "{}, which never joined",
    "pending": "{}, which did not return with its new id",
    "leader": "the leader's assignment",
    "initial_delay": "more members (initial delay)",
    "not_revoked": "{} to give up partitions",
    "behind": "{}, the last with the new epoch",
}


def party_name(party: Party | None, *, address: bool = True) -> str:
    """Return `c1 (10.0.0.1)`, or the member id."""
    if party is None:
        return "a member"
    name = party.client_id or party.member_id
    return f"{name} ({party.address})" if address and party.address else name


def trigger_of(row: Rebalance, *, named: bool = True) -> str:
    """Return who caused a rebalance: `c1 (10.0.0.1) left`; without `named` only what: `left`."""
    if not named:
        return _KINDS[row.trigger]
    if row.by is None:
        return _ALONE.get(row.trigger, _KINDS[row.trigger])
    return _WITH_MEMBER.get(row.trigger, "{}: unknown").format(party_name(row.by))


def wait_of(wait: Wait) -> str:
    """Return for whom a rebalance waited: `c1, the last to join`."""
    if wait.why == "never_joined" and wait.member is None:
        return "nobody that is captured"
    words = _WAITS[wait.why]
    if wait.why == "never_joined" and wait.until_packet is None:
        words = "{}, which has not joined so far" if wait.until_ns is None else "{}, until it was removed"
    name = words.format(party_name(wait.member, address=False))
    if wait.partitions is not None:
        count = sum(len(numbers) for numbers in wait.partitions.values())
        return f"{name} ({count})"
    return name
