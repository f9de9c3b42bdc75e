"""What administrators are told of groups."""

from __future__ import annotations

from typing import Any

from tests.conversation import TOPIC, Asked, Connection, Conversation
from tests.groups.talks import Classic, assignment, group, groups, how, states


def described(connection: Connection, *members: dict[str, Any], **told: Any) -> Asked:
    """A share group's description."""
    group = {
        "group_id": "g",
        "group_state": "Stable",
        "group_epoch": 6,
        "assignment_epoch": 5,
        "assignor_name": "simple",
    }
    listed = [
        {
            "rack_id": None,
            "client_id": "c9",
            "client_host": "/10.0.0.7",
            "subscribed_topic_names": ["orders"],
            "member_epoch": 5,
            **one,
        }
        for one in members
    ]
    asked = connection.ask(77, "ShareGroupDescribe", 1, {"group_ids": ["g"], "include_authorized_operations": False})
    return asked.answered(None, groups=[{**group, "members": listed, **told}])


def test_a_description_tells_epochs_assignor_and_members_that_were_not_captured() -> None:
    talk = Conversation()
    topics = [{"topic_id": TOPIC, "topic_name": "orders", "partitions": [2]}]
    described(talk.connection(), {"member_id": "m", "assignment": {"topic_partitions": topics}})
    seen = group(talk)
    assert (seen.type, seen.state, seen.group_epoch, seen.assignment_epoch, seen.assignor) == (
        "share",
        "Stable",
        6,
        5,
        "simple",
    )
    assert [row.source for row in seen.history] == ["described"]
    (one,) = seen.members
    assert (one.client_id, one.address, one.topics, one.epoch, assignment(one)) == (
        "c9",
        "10.0.0.7",
        ["orders"],
        5,
        {"orders": [2]},
    )


def test_whoever_a_description_does_not_list_is_gone() -> None:
    talk = Conversation()
    talk.member("a")
    described(talk.connection(), group_state="Empty")
    seen = group(talk)
    assert states(seen) == [("Stable", 1), ("Empty", 0)]
    assert how(seen.members[0]) == "unknown"


def test_a_group_epoch_below_the_members_is_out_of_date() -> None:
    talk = Conversation()
    a = talk.member("a")
    described(
        talk.connection(),
        {"member_id": a.member_id, "member_epoch": 1, "assignment": {}},
        group_epoch=1,
        assignment_epoch=1,
    )
    a.heartbeat(1).given(3)
    seen = group(talk)
    assert (seen.group_epoch, seen.assignment_epoch) == (None, 3)


def test_a_group_that_is_not_there_is_described_as_such() -> None:
    talk = Conversation()
    described(talk.connection(), error_code=69)
    dead = {
        "error_code": 0,
        "group_id": "c",
        "group_state": "Dead",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }
    asked = talk.connection().ask(15, "DescribeGroups", 4, {"groups": ["c"], "include_authorized_operations": False})
    asked.answered(None, groups=[dead])
    assert groups(talk) == []


def test_a_group_is_deleted() -> None:
    talk = Conversation()
    a = Classic(talk.connection(), "a")
    a.joins(1, a)
    talk.connection().ask(42, "DeleteGroups", 1, {"groups_names": ["c"]}).answered(
        None, results=[{"group_id": "c", "error_code": 68}]
    )
    assert group(talk).state == "CompletingRebalance"
    talk.connection().ask(42, "DeleteGroups", 1, {"groups_names": ["c"]}).answered(
        None, results=[{"group_id": "c", "error_code": 0}]
    )
    seen = group(talk)
    assert (seen.state, seen.history[-1].source) == ("Dead", "deleted")
    assert how(seen.members[0]) == "deleted"


def test_a_list_names_groups_of_which_nothing_else_is_known() -> None:
    """Version 2 tells neither state nor type."""
    talk = Conversation()
    talk.connection().ask(16, "ListGroups", 2, {}).answered(groups=[{"group_id": "c", "protocol_type": "consumer"}])
    seen = group(talk)
    assert (seen.type, seen.state, seen.history[-1].source) == (None, None, "listed")
