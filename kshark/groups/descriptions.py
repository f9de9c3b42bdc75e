"""What coordinators tell administrators of groups: descriptions, lists, deletions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kshark.api_keys import CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE
from kshark.groups.classic import decoded, subscribes, takes
from kshark.groups.coordinators import answers_for
from kshark.groups.listed import Assigned, GroupType
from kshark.groups.streams import tasks_of
from kshark.groups.table import Group, GroupExchange, GroupTable, assign

_TYPES: Final[dict[int, GroupType]] = {
    DESCRIBE_GROUPS: "classic",
    CONSUMER_GROUP_DESCRIBE: "consumer",
    SHARE_GROUP_DESCRIBE: "share",
    STREAMS_GROUP_DESCRIBE: "streams",
}
_BY_NAME: Final[dict[str, GroupType]] = {type: type for type in _TYPES.values()}


def described(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """One of the four descriptions. DescribeGroups calls a group Dead that it does not know."""
    type, groups = _TYPES[heard.api_key], []
    for told in getattr(heard.answer, "groups", None) or ():
        if told.error_code or (told.group_state == "Dead" and told.group_id not in table.groups):
            continue
        group = table.of(told.group_id)
        for one in told.members or ():
            _member(table, group, one, heard)
        group.keep_only({one.member_id for one in told.members or ()}, heard.at)
        group.assignor = getattr(told, "assignor_name", None) or getattr(told, "protocol_data", None) or group.assignor
        group.protocol_type = getattr(told, "protocol_type", None) or group.protocol_type
        answers_for(table, group, heard)
        group.become(
            heard.at,
            "described",
            type=type,
            state=told.group_state,
            group_epoch=getattr(told, "group_epoch", None),
            assignment_epoch=getattr(told, "assignment_epoch", None),
        )
        groups.append(group.group_id)
    return groups


def _member(table: GroupTable, group: Group, told: Any, heard: GroupExchange) -> None:
    member = table.told(group, told.member_id)
    member.client_id, member.address = told.client_id, told.client_host.removeprefix("/")
    member.instance_id = (
        getattr(told, "instance_id", None) or getattr(told, "group_instance_id", None) or member.instance_id
    )
    group.enter(member, getattr(told, "member_epoch", group.present.get(told.member_id)))
    if heard.api_key == DESCRIBE_GROUPS:
        subscribes(member, decoded(told, "member_metadata"))
        takes(member, heard.at, decoded(told, "member_assignment"))
        return
    member.rack_id = told.rack_id or member.rack_id
    member.topics = getattr(told, "subscribed_topic_names", None) or member.topics
    if heard.api_key == STREAMS_GROUP_DESCRIBE:
        assign(member, heard.at, None, tasks_of(told.assignment))
        return
    topics = told.assignment.topic_partitions or ()
    assign(member, heard.at, [Assigned(one.topic_id, one.topic_name, [*one.partitions]) for one in topics])


def listed(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """ListGroups: states from version 4 on, types from 5."""
    groups = []
    for told in getattr(heard.answer, "groups", None) or () if heard.error == 0 else ():
        group = table.of(told.group_id)
        type = _BY_NAME.get((getattr(told, "group_type", None) or "").lower())
        if type == "classic":
            group.protocol_type = told.protocol_type or group.protocol_type
        state = getattr(told, "group_state", None) or None
        if state == "Empty":
            group.keep_only(set(), heard.at)
        group.become(heard.at, "listed", type=type, state=state)
        answers_for(table, group, heard)
        groups.append(group.group_id)
    return groups


def deleted(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """DeleteGroups."""
    groups = []
    for result in getattr(heard.answer, "results", None) or ():
        if result.error_code == 0 and result.group_id:
            group = table.of(result.group_id)
            for member_id in [*group.present]:
                group.leave(member_id, heard.at, "deleted")
            group.become(heard.at, "deleted", state="Dead")
            groups.append(group.group_id)
    return groups
