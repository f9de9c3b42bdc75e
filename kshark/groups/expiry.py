"""Sessions that expired: conclusions from a member's silence and from the epochs and assignments of others.

A member is out only if the capture shows it. A connection that only left the capture is no end: its host must have no
lost bytes, and the clock must have run. Sources: KIP-848, KIP-932, KIP-1071; Kafka: GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from kshark.analysis import Moment
from kshark.groups.listed import ExpiryProof, ListedMember, Silence
from kshark.groups.silence import Life, Timeout
from kshark.groups.table import AWAY, Group, GroupTable

#: A broker's timer may end this much before the time that the capture's clock shows.
_TICK_NS: Final = 500_000_000
#: A group with overdue members is looked at again after this time.
_AGAIN_NS: Final = 1_000_000_000


def expire(table: GroupTable, group: Group, spared: str | None = None) -> None:
    """End the members whose session timeout is shown and over; `spared`: a member that is heard now."""
    now = table.traffic.now
    if now.time_ns < group.next_due_ns or not group.present:
        return
    over, group.next_due_ns = _overdue(table, group, now, spared)
    for member_id in over:
        table.expired(group, member_id, now, "session_timeout")
    if over:
        ends = (group.members[member_id].ended for member_id in over)
        last_ns = max(end.time_ns for end in ends if end is not None)
        _settle(group, Moment(now.packet, max(last_ns, group.latest.time_ns)))


def ends_by(table: GroupTable, group: Group, now: Moment) -> dict[str, int]:
    """Return the times at which sessions of members expired, as known now, a moment after the last event: also of those
    that `expire` would end now."""
    over, _ = _overdue(table, group, now, None)
    ends = {member_id: table.ends_ns(group, member_id, now) for member_id in over}
    for member_id, member in group.members.items():
        if member.ended is not None and member.ended.how == "expired":
            ends[member_id] = member.ended.time_ns
    return ends


def _overdue(table: GroupTable, group: Group, now: Moment, spared: str | None) -> tuple[list[str], int]:
    """Return the members whose sessions are over, and the time at which to look again."""
    over = []
    due = now.time_ns + (1 << 62)
    for member_id in group.present:
        life = group.life(member_id)
        timeout = table.timeouts.of(group.latest.type, group.group_id, life)
        ends_ns = life.last_ns + timeout.ns
        if ends_ns >= now.time_ns:
            due = min(due, ends_ns)
            continue
        due = min(due, now.time_ns + _AGAIN_NS)
        if member_id != spared and _is_over(table, group, member_id, timeout, now):
            over.append(member_id)
    return over, due


def _is_over(table: GroupTable, group: Group, member_id: str, timeout: Timeout, now: Moment) -> bool:
    """True if nothing but the end of the session explains the silence: no other member's messages after the timeout
    could show otherwise."""
    life = group.life(member_id)
    ends_ns = life.heard_ns + timeout.ns
    return (
        _is_gone(table, life)
        and timeout.is_shown_at(life.heard_ns)
        and life.described_ns <= ends_ns
        and table.traffic.silence_ns(life.heard_ns, now.time_ns) > timeout.ns
        and not any(group.life(other).heard_ns > ends_ns for other in group.present if other != member_id)
    )


def _is_gone(table: GroupTable, life: Life) -> bool:
    """True if the capture shows the end of the member's connection to its coordinator, and no lost bytes since."""
    return (
        life.heard is not None
        and table.traffic.has_ended(life.flow)
        and not table.traffic.lost_since(life.host, life.heard_ns)
    )


def _settle(group: Group, at: Moment) -> None:
    type = group.latest.type
    if type is None or type == "classic":
        group.become(at, "inferred", state=None if group.present else "Empty", because="session_timeout")
    else:
        group.settle(at, type, because="session_timeout")


def expect(group: Group, epoch: int | None, at: Moment) -> None:
    """Take the group epoch of a description."""
    if epoch is not None and epoch > (group.reached_epoch or 0):
        group.reached_epoch, group.changed_ns = epoch, max(group.changed_ns, at.time_ns)


def epoch_given(table: GroupTable, group: Group, epoch: int, at: Moment, taken: Set[tuple[str, int]]) -> None:
    """Take the epoch that a member received with a heartbeat: if it rose without a reason in the capture, the sessions
    of members that are gone expired. `taken`: the partitions or tasks that are new to the member."""
    before = group.reached_epoch
    if before is not None and epoch > before:
        proofs = {member_id: _proof_of_epoch(table, group, member_id, taken) for member_id in group.present}
        gone = sorted(
            (member_id for member_id, proof in proofs.items() if proof is not None),
            key=lambda member_id: group.life(member_id).heard_ns,
        )
        for member_id in gone[: epoch - before]:
            table.expired(group, member_id, at, proofs[member_id] or "epoch")
        group.changed_ns = max(group.changed_ns, at.time_ns)
    group.reached_epoch = max(epoch, before or 0)


def _is_taken(group: Group, member_id: str, taken: Set[tuple[str, int]]) -> bool:
    """True if another member received all that a member has."""
    return bool(keys := keys_of(group.members[member_id])) and keys <= taken


def _proof_of_epoch(table: GroupTable, group: Group, member_id: str, taken: Set[tuple[str, int]]) -> ExpiryProof | None:
    """Return how a new epoch shows the end of a member's session, None if it does not: the timeout is over, the
    member's connection ended, and the group had settled before, or another member has its partitions now.

    A join may raise the epoch twice, and later than its answer: the coordinator assigns with a delay, and initializes
    share partitions. That takes no partitions from a member.
    """
    life = group.life(member_id)
    timeout = table.timeouts.of(group.latest.type, group.group_id, life)
    reasons_ns = max(group.changed_ns, table.topics_changed.last_ns, table.traffic.lost_ns)
    if not _is_gone(table, life) or table.traffic.silence_ns(life.heard_ns) <= timeout.ns - _TICK_NS:
        return None
    if reasons_ns == 0 or life.heard_ns > reasons_ns + life.interval_ns:
        return "epoch"
    is_its_join = life.heard_ns + life.interval_ns > reasons_ns
    return "assigned_to_others" if is_its_join and _is_taken(group, member_id, taken) else None


def own(table: GroupTable, group: Group, member: ListedMember, at: Moment) -> None:
    """Take the partitions or tasks that a member of a group with exclusive assignments received. A coordinator waits
    until the former owner gave them up, in a heartbeat, or is out of the group. Source: KIP-848.

    A former owner may have given them up on a connection that is not in the capture: the end of its connection must be
    seen.
    """
    expired: set[str] = set()
    for key in keys_of(member):
        before = group.owners.get(key)
        group.owners[key] = member.member_id
        if before is not None and before != member.member_id and before in group.present:
            life = group.life(before)
            silent_ns = at.time_ns - life.heard_ns
            is_overdue = silent_ns > (0 if group.present[before] == AWAY else life.interval_ns)
            if is_overdue and _is_gone(table, life) and key in keys_of(group.members[before]):
                expired.add(before)
    for member_id in expired:
        table.expired(group, member_id, at, "assigned_to_others")


def keys_of(member: ListedMember) -> set[tuple[str, int]]:
    """Return a member's partitions by topic id, or its active tasks by subtopology."""
    keys = {(one.topic_id or one.topic or "", number) for one in member.assignment or () for number in one.partitions}
    tasks = member.tasks if isinstance(member.tasks, list) else ()
    return keys | {(one.subtopology, number) for one in tasks if one.role == "active" for number in one.partitions}


def instance_released(table: GroupTable, group: Group, member: ListedMember, at: Moment) -> None:
    """Take the join of a static member. A coordinator refuses an instance id that another member holds, unless that
    member is away: else its session expired. Source: KIP-848."""
    others = [one for one in group.present if one != member.member_id] if member.instance_id else []
    for other in others:
        if group.members[other].instance_id == member.instance_id:
            life = group.life(other)
            is_silent = life.heard is not None and at.time_ns - life.heard_ns > life.interval_ns
            if group.present[other] == AWAY or not is_silent:
                group.leave(other, at, "replaced")
            else:
                table.expired(group, other, at, "instance")


def silence_of(table: GroupTable, group: Group, member: ListedMember) -> Silence | None:
    """Return the silence of a member that may be out of its group; None if it is in the group."""
    life = group.life(member.member_id)
    timeout = table.timeouts.of(group.latest.type, group.group_id, life)
    if life.last_ns + timeout.ns >= table.traffic.now.time_ns:
        return None
    last = life.heard or life.described or table.traffic.now
    return Silence(last.packet, last.time_ns, timeout.ms, timeout.source)
