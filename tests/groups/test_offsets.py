"""Offsets of groups and their lag: what was committed, what an answer said, and what is unknown."""

from __future__ import annotations

from typing import Any

from kshark.groups import Groups, ListedGroup
from kshark.pipeline import Options
from tests.conversation import TOPIC, Asked, Connection, Conversation, Thinned, events
from tests.groups.talks import Classic
from tests.metrics.talks import produced

#: Group, topic, partition, offset.
Offsets = dict[int, int]


def begun() -> tuple[Conversation, Connection]:
    """A conversation with a member of a classic group, on that connection."""
    talk = Conversation()
    connection = talk.connection()
    Classic(connection, "m").joins(1)
    return talk, connection


def commits(connection: Connection, offsets: Offsets, *, error: int = 0, answered: bool = True) -> Asked:
    partitions = [
        {"partition_index": number, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        for number, offset in offsets.items()
    ]
    body = {
        "group_id": "c", "generation_id_or_member_epoch": 1, "member_id": "m", "group_instance_id": None,
        "topics": [{"name": "t", "partitions": partitions}],
    }  # fmt: skip
    asked = connection.ask(8, "OffsetCommit", 8, body)
    results = [{"partition_index": number, "error_code": error} for number in offsets]
    if not answered:
        return asked
    return asked.answered(None, throttle_time_ms=0, topics=[{"name": "t", "partitions": results}])


def fetches(connection: Connection, offsets: Offsets) -> Asked:
    rows = [
        {
            "partition_index": number,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "metadata": "",
            "error_code": 0,
        }
        for number, offset in offsets.items()
    ]
    body = {"groups": [{"group_id": "c", "topics": None}], "require_stable": False}
    group: dict[str, Any] = {"group_id": "c", "error_code": 0, "topics": [{"name": "t", "partitions": rows}]}
    return connection.ask(9, "OffsetFetch", 8, body).answered(None, throttle_time_ms=0, groups=[group])


def describes(connection: Connection, start: int, lag: int, group_id: str = "g") -> Asked:
    row = {
        "partition_index": 0, "start_offset": start, "leader_epoch": 0, "lag": lag, "error_code": 0,
        "error_message": None,
    }  # fmt: skip
    group = {
        "group_id": group_id, "error_code": 0, "error_message": None,
        "topics": [{"topic_name": "t", "topic_id": TOPIC, "partitions": [row]}],
    }  # fmt: skip
    asked = connection.ask(90, "DescribeShareGroupOffsets", 1, {"groups": [{"group_id": group_id, "topics": None}]})
    return asked.answered(None, throttle_time_ms=0, groups=[group])


def group(talk: Conversation | Thinned) -> ListedGroup:
    names = {TOPIC: "t"}
    known = Groups(names)
    for event in events(talk, Options(records="headers", embedded=True)):
        known.feed(event)
    known.close()
    (listed,) = known.listed(names)
    return listed


def offsets(talk: Conversation | Thinned) -> list[tuple[int, int, int | None, int | None, str]]:
    """Partition, offset, end, lag and source."""
    return [(it.partition, it.offset, it.end_offset, it.lag, it.source) for it in group(talk).offsets]


def test_a_committed_offset_and_its_lag() -> None:
    """The end of a partition without any Produce, Fetch or ListOffsets is unknown."""
    talk, connection = begun()
    produced(talk.connection(), 10)
    commits(connection, {0: 4, 1: 7})
    assert offsets(talk) == [(0, 4, 10, 6, "committed"), (1, 7, None, None, "committed")]


def test_the_last_commit_counts() -> None:
    talk, connection = begun()
    commits(connection, {0: 4})
    last = commits(connection, {0: 8})
    assert [(it.offset, it.packet) for it in group(talk).offsets] == [(8, last.answer_packets[-1])]


def test_a_refused_commit_changes_nothing_and_one_without_an_answer_leaves_it_unknown() -> None:
    talk, connection = begun()
    commits(connection, {0: 4})
    commits(connection, {0: 8}, error=22)
    assert offsets(talk) == [(0, 4, None, None, "committed")]
    commits(connection, {0: 8}, answered=False)
    assert offsets(talk) == []


def test_what_a_member_fetches() -> None:
    """-1: nothing was committed."""
    talk, connection = begun()
    fetches(connection, {0: 5, 1: -1})
    assert offsets(talk) == [(0, 5, None, None, "fetched")]


def test_an_end_before_the_offset_is_out_of_date() -> None:
    talk, connection = begun()
    produced(talk.connection(), 2)
    commits(connection, {0: 4})
    assert offsets(talk) == [(0, 4, 2, None, "committed")]


def test_a_share_group_has_the_lag_of_the_answer() -> None:
    talk = Conversation()
    talk.member("a")
    produced(talk.connection(), 100)
    describes(talk.connection(), 40, 12)
    assert offsets(talk) == [(0, 40, 100, 12, "described")]


def test_a_commit_of_a_transaction_counts_only_when_it_ends() -> None:
    talk, connection = begun()
    commits(connection, {0: 4})
    row = {"partition_index": 0, "committed_offset": 9, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {
        "transactional_id": "tx", "group_id": "c", "producer_id": 1, "producer_epoch": 0,
        "generation_id_or_member_epoch": 1, "member_id": "m", "group_instance_id": None,
        "topics": [{"name": "t", "partitions": [row]}],
    }  # fmt: skip
    result = [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 0}]}]
    connection.ask(28, "TxnOffsetCommit", 3, body).answered(None, throttle_time_ms=0, topics=result)
    assert offsets(talk) == []


def test_a_deleted_group_has_no_offsets() -> None:
    talk = Conversation()
    talk.member("a")
    admin = talk.connection()
    describes(admin, 40, 12)
    refused = [{"group_id": "g", "error_code": 68}]
    admin.ask(42, "DeleteGroups", 1, {"groups_names": ["g"]}).answered(None, throttle_time_ms=0, results=refused)
    assert len(offsets(talk)) == 1
    done = [{"group_id": "g", "error_code": 0}]
    admin.ask(42, "DeleteGroups", 1, {"groups_names": ["g"]}).answered(None, throttle_time_ms=0, results=done)
    assert offsets(talk) == []
