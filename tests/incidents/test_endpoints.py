"""Addresses of brokers that clients learn and cannot connect to."""

from __future__ import annotations

import pytest

from kshark.model import ACK, RST, SYN
from tests.conversation import BROKER, Asked, Connection, Conversation, note
from tests.incidents.talks import incidents
from tests.packets import tcp_packet

HOST = "10.0.0.1"
ENDPOINT = "192.0.2.1:9092"


def metadata(connection: Connection, address: str = ENDPOINT, node: int = 1) -> Asked:
    host, _, port = address.rpartition(":")
    asked = connection.ask(3, "Metadata", 12, {"topics": []})
    brokers = [{"node_id": node, "host": host, "port": int(port), "rack": None}]
    return asked.answered(None, brokers=brokers, cluster_id="k", topics=[])


def coordinator(connection: Connection, address: str = ENDPOINT, node: int = 1, error: int = 0) -> Asked:
    host, _, port = address.rpartition(":")
    asked = connection.ask(10, "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})
    found = {"key": "g", "node_id": node, "host": host, "port": int(port), "error_code": error}
    return asked.answered(None, coordinators=[found])


def silent(talk: Conversation, port: int, host: str = HOST, address: str = ENDPOINT) -> list[int]:
    """A SYN that nobody answers, sent three times."""
    packets = []
    for pause_s in (1, 2, 0.5):
        packets.append(talk.wire.add(tcp_packet(f"{host}:{port}", address, 100, 0, SYN)))
        talk.pause(pause_s)
    return packets


def refused(talk: Conversation, port: int, host: str = HOST, address: str = ENDPOINT) -> list[int]:
    first = talk.wire.add(tcp_packet(f"{host}:{port}", address, 100, 0, SYN))
    return [first, talk.wire.add(tcp_packet(address, f"{host}:{port}", 0, 101, RST | ACK))]


def test_nobody_answers_at_the_address() -> None:
    talk = Conversation()
    named = metadata(talk.connection())
    packets = [*silent(talk, 40_000), *silent(talk, 40_001)]
    (found,) = incidents(talk)
    assert found == note("ENDPOINT_UNREACHABLE", at=packets[0])
    assert (found.broker, found.blame, found.until_packet) == (ENDPOINT, "unknown", packets[-1])
    assert f"Broker 1 cannot be reached at {ENDPOINT}" in found.argument
    assert f"in Metadata (packet {named.packet}): 2 connections of 10.0.0.1 in 6.5 s, 2 not answered" in found.argument


def test_the_address_refuses() -> None:
    talk = Conversation()
    coordinator(talk.connection())
    packets = [*refused(talk, 40_000), *refused(talk, 40_001), *silent(talk, 40_002)]
    (found,) = incidents(talk)
    assert found == note("ENDPOINT_UNREACHABLE", at=packets[0])
    assert "FindCoordinator" in found.argument
    assert "3 connections of 10.0.0.1 in" in found.argument
    assert "1 not answered and 2 refused" in found.argument


def test_a_new_leader_is_named() -> None:
    """KIP-951."""
    talk = Conversation()
    member = talk.member("a")
    node = {"node_id": 2, "host": "192.0.2.1", "port": 9092, "rack": None}
    leader = {"leader_id": 2, "leader_epoch": 7}
    partition = {"partition_index": 0, "error_code": 6, "current_leader": leader, "records": b""}
    topic = {"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [partition]}
    member.share_fetch(0, [0]).answered(responses=[topic], node_endpoints=[node])
    packets = refused(talk, 40_000)
    (found,) = [it for it in incidents(talk) if it.code == "ENDPOINT_UNREACHABLE"]
    assert found == note("ENDPOINT_UNREACHABLE", at=packets[0])
    assert "Broker 2 cannot be reached" in found.argument


def test_a_proxy_rewrites_metadata_only() -> None:
    talk = Conversation()
    connection = talk.connection()
    metadata(connection, BROKER)
    coordinator(connection)
    packets = silent(talk, 40_000)
    (found,) = incidents(talk)
    assert found == note("ENDPOINT_UNREACHABLE", at=packets[0], cause="not_rewritten")
    assert f"where Metadata has it at {BROKER}" in found.argument


def test_a_broker_that_is_down_for_a_while() -> None:
    """It accepts a connection before, or afterwards."""
    for before in (True, False):
        talk = Conversation()
        if before:
            talk.connection(ENDPOINT).close()
        metadata(talk.connection())
        refused(talk, 40_000)
        silent(talk, 40_001)
        if not before:
            talk.connection(ENDPOINT, introduced=False)
        assert incidents(talk) == []


def test_a_connection_older_than_the_capture() -> None:
    talk = Conversation()
    old = talk.connection(ENDPOINT, from_syn=False)
    metadata(talk.connection())
    refused(talk, 40_000)
    old.api_versions("4.2")
    assert incidents(talk) == []


def test_only_one_end_of_a_connection_is_captured() -> None:
    """A SYN that is sent once may have been answered: only one direction may be in the capture."""
    talk = Conversation()
    metadata(talk.connection())
    talk.wire.add(tcp_packet(f"{HOST}:40000", ENDPOINT, 100, 0, SYN))
    talk.wire.add(tcp_packet(f"{HOST}:40000", ENDPOINT, 101, 900, ACK, b"abc"))
    assert incidents(talk) == []


@pytest.mark.parametrize("address", ["kafka-1.example:9092", "localhost:9092"])
def test_names_are_not_resolved(address: str) -> None:
    talk = Conversation()
    metadata(talk.connection(), address)
    refused(talk, 40_000)
    assert incidents(talk) == []


def test_another_host_was_told() -> None:
    talk = Conversation()
    metadata(talk.connection())
    refused(talk, 40_000, host="10.0.0.2")
    assert incidents(talk) == []


def test_nobody_was_told() -> None:
    talk = Conversation()
    connection = talk.connection()
    refused(talk, 40_000)
    metadata(connection)
    assert incidents(talk) == []


def test_no_coordinator() -> None:
    talk = Conversation()
    coordinator(talk.connection(), error=15)
    refused(talk, 40_000)
    assert incidents(talk) == []


def test_nobody_tries() -> None:
    talk = Conversation()
    metadata(talk.connection())
    talk.pause(60)
    assert incidents(talk) == []


def test_a_clock_that_steps() -> None:
    """The proof is in the packets, not in their times."""
    talk = Conversation()
    metadata(talk.connection())
    packets = refused(talk, 40_000)
    talk.wire.time_ns -= 3_600_000_000_000
    refused(talk, 40_001)
    found = [it for it in incidents(talk) if it.code == "ENDPOINT_UNREACHABLE"]
    assert found == [note("ENDPOINT_UNREACHABLE", at=packets[0])]
