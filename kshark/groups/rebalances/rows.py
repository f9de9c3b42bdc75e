"""The rebalances of one group, as rows: those that are over, and the one that lasts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.analysis import Moment
from kshark.groups.rebalances.listing import Party, Rebalance, Trigger, Wait, Waiting
from kshark.groups.table import Group

#: A wait shorter than this is a round trip, not a wait.
NOTICED_NS: Final = 100_000_000


class Event(Struct, frozen=True):
    """A request, or another event, that begins a rebalance, or joins one that runs."""

    trigger: Trigger
    by: Party | None
    since: Moment
    reason: str | None = None
    flow: int | None = None


class Rows:
    """Rebalances that are over: the last ones, and the number of all."""

    def __init__(self) -> None:
        self.kept: Final[deque[Rebalance]] = deque(maxlen=limits.GROUP_CHANGES)
        self.count = 0

    def add(self, row: Rebalance) -> None:
        self.kept.append(row)
        self.count += 1

    def since(self, count: int) -> Iterator[Rebalance]:
        """Yield the rows after the first `count` ones, as far as they are kept."""
        new = min(self.count - count, len(self.kept))
        yield from list(self.kept)[len(self.kept) - new :]


def party_of(group: Group, member_id: str) -> Party:
    """Return a member with what the capture shows of its client."""
    member = group.members.get(member_id)
    if member is None:
        return Party(member_id)
    return Party(member_id, member.client_id, member.address, member.instance_id)


def first_of(events: list[Event]) -> Event | None:
    return min(events, key=lambda event: event.since.time_ns, default=None)


def wait(why: Waiting, member: Party | None, since: Moment, until: Moment | None) -> Wait:
    packet, time_ns = (None, None) if until is None else (until.packet, until.time_ns)
    return Wait(why, member, since.packet, since.time_ns, packet, time_ns)


def longest_first(waits: list[Wait]) -> list[Wait]:
    def length(one: Wait) -> int:
        return (1 << 62) if one.until_ns is None else one.until_ns - one.time_ns

    return sorted(waits, key=length, reverse=True)
