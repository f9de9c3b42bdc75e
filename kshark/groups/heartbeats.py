"""Members of groups with epochs (KIP-848, KIP-932, KIP-1071): their heartbeats, and the sessions of share groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, SHARE_FETCH, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from kshark.groups.coordinators import set_answering_broker
from kshark.groups.expiry import epoch_given, instance_released, keys_of, own
from kshark.groups.listed import Assigned, GroupType, ListedMember
from kshark.groups.silence import DEFAULT_INTERVAL_NS
from kshark.groups.streams import tasks_of, topics_of
from kshark.groups.styles import Style
from kshark.groups.table import AWAY, PASSING, Group, GroupExchange, GroupTable, assign
from kshark_dissectors.enums import ErrorCode

_TYPES: Final[dict[int, GroupType]] = {
    CONSUMER_GROUP_HEARTBEAT: "consumer",
    SHARE_GROUP_HEARTBEAT: "share",
    STREAMS_GROUP_HEARTBEAT: "streams",
}
_JOIN, _LEAVE = 0, -1
#: Errors that show a member that it is no longer in the group, and how its time there ended.
_OUT: Final[dict[int, str]] = {
    ErrorCode.FENCED_MEMBER_EPOCH: "fenced",
    ErrorCode.FENCED_INSTANCE_ID: "replaced",
    ErrorCode.UNKNOWN_MEMBER_ID: "unknown",
    ErrorCode.GROUP_ID_NOT_FOUND: "unknown",
}


def heartbeat(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a heartbeat of a group with epochs. Return the groups that it is about, as all handlers do."""
    request, answer = exchange.request, exchange.answer
    member_id = request.member_id or getattr(answer, "member_id", None)
    if not request.group_id or not member_id:
        return ()
    group, type = table.of(request.group_id), _TYPES[exchange.api_key]
    _begins(group, member_id, request.member_epoch)
    member = table.sender(group, exchange, member_id)
    topics = _topics(request) or member.topics
    if member.topics not in (None, topics) or request.member_epoch == _JOIN or exchange.answer is None:
        # An unanswered heartbeat may be a join, or a leave.
        group.changed_ns = max(group.changed_ns, exchange.at.time_ns)
    member.rack_id, member.topics = request.rack_id or member.rack_id, topics
    member.instance_id = getattr(request, "instance_id", None) or member.instance_id
    if exchange.error == 0:
        had = keys_of(member)
        _accepted(table, group, member, exchange)
        set_answering_broker(table, group, exchange)
        given = exchange.answer.member_epoch
        if request.member_epoch == _JOIN:
            group.reached_epoch = given
        elif given > 0:
            epoch_given(table, group, given, exchange.at, keys_of(member) - had)
        group.settle(exchange.at, type, given if given >= 0 else None, joined=request.member_epoch == _JOIN)
    # After such an error from a group of another type, the member may still be in that group.
    elif exchange.error in _OUT and group.latest.type == type:
        group.leave(member_id, exchange.at, _OUT[exchange.error])
        group.settle(exchange.at, type)
    is_refused = exchange.error in _OUT or (request.member_epoch == _JOIN and exchange.error not in PASSING)
    if is_refused and member_id not in group.present:
        group.refused.add(member_id)
    return (group.group_id,)


def _begins(group: Group, member_id: str, epoch: int) -> None:
    """Take a member's first message. The member is older than the capture if the message has an epoch above 0."""
    if member_id not in group.members and epoch > 0:
        group.begun.add(member_id)


def _accepted(table: GroupTable, group: Group, member: ListedMember, exchange: GroupExchange) -> None:
    epoch, answer = exchange.request.member_epoch, exchange.answer
    if epoch == AWAY:
        group.away(member, exchange.at)
        return
    if epoch == _LEAVE:
        group.leave(member.member_id, exchange.at, "left")
        return
    if epoch == _JOIN:
        instance_released(table, group, member, exchange.at)
    interval_ms = answer.heartbeat_interval_ms
    group.life(member.member_id).interval_ns = interval_ms * 1_000_000 if interval_ms > 0 else DEFAULT_INTERVAL_NS
    group.enter(member, answer.member_epoch, joined=exchange.at if epoch == _JOIN else None)
    assignment = getattr(answer, "assignment", None)
    if assignment is not None:
        assign(
            member,
            exchange.at,
            [Assigned(one.topic_id, None, [*one.partitions]) for one in assignment.topic_partitions or ()],
        )
    elif (tasks := tasks_of(answer)) is not None:
        assign(member, exchange.at, None, tasks)
    else:
        return
    if exchange.api_key != SHARE_GROUP_HEARTBEAT:
        own(table, group, member, exchange.at)


def _topics(request: Any) -> list[str] | None:
    """Return the topics that a member subscribes to; a pattern stands between slashes."""
    names, pattern = getattr(request, "subscribed_topic_names", None), getattr(request, "subscribed_topic_regex", None)
    read = topics_of(getattr(request, "topology", None))
    return [*(names or ()), *([f"/{pattern}/"] if pattern else ()), *read] or None


def session(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a ShareFetch or ShareAcknowledge. Its sender is a member, even if the capture does not have its
    coordinator."""
    request = exchange.request
    if not request.group_id or not request.member_id:
        return ()
    group = table.of(request.group_id)
    _begins(group, request.member_id, request.share_session_epoch)
    table.fetcher(group, exchange, request.member_id)
    style = group.styles.setdefault(request.member_id, Style())
    style.request(request.share_session_epoch, request.topics, exchange.answer)
    if exchange.api_key == SHARE_FETCH and exchange.error == 0:
        style.acquired(exchange.answer.responses)
    if group.latest.type is None:
        group.become(exchange.at, "inferred", type="share")
    return (group.group_id,)
