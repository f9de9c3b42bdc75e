"""Entries about groups: states, coordinators, members that come and go, administrative operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from kshark.analysis.states.operations.listing import READS
from kshark.groups import Coordinator, GroupState, ListedGroup, ListedMember, MemberEnd
from kshark.timeline.entry import Entry
from kshark.units import clock, counted

#: The end of a member's time in a group (kshark.groups.listed.MemberEnd), in words.
_ENDS: Final = {
    "left": "left",
    "removed": "was removed by another client",
    "replaced": "was replaced by another client with its instance id",
    "away": "left and will come back (static member)",
    "fenced": "was fenced",
    "not_rejoined": "was removed: it did not join again within its rebalance timeout",
    "expired": "lost its session",
    "unknown": "was unknown to its coordinator",
    "deleted": "ended with its group",
}


def entries_of(groups: Iterable[ListedGroup]) -> Iterator[Entry]:
    """Yield the entries of groups, in no order."""
    for group in groups:
        yield from _states(group)
        yield from _coordinators(group)
        for member in group.members:
            yield from _member(group, member)
        for operation in group.operations:
            if operation.operation not in READS and operation.operation != "assign":
                who = operation.client_id or operation.client
                what = operation.operation.replace("_", " ")
                yield Entry(
                    operation.time_ns,
                    operation.packet,
                    "administration",
                    f"{who}: {what} of group {group.group_id}, {operation.outcome}",
                    broker=operation.broker,
                    client=operation.client,
                    client_id=operation.client_id,
                    group_id=group.group_id,
                )


def _states(group: ListedGroup) -> Iterator[Entry]:
    """Yield the changes of a group's state. Epochs alone are no change."""
    before: str | None = None
    for row in group.history:
        if row.state is not None and row.state != before:
            kind = f"{row.type} group" if row.type else "group"
            about = row.because is not None
            text = f"{kind} {group.group_id} is {row.state}{_about(row.time_ns) * about}{_with(row)}"
            yield Entry(row.time_ns, row.packet, "group", text, group_id=group.group_id, about=about)
            before = row.state


def _about(time_ns: int) -> str:
    return f" from about {clock(time_ns)[:8]} on"


def _with(row: GroupState) -> str:
    members = counted(row.members, "member")
    if row.generation is not None:
        return f" (generation {row.generation}, {members})"
    epoch = row.group_epoch if row.group_epoch is not None else row.assignment_epoch
    return f" ({members})" if epoch is None else f" (epoch {epoch}, {members})"


def _coordinators(group: ListedGroup) -> Iterator[Entry]:
    """Yield the moves of a group's coordinator: one that certainly is another broker than the one before."""
    for before, after in pairwise(group.coordinators):
        if _is_other(before, after):
            text = f"coordinator of group {group.group_id} moved from {_broker(before)} to {_broker(after)}"
            broker = after.broker or after.host
            yield Entry(after.time_ns, after.packet, "coordinator", text, broker=broker, group_id=group.group_id)


def _is_other(before: Coordinator, after: Coordinator) -> bool:
    if before.node_id is not None and after.node_id is not None:
        return before.node_id != after.node_id
    return before.broker is not None and after.broker is not None and before.broker != after.broker


def _broker(coordinator: Coordinator) -> str:
    address = coordinator.broker or coordinator.host or "?"
    return address if coordinator.node_id is None else f"broker {coordinator.node_id} ({address})"


def _member(group: ListedGroup, member: ListedMember) -> Iterator[Entry]:
    name = member.client_id or member.address or member.member_id
    if member.joined is not None:
        again = "" if member.joins < 2 else " again" if member.joins == 2 else f" again ({member.joins - 1} times)"
        text = f"{name} joined group {group.group_id}{again}"
        yield _of_member(member.joined.time_ns, member.joined.packet, text, group, member)
    if member.ended is not None:
        about = member.ended.how == "expired"
        text = f"{name} {_end(group, member.ended)}, group {group.group_id}"
        entry = _of_member(member.ended.time_ns, member.ended.packet, text, group, member)
        entry.about = about
        yield entry


def _end(group: ListedGroup, end: MemberEnd) -> str:
    """Return the end of a member's time in words, with the reason that the capture shows."""
    words = _ENDS.get(end.how, end.how)
    timeout = "" if end.timeout_ms is None else f"{end.timeout_ms / 1000:g} s"
    if end.how == "not_rejoined":
        return f"{words} of {timeout}"
    if end.how != "expired":
        return words
    words += f" about {clock(end.time_ns)[:8]}"
    if end.last_ns:
        what = "heartbeat or commit" if group.type == "classic" else "heartbeat"
        words += f": no {what} since {clock(end.last_ns, 3)}"
        words += f" (session timeout {timeout})" if timeout else ""
    return words


def _of_member(time_ns: int, packet: int, text: str, group: ListedGroup, member: ListedMember) -> Entry:
    return Entry(
        time_ns, packet, "member", text, client=member.address, client_id=member.client_id, group_id=group.group_id,
        member_id=member.member_id,
    )  # fmt: skip
