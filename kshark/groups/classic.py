"""Members of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kshark.analysis import Moment
from kshark.api_keys import JOIN_GROUP
from kshark.embedded.decoded import decoded
from kshark.endpoints import host_of
from kshark.groups.coordinators import set_answering_broker
from kshark.groups.listed import Assigned, ListedMember
from kshark.groups.table import PASSING, Group, GroupExchange, GroupTable, assign
from kshark_dissectors.enums import ErrorCode

#: Errors that show a member that it is no longer in the group, and how its time there ended.
_OUT: Final[dict[int, str]] = {ErrorCode.UNKNOWN_MEMBER_ID: "unknown", ErrorCode.FENCED_INSTANCE_ID: "replaced"}
#: Errors of a commit that does not keep the session of a member.
_REFUSED_COMMITS: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def joined(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a JoinGroup. Its answer begins a generation; the leader's answer lists the members."""
    request, answer = exchange.request, exchange.answer
    member_id = getattr(answer, "member_id", None) or request.member_id
    if not request.group_id or not member_id or exchange.error == ErrorCode.MEMBER_ID_REQUIRED:
        return ()
    group = table.of(request.group_id)
    member = table.sender(group, exchange, member_id)
    group.protocol_type = request.protocol_type or group.protocol_type
    for protocol in request.protocols or ():
        set_subscription(member, decoded(protocol, "metadata"))
    member.instance_id = getattr(request, "group_instance_id", None) or member.instance_id
    life = group.life(member_id)
    life.informed = None
    life.timeout_ms, group.next_due_ns = request.session_timeout_ms, 0
    # Without a value it is the session timeout (version 0).
    life.rebalance_ms = max(getattr(request, "rebalance_timeout_ms", -1), -1)
    life.rebalance_ms = request.session_timeout_ms if life.rebalance_ms < 0 else life.rebalance_ms
    if exchange.error == 0:
        # The coordinator begins a member's session anew when it answers.
        life.beats(exchange.at, exchange.flow.id, life.host, is_answered=True)
        _entered(table, group, member, exchange)
    else:
        _refused(table, group, member, exchange)
    return (group.group_id,)


def committed(table: GroupTable, exchange: GroupExchange) -> None:
    """Take an OffsetCommit: an accepted one keeps the session of a member."""
    request, answer = exchange.request, exchange.answer
    group = table.groups.get(request.group_id or "")
    member_id = request.member_id
    if group is None or group.latest.type != "classic" or member_id not in group.present or answer is None:
        return
    codes = {part.error_code for topic in answer.topics or () for part in topic.partitions or ()}
    if not codes & _REFUSED_COMMITS:
        host = host_of(exchange.flow.client)
        group.life(member_id).beats(exchange.since, exchange.flow.id, host, is_answered=True)


def _entered(table: GroupTable, group: Group, member: ListedMember, exchange: GroupExchange) -> None:
    answer, generation = exchange.answer, exchange.answer.generation_id
    for other in [one for one in group.present if one != member.member_id] if member.instance_id else ():
        if group.members[other].instance_id == member.instance_id:
            group.leave(other, exchange.at, "replaced")
    group.enter(member, generation, joined=exchange.at)
    group.assignor = answer.protocol_name or group.assignor
    if answer.members:
        for other in answer.members:
            described = table.mentioned(group, other.member_id, exchange.at)
            described.instance_id = getattr(other, "group_instance_id", None) or described.instance_id
            set_subscription(described, decoded(other, "metadata"))
            if other.member_id not in group.present:
                group.enter(described, generation)
        _replace(group, answer.members, exchange.at)
        table.keep_only(group, {one.member_id for one in answer.members}, exchange.at, since=exchange.since)
    set_answering_broker(table, group, exchange)
    if group.latest.generation != generation or group.latest.type != "classic":
        group.become(exchange.at, "inferred", type=_type(group), state="CompletingRebalance", generation=generation)


def _replace(group: Group, listed: Sequence[Any], at: Moment) -> None:
    """End static members whose instance id a listed member has."""
    ids = {one.member_id for one in listed}
    instances = {getattr(one, "group_instance_id", None) for one in listed} - {None}
    for gone in [one for one in group.present if one not in ids and group.members[one].instance_id in instances]:
        group.leave(gone, at, "replaced")


def synced(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a SyncGroup. The leader's request has the assignments of all members, each answer the member's own."""
    request, answer = exchange.request, exchange.answer
    if not request.group_id or not request.member_id:
        return ()
    group = table.of(request.group_id)
    member = table.sender(group, exchange, request.member_id)
    if exchange.error != 0:
        _refused(table, group, member, exchange)
        return (group.group_id,)
    for one in request.assignments or ():
        if one.member_id in group.members:
            set_assignment(group.members[one.member_id], exchange.at, decoded(one, "assignment"))
    set_assignment(member, exchange.at, decoded(answer, "assignment"))
    group.protocol_type = getattr(request, "protocol_type", None) or group.protocol_type
    group.assignor = getattr(request, "protocol_name", None) or group.assignor
    _lives(table, group, member, exchange)
    return (group.group_id,)


def stayed(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a Heartbeat."""
    request = exchange.request
    if not request.group_id or not request.member_id:
        return ()
    group = table.of(request.group_id)
    member = table.sender(group, exchange, request.member_id)
    if exchange.error == 0:
        _lives(table, group, member, exchange)
    else:
        _refused(table, group, member, exchange)
    return (group.group_id,)


def _lives(table: GroupTable, group: Group, member: ListedMember, exchange: GroupExchange) -> None:
    """Take an accepted SyncGroup or Heartbeat. A Heartbeat is also accepted while the group waits for its leader's
    assignment."""
    generation = exchange.request.generation_id
    if member.member_id not in group.present:
        group.enter(member, generation)
    set_answering_broker(table, group, exchange)
    latest, synced = group.latest, hasattr(exchange.request, "assignments")
    if synced or latest.generation != generation or latest.state is None:
        group.become(exchange.at, "inferred", type=_type(group), state="Stable", generation=generation)


def _refused(table: GroupTable, group: Group, member: ListedMember, exchange: GroupExchange) -> None:
    """Take a refusal. An error reports a rebalance to the members."""
    if exchange.error in _OUT:
        if exchange.error == ErrorCode.UNKNOWN_MEMBER_ID and _was_silent(table, group, member.member_id, exchange):
            group.life(member.member_id).heard = group.life(member.member_id).before
            table.expired(group, member.member_id, exchange.at, "refused")
        group.leave(member.member_id, exchange.at, _OUT[exchange.error])
        group.refused.add(member.member_id)
    elif exchange.error == ErrorCode.REBALANCE_IN_PROGRESS:
        life = group.life(member.member_id)
        life.informed = life.informed or exchange.since
        if member.member_id not in group.present:
            group.enter(member, exchange.request.generation_id)
        group.become(exchange.at, "inferred", type=_type(group), state="PreparingRebalance")
    elif exchange.api_key == JOIN_GROUP and exchange.error not in PASSING and member.member_id not in group.present:
        group.refused.add(member.member_id)


def _was_silent(table: GroupTable, group: Group, member_id: str, exchange: GroupExchange) -> bool:
    """True if a member had sent nothing for its session timeout before a request that was refused."""
    life = group.life(member_id)
    timeout = table.timeouts.of(group.latest.type, group.group_id, life)
    if life.before is None or not timeout.is_shown_at(life.before.time_ns):
        return False
    is_over = exchange.since.time_ns - life.before.time_ns > timeout.ns
    return is_over and not table.traffic.lost_since(life.host, life.before.time_ns)


def left(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a LeaveGroup. From version 3 on it may name several members, and an administrator may send it (KIP-345)."""
    request = exchange.request
    if not request.group_id or exchange.error != 0:
        return ()
    group = table.of(request.group_id)
    for member_id in _leaving(group, exchange):
        member = group.members.get(member_id)
        if member is not None:
            own = (member.client_id, member.address) == (exchange.client_id, host_of(exchange.flow.client))
            member.last = exchange.since if own else member.last
            group.leave(member_id, exchange.at, "left" if own else "removed")
    set_answering_broker(table, group, exchange)
    group.become(exchange.at, "inferred", type=_type(group), state="PreparingRebalance" if group.present else "Empty")
    return (group.group_id,)


def _leaving(group: Group, exchange: GroupExchange) -> Iterator[str]:
    """Yield the ids of the members that left; a static member may be named by its instance."""
    if isinstance(alone := getattr(exchange.request, "member_id", None), str):
        yield alone
        return
    results = getattr(exchange.answer, "members", None) or ()
    for one, result in zip(exchange.request.members or (), results, strict=False):
        if result.error_code == 0:
            yield from [one.member_id] if one.member_id else _of_instance(group.members.values(), one.group_instance_id)


def _of_instance(members: Iterable[ListedMember], instance_id: str | None) -> list[str]:
    return [one.member_id for one in members if instance_id and one.instance_id == instance_id and one.ended is None]


def _type(group: Group) -> Any:
    """Return the group's type. A consumer group may have members of the classic protocol (KIP-848): its type stays
    while it has members."""
    return group.latest.type if group.latest.type == "consumer" and group.present else "classic"


# -- structures that members exchange; descriptions have them too


def set_subscription(member: ListedMember, subscription: Any) -> None:
    """Set the topics of a member of protocol type `consumer`."""
    if isinstance(subscription, dict) and isinstance(subscription.get("topics"), list):
        member.topics = subscription["topics"]
        member.rack_id = subscription.get("rack_id") or member.rack_id


def set_assignment(member: ListedMember, at: Moment, assignment: Any) -> None:
    """Set the assignment of a member of protocol type `consumer`."""
    if isinstance(assignment, dict) and isinstance(partitions := assignment.get("assigned_partitions"), list):
        assign(member, at, [Assigned(None, one["topic"], one["partitions"]) for one in partitions])
