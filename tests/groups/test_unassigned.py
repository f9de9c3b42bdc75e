"""Partitions that the assignor gave to nobody."""

from __future__ import annotations

import pytest

from tests.conversation import TOPIC, Connection, Conversation
from tests.groups.talks import group
from tests.groups.test_expiry import handed, joins
from tests.groups.test_heartbeats import consumer
from tests.groups.test_rebalances import begun


def metadata(connection: Connection, topic: str, partitions: int) -> None:
    row = {"partition_index": 0, "error_code": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
    rows = [{**row, "partition_index": number, "offline_replicas": []} for number in range(partitions)]
    named = {"error_code": 0, "name": topic, "is_internal": False, "partitions": rows}
    body = {"topics": [{"name": topic}], "allow_auto_topic_creation": True}
    broker = {"node_id": 1, "host": "10.0.0.9", "port": 9092, "rack": None}
    connection.ask(3, "Metadata", 5, body).answered(
        None, brokers=[broker], cluster_id="c", controller_id=1, topics=[named]
    )


def nobody_has(talk: Conversation) -> dict[str | None, list[int]]:
    return {one.topic: one.partitions for one in group(talk, {TOPIC: "t"}).unassigned}


@pytest.mark.parametrize(("partitions", "missing"), [(2, {}), (4, {"orders": [2, 3]})])
def test_partitions_of_a_classic_group(partitions: int, missing: dict[str, list[int]]) -> None:
    talk = Conversation()
    a, b = begun(talk, "a", "b")
    metadata(talk.connection(), "orders", partitions)
    for one in (a, b):
        one.beats(1)
    assert nobody_has(talk) == missing


def test_partitions_of_a_consumer_group() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    metadata(talk.connection(), "t", 3)
    joins(a, 1, 0, 1)
    consumer(a, 1, topic_partitions=handed(0, 1)["topic_partitions"]).given(1)
    assert nobody_has(talk) == {"t": [2]}


def test_nothing_is_said_while_the_group_rebalances_or_of_members_that_are_not_known() -> None:
    talk = Conversation()
    a, _ = begun(talk, "a", "b")
    metadata(talk.connection(), "orders", 4)
    a.beats(1, 27)
    assert nobody_has(talk) == {}
    talk = Conversation()
    joins(talk.member("a", joined=False), 1, 0)
    metadata(talk.connection(), "t", 4)
    consumer(talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False), 1).given(1)
    assert nobody_has(talk) == {}
