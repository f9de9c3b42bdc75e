"""Brokers that end their connections and accept no new ones."""

from __future__ import annotations

from kshark.model import ACK, RST, SYN
from tests.conversation import Connection, Conversation, note
from tests.incidents.talks import incidents
from tests.packets import tcp_packet

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def start(hosts: tuple[str, ...] = HOSTS) -> tuple[Conversation, list[Connection]]:
    """Clients of a broker that work for some seconds."""
    talk = Conversation()
    connections = [talk.connection(host=host) for host in hosts]
    works(talk, connections)
    return talk, connections


def works(talk: Conversation, connections: list[Connection]) -> None:
    for _ in range(8):
        talk.pause(1)
        for connection in connections:
            talk.member("a", connection=connection, joined=False).heartbeat(1).given(1)


def refuse(talk: Conversation, host: str, port: int = 40_000) -> int:
    """A SYN that is answered with a RST."""
    talk.wire.add(tcp_packet(f"{host}:{port}", "10.0.0.9:9092", 100, 0, SYN))
    return talk.wire.add(tcp_packet("10.0.0.9:9092", f"{host}:{port}", 0, 101, RST | ACK))


def ends(connections: list[Connection]) -> list[int]:
    """The broker ends connections, and their clients close them."""
    packets = [connection.tcp.fin(1) for connection in connections]
    for connection in connections:
        connection.tcp.fin()
    return packets


def test_a_broker_that_is_down() -> None:
    talk, connections = start()
    packets = ends(connections)
    for number in range(10):
        talk.pause(0.5)
        refuse(talk, HOSTS[number % 3], 40_000 + number)
    talk.pause(1)
    accepted = talk.connection(host=HOSTS[0])
    (found,) = incidents(talk)
    assert found == note("BROKER_DOWN", at=packets[0])
    assert found.blame == "broker"
    assert found.until_packet == talk.exchanges[-1].sent
    assert "it ended 3 connections of 3 hosts, and refused 10 new ones" in found.argument
    assert accepted.correlation_id == 1


def test_it_is_reset() -> None:
    talk, connections = start()
    packets = [connection.tcp.reset(1) for connection in connections]
    talk.pause(1)
    refuse(talk, HOSTS[0])
    (found,) = incidents(talk)
    assert found == note("BROKER_DOWN", at=packets[0])
    assert found.until_packet is None


def test_nobody_tries_to_connect() -> None:
    talk, connections = start()
    packets = ends(connections)
    talk.pause(20)
    talk.connection(host=HOSTS[1])
    assert incidents(talk) == [note("BROKER_DOWN", at=packets[0])]


def test_nobody_knows_how_long_it_was_down_after_the_last_attempt() -> None:
    talk, connections = start()
    packets = ends(connections)
    talk.pause(3)
    last = refuse(talk, HOSTS[0])
    talk.pause(20)
    talk.connection(host="10.0.0.7", broker="10.0.0.8:9092")
    (found,) = incidents(talk)
    assert found.until_packet is None
    assert "was down for at least 3.0 s" in found.argument
    assert f"to the last failed connection in packet {last}" in found.argument
    talk.connection(host=HOSTS[1])
    (found,) = incidents(talk)
    assert f"was down for 3.0 to 23.0 s (packet {packets[0]} until packet" in found.argument


def test_nobody_tries_until_it_is_there_again() -> None:
    talk, connections = start()
    packets = ends(connections)
    talk.pause(20)
    talk.connection(host=HOSTS[1])
    (found,) = incidents(talk)
    assert f"was down for at most 20.0 s (packet {packets[0]} until packet" in found.argument


def test_the_only_host_is_refused_afterwards() -> None:
    talk, connections = start(HOSTS[:1])
    packets = ends(connections)
    talk.pause(0.1)
    refuse(talk, HOSTS[0])
    talk.pause(5)
    talk.connection(host=HOSTS[0])
    assert incidents(talk) == [note("BROKER_DOWN", at=packets[0])]


def test_each_time_is_an_incident() -> None:
    talk, connections = start()
    for _ in range(2):
        ends(connections)
        talk.pause(4)
        connections = [talk.connection(host=host) for host in HOSTS]
        works(talk, connections)
    assert [found.code for found in incidents(talk)] == ["BROKER_DOWN"] * 2


def test_a_client_that_dies_ends_its_own_connections() -> None:
    talk, connections = start()
    for connection in connections:
        connection.tcp.fin()
        connection.tcp.fin(1)
    talk.pause(20)
    talk.connection(host=HOSTS[1])
    assert incidents(talk) == []


def test_one_host_may_be_ended_for_its_own_reasons() -> None:
    talk, connections = start(HOSTS[:1] * 3)
    ends(connections)
    talk.pause(20)
    talk.connection(host=HOSTS[0])
    assert incidents(talk) == []


def test_other_connections_live_on() -> None:
    talk, connections = start()
    ends(connections[:2])
    works(talk, connections[2:])
    assert incidents(talk) == []


def test_idle_connections_are_closed() -> None:
    """Kafka: connections.max.idle.ms."""
    talk, connections = start()
    talk.pause(600)
    ends(connections)
    talk.pause(20)
    talk.connection(host=HOSTS[0])
    assert incidents(talk) == []


def test_clients_whose_login_fails() -> None:
    talk = Conversation()
    for _ in range(5):
        connections = [talk.connection(host=host) for host in HOSTS]
        ends(connections)
        talk.pause(10)
    assert incidents(talk) == []


def test_a_broker_that_accepts_at_once() -> None:
    talk, connections = start()
    ends(connections)
    talk.pause(0.2)
    connections = [talk.connection(host=host) for host in HOSTS]
    works(talk, connections)
    assert incidents(talk) == []


def test_a_port_at_which_no_broker_was() -> None:
    talk, connections = start()
    for number in range(5):
        refuse(talk, HOSTS[0], 40_000 + number)
        works(talk, connections)
    assert incidents(talk) == []
