"""Connections that a broker closes where an answer is due."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from tests.conversation import Asked, Connection, Conversation, note, unknown
from tests.incidents.talks import incidents

NEW, OLD = 4, 2


def versions(connection: Connection, version: int) -> Asked:
    body = {"client_software_name": "a", "client_software_version": "1"} if version > 2 else {}
    return connection.ask(18, "ApiVersions", version, body)


def answered(talk: Conversation, version: int = OLD, **more: Any) -> Asked:
    return versions(talk.connection(introduced=False, **more), version).answered(api_keys=[])


def closed(talk: Conversation, version: int = NEW, *, by: int = 1, after_s: float = 0, **more: Any) -> list[int]:
    """A connection that ends on its first request; return the packets of the request and of the end."""
    connection = talk.connection(introduced=False, **more)
    asked = versions(connection, version)
    talk.pause(after_s)
    end = connection.tcp.fin(by)
    connection.tcp.fin(1 - by)
    talk.pause(1)
    return [asked.sent, end]


def produce(connection: Connection, acks: int = 0, topic: str = "orders") -> Asked:
    data = [{"name": topic, "partition_data": [{"index": 7, "records": None}]}]
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 1000, "topic_data": data}
    return connection.ask(0, "Produce", 9, body)


def dropped(talk: Conversation, *, after_s: float = 0, answer: bool = False, count: int = 1) -> list[int]:
    """A Produce with acks=0 after which the broker closes."""
    connection = talk.connection()
    sent = [produce(connection).sent for _ in range(count)]
    if answer:
        versions(connection, 3).answered(api_keys=[])
    talk.pause(after_s)
    end = connection.tcp.fin(1)
    connection.tcp.fin()
    talk.pause(1.5)
    return [sent[-1], end]


def test_a_version_is_closed_on() -> None:
    """kafka-python#2602: ApiVersions v4 to a broker that answers v2."""
    talk = Conversation()
    packets = [packet for _ in range(4) for packet in closed(talk)]
    answered(talk)
    (found,) = incidents(talk)
    assert found == note("CLOSED_INSTEAD_OF_ANSWER", at=packets[0])
    assert (found.until_packet, found.blame, found.client_id) == (packets[-1], "broker", "c1")
    assert "on ApiVersions v4 instead of an answer 4 times in 3." in found.argument
    assert "it answers v2" in found.argument


def test_the_other_version_is_answered_before() -> None:
    talk = Conversation()
    for _ in range(3):
        connection = talk.connection(introduced=False)
        metadata = connection.ask(3, "Metadata", 12, {"topics": []})
        metadata.answered(None, brokers=[], topics=[])
        asked = connection.ask(3, "Metadata", 9, {"topics": []})
        connection.tcp.reset(1)
        talk.pause(2)
    (found,) = incidents(talk)
    assert found.code == "CLOSED_INSTEAD_OF_ANSWER"
    assert found.blame == "unknown"  # brokers close on a version that they do not support
    assert asked.correlation_id == 2


def test_twice_may_be_an_accident() -> None:
    talk = Conversation()
    for _ in range(2):
        closed(talk)
    answered(talk)
    assert incidents(talk) == []


def test_no_other_version_is_answered() -> None:
    """A tag, a length or a connection limit would look the same: field/fetch-tag-of-later-version."""
    talk = Conversation()
    for _ in range(4):
        closed(talk)
    assert incidents(talk) == []


def test_another_client_gets_another_version() -> None:
    """A limit of connections a host would look the same."""
    talk = Conversation()
    for _ in range(4):
        closed(talk)
    answered(talk, host="10.0.0.2")
    assert incidents(talk) == []


def test_the_same_version_is_answered() -> None:
    talk = Conversation()
    for _ in range(4):
        closed(talk)
    answered(talk)
    answered(talk, NEW, host="10.0.0.2")
    assert incidents(talk) == []


def test_the_client_closes() -> None:
    talk = Conversation()
    for _ in range(4):
        closed(talk, by=0)
    answered(talk)
    assert incidents(talk) == []


def test_the_broker_closes_much_later() -> None:
    talk = Conversation()
    for _ in range(4):
        closed(talk, after_s=5)
    answered(talk)
    assert incidents(talk) == []


def test_the_broker_ends_all_its_connections() -> None:
    talk = Conversation()
    for _ in range(3):
        both = [talk.connection(introduced=False, host=host) for host in ("10.0.0.1", "10.0.0.2")]
        for connection in both:
            versions(connection, NEW)
        for connection in both:
            connection.tcp.fin(1)
        for connection in both:
            connection.tcp.fin()
        talk.pause(5)
    answered(talk)
    assert incidents(talk) == []


@pytest.mark.parametrize("introduced", [True, False])
def test_another_rule_says_what_is_wrong(introduced: bool) -> None:
    """Rule 13, if ApiVersions was answered on that connection: its answer does not list the version."""
    talk = Conversation()
    for _ in range(4):
        connection = talk.connection(introduced=introduced)
        connection.ask(3, "Metadata", 12, {"topics": []}).answered(None, brokers=[], topics=[])
        request = bytes.fromhex("00030063") + (9).to_bytes(4, "big") + b"\0\x02c1\0" + bytes.fromhex("01000000")
        connection.tcp.client(len(request).to_bytes(4, "big") + request)
        connection.tcp.fin(1)
        connection.tcp.fin()
        talk.pause(2)
    assert _codes(incidents(talk)) == (set() if introduced else {"CLOSED_INSTEAD_OF_ANSWER"})


def test_answers_are_missing() -> None:
    """In three of four connections bytes of the broker are missing: it may have answered."""
    talk = Conversation()
    ends = []
    for number in range(4):
        connection = talk.connection(introduced=False)
        asked = versions(connection, NEW)
        if number:
            connection.tcp.seq[1] += 40
        ends += [asked.sent, connection.tcp.fin(1)]
        connection.tcp.fin()
        talk.pause(2)
    answered(talk)
    found = [it for it in incidents(talk) if it.code == "CLOSED_INSTEAD_OF_ANSWER"]
    assert found in ([], [unknown("CLOSED_INSTEAD_OF_ANSWER", at=ends[0], because="gap")])


def test_appends_without_acknowledgement_fail() -> None:
    talk = Conversation()
    packets = [packet for _ in range(4) for packet in dropped(talk)]
    (found,) = incidents(talk)
    assert found == note("CLOSED_INSTEAD_OF_ANSWER", at=packets[0], cause="acks0_failed")
    assert (found.until_packet, found.blame) == (packets[-1], "unknown")
    assert "after Produce with acks=0 to orders[7] 4 times" in found.argument


@pytest.mark.parametrize("more", [{"after_s": 2.0}, {"answer": True}])
def test_it_may_be_something_else(more: dict[str, Any]) -> None:
    """The broker closes an idle connection, or one on which it answers a later request."""
    talk = Conversation()
    for _ in range(4):
        dropped(talk, **more)
    assert incidents(talk) == []


def test_the_broker_stops_three_times() -> None:
    talk = Conversation()
    for _ in range(3):
        producer, other = talk.connection(), talk.connection(host="10.0.0.2")
        for _ in range(5):
            talk.pause(0.1)
            produce(producer)
        other.tcp.fin(1)
        producer.tcp.fin(1)
        producer.tcp.fin()
        other.tcp.fin()
        talk.pause(4)
    assert [it for it in incidents(talk) if it.code == "CLOSED_INSTEAD_OF_ANSWER"] == []


def test_fewer_packets_prove_less() -> None:
    talk = Conversation()
    for _ in range(3):
        closed(talk)
    answered(talk)
    for packet in range(1, len(talk.wire.packets) + 1):
        found = incidents(talk.without_packets({packet}))
        assert _codes(found) <= {"CLOSED_INSTEAD_OF_ANSWER"}
    ends = {number for number in range(1, len(talk.wire.packets) + 1) if _is_of_broker(talk, number)}
    assert incidents(talk.without_packets(ends)) == []


def _codes(found: Collection[Any]) -> set[str]:
    return {it.code for it in found}


def _is_of_broker(talk: Conversation, number: int) -> bool:
    return talk.wire.packets[number - 1].data[34:36] == (9092).to_bytes(2, "big")
