"""Given up records that reach no dead-letter queue: incident 140."""

from __future__ import annotations

from typing import Any

import pytest

from kshark.model import Finding
from tests.analysis.coordinators import leader
from tests.analysis.talks import shows
from tests.conversation import TOPIC, Asked, Connection, Conversation, Thinned
from tests.incidents.talks import incidents

QUEUE, QUEUE_ID = "dlq.t", "AAAAAAAAAAAAAAAAAAAADA"
ACCEPT, RELEASE, REJECT = 1, 2, 3
ARCHIVING, ARCHIVED = 3, 4
GROUP_RESOURCE, TOPIC_RESOURCE = 32, 2
NAME, ENABLE, LIMIT = (
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.group.enable",
    "share.delivery.count.limit",
)


def lost(talk: Conversation | Thinned) -> list[Finding]:
    return [finding for finding in incidents(talk) if finding.code == "DEAD_LETTER_LOST"]


def causes(talk: Conversation | Thinned) -> list[tuple[str, str | None]]:
    return [(found.verdict, found.cause or found.unknown_because) for found in lost(talk)]


def configure(connection: Connection, resource: int, name: str, error: int = 0, **values: str) -> Asked:
    """Set configs of a group or a topic."""
    configs = [
        {"name": name.replace("__", "."), "config_operation": 0, "value": value} for name, value in values.items()
    ]
    body = {
        "resources": [{"resource_type": resource, "resource_name": name, "configs": configs}],
        "validate_only": False,
    }
    row = {"error_code": error, "error_message": None, "resource_type": resource, "resource_name": name}
    return connection.ask(44, "IncrementalAlterConfigs", 1, body).answered(None, responses=[row], throttle_time_ms=0)


def queue_of(connection: Connection, group: str = "g", queue: str = QUEUE, error: int = 0, **values: str) -> Asked:
    return configure(connection, GROUP_RESOURCE, group, error, **{NAME: queue, **values})


def create(connection: Connection, *, enabled: bool) -> Asked:
    """Create the topic of the queue; the answer has its configs."""
    topic = {"name": QUEUE, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    configs = [
        {
            "name": ENABLE,
            "value": str(enabled).lower(),
            "read_only": False,
            "config_source": 5,
            "is_sensitive": False,
        }
    ]
    row = {"name": QUEUE, "topic_id": QUEUE_ID, "error_code": 0, "error_message": None, "num_partitions": 1}
    row |= {"replication_factor": 1, "configs": configs}
    body = {"topics": [topic], "timeout_ms": 1000, "validate_only": False}
    return connection.ask(19, "CreateTopics", 7, body).answered(None, topics=[row], throttle_time_ms=0)


def metadata(connection: Connection, *, error: int | None, others: tuple[int, ...] = ()) -> Asked:
    """Metadata of the queue's topic, or of all topics (`error` None); `others`: nodes besides the captured one."""
    topics: list[Any] = [] if error is None else [{"topic_id": "A" * 22, "name": QUEUE}]
    row = {"error_code": error, "name": QUEUE, "topic_id": "A" * 22, "is_internal": False, "partitions": []}
    body = {
        "topics": topics or None,
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    hosts = {1: "10.0.0.9", **{node: f"10.0.0.{node + 20}" for node in others}}
    return connection.ask(3, "Metadata", 12, body).answered(
        None,
        throttle_time_ms=0,
        brokers=[{"node_id": node, "host": host, "port": 9092, "rack": None} for node, host in hosts.items()],
        cluster_id="c",
        controller_id=1,
        topics=[] if error is None else [row],
    )


def reject(talk: Conversation, *, error: int = 0, kind: int = REJECT, count: int = 1) -> Asked:
    """A member gets three records, and gives them up."""
    a = talk.member("a")
    rows = [
        {
            "partition_index": 0,
            "records": b"",
            "acquired_records": [{"first_offset": 0, "last_offset": 2, "delivery_count": count}],
        }
    ]
    a.share_fetch(0, [0]).answered(responses=[{"topic_id": TOPIC, "partitions": rows}])
    return a.share_acknowledge(1, [(0, 2, kind)]).answered(acks={0: error})


def test_the_topic_is_missing() -> None:
    talk = Conversation()
    admin = talk.connection()
    queue_of(admin)
    metadata(admin, error=3)
    wrong = reject(talk)
    (found,) = lost(talk)
    assert (found.packet, found.verdict, found.cause, found.group_id) == (wrong.sent, "note", "queue_missing", "g")
    assert found.argument == (
        f"group g gave up 3 records (packet {wrong.sent}) that did not reach its dead-letter queue dlq.t: "
        "there is no such topic"
    )


def test_it_is_not_among_all_topics_that_a_client_may_see() -> None:
    """Metadata of all topics leaves out those that the client may not describe."""
    talk = Conversation()
    admin = talk.connection()
    queue_of(admin)
    metadata(admin, error=None)
    reject(talk)
    assert causes(talk) == [("unknown", "hidden_traffic")]


def test_records_that_were_lost_before_the_queue_was_changed() -> None:
    talk = Conversation()
    admin = talk.connection()
    queue_of(admin)
    metadata(admin, error=3)
    reject(talk)
    queue_of(admin, queue="other")
    assert causes(talk) == [("note", "queue_missing")]


def test_it_is_not_enabled() -> None:
    talk = Conversation()
    admin = talk.connection()
    create(admin, enabled=False)
    queue_of(admin)
    reject(talk)
    assert causes(talk) == [("note", "queue_not_enabled")]


def test_it_was_enabled_later() -> None:
    talk = Conversation()
    admin = talk.connection()
    create(admin, enabled=False)
    queue_of(admin)
    configure(admin, TOPIC_RESOURCE, QUEUE, **{ENABLE: "true"})
    reject(talk)
    assert causes(talk) == [("unknown", "hidden_traffic")]


def test_the_leader_may_write_where_the_capture_does_not_see_it() -> None:
    talk = Conversation()
    admin = talk.connection()
    create(admin, enabled=True)
    queue_of(admin)
    reject(talk)
    assert causes(talk) == [("unknown", "hidden_traffic")]


def write(talk: Conversation, error: int = 0) -> Asked:
    """The leader writes to the queue."""
    data = [{"topic_id": QUEUE_ID, "partition_data": [{"index": 0, "records": None}]}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": data}
    row = {
        "index": 0,
        "error_code": error,
        "base_offset": 0,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
        "record_errors": [],
        "error_message": None,
    }
    answer = [{"topic_id": QUEUE_ID, "partition_responses": [row]}]
    return talk.connection().ask(0, "Produce", 13, body).answered(None, responses=answer, throttle_time_ms=0)


def test_records_that_are_written_are_not_lost() -> None:
    talk = Conversation()
    admin = talk.connection()
    create(admin, enabled=True)
    queue_of(admin)
    reject(talk)
    write(talk)
    assert lost(talk) == []


def test_a_write_that_is_refused_shows_that_the_topic_is_missing() -> None:
    talk = Conversation()
    admin = talk.connection()
    create(admin, enabled=True)
    queue_of(admin)
    reject(talk)
    write(talk, 100)
    assert causes(talk) == [("note", "queue_missing")]


def test_the_leader_creates_the_topic_when_it_needs_it() -> None:
    talk = Conversation()
    admin = talk.connection()
    queue_of(admin)
    metadata(admin, error=3)
    reject(talk)
    create(admin, enabled=True)
    write(talk, 3)
    write(talk)
    assert lost(talk) == []


@pytest.mark.parametrize("how", ["no_queue", "refused", "unset", "other_group", "accept", "refused_config"])
def test_nothing_is_lost(how: str) -> None:
    talk = Conversation()
    admin = talk.connection()
    if how != "no_queue":
        queue_of(admin, "h" if how == "other_group" else "g", error=40 if how == "refused_config" else 0)
        metadata(admin, error=3)
    if how == "unset":
        queue_of(admin, queue="")
    reject(talk, error=121 if how == "refused" else 0, kind=ACCEPT if how == "accept" else REJECT)
    assert lost(talk) == []


@pytest.mark.parametrize(("count", "kind", "is_lost"), [(5, RELEASE, True), (4, RELEASE, False), (5, ACCEPT, False)])
def test_records_that_are_released_after_the_last_delivery_are_given_up(
    count: int, kind: int, *, is_lost: bool
) -> None:
    talk = Conversation()
    admin = talk.connection()
    queue_of(admin, **{LIMIT: "5"})
    metadata(admin, error=3)
    reject(talk, kind=kind, count=count)
    assert bool(lost(talk)) == is_lost


def stored(talk: Conversation, *, is_written: bool, others: tuple[int, ...] = ()) -> Asked:
    """The leader stores three records as archiving and then as archived."""
    admin = talk.connection()
    metadata(admin, error=0, others=others)
    create(admin, enabled=True)
    queue_of(admin)
    a = leader(talk)
    first = a.write(0, (0, 2, ARCHIVING, 1)).accepted()
    if is_written:
        write(talk)
    a.write(0, (0, 2, ARCHIVED, 1)).accepted()
    return first


def test_the_only_broker_writes_nothing_between_archiving_and_archived() -> None:
    talk = Conversation()
    stored(talk, is_written=False)
    assert causes(talk) == [("note", "queue_not_written")]


def test_it_writes_them() -> None:
    talk = Conversation()
    stored(talk, is_written=True)
    assert lost(talk) == []


def test_another_broker_may_have_the_queue() -> None:
    talk = Conversation()
    stored(talk, is_written=False, others=(2,))
    assert causes(talk) == [("unknown", "hidden_traffic")]


def test_a_group_is_reported_once() -> None:
    talk = Conversation()
    queue_of(talk.connection())
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    for epoch in range(1, 5):
        a.share_acknowledge(epoch, [(epoch, epoch, REJECT)]).answered()
    (found,) = lost(talk)
    assert found.verdict == "unknown"
    assert "gave up 4 records" in found.argument


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("limit", "told"), [(2, 1), (3, 0)])
def test_the_brokers_limit_counts_for_groups_without_their_own(limit: int, told: int, is_first: bool) -> None:
    talk = Conversation()
    admin = talk.connection()
    if is_first:
        shows(admin, "group.share.delivery.count.limit", limit)
    queue_of(admin)
    if not is_first:
        shows(admin, "group.share.delivery.count.limit", limit)
    metadata(admin, error=3)
    reject(talk, kind=RELEASE, count=2)
    assert len(lost(talk)) == told
