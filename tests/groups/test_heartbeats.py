"""Groups with epochs: members join, stay, leave and are fenced; states follow."""

from __future__ import annotations

from typing import Any

from tests.analysis.talks import FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, assigned, left, unchanged
from tests.conversation import TOPIC, Asked, Conversation, Member
from tests.groups.talks import assignment, group, groups, how, member, states, tasks


def consumer(a: Member, epoch: int, **fields: Any) -> Asked:
    """A heartbeat of KIP-848."""
    named = {"group_id": a.group, "member_id": a.member_id, "member_epoch": epoch}
    blank = {
        "instance_id": None,
        "rack_id": None,
        "subscribed_topic_names": None,
        "server_assignor": None,
        "topic_partitions": None,
    }
    return a.connection.ask(68, "ConsumerGroupHeartbeat", 0, {**blank, **named, **fields})


def test_a_member_joins_stays_and_leaves() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    joins = a.heartbeat(0, ["orders"], rack_id="r1").given(1)
    assigned(a, 1, 0)
    last = left(a)
    seen = group(talk, {TOPIC: "orders"})
    assert (seen.type, seen.state, seen.assignment_epoch) == ("share", "Empty", 1)
    assert states(seen) == [("Stable", 1), ("Empty", 0)]
    (one,) = seen.members
    assert (one.client_id, one.software, one.software_version, one.address) == (
        "c1",
        "apache-kafka-java",
        "4.3.1",
        "10.0.0.1",
    )
    assert (one.rack_id, one.topics, one.epoch, assignment(one)) == ("r1", ["orders"], 1, {"orders": [0, 1]})
    assert one.joined is not None
    assert one.ended is not None
    assert (one.joined.packet, one.ended.packet, how(one), one.present) == (joins.packet, last.packet, "left", False)


def test_topics_without_a_known_name_keep_their_id() -> None:
    talk = Conversation()
    assigned(talk.member("a"), 0)
    (topic,) = member(talk).assignment or []
    assert (topic.topic_id, topic.topic) == (TOPIC, None)


def test_a_member_that_joined_before_the_capture_is_in_the_group_all_the_same() -> None:
    talk = Conversation()
    unchanged(talk.member("a", joined=False))
    one = member(talk)
    assert (one.present, one.joined, one.epoch) == (True, None, 1)


def test_a_member_is_fenced_and_joins_again() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(7).answered(FENCED_MEMBER_EPOCH)
    assert group(talk).state == "Empty"
    fenced = member(talk)
    assert (how(fenced), fenced.rejected) == ("fenced", {"110": 1})
    a.join()
    back = member(talk)
    assert (back.present, back.ended, back.joins) == (True, None, 2)


def test_a_member_that_was_expelled_finds_out() -> None:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(60)
    a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    assert how(member(talk)) == "unknown"


def test_whoever_is_refused_from_the_start_was_never_in_the_group() -> None:
    talk = Conversation()
    talk.member("a")
    talk.member("b", joined=False).heartbeat(3).answered(UNKNOWN_MEMBER_ID)
    _, b = group(talk).members
    assert (b.present, b.joined, b.ended, b.rejected) == (False, None, None, {"25": 1})


def test_a_consumer_group_reconciles_until_all_members_have_its_epoch() -> None:
    talk = Conversation()
    a, b = (talk.member(name, joined=False) for name in "ab")
    consumer(a, 0, subscribed_topic_names=["orders"], rack_id="r").given(1)
    consumer(b, 0, subscribed_topic_names=["orders"]).given(2)
    consumer(a, 1).given(2)
    seen = group(talk)
    assert seen.type == "consumer"
    assert states(seen) == [("Stable", 1), ("Reconciling", 2), ("Stable", 2)]


def test_a_static_member_goes_away_and_comes_back_under_another_id() -> None:
    talk = Conversation()
    a, b = (talk.member(name, joined=False) for name in "ab")
    consumer(a, 0, instance_id="i").given(1)
    consumer(a, -2, instance_id="i").given(-2)
    assert how(member(talk)) == "away"
    consumer(a, 0, instance_id="i").given(1)
    consumer(b, 0, instance_id="i").given(1)
    assert [how(one) for one in group(talk).members] == ["replaced", None]


def test_a_group_of_another_type_does_not_lose_its_member() -> None:
    """Asked as a share group, a consumer group is not found."""
    talk = Conversation()
    a = talk.member("a", joined=False)
    consumer(a, 0, subscribed_topic_names=["orders"]).given(1)
    a.heartbeat(0, ["orders"]).answered(GROUP_ID_NOT_FOUND)
    seen = group(talk)
    assert (seen.type, seen.state, seen.members[0].present) == ("consumer", "Stable", True)


def test_a_member_whose_coordinator_was_not_captured_is_seen_by_its_sessions() -> None:
    talk = Conversation()
    talk.member("a", joined=False).share_fetch(0, [0]).answered()
    seen = group(talk)
    assert (seen.type, seen.state, seen.members[0].present) == ("share", None, None)


def test_requests_without_a_name_tell_of_nobody() -> None:
    talk = Conversation()
    unnamed = Member(talk.connection(), "", "")
    unnamed.heartbeat(0, ["t"]).answered(42)
    unnamed.share_fetch(0).answered(42)
    assert groups(talk) == []


def test_a_lost_answer_leaves_the_member_as_it_was() -> None:
    talk = Conversation()
    a = talk.member("a")
    leave = left(a)
    seen = group(talk.without_packets(leave.answer_packets))
    assert (seen.state, seen.members[0].present) == ("Stable", True)


def test_an_assignment_keeps_its_epoch_when_those_who_reached_it_leave() -> None:
    talk = Conversation()
    stays, goes = talk.member("a", joined=False), talk.member("b", joined=False)
    stays.heartbeat(0).given(2)
    goes.heartbeat(0).given(3)
    left(goes)
    assert [row.assignment_epoch for row in group(talk).history] == [2, 3, 3]


def test_a_group_that_is_made_anew_begins_with_a_low_epoch() -> None:
    talk = Conversation()
    stays, comes = talk.member("a", joined=False), talk.member("b", joined=False)
    stays.heartbeat(0).given(9)
    comes.heartbeat(0).given(2)
    comes.heartbeat(2).given(2)
    assert [row.assignment_epoch for row in group(talk).history] == [9, 2]


def streams(a: Member, epoch: int, **fields: Any) -> Asked:
    """A heartbeat of KIP-1071."""
    named = {"group_id": a.group, "member_id": a.member_id, "member_epoch": epoch, "endpoint_information_epoch": -1}
    blank = dict.fromkeys(
        ("instance_id", "rack_id", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id")
    )
    more = dict.fromkeys(("user_endpoint", "client_tags", "task_offsets", "task_end_offsets"))
    return a.connection.ask(
        88, "StreamsGroupHeartbeat", 0, {**blank, **more, "shutdown_application": False, **named, **fields}
    )


def given(asked: Asked, epoch: int, **told: Any) -> None:
    """Accepted; of tasks nothing new unless told."""
    blank = dict.fromkeys(
        ("error_message", "status", "active_tasks", "standby_tasks", "warmup_tasks", "partitions_by_user_endpoint")
    )
    numbers = dict.fromkeys(
        ("heartbeat_interval_ms", "acceptable_recovery_lag_legacy", "task_offset_interval_ms"), 5000
    )
    of_member = {"member_id": "", "member_epoch": epoch, "endpoint_information_epoch": 0}
    asked.answered(**{**blank, **numbers, **of_member, **told})


def subtopology(
    name: str, sources: list[str], *, patterns: list[str] | None = None, own: list[str] | None = None
) -> dict[str, Any]:
    blank: dict[str, Any] = {
        name: [] for name in ("state_changelog_topics", "repartition_sink_topics", "copartition_groups")
    }
    topics = [{"name": topic, "partitions": 0, "replication_factor": 0, "topic_configs": []} for topic in own or ()]
    read = {"source_topics": sources, "source_topic_regex": patterns or [], "repartition_source_topics": topics}
    return {"subtopology_id": name, **blank, **read}


def task(subtopology: str, *partitions: int) -> dict[str, Any]:
    return {"subtopology_id": subtopology, "partitions": [*partitions]}


def test_a_member_of_a_streams_group_has_tasks_and_a_topology() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    topology = {
        "epoch": 0,
        "subtopologies": [subtopology("0", ["orders"], patterns=["pay.*"]), subtopology("1", [], own=["by-customer"])],
    }
    given(streams(a, 0, topology=topology), 1, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    idle = member(talk)
    assert (tasks(idle), idle.assignment, idle.topics) == ({}, None, ["/pay.*/", "by-customer", "orders"])
    given(
        streams(a, 1),
        2,
        active_tasks=[task("0", 0, 1), task("1", 0)],
        standby_tasks=[task("1", 1)],
        warmup_tasks=[task("0", 2)],
    )
    given(streams(a, 2), 2)
    seen = group(talk)
    assert (seen.type, seen.state, seen.assignment_epoch) == ("streams", "Stable", 2)
    assert tasks(member(talk)) == {"active": {"0": [0, 1], "1": [0]}, "standby": {"1": [1]}, "warmup": {"0": [2]}}
    assert member(talk).topics == ["/pay.*/", "by-customer", "orders"]
    given(streams(a, -1), -1)
    assert how(member(talk)) == "left"
