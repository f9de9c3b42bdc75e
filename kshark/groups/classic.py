"""Members of classic groups: how they join, take their assignment, stay and leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from dissectors.enums import ErrorCode
from kshark.analysis import Moment
from kshark.codec import DECODED
from kshark.endpoints import host_of
from kshark.groups.coordinators import answers_for
from kshark.groups.listed import Assigned, ListedMember
from kshark.groups.table import Group, GroupExchange, GroupTable, assign

#: Errors by which a member learns that the group goes on without it, and how it went.
_OUT: Final[dict[int, str]] = {ErrorCode.UNKNOWN_MEMBER_ID: "unknown", ErrorCode.FENCED_INSTANCE_ID: "replaced"}


def joined(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """JoinGroup: its answer is the beginning of a generation; the leader is told who is in it."""
    asked, answer = heard.asked, heard.answer
    member_id = getattr(answer, "member_id", None) or asked.member_id
    if not asked.group_id or not member_id or heard.error == ErrorCode.MEMBER_ID_REQUIRED:
        return ()
    group = table.of(asked.group_id)
    member = table.heard(group, heard, member_id)
    group.protocol_type = asked.protocol_type or group.protocol_type
    for protocol in asked.protocols or ():
        subscribes(member, decoded(protocol, "metadata"))
    member.instance_id = getattr(asked, "group_instance_id", None) or member.instance_id
    if heard.error == 0:
        _entered(table, group, member, heard)
    else:
        _refused(group, member, heard)
    return (group.group_id,)


def _entered(table: GroupTable, group: Group, member: ListedMember, heard: GroupExchange) -> None:
    answer, generation = heard.answer, heard.answer.generation_id
    for other in [one for one in group.present if one != member.member_id] if member.instance_id else ():
        if group.members[other].instance_id == member.instance_id:
            group.leave(other, heard.at, "replaced")
    group.enter(member, generation, joined=heard.at)
    group.assignor = answer.protocol_name or group.assignor
    if answer.members:
        for other in answer.members:
            told = table.told(group, other.member_id)
            told.instance_id = getattr(other, "group_instance_id", None) or told.instance_id
            subscribes(told, decoded(other, "metadata"))
            if other.member_id not in group.present:
                group.enter(told, generation)
        group.keep_only({one.member_id for one in answer.members}, heard.at)
    answers_for(table, group, heard)
    if group.now.generation != generation or group.now.type != "classic":
        group.become(heard.at, "inferred", type=_type(group), state="CompletingRebalance", generation=generation)


def synced(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """SyncGroup: the leader's request has everybody's assignment, each answer the member's own."""
    asked, answer = heard.asked, heard.answer
    if not asked.group_id or not asked.member_id:
        return ()
    group = table.of(asked.group_id)
    member = table.heard(group, heard, asked.member_id)
    if heard.error != 0:
        _refused(group, member, heard)
        return (group.group_id,)
    for one in asked.assignments or ():
        if one.member_id in group.members:
            takes(group.members[one.member_id], heard.at, decoded(one, "assignment"))
    takes(member, heard.at, decoded(answer, "assignment"))
    group.protocol_type = getattr(asked, "protocol_type", None) or group.protocol_type
    group.assignor = getattr(asked, "protocol_name", None) or group.assignor
    _lives(table, group, member, heard)
    return (group.group_id,)


def stayed(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """Heartbeat."""
    asked = heard.asked
    if not asked.group_id or not asked.member_id:
        return ()
    group = table.of(asked.group_id)
    member = table.heard(group, heard, asked.member_id)
    if heard.error == 0:
        _lives(table, group, member, heard)
    else:
        _refused(group, member, heard)
    return (group.group_id,)


def _lives(table: GroupTable, group: Group, member: ListedMember, heard: GroupExchange) -> None:
    """An accepted SyncGroup or Heartbeat; the latter is also taken while the group waits for its leader's
    assignment."""
    generation = heard.asked.generation_id
    if member.member_id not in group.present:
        group.enter(member, generation)
    answers_for(table, group, heard)
    now, synced = group.now, hasattr(heard.asked, "assignments")
    if synced or now.generation != generation or now.state is None:
        group.become(heard.at, "inferred", type=_type(group), state="Stable", generation=generation)


def _refused(group: Group, member: ListedMember, heard: GroupExchange) -> None:
    """A rebalance that began is told to the members by an error."""
    if heard.error in _OUT:
        group.leave(member.member_id, heard.at, _OUT[heard.error])
    elif heard.error == ErrorCode.REBALANCE_IN_PROGRESS:
        if member.member_id not in group.present:
            group.enter(member, heard.asked.generation_id)
        group.become(heard.at, "inferred", type=_type(group), state="PreparingRebalance")


def left(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """LeaveGroup: from version 3 on of several members, which an administrator may remove (KIP-345)."""
    asked = heard.asked
    if not asked.group_id or heard.error != 0:
        return ()
    group = table.of(asked.group_id)
    for member_id in _leaving(group, heard):
        member = group.members.get(member_id)
        if member is not None:
            own = (member.client_id, member.address) == (heard.client_id, host_of(heard.flow.client))
            member.last = heard.since if own else member.last
            group.leave(member_id, heard.at, "left" if own else "removed")
    answers_for(table, group, heard)
    group.become(heard.at, "inferred", type=_type(group), state="PreparingRebalance" if group.present else "Empty")
    return (group.group_id,)


def _leaving(group: Group, heard: GroupExchange) -> Iterator[str]:
    """The ids of those that did leave; a static member may be named by its instance."""
    if isinstance(alone := getattr(heard.asked, "member_id", None), str):
        yield alone
        return
    results = getattr(heard.answer, "members", None) or ()
    for one, result in zip(heard.asked.members or (), results, strict=False):
        if result.error_code == 0:
            yield from [one.member_id] if one.member_id else _of_instance(group.members.values(), one.group_instance_id)


def _of_instance(members: Iterable[ListedMember], instance_id: str | None) -> list[str]:
    return [one.member_id for one in members if instance_id and one.instance_id == instance_id and one.ended is None]


def _type(group: Group) -> Any:
    """A consumer group may have members of the classic protocol (KIP-848): it stays what it is while it has any."""
    return group.now.type if group.now.type == "consumer" and group.present else "classic"


# -- what members tell each other; also in descriptions


def decoded(owner: Any, name: str) -> Any:
    """The structure that was opened inside a field's bytes; None where there is none."""
    opened = getattr(owner, name + DECODED, None)
    return opened.get("data") if isinstance(opened, dict) else None


def subscribes(member: ListedMember, subscription: Any) -> None:
    """What a member of protocol type `consumer` subscribes to."""
    if isinstance(subscription, dict) and isinstance(subscription.get("topics"), list):
        member.topics = subscription["topics"]
        member.rack_id = subscription.get("rack_id") or member.rack_id


def takes(member: ListedMember, at: Moment, assignment: Any) -> None:
    """What a member of protocol type `consumer` is assigned."""
    if isinstance(assignment, dict) and isinstance(partitions := assignment.get("assigned_partitions"), list):
        assign(member, at, [Assigned(None, one["topic"], one["partitions"]) for one in partitions])
