"""Conversations of transactional producers, of those who read their records, and of transaction coordinators."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kshark.records import Record
from kshark.records.writer import write_batch
from tests.conversation import TOPIC, Asked, Connection

ABORT, COMMIT = 0, 1


def data(first: int, last: int, producer: int = 7, *, epoch: int = 0, transactional: bool = True) -> bytes:
    """A batch of records."""
    records = [Record(offset, 0, None, b"v", ()) for offset in range(first, last + 1)]
    return write_batch(
        records, base_offset=first, producer_id=producer, producer_epoch=epoch, transactional=transactional
    )


def plain(first: int, last: int) -> bytes:
    """A batch of records outside transactions."""
    return data(first, last, -1, epoch=-1, transactional=False)


def marker(offset: int, type: int, producer: int = 7, *, epoch: int = 0, **header: int) -> bytes:
    """A batch with the marker of a transaction."""
    record = Record(offset, 0, struct.pack(">hh", 0, type), struct.pack(">hi", 0, 1), ())
    return write_batch(
        [record],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=epoch,
        control=True,
        transactional=True,
        **header,
    )


@dataclass
class Producer:
    """A transactional producer on its connection."""

    connection: Connection
    name: str = "tx"
    producer_id: int = 7
    epoch: int = 0

    def begin(self, timeout_ms: int = 60_000, *, two_phase: bool = False) -> Asked:
        """InitProducerId with its answer."""
        body = {
            "transactional_id": self.name,
            "transaction_timeout_ms": timeout_ms,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        if two_phase:
            body |= {"enable2_pc": True, "keep_prepared_txn": False}
        asked = self.connection.ask(22, "InitProducerId", 6 if two_phase else 5, body)
        return asked.answered(producer_id=self.producer_id, producer_epoch=self.epoch)

    def write(self, first: int, last: int, *, partition: int = 0, error: int = 0, version: int = 13) -> Asked:
        """Produce with its answer: these offsets. Before version 13 it names the topic `orders`."""
        topic = {"topic_id": TOPIC} if version >= 13 else {"name": "orders"}
        records = data(0, last - first, self.producer_id, epoch=self.epoch)
        rows = [{**topic, "partition_data": [{"index": partition, "records": records}]}]
        body = {"transactional_id": self.name, "acks": -1, "timeout_ms": 30_000, "topic_data": rows}
        asked = self.connection.ask(0, "Produce", version, body)
        row = {"index": partition, "error_code": error, "base_offset": -1 if error else first}
        return asked.answered(None, responses=[{**topic, "partition_responses": [row]}])

    def end(self, type: int = COMMIT, error: int = 0) -> Asked:
        """EndTxn with its answer."""
        body = {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "committed": type == COMMIT,
        }
        return self.connection.ask(26, "EndTxn", 4, body).answered(error)


def write_markers(
    connection: Connection, type: int, *, producer: int = 7, epoch: int = 0, partition: int = 0, topic: str = "orders"
) -> Asked:
    """WriteTxnMarkers of a coordinator with its answer."""
    marks = {"producer_id": producer, "producer_epoch": epoch, "transaction_result": type == COMMIT}
    topics = [{"name": topic, "partition_indexes": [partition]}]
    asked = connection.ask(27, "WriteTxnMarkers", 1, {"markers": [{**marks, "topics": topics, "coordinator_epoch": 0}]})
    result = [{"name": topic, "partitions": [{"partition_index": partition, "error_code": 0}]}]
    return asked.answered(None, markers=[{"producer_id": producer, "topics": result}])


def fetch(
    connection: Connection,
    offset: int,
    *,
    stable: int,
    end: int,
    records: bytes = b"",
    isolation: int = 1,
    partition: int = 0,
    topic: str = TOPIC,
) -> Asked:
    """Fetch of a consumer with its answer. `stable`: the last stable offset, `end`: the high watermark."""
    row = {"partition": partition, "fetch_offset": offset, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
    body: dict[str, Any] = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": isolation,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic_id": topic, "partitions": [row]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    answer = {
        "partition_index": partition,
        "error_code": 0,
        "high_watermark": end,
        "last_stable_offset": stable,
        "log_start_offset": 0,
        "aborted_transactions": [],
        "records": records,
    }
    asked = connection.ask(1, "Fetch", 13, body)
    return asked.answered(session_id=0, responses=[{"topic_id": topic, "partitions": [answer]}])


def named(connection: Connection, name: str = "orders", topic_id: str = TOPIC) -> Asked:
    """Metadata with the id of a topic."""
    asked = connection.ask(
        3,
        "Metadata",
        12,
        {
            "topics": [{"topic_id": topic_id, "name": name}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
    )
    topic = {"error_code": 0, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}
    return asked.answered(None, brokers=[], cluster_id="c", controller_id=1, topics=[topic])
