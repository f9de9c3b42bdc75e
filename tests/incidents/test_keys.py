"""Keys on two partitions, as conversations: rule 158."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from kshark import limits
from kshark.face import pages
from kshark.incidents import WITH_RECORDS, Incidents
from kshark.model import Event, Finding
from kshark.pipeline import JUDGED
from kshark.records import Record
from kshark.records.partitioners import PARTITIONERS
from kshark.records.writer import write_batch
from tests.conversation import TOPIC, Asked, Connection, Conversation, events, note, registry
from tests.incidents.test_retries import client
from tests.shared import CAPTURES

COUNT = 6
KEYS = [f"order-{number}".encode() for number in range(12)]


#: The options of `kshark check --records`.
WITH_KEYS = replace(JUDGED, records=True, payload=True)


def told(talk: Conversation, *, opened: bool = True) -> list[Finding]:
    return of(events(talk, WITH_KEYS if opened else JUDGED))


def of(happened: list[Event]) -> list[Finding]:
    stage = Incidents(registry(), WITH_RECORDS)
    found = [*stage.page(happened), *stage.close()]
    return [it for it in found if it.code == "KEY_ON_TWO_PARTITIONS"]


def described(connection: Connection, count: int = COUNT) -> Asked:
    """Metadata with the partitions of topic `orders`."""
    body = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    partitions = [
        {"error_code": 0, "partition_index": number, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1]}
        for number in range(count)
    ]
    topic = {"error_code": 0, "name": "orders", "topic_id": TOPIC, "is_internal": False, "partitions": partitions}
    asked = connection.ask(3, "Metadata", 12, body)
    return asked.answered(None, brokers=[], cluster_id="c", controller_id=1, topics=[topic])


def write(connection: Connection, key: bytes, partition: int) -> Asked:
    records = write_batch([Record(0, 0, key, b"v", ())])
    rows = [{"topic_id": TOPIC, "partition_data": [{"index": partition, "records": records}]}]
    body = {"transactional_id": None, "acks": 1, "timeout_ms": 1000, "topic_data": rows}
    answer = {"topic_id": TOPIC, "partition_responses": [{"index": partition, "error_code": 0, "base_offset": 0}]}
    return connection.ask(0, "Produce", 13, body).answered(None, responses=[answer])


def writes(connection: Connection, by: str | Callable[[bytes, int], int], keys: Iterable[bytes] = KEYS) -> list[Asked]:
    """A client that chooses the partitions of keys by a hash."""
    choose = PARTITIONERS[by] if isinstance(by, str) else by
    return [write(connection, key, choose(key, COUNT)) for key in keys]


def two(first: str | Callable[[bytes, int], int], second: str | Callable[[bytes, int], int]) -> Conversation:
    talk = Conversation()
    a = client(talk, "java")
    described(a)
    writes(a, first)
    writes(client(talk, "rd"), second)
    return talk


@pytest.mark.parametrize("hashes", [("murmur2", "crc32"), ("fnv1a", "murmur2"), ("crc32", "fnv1a")])
def test_two_clients_hash_keys_differently(hashes: tuple[str, str]) -> None:
    first, second = hashes
    (found,) = told(two(first, second))
    apart = [key for key in KEYS if PARTITIONERS[first](key, COUNT) != PARTITIONERS[second](key, COUNT)]
    assert (found.verdict, found.client_id, found.topic_id) == ("note", "rd", TOPIC)
    assert found.argument.startswith(
        f"client java (10.0.0.3) by {first} and client rd (10.0.0.3) by {second} write {len(apart)} keys of topic "
        f"orders to different ones of its {COUNT} partitions"
    )


def test_the_first_key_is_named_by_its_packets() -> None:
    talk = Conversation()
    a, b = client(talk, "java"), client(talk, "rd")
    described(a)
    apart = [key for key in KEYS if PARTITIONERS["murmur2"](key, COUNT) != PARTITIONERS["crc32"](key, COUNT)]
    first, *_ = writes(a, "murmur2", apart)
    again, *_ = writes(b, "crc32", apart)
    (found,) = told(talk)
    assert found == note("KEY_ON_TWO_PARTITIONS", again.packet)
    assert f"(packet {first.sent})" in found.argument
    assert f"(packet {again.sent})" in found.argument


def test_clients_with_one_hash_agree() -> None:
    assert told(two("murmur2", "murmur2")) == []


def test_a_partitioner_of_their_own_is_no_hash() -> None:
    """It may go by a field of the record."""
    assert told(two("murmur2", lambda key, count: len(key) % count)) == []


def test_a_few_keys_may_agree_by_chance() -> None:
    talk = Conversation()
    a = client(talk, "java")
    described(a)
    writes(a, "murmur2", KEYS[:3])
    writes(client(talk, "rd"), "crc32", KEYS[:3])
    assert told(talk) == []


def test_more_partitions_move_keys() -> None:
    talk = Conversation()
    a = client(talk, "java")
    described(a)
    writes(a, "murmur2")
    described(a, COUNT + 1)
    for key in KEYS:
        write(client(talk, "late"), key, PARTITIONERS["murmur2"](key, COUNT + 1))
    assert told(talk) == []


def test_the_number_of_partitions_is_not_shown() -> None:
    talk = Conversation()
    writes(client(talk, "java"), "murmur2")
    writes(client(talk, "rd"), "crc32")
    assert told(talk) == []


def test_keys_are_read_with_records_only() -> None:
    assert told(two("murmur2", "crc32"), opened=False) == []


def test_only_so_many_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HASHED_KEYS", 5)
    assert told(two("murmur2", "crc32")) == []


def test_a_java_and_a_librdkafka_producer() -> None:
    """Recorded from 4.4.0: librdkafka's default differs from Java's, kafka-python's does not."""
    capture = CAPTURES / "transactions" / "keys-4.4.0.pcap.gz"
    found = of([event for page in pages([capture], WITH_KEYS) for event in page])
    assert [it.client_id for it in found] == ["rd-orders", "py-orders"]
    assert found[0].argument.startswith(
        "client java-orders (127.0.0.1) by murmur2 and client rd-orders (127.0.0.1) by crc32 write 16 keys of topic "
        "keyed to different ones of its 5 partitions"
    )
