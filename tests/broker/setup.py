"""What a broker needs before a conversation: topics with records, groups that read them from the start, a coordinator
that is awake."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Final

from kshark.records.batch import Record
from kshark.records.writer import write_batch
from tests.broker.live import Live, LiveConnection

#: An id that no topic has.
UNKNOWN_TOPIC: Final = "zMzMzMzMzMzMzMzMzMzMzA"
GROUP_RESOURCE: Final = 32
RECORDS_IN_BATCH: Final = 5
READY_SECONDS: Final = 30.0
#: A topic that was just made: its partition is unknown, or has no leader (UNKNOWN_TOPIC_OR_PARTITION,
#: NOT_LEADER_OR_FOLLOWER).
NOT_YET: Final = (3, 6)


def create_topics(admin: LiveConnection, partitions: Mapping[str, int]) -> dict[str, str]:
    """Creates topics with so many partitions each; their ids by name."""
    asked = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in partitions.items()]
    answer = admin.ask(19, "CreateTopics", 7, {"topics": asked, "timeout_ms": 10_000}).wait().answer
    assert answer is not None
    assert [topic["error_code"] for topic in answer["topics"]] == [0] * len(asked), answer
    return {topic["name"]: topic["topic_id"] for topic in answer["topics"]}


def produce(admin: LiveConnection, topic: str, partition: int, count: int) -> None:
    """Appends records in small batches, so that many fetches find some."""
    for start in range(0, count, RECORDS_IN_BATCH):
        now_ms = (
            time.time_ns() // 1_000_000
        )  # what is older than a week is deleted half a minute after the broker's start
        rows = [
            Record(at, now_ms, None, b"%d" % (start + at), ()) for at in range(min(RECORDS_IN_BATCH, count - start))
        ]
        _append(admin, topic, partition, write_batch(rows))


def _append(admin: LiveConnection, topic: str, partition: int, batch: bytes) -> None:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000, "topic_data": data}
    until = time.monotonic() + READY_SECONDS
    while True:
        answer = admin.ask(0, "Produce", 8, body).wait().answer
        assert answer is not None
        error = answer["responses"][0]["partition_responses"][0]["error_code"]
        if error == 0:
            return
        assert error in NOT_YET, answer
        assert time.monotonic() < until, answer
        admin.talk.pause(0.1)


def configure(admin: LiveConnection, groups: Collection[str], locks_ms: Mapping[str, int]) -> None:
    """Share groups begin at the end of a partition unless told, and their locks last for 30 s (KIP-932)."""
    for group in groups:
        told = {"share.auto.offset.reset": "earliest"}
        if group in locks_ms:
            told["share.record.lock.duration.ms"] = str(locks_ms[group])
        configs = [{"name": name, "config_operation": 0, "value": value} for name, value in told.items()]
        resources = [{"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": configs}]
        answer = admin.ask(44, "IncrementalAlterConfigs", 0, {"resources": resources}).wait().answer
        assert answer is not None
        assert {row["error_code"] for row in answer["responses"]} == {0}, answer


def await_coordinator(admin: LiveConnection, groups: Collection[str]) -> None:
    """Until the groups' coordinator answers: its log is made with the first question."""
    until = time.monotonic() + READY_SECONDS
    for group in groups:
        while True:
            answer = admin.ask(10, "FindCoordinator", 2, {"key": group, "key_type": 0}).wait().answer
            if answer is not None and answer["error_code"] == 0 and _is_awake(admin, group):
                break
            assert time.monotonic() < until, f"no coordinator for {group}: {answer}"
            admin.talk.pause(0.1)


def _is_awake(admin: LiveConnection, group: str) -> bool:
    answer = admin.ask(77, "ShareGroupDescribe", 1, {"group_ids": [group]}).wait().answer
    return answer is not None and answer["groups"][0]["error_code"] not in (14, 15, 16)


def prepare(
    talk: Live,
    topics: Mapping[str, int],
    groups: Collection[str],
    locks_ms: Mapping[str, int] | None = None,
    records: int = 60,
) -> LiveConnection:
    """All of it; returns the administrator's connection. The topics' ids are known to the conversation by their
    names."""
    admin = talk.connection()
    admin.client_id = "admin"
    talk.topics.update(create_topics(admin, topics))
    configure(admin, groups, locks_ms or {})
    await_coordinator(admin, groups)
    for topic, partitions in topics.items():
        for partition in range(partitions):
            produce(admin, topic, partition, records)
    return admin
