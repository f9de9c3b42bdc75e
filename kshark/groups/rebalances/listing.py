"""Rebalances as they are listed: these structs, with their fields in this order, are in the JSON lines of `kshark
groups --rebalances -T json`."""

from __future__ import annotations

from typing import Literal

import msgspec

#: The event that began a rebalance. join: a new member; leave: a member left, or was removed; poll_too_late: it left,
#: and its reason names its poll interval; expired: its session timed out, or it was silent for that long; gone: it is
#: not in the group any more, and the capture does not show why; subscription: a member subscribed to other topics;
#: topics: a member said that the partitions of its topics changed, or an administrator changed topics; revocation: a
#: member had given up partitions, the second half of a cooperative rebalance; rejoin: a member joined again by itself;
#: not_synced: a member did not fetch its assignment; unknown: the capture does not show it.
Trigger = Literal[
    "join",
    "leave",
    "poll_too_late",
    "expired",
    "gone",
    "subscription",
    "topics",
    "revocation",
    "rejoin",
    "not_synced",
    "unknown",
]
#: What a rebalance waited for. joined_last: the last member to join again; never_joined: a member that did not join
#: again; pending: a new member that did not come back with the member id that it was given; leader: the assignment of
#: the leader; initial_delay: more members of an empty group (group.initial.rebalance.delay.ms); not_revoked: a member
#: that gave up partitions late; behind: the last member to receive the new epoch.
Waiting = Literal["joined_last", "never_joined", "pending", "leader", "initial_delay", "not_revoked", "behind"]


class Party(msgspec.Struct, frozen=True):
    """A member and its client; null: unknown."""

    member_id: str
    client_id: str | None = None
    address: str | None = None
    instance_id: str | None = None


class Wait(msgspec.Struct, omit_defaults=True):
    """A member for which a rebalance waited, from a packet to a packet (null: until the end; with `until_ns`, until its
    session expired about then, which no packet shows). `member` is null if the
    wait was for no member that is known. `partitions`: those that it has not given up, by topic id."""

    why: Waiting
    member: Party | None
    packet: int
    time_ns: int
    until_packet: int | None
    until_ns: int | None
    partitions: dict[str, list[int]] | None = None


class Rebalance(msgspec.Struct):
    """One rebalance, from the packet that shows its trigger to the packet with the last member's assignment (null: the
    next one began before, it lasted when the capture ended, or no packet shows its end).

    `before`, `after`: the generations or group epochs; null: unknown, or none. `by`: the member that triggered it, and
    `reason` its own words. `others`: further members that joined, left or changed meanwhile. `returned_ns`: a member
    that left joined again on the same connection: its process went on. `is_lossy`: bytes were lost since the last
    generation, so that another request may have been the first. `members`: the number of members with the new
    generation or epoch. `waited_for`: the longest wait first. `stood_still_ns`: how long partitions that had a member
    had none, at the most; null: unknown, or none did. `is_end_inferred`: the sessions of all members that it waited for
    expired, the last one about `until_ns`, and the group is empty.
    """

    packet: int
    time_ns: int
    until_packet: int | None
    until_ns: int | None
    before: int | None
    after: int | None
    trigger: Trigger
    by: Party | None = None
    reason: str | None = None
    others: int = 0
    returned_ns: int | None = None
    is_lossy: bool = False
    members: int = 0
    waited_for: list[Wait] = []
    stood_still_ns: int | None = None
    is_end_inferred: bool = False
