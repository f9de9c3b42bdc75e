"""The ends of partitions: what each response shows of them."""

from __future__ import annotations

from typing import Any

import pytest

from kshark import limits
from kshark.metrics import LogEnds
from kshark.model import Exchange
from kshark.pipeline import Options
from tests.analysis.talks import batch_of
from tests.conversation import TOPIC, Connection, Conversation, events


def ends_of(talk: Conversation, names: dict[str, str] | None = None, *, records: Any = "headers") -> LogEnds:
    ends = LogEnds({} if names is None else names)
    for event in events(talk, Options(records=records)):
        if type(event) is Exchange:
            ends.feed(event, 0)
    return ends


def produce(connection: Connection, base_offset: int, records: bytes, *, error: int = 0, acks: int = -1) -> None:
    data = [{"topic_id": TOPIC, "partition_data": [{"index": 0, "records": records}]}]
    asked = connection.ask(0, "Produce", 13, {"acks": acks, "timeout_ms": 30_000, "topic_data": data})
    results = [{"index": 0, "base_offset": base_offset, "error_code": error}]
    asked.answered(None, responses=[{"topic_id": TOPIC, "partition_responses": results}])


def fetch(connection: Connection, high_watermark: int, *, error: int = 0) -> None:
    partition = {"partition_index": 0, "error_code": error, "high_watermark": high_watermark, "records": b""}
    topics = [{"topic_id": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}]
    asked = connection.ask(1, "Fetch", 13, {"max_wait_ms": 1, "min_bytes": 1, "topics": topics})
    asked.answered(responses=[{"topic_id": TOPIC, "partitions": [partition]}])


def list_offsets(connection: Connection, timestamp: int, offset: int, name: str = "t") -> None:
    asked = connection.ask(
        2, "ListOffsets", 7,
        {"replica_id": -1, "topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]},
    )  # fmt: skip
    partition = {"partition_index": 0, "error_code": 0, "offset": offset}
    asked.answered(None, topics=[{"name": name, "partitions": [partition]}])


def test_a_produced_batch_ends_where_its_records_do() -> None:
    talk = Conversation()
    produce(talk.connection(), 100, batch_of(0, 9) + batch_of(0, 4))
    assert ends_of(talk).at(0, TOPIC, 0) == 115
    assert ends_of(talk, records="checked").at(0, TOPIC, 0) == 101  # at least one record
    assert ends_of(talk).at(0, TOPIC, 1) is None
    assert ends_of(talk).at(1, TOPIC, 0) is None


def test_what_a_broker_refused_shows_nothing() -> None:
    talk = Conversation()
    connection = talk.connection()
    produce(connection, 100, batch_of(0, 9), error=6)
    produce(connection, -1, batch_of(0, 9))
    fetch(connection, 50, error=1)
    fetch(connection, -1)
    assert ends_of(talk).at(0, TOPIC, 0) is None


def test_a_high_watermark_is_an_end() -> None:
    talk = Conversation()
    fetch(talk.connection(), 50)
    assert ends_of(talk).at(0, TOPIC, 0) == 50


@pytest.mark.parametrize(("timestamp", "end"), [(-1, 70), (-2, None), (-3, None), (1_700_000_000_000, None)])
def test_only_the_question_for_the_latest_offset_is_about_the_end(timestamp: int, end: int | None) -> None:
    talk = Conversation()
    list_offsets(talk.connection(), timestamp, 70)
    assert ends_of(talk, {TOPIC: "t"}).at(0, TOPIC, 0) == end


def test_an_id_and_its_name_are_one_topic_whenever_the_name_becomes_known() -> None:
    talk = Conversation()
    fetch(talk.connection(), 50)
    names: dict[str, str] = {}
    ends = ends_of(talk, names)
    names[TOPIC] = "t"
    assert ends.at(0, TOPIC, 0) == 50


def test_a_lower_end_counts_only_if_it_lasts() -> None:
    """A replica is late, or an answer was overtaken; a topic that was created anew begins at 0."""
    talk = Conversation()
    connection = talk.connection()
    fetch(connection, 50)
    fetch(connection, 48)
    assert ends_of(talk).at(0, TOPIC, 0) == 50
    talk.pause(11)
    fetch(connection, 3)
    assert ends_of(talk).at(0, TOPIC, 0) == 3


def test_the_number_of_partitions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SHARE_PARTITIONS", 2)
    talk = Conversation()
    connection = talk.connection()
    for number in range(3):
        list_offsets(connection, -1, 10, name=f"t{number}")
    ends = ends_of(talk)
    assert [ends.at(0, f"t{number}", 0) for number in range(3)] == [None, 10, 10]
