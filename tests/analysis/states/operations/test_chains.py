"""Administrative operations as chains of a client, the group coordinator and share coordinators; those that were not
finished stand out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kshark import limits
from kshark.analysis.states.operations.chains import ADMINISTRATION_APIS, Administration
from kshark.analysis.states.operations.listing import Operation
from kshark.pipeline import Options
from kshark_dissectors.enums import ErrorCode
from tests.analysis.administrators import Administrator, group_deleted, offsets_deleted, operations
from tests.analysis.coordinators import Sender
from tests.analysis.talks import assigned, unchanged
from tests.conversation import TOPIC, Asked, Conversation, Member, events
from tests.embedding import request_frame, response_frame
from tests.shared import shared
from tests.thinning import Whole, pages_of
from tests.witness.compare import log_of

NON_EMPTY_GROUP = ErrorCode.NON_EMPTY_GROUP
GROUP_ID_NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


class Cluster:
    """A group coordinator that asks a share coordinator for two share partitions, and an administrator."""

    def __init__(self) -> None:
        self.talk = Conversation()
        connection = self.talk.connection()
        self.senders = [Sender(connection, partition) for partition in (0, 1)]
        self.admin = Administrator(self.talk.connection())

    def joined(self) -> Member:
        member = self.talk.member("a")
        self.initialize(2, -1)
        assigned(member, 0, 1)
        return member

    def initialize(self, state_epoch: int, *starts: int) -> None:
        """Both share partitions, with start offsets of their own if there are two."""
        for sender in self.senders:
            sender.initialize(state_epoch, starts[sender.partition % len(starts)]).accepted()

    def delete(self) -> None:
        for sender in self.senders:
            sender.delete().accepted()

    def goes_on(self) -> None:
        """The group coordinator is heard again."""
        self.senders[0].summary().summed_up(0)

    def told(self) -> list[tuple[str, str, str | None]]:
        return [told(one) for one in operations(self.talk)]


def told(one: Operation) -> tuple[str, str, str | None]:
    return one.operation, one.outcome, one.because


def done(*names: str) -> list[tuple[str, str, str | None]]:
    return [(name, "done", None) for name in names]


JOINED = done("create", "assign")


def test_a_group_comes_to_be_and_its_partitions_are_assigned() -> None:
    cluster = Cluster()
    cluster.joined()
    create, assign = operations(cluster.talk)
    assert (told(create), create.group_id, create.client_id, create.in_sight) == (
        ("create", "done", None),
        "g",
        "c1",
        None,
    )
    assert told(assign) == ("assign", "done", None)
    assert assign.in_sight
    assert [(row.topic_id, row.partition, row.error_code) for row in assign.partitions] == [
        (TOPIC, 0, 0),
        (TOPIC, 1, 0),
    ]
    asked = [row.share_coordinator for row in assign.partitions]
    assert [(one.api, one.error_code, one.broker) for one in asked if one] == [
        ("InitializeShareGroupState", 0, "10.0.0.9:9092")
    ] * 2


def test_partitions_are_assigned_for_the_first_time_once() -> None:
    cluster = Cluster()
    assigned(cluster.joined(), 0, 1)
    assigned(cluster.talk.member("b"), 1)
    assert cluster.told() == JOINED


def test_a_group_that_had_members_is_not_new() -> None:
    cluster = Cluster()
    member = cluster.talk.member("a", joined=False)
    member.heartbeat(0, ["t"]).given(7, assignment={"topic_partitions": []})
    assert cluster.told() == []
    unchanged(member)
    assert cluster.told() == [("assign", "unfinished", "not_assigned")]


def test_a_group_whose_partitions_no_member_was_assigned() -> None:
    cluster = Cluster()
    member = cluster.talk.member("a")
    cluster.initialize(2, -1)
    assert cluster.told() == done("create")
    missed = unchanged(member)
    _, assign = operations(cluster.talk)
    assert told(assign) == ("assign", "unfinished", "not_assigned")
    assert [(row.partition, row.lacking, row.share_coordinator is not None) for row in assign.partitions] == [
        (0, True, True),
        (1, True, True),
    ]
    for _ in range(5):
        unchanged(member)
    assert [told(one) for one in operations(cluster.talk.without_packets(missed.answer_packets))] == done("create")


def test_offsets_are_altered() -> None:
    cluster = Cluster()
    cluster.joined()
    altering = cluster.admin.alter(p0=5, p1=7)
    cluster.initialize(4, 5, 7)
    altering.answered(0, 0)
    alter = operations(cluster.talk)[-1]
    assert (told(alter), alter.in_sight, alter.broker) == (("alter_offsets", "done", None), True, "10.0.0.9:9092")
    assert [(row.topic, row.partition, row.start_offset, row.error_code) for row in alter.partitions] == [
        ("t", 0, 5, 0),
        ("t", 1, 7, 0),
    ]
    asked = [row.share_coordinator.packet for row in alter.partitions if row.share_coordinator]
    assert len(asked) == 2
    assert alter.packet < min(asked) < max(asked) < (alter.answer_packet or 0)


def test_offsets_are_altered_out_of_sight() -> None:
    cluster = Cluster()
    cluster.admin.alter(p0=5).answered(0)
    (alter,) = operations(cluster.talk)
    assert (told(alter), alter.in_sight) == (("alter_offsets", "done", None), False)


def test_offsets_are_not_altered_though_the_client_is_told_so() -> None:
    cluster = Cluster()
    cluster.joined()
    altering = cluster.admin.alter(p0=5, p1=7)
    cluster.senders[1].initialize(4, 7).accepted()
    altering.answered(0, 0)
    cluster.goes_on()
    alter = operations(cluster.talk)[-1]
    assert (told(alter), alter.in_sight) == (("alter_offsets", "unfinished", "not_asked"), True)
    assert [(row.partition, row.lacking) for row in alter.partitions] == [(0, True), (1, False)]


def test_behind_the_last_request_nobody_knows_what_the_capture_holds() -> None:
    cluster = Cluster()
    cluster.joined()
    cluster.admin.alter(p0=5, p1=7).answered(0, 0)
    alter = operations(cluster.talk)[-1]
    assert (told(alter), alter.in_sight) == (("alter_offsets", "done", None), False)


def test_a_connection_shows_what_was_asked_since_it_began() -> None:
    cluster = Cluster()
    cluster.joined()
    altering = cluster.admin.alter(p0=5, p1=7)
    later = cluster.talk.connection()
    for partition in (0, 1):
        Sender(later, partition).summary().summed_up(0)
    cluster.senders[0].connection.close()
    altering.answered(0, 0)
    Sender(later, 0).summary().summed_up(0)
    assert cluster.told() == [*JOINED, *done("alter_offsets")]


def test_what_was_captured_elsewhere_may_come_late() -> None:
    cluster = Cluster()
    cluster.joined()
    cluster.admin.alter(p0=5, p1=7).answered(0, 0)
    cluster.initialize(4, 5, 7)
    cluster.goes_on()
    assert cluster.told() == [*JOINED, *done("alter_offsets")]
    cluster.talk.pause(2)
    cluster.admin.alter(p0=5, p1=7).answered(0, 0)
    cluster.talk.pause(2)
    cluster.initialize(4, 5, 7)
    assert cluster.told() == [*JOINED, *done("alter_offsets"), ("alter_offsets", "unfinished", "not_asked")]


def test_the_share_coordinator_refuses() -> None:
    cluster = Cluster()
    cluster.joined()
    altering = cluster.admin.alter(p0=5)
    cluster.senders[0].initialize(1, 5).refused(ErrorCode.FENCED_STATE_EPOCH)
    altering.answered(0)
    assert cluster.told() == [*JOINED, ("alter_offsets", "unfinished", "not_accepted")]


def test_the_answer_says_nothing_of_what_was_asked() -> None:
    """4.1 answers AlterShareGroupOffsets of a group with members with 0 and an empty list."""
    cluster = Cluster()
    cluster.joined()
    cluster.admin.alter(p0=5, p1=7).answered()
    cluster.admin.alter(p0=5, p1=7).answered(0)
    cluster.admin.describe().answered(None, groups=[])
    names = [
        (told(one), [row.partition for row in one.partitions if row.lacking]) for one in operations(cluster.talk)[2:]
    ]
    assert names == [
        (("alter_offsets", "unfinished", "not_told"), [0, 1]),
        (("alter_offsets", "unfinished", "not_told"), [1]),
        (("describe", "unfinished", "not_told"), []),
    ]


def test_refused_in_whole_or_in_part() -> None:
    cluster = Cluster()
    cluster.joined()
    cluster.admin.alter(p0=5).asked.answered(NON_EMPTY_GROUP)
    cluster.admin.alter(p0=5, p1=7).answered(3, 3)
    altering = cluster.admin.alter(p0=5, p1=7)
    cluster.initialize(4, 5)
    altering.answered(0, 3)
    offsets_deleted(cluster.admin.delete_offsets(), 3)
    group_deleted(cluster.admin.delete_group(), NON_EMPTY_GROUP)
    cluster.goes_on()
    assert [(one.operation, one.outcome, one.error_code) for one in operations(cluster.talk)[2:]] == [
        ("alter_offsets", "refused", 68),
        ("alter_offsets", "refused", 3),
        ("alter_offsets", "partly", 3),
        ("delete_offsets", "refused", 3),
        ("delete_group", "refused", 68),
    ]


def test_nobody_is_told_how_it_ended() -> None:
    cluster = Cluster()
    cluster.joined()
    cluster.admin.alter(p0=5)
    assert cluster.told() == [*JOINED, ("alter_offsets", "unanswered", None)]


def test_offsets_of_a_topic_and_then_the_group_are_deleted() -> None:
    cluster = Cluster()
    cluster.joined()
    deleting = cluster.admin.delete_offsets()
    cluster.delete()
    offsets_deleted(deleting)
    group_deleted(cluster.admin.delete_group())
    offsets, group = operations(cluster.talk)[2:]
    assert (told(offsets), told(group)) == (("delete_offsets", "done", None), ("delete_group", "done", None))
    assert [(row.topic, row.partition, row.share_coordinator is not None) for row in offsets.partitions] == [
        ("t", 0, True),
        ("t", 1, True),
    ]
    assert (group.partitions, group.in_sight) == ([], True)


def test_a_deleted_group_begins_anew() -> None:
    cluster = Cluster()
    cluster.joined()
    deleting = cluster.admin.delete_group()
    cluster.delete()
    group_deleted(deleting)
    cluster.joined()
    assert cluster.told() == [*JOINED, *done("delete_group"), *JOINED]


def test_a_state_is_left_behind() -> None:
    cluster = Cluster()
    cluster.joined()
    deleting = cluster.admin.delete_group()
    cluster.senders[0].delete().accepted()
    group_deleted(deleting)
    cluster.goes_on()
    group = operations(cluster.talk)[-1]
    assert told(group) == ("delete_group", "unfinished", "not_asked")
    assert [(row.partition, row.lacking) for row in group.partitions] == [(0, False), (1, True)]


# -- topics that are deleted before their group: no share state of theirs is left to delete

OTHER = "BBBBBBBBBBBBBBBBBBBBBw"


def topic_deleted(cluster: Cluster, *, version: int = 6, by_id: bool = False, error: int = 0) -> Asked:
    """Another client deletes topic t on another broker."""
    named = {"topic_names": ["t"]} if version < 6 else {"topics": [{"name": None if by_id else "t", "topic_id": TOPIC}]}
    asked = cluster.talk.connection("10.0.0.8:9092").ask(20, "DeleteTopics", version, {**named, "timeout_ms": 30_000})
    told_id = {"topic_id": TOPIC} if version >= 6 else {}
    return asked.answered(None, responses=[{"name": "t", "error_code": error, **told_id}])


def topic_named(cluster: Cluster, topic_id: str) -> None:
    """The id of topic t in a Metadata response."""
    asked = cluster.talk.connection().ask(3, "Metadata", 12, {"topics": None, "allow_auto_topic_creation": False})
    topic = {"error_code": 0, "name": "t", "topic_id": topic_id, "partitions": []}
    asked.answered(None, brokers=[], cluster_id=None, controller_id=1, topics=[topic])


def other_topic(cluster: Cluster, topic_id: str = OTHER) -> Sender:
    """Another topic of the group, whose state is initialized."""
    sender = Sender(cluster.senders[0].connection, 0, topic=topic_id)
    sender.initialize().accepted()
    return sender


def deleted_with_other(cluster: Cluster) -> Operation:
    """The group is deleted, and a request is sent for a partition of another topic only."""
    other = other_topic(cluster)
    deleting = cluster.admin.delete_group()
    other.delete().accepted()
    group_deleted(deleting)
    other.summary().refused(3)
    return operations(cluster.talk)[-1]


@pytest.mark.parametrize("how", [{}, {"by_id": True}, {"version": 5}])
def test_a_deleted_topic_leaves_no_state_behind(how: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.joined()
    topic_named(cluster, TOPIC)
    topic_deleted(cluster, **how)
    topic_deleted(cluster, **how, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    group = deleted_with_other(cluster)
    assert (told(group), group.in_sight) == (("delete_group", "done", None), True)
    assert [(row.topic_id, row.partition) for row in group.partitions] == [(OTHER, 0)]


def test_a_broker_forwards_the_deletion_of_a_topic_to_the_controller() -> None:
    """Only its connection to the controller is in the capture. Source: KIP-590."""
    cluster = Cluster()
    cluster.joined()
    body = {"topics": [{"name": "t", "topic_id": TOPIC}], "timeout_ms": 30_000}
    inner = request_frame(20, 6, body)
    asked = {"request_data": inner, "request_principal": None, "client_host_address": b"\x7f\0\0\1"}
    answer = response_frame(20, 6, {"responses": [{"name": "t", "topic_id": TOPIC, "error_code": 0}]})
    connection = cluster.talk.connection("10.0.0.9:9093")
    connection.ask(58, "Envelope", 0, asked).answered(0, response_data=answer)
    deleted_with_other(cluster)
    cluster.goes_on()
    stage = Administration()
    over = [one for event in events(cluster.talk, Options(embedded=True)) for one in stage.feed(event)]
    assert [told(one) for one in [*over, *stage.close()]][-1] == ("delete_group", "done", None)


def test_a_topic_was_made_again_under_another_id() -> None:
    """Its deletion is not in the capture, and its new id shows it."""
    cluster = Cluster()
    topic_named(cluster, TOPIC)
    cluster.joined()
    topic_named(cluster, OTHER)
    group = deleted_with_other(cluster)
    assert (told(group), [row.topic_id for row in group.partitions]) == (("delete_group", "done", None), [OTHER])


def test_a_topic_may_have_been_deleted_out_of_sight() -> None:
    cluster = Cluster()
    cluster.joined()
    group = deleted_with_other(cluster)
    assert (told(group), group.in_sight) == (("delete_group", "done", None), False)
    cluster.goes_on()
    group = operations(cluster.talk)[-1]
    assert told(group) == ("delete_group", "unfinished", "not_asked")
    assert [(row.topic_id, row.lacking) for row in group.partitions] == [(TOPIC, True)] * 2 + [(OTHER, False)]


def test_a_deletion_of_a_topic_that_was_refused_deletes_nothing() -> None:
    cluster = Cluster()
    cluster.joined()
    topic_deleted(cluster, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    deleted_with_other(cluster)
    cluster.goes_on()
    assert told(operations(cluster.talk)[-1]) == ("delete_group", "unfinished", "not_asked")


def test_a_share_coordinator_does_not_know_a_deleted_topic() -> None:
    cluster = Cluster()
    cluster.joined()
    deleting = cluster.admin.delete_group()
    topic_deleted(cluster)
    for sender in cluster.senders:
        sender.delete().refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    group_deleted(deleting)
    cluster.goes_on()
    group = operations(cluster.talk)[-1]
    assert (told(group), len(group.partitions)) == (("delete_group", "done", None), 2)


def test_a_group_without_share_state_is_deleted() -> None:
    cluster = Cluster()
    cluster.talk.member("a", joined=False).heartbeat(0, []).given(1)
    group_deleted(cluster.admin.delete_group(), NON_EMPTY_GROUP)
    group_deleted(cluster.admin.delete_group())
    refused, deleted = operations(cluster.talk)[-2:]
    assert (told(refused), told(deleted)) == (("delete_group", "refused", None), ("delete_group", "done", None))
    assert (deleted.partitions, deleted.in_sight) == ([], None)


@pytest.mark.parametrize("gone", ["gone", "again"])
def test_no_missing_packet_makes_a_deleted_topic_a_state_left_behind(gone: str) -> None:
    cluster = Cluster()
    topic_named(cluster, TOPIC)
    cluster.joined()
    topic_deleted(cluster)
    if gone == "again":
        topic_named(cluster, OTHER)
    deleted_with_other(cluster)
    for number, _ in cluster.talk.packets():
        assert not [one for one in operations(cluster.talk.without_packets([number])) if one.because is not None], (
            number
        )


def test_groups_of_other_types_are_deleted_in_silence() -> None:
    cluster = Cluster()
    group_deleted(cluster.admin.delete_group())
    assert cluster.told() == []


def test_groups_are_listed_and_described() -> None:
    cluster = Cluster()
    rows = [("g", "share", "Stable", "share"), ("other", "consumer", "Stable", "classic")]
    names = ("group_id", "protocol_type", "group_state", "group_type")
    cluster.admin.list_groups().answered(groups=[dict(zip(names, row, strict=True)) for row in rows])
    cluster.admin.describe().answered(None, groups=[{"group_id": "g", "error_code": GROUP_ID_NOT_FOUND}])
    describing = cluster.admin.describe_offsets()
    cluster.senders[0].summary().summed_up(20)
    partitions = [{"partition_index": 0, "start_offset": 20, "lag": 5}, {"partition_index": 1, "start_offset": -1}]
    topics = [{"topic_name": "t", "topic_id": TOPIC, "partitions": partitions}]
    describing.answered(None, groups=[{"group_id": "g", "topics": topics}])
    cluster.goes_on()
    assert [(told(one), one.error_code) for one in operations(cluster.talk)] == [
        (("list", "done", None), 0),
        (("describe", "refused", None), 69),
        (("describe_offsets", "done", None), 0),
    ]
    offsets = operations(cluster.talk)[-1]
    assert [(row.start_offset, row.share_coordinator is not None) for row in offsets.partitions] == [
        (20, True),
        (-1, False),
    ]


def test_nothing_becomes_unfinished_by_packets_that_are_missing() -> None:
    cluster = Cluster()
    cluster.joined()
    altering = cluster.admin.alter(p0=5, p1=7)
    cluster.initialize(4, 5, 7)
    altering.answered(0, 0)
    deleting = cluster.admin.delete_group()
    cluster.delete()
    group_deleted(deleting)
    cluster.goes_on()
    assert cluster.told() == [*JOINED, *done("alter_offsets", "delete_group")]
    for number, _ in cluster.talk.packets():
        assert not [one for one in operations(cluster.talk.without_packets([number])) if one.because is not None], (
            number
        )
    for exchange in cluster.talk.exchanges:
        assert not [
            one for one in operations(cluster.talk.without_packets(exchange.all_packets)) if one.because is not None
        ], exchange


def test_too_many_groups_are_forgotten() -> None:
    cluster = Cluster()
    cluster.joined()
    with patch.object(limits, "SHARE_PARTITIONS", 2):
        Sender(cluster.senders[0].connection, 0, "other").initialize().accepted()
        cluster.admin.alter(p0=5).answered(0)
        cluster.goes_on()
        alter = operations(cluster.talk)[-1]
    assert (told(alter), alter.in_sight) == (("alter_offsets", "done", None), False)


def test_too_many_unfinished_operations_are_given_out_early() -> None:
    cluster = Cluster()
    cluster.joined()
    with patch.object(limits, "UNFINISHED_OPERATIONS", 1):
        cluster.admin.alter(p0=5).answered(0)
        cluster.admin.alter(p0=6).answered(0)
        cluster.goes_on()
        outcomes = [one.outcome for one in operations(cluster.talk)[2:]]
    assert outcomes == ["done", "unfinished"]


# -- what brokers logged

#: Captures with administrators and connections between brokers, and how many operations each holds.
LOGGED = {"groups-share": 39, "admin-tools": 17, "adv-members": 14, "ver-4.1.2": 10}
ADMIN = {
    16: "list",
    42: "delete_group",
    77: "describe",
    90: "describe_offsets",
    91: "alter_offsets",
    92: "delete_offsets",
}


def operations_of(capture: Path) -> list[Operation]:
    stage = Administration()
    pages = pages_of(Whole.load(capture).batches, Options(records=False, bodies=ADMINISTRATION_APIS))
    found = [operation for page in pages for event in page for operation in stage.feed(event)]
    return [*found, *stage.close()]


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", LOGGED)
def test_the_operations_are_those_in_the_brokers_logs(name: str) -> None:
    capture = shared("captures", "kafka-4", f"{name}.pcap")
    found, log = operations_of(capture), log_of(capture)
    assert len(found) == LOGGED[name]
    share = {line["request"]["groupId"] for line in log if line["requestHeader"]["requestApiKey"] in (76, 83)}
    wanted: Counter[tuple[str, str, int]] = Counter()
    for line in log:
        kind, answer = ADMIN.get(line["requestHeader"]["requestApiKey"]), line.get("response") or {}
        groups = (
            answer.get("groups")
            or answer.get("results")
            or ([line["request"]] if kind in ("alter_offsets", "delete_offsets") else [])
        )
        for group in groups if kind else ():
            if kind not in ("list", "delete_group") or group["groupId"] in share:
                wanted[str(kind), group["groupId"], group.get("errorCode", answer.get("errorCode", 0))] += 1
    assert (
        Counter((one.operation, one.group_id, one.error_code) for one in found if one.operation in ADMIN.values())
        == wanted
    )


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", LOGGED)
def test_every_state_made_or_deleted_belongs_to_an_operation(name: str) -> None:
    """But for what a raw client wrote that plays a broker."""
    capture = shared("captures", "kafka-4", f"{name}.pcap")
    chained = [row.share_coordinator for one in operations_of(capture) for row in one.partitions]
    found = Counter(
        (one.api, one.error_code) for one in chained if one is not None and one.api != "ReadShareGroupStateSummary"
    )
    names = {83: "InitializeShareGroupState", 86: "DeleteShareGroupState"}
    lines = [line for line in log_of(capture) if line["requestHeader"]["requestApiKey"] in names]
    wanted: Counter[tuple[str, int]] = Counter()
    for line in lines:
        if line["requestHeader"]["clientId"].startswith("Persister-client"):
            codes = [one["errorCode"] for topic in line["response"]["results"] for one in topic["partitions"]]
            wanted.update((names[line["requestHeader"]["requestApiKey"]], code) for code in codes)
    assert found == wanted
    assert wanted


@pytest.mark.parametrize("name", LOGGED)
def test_what_is_unfinished(name: str) -> None:
    """4.1 alters no offsets of a group with members, and names none; in two captures members go before they are
    assigned any."""
    unfinished = {
        "admin-tools": [("console-share-consumer", "assign", "not_assigned")],
        "ver-4.1.2": [("gs", "alter_offsets", "not_told"), ("vsg", "assign", "not_assigned")],
    }
    found = operations_of(shared("captures", "kafka-4", f"{name}.pcap"))
    assert [(one.group_id, one.operation, one.because) for one in found if one.because is not None] == unfinished.get(
        name, []
    )
