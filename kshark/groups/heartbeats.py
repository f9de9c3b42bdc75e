"""Members of groups with epochs (KIP-848, KIP-932, KIP-1071): their heartbeats, and the sessions of share groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET

from dissectors.enums import ErrorCode
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, SHARE_FETCH, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from kshark.groups.coordinators import answers_for
from kshark.groups.listed import Assigned, GroupType, ListedMember
from kshark.groups.streams import tasks_of, topics_of
from kshark.groups.styles import Style
from kshark.groups.table import Group, GroupExchange, GroupTable, assign

_TYPES: Final[dict[int, GroupType]] = {
    CONSUMER_GROUP_HEARTBEAT: "consumer",
    SHARE_GROUP_HEARTBEAT: "share",
    STREAMS_GROUP_HEARTBEAT: "streams",
}
_JOIN, _LEAVE, _AWAY = 0, -1, -2
#: Errors by which a member learns that the group goes on without it, and how it went.
_OUT: Final[dict[int, str]] = {
    ErrorCode.FENCED_MEMBER_EPOCH: "fenced",
    ErrorCode.FENCED_INSTANCE_ID: "replaced",
    ErrorCode.UNKNOWN_MEMBER_ID: "unknown",
    ErrorCode.GROUP_ID_NOT_FOUND: "unknown",
}


def heartbeat(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """A heartbeat of a group with epochs; the groups it tells of, here and in all handlers."""
    asked, answer = heard.asked, heard.answer
    member_id = asked.member_id or getattr(answer, "member_id", None)
    if not asked.group_id or not member_id:
        return ()
    group, type = table.of(asked.group_id), _TYPES[heard.api_key]
    _begins(group, member_id, asked.member_epoch)
    member = table.heard(group, heard, member_id)
    member.rack_id, member.topics = asked.rack_id or member.rack_id, _topics(asked) or member.topics
    member.instance_id = getattr(asked, "instance_id", None) or member.instance_id
    if heard.error == 0:
        _accepted(group, member, heard)
        answers_for(table, group, heard)
        given = heard.answer.member_epoch
        group.settle(heard.at, type, given if given >= 0 else None, joined=asked.member_epoch == _JOIN)
    elif (
        heard.error in _OUT and group.now.type == type
    ):  # who is told so by a group of another type may well be in that
        group.leave(member_id, heard.at, _OUT[heard.error])
        group.settle(heard.at, type)
    return (group.group_id,)


def _begins(group: Group, member_id: str, epoch: int) -> None:
    """A member's first message: it began before where that has an epoch that it was given, or counted to."""
    if member_id not in group.members and epoch > 0:
        group.begun.add(member_id)


def _accepted(group: Group, member: ListedMember, heard: GroupExchange) -> None:
    epoch, answer = heard.asked.member_epoch, heard.answer
    if epoch in (_LEAVE, _AWAY):
        group.leave(member.member_id, heard.at, "left" if epoch == _LEAVE else "away")
        return
    for other in (
        [one for one in group.present if one != member.member_id] if member.instance_id and epoch == _JOIN else ()
    ):
        if group.members[other].instance_id == member.instance_id:
            group.leave(other, heard.at, "replaced")
    group.enter(member, answer.member_epoch, joined=heard.at if epoch == _JOIN else None)
    assignment = getattr(answer, "assignment", None)
    if assignment is not None:
        assign(
            member,
            heard.at,
            [Assigned(one.topic_id, None, [*one.partitions]) for one in assignment.topic_partitions or ()],
        )
    elif (tasks := tasks_of(answer)) is not UNSET:
        assign(member, heard.at, None, tasks)


def _topics(asked: Any) -> list[str] | None:
    """What it subscribes to; a pattern is one in slashes."""
    names, pattern = getattr(asked, "subscribed_topic_names", None), getattr(asked, "subscribed_topic_regex", None)
    read = topics_of(getattr(asked, "topology", None))
    return [*(names or ()), *([f"/{pattern}/"] if pattern else ()), *read] or None


def session(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """A ShareFetch or ShareAcknowledge: whoever sends it is a member, though its coordinator may be a broker that was
    not captured."""
    asked = heard.asked
    if not asked.group_id or not asked.member_id:
        return ()
    group = table.of(asked.group_id)
    _begins(group, asked.member_id, asked.share_session_epoch)
    table.heard(group, heard, asked.member_id)
    style = group.styles.setdefault(asked.member_id, Style())
    style.request(asked.share_session_epoch, asked.topics)
    if heard.api_key == SHARE_FETCH and heard.error == 0:
        style.acquired(heard.answer.responses)
    if group.now.type is None:
        group.become(heard.at, "inferred", type="share")
    return (group.group_id,)
