"""Answers to administrators about groups: descriptions, lists, deletions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kshark.api_keys import CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE
from kshark.embedded.decoded import decoded
from kshark.groups.classic import set_assignment, set_subscription
from kshark.groups.coordinators import set_answering_broker
from kshark.groups.expiry import expect
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


def described(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take one of the four descriptions. DescribeGroups calls an unknown group Dead."""
    type, groups = _TYPES[exchange.api_key], []
    for row in getattr(exchange.answer, "groups", None) or ():
        if row.error_code or (row.group_state == "Dead" and row.group_id not in table.groups):
            continue
        group = table.of(row.group_id)
        for member in row.members or ():
            _member(table, group, member, exchange)
        table.keep_only(group, {member.member_id for member in row.members or ()}, exchange.at)
        group.assignor = getattr(row, "assignor_name", None) or getattr(row, "protocol_data", None) or group.assignor
        group.protocol_type = getattr(row, "protocol_type", None) or group.protocol_type
        set_answering_broker(table, group, exchange)
        group.become(
            exchange.at,
            "described",
            type=type,
            state=row.group_state,
            group_epoch=getattr(row, "group_epoch", None),
            assignment_epoch=getattr(row, "assignment_epoch", None),
        )
        expect(group, getattr(row, "group_epoch", None), exchange.at)
        groups.append(group.group_id)
    return groups


def _member(table: GroupTable, group: Group, row: Any, exchange: GroupExchange) -> None:
    member = table.mentioned(group, row.member_id, exchange.at)
    member.client_id, member.address = row.client_id, row.client_host.removeprefix("/")
    member.instance_id = (
        getattr(row, "instance_id", None) or getattr(row, "group_instance_id", None) or member.instance_id
    )
    group.enter(member, getattr(row, "member_epoch", group.present.get(row.member_id)))
    if exchange.api_key == DESCRIBE_GROUPS:
        set_subscription(member, decoded(row, "member_metadata"))
        set_assignment(member, exchange.at, decoded(row, "member_assignment"))
        return
    member.rack_id = row.rack_id or member.rack_id
    member.topics = getattr(row, "subscribed_topic_names", None) or member.topics
    if exchange.api_key == STREAMS_GROUP_DESCRIBE:
        assign(member, exchange.at, None, tasks_of(row.assignment))
        return
    topics = row.assignment.topic_partitions or ()
    assign(member, exchange.at, [Assigned(topic.topic_id, topic.topic_name, [*topic.partitions]) for topic in topics])


def listed(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a ListGroups: it has states from version 4 on, types from version 5 on."""
    groups = []
    for row in getattr(exchange.answer, "groups", None) or () if exchange.error == 0 else ():
        group = table.of(row.group_id)
        type = _BY_NAME.get((getattr(row, "group_type", None) or "").lower())
        if type == "classic":
            group.protocol_type = row.protocol_type or group.protocol_type
        state = getattr(row, "group_state", None) or None
        if state == "Empty":
            table.keep_only(group, set(), exchange.at)
        group.become(exchange.at, "listed", type=type, state=state)
        set_answering_broker(table, group, exchange)
        groups.append(group.group_id)
    return groups


def deleted(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a DeleteGroups."""
    groups = []
    for result in getattr(exchange.answer, "results", None) or ():
        if result.error_code == 0 and result.group_id:
            group = table.of(result.group_id)
            # A coordinator deletes no group with members: those that are left here were gone before.
            table.keep_only(group, set(), exchange.at, "deleted")
            group.become(exchange.at, "deleted", state="Dead")
            groups.append(group.group_id)
    return groups
