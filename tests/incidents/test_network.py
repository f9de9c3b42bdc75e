"""Packets that do not arrive, connections lost while idle, and clients that do not read."""

from __future__ import annotations

from kshark.model import ACK
from tests.conversation import Asked, Connection, Conversation, Member, note
from tests.incidents.talks import incidents
from tests.packets import tcp_packet


def start(*, hosts: tuple[str, ...] = ("10.0.0.1",) * 3) -> tuple[Conversation, list[Member]]:
    """Members that work."""
    talk = Conversation()
    members = [
        talk.member(name, connection=talk.connection(host=host)) for name, host in zip("abc", hosts, strict=True)
    ]
    for member in members:
        member.share_fetch(0, [0]).answered()
        acknowledge(member.connection)
    talk.pause(0.5)
    return talk, members


def acknowledge(connection: Connection, side: int = 0) -> int:
    return connection.tcp.acknowledge(side)


def again(talk: Conversation, packets: list[int], times: tuple[float, ...] = (0.2, 0.5, 1.0)) -> None:
    """Packets are sent again, with nothing else in between."""
    for seconds in times:
        talk.pause(seconds)
        for packet in packets:
            talk.wire.add(talk.wire.packets[packet - 1])


def beat(member: Member) -> Asked:
    return member.heartbeat(1).given(1)


def test_an_outage_towards_the_broker() -> None:
    talk, members = start()
    asked = [member.heartbeat(1) for member in members]
    again(talk, [request.sent for request in asked])
    for request in asked:
        request.given(1)
    (found,) = incidents(talk)
    assert found == note("NETWORK_OUTAGE", at=asked[0].sent)
    assert found.until_packet == asked[0].packet
    assert "10.0.0.9 acknowledged nothing that 10.0.0.1 sent on " in found.argument
    assert "on 3 connections" in found.argument


def test_an_outage_towards_the_client() -> None:
    talk, members = start()
    answers = []
    for member in members:
        with member.connection.tcp.on_the_way():
            answers.append(beat(member))
    again(talk, [answer.packet for answer in answers])
    back = acknowledge(members[1].connection)
    (found,) = incidents(talk)
    assert found == note("NETWORK_OUTAGE", at=answers[0].packet)
    assert found.until_packet == back
    assert "10.0.0.1 acknowledged nothing that 10.0.0.9 sent on " in found.argument


def test_an_outage_ends_with_any_connection_of_the_two_hosts() -> None:
    """A retransmission waits ever longer: the first request that is answered shows that packets arrive."""
    talk, members = start()
    asked = [member.heartbeat(1) for member in members[:2]]
    again(talk, [request.sent for request in asked], (0.2, 0.5, 1.0, 2.0))
    first = beat(members[2])
    talk.pause(4)
    again(talk, [request.sent for request in asked], (0.1,))
    (found,) = incidents(talk)
    assert found.until_packet == first.packet


def test_an_outage_that_lasts_when_the_capture_ends() -> None:
    talk, members = start()
    again(talk, [member.heartbeat(1).sent for member in members])
    (found,) = incidents(talk)
    assert (found.code, found.until_packet) == ("NETWORK_OUTAGE", None)


def test_each_pair_of_hosts_has_its_outage() -> None:
    talk, members = start(hosts=("10.0.0.1", "10.0.0.1", "10.0.0.2"))
    again(talk, [member.heartbeat(1).sent for member in members])
    assert [found.code for found in incidents(talk)] == ["NETWORK_OUTAGE"]


def test_one_connection_is_no_outage() -> None:
    talk, members = start()
    again(talk, [members[0].heartbeat(1).sent])
    beat(members[1])
    assert incidents(talk) == []


def test_losses_that_tcp_repairs_are_no_outage() -> None:
    talk, members = start()
    for _ in range(3):
        asked = [member.heartbeat(1) for member in members]
        again(talk, [request.sent for request in asked], (0.2, 0.2))
        for request in asked:
            request.given(1)
            acknowledge(request.connection)
    assert incidents(talk) == []


def test_connections_that_a_device_forgot_are_no_outage() -> None:
    """Others between the same hosts work."""
    talk, members = start()
    asked = [member.heartbeat(1) for member in members[:2]]
    for seconds in (0.2, 0.4, 0.8, 1.6):
        again(talk, [request.sent for request in asked], (seconds,))
        beat(members[2])
    assert incidents(talk) == []


def test_a_clock_that_may_have_been_stepped() -> None:
    talk, members = start()
    talk.wire.stamped = False
    asked = [member.heartbeat(1).sent for member in members]
    talk.pause(20)
    again(talk, asked, (0.0,))
    (found,) = incidents(talk)
    assert (found.verdict, found.unknown_because) == ("unknown", "clock")


# -- idle connections


def idle(*, seconds: float = 100) -> tuple[Conversation, Member, Member]:
    """A connection that is idle while another one of the same broker works."""
    talk, (member, other, _) = start()
    for _ in range(int(seconds) // 5):
        talk.pause(5)
        beat(other)
        acknowledge(other.connection)
    return talk, member, other


def test_an_idle_connection_is_lost() -> None:
    talk, member, other = idle()
    asked = member.heartbeat(1)
    for _ in range(6):
        again(talk, [asked.sent], (1.5,))
        beat(other)
    member.connection.tcp.fin()
    (found,) = incidents(talk)
    assert found == note("IDLE_CONNECTION_LOST", at=asked.sent)
    assert found.blame == "network"
    assert found.until_packet == len(talk.wire.packets)
    assert "idle for 101 s" in found.argument


def test_the_first_packet_after_an_idle_time_is_reset() -> None:
    talk, member, other = idle()
    asked = member.heartbeat(1)
    reset = member.connection.tcp.reset(1)
    beat(other)
    (found,) = incidents(talk)
    assert found == note("IDLE_CONNECTION_LOST", at=asked.sent)
    assert (found.blame, found.until_packet) == ("network", reset)


def test_a_restart_of_the_broker_looks_the_same() -> None:
    talk, member, other = idle(seconds=20)
    talk.pause(100)
    member.heartbeat(1)
    member.connection.tcp.reset(1)
    (found,) = incidents(talk)
    assert (found.code, found.blame) == ("IDLE_CONNECTION_LOST", "unknown")
    assert other.connection is not member.connection


def test_a_connection_that_was_not_idle_for_long() -> None:
    talk, member, other = idle(seconds=50)
    member.heartbeat(1)
    member.connection.tcp.reset(1)
    beat(other)
    assert "IDLE_CONNECTION_LOST" not in [found.code for found in incidents(talk)]


def test_a_broker_that_closes_an_idle_connection() -> None:
    talk, member, other = idle()
    member.connection.tcp.fin(1)
    member.connection.tcp.fin()
    beat(other)
    assert incidents(talk) == []


def test_an_idle_connection_works() -> None:
    talk, member, _ = idle()
    beat(member)
    assert incidents(talk) == []


# -- a client that does not read


def probe(talk: Conversation, connection: Connection, seconds: float, *, window: int = 0) -> int:
    """The client's window, after a time."""
    talk.pause(seconds)
    tcp = connection.tcp
    return talk.wire.add(tcp_packet(tcp.source, tcp.target, tcp.seq[0], tcp.seq[1], ACK, window=window))


def full(seconds: tuple[float, ...], *, opens: bool = True) -> tuple[Conversation, Asked, int]:
    talk, (member, other, _) = start()
    asked = member.share_fetch(1)
    beat(other)
    packet = 0
    for time in seconds:
        packet = probe(talk, member.connection, time)
        beat(other)
    if opens:
        packet = probe(talk, member.connection, 0.1, window=1_000)
    asked.answered()
    return talk, asked, packet


def test_a_client_that_does_not_read() -> None:
    talk, asked, opened = full((0.01, 2, 4, 8))
    found = incidents(talk)[0]
    assert found == note("CLIENT_NOT_READING", at=asked.sent)
    assert (found.blame, found.until_packet) == ("client", opened)
    assert "its window was zero" in found.argument


def test_a_client_that_reads_slowly() -> None:
    talk, _, _ = full((0.01, 2, 4))
    assert "CLIENT_NOT_READING" not in [found.code for found in incidents(talk)]


def test_a_client_that_has_no_request_open() -> None:
    talk, (member, other, _) = start()
    for time in (0.1, 2, 4, 8):
        probe(talk, member.connection, time)
        beat(other)
    probe(talk, member.connection, 1, window=1_000)
    assert incidents(talk) == []
