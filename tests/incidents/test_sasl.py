"""SASL sessions that clients do not renew."""

from __future__ import annotations

import pytest

from tests.conversation import Asked, Connection, Conversation, note, unknown
from tests.incidents.talks import incidents

LIFETIME_S = 60


def authenticate(connection: Connection, lifetime_s: float = LIFETIME_S, error: int = 0) -> Asked:
    connection.ask(17, "SaslHandshake", 1, {"mechanism": "PLAIN"}).answered(mechanisms=["PLAIN"])
    asked = connection.ask(36, "SaslAuthenticate", 2, {"auth_bytes": b"x"})
    return asked.answered(error, session_lifetime_ms=int(lifetime_s * 1000), auth_bytes=b"", error_message=None)


def metadata(connection: Connection) -> Asked:
    return connection.ask(3, "Metadata", 12, {"topics": []})


def works(connection: Connection, seconds: int) -> None:
    for _ in range(seconds):
        connection.talk.pause(1)
        metadata(connection).answered(None, brokers=[], topics=[])


def closed(connection: Connection, by: int = 1) -> list[int]:
    """A request on which the connection ends."""
    asked = metadata(connection)
    end = connection.tcp.fin(by)
    connection.tcp.fin(1 - by)
    return [asked.sent, end]


def forgets(talk: Conversation) -> list[int]:
    connection = talk.connection()
    authenticate(connection)
    works(connection, LIFETIME_S)
    return closed(connection)


def test_the_client_goes_on() -> None:
    talk = Conversation()
    packets = forgets(talk)
    (found,) = incidents(talk)
    assert found == note("SASL_SESSION_EXPIRED", at=packets[0])
    assert (found.until_packet, found.blame, found.client_id) == (packets[1], "client", "c1")
    assert "it was granted 60.0 s" in found.argument
    assert f"Metadata came after 60.1 s (packet {packets[0]})" in found.argument


def test_it_does_so_again_and_again() -> None:
    talk = Conversation()
    packets = [packet for _ in range(3) for packet in forgets(talk)]
    (found,) = incidents(talk)
    assert (found.packet, found.until_packet) == (packets[0], packets[-1])
    assert "3 times in 12" in found.argument


def test_it_is_reset() -> None:
    talk = Conversation()
    connection = talk.connection()
    authenticate(connection)
    works(connection, LIFETIME_S)
    asked = metadata(connection)
    connection.tcp.reset(1)
    assert incidents(talk) == [note("SASL_SESSION_EXPIRED", at=asked.sent)]


def test_it_renews_its_session() -> None:
    """field/sasl-reauth-right"""
    talk = Conversation()
    connection = talk.connection()
    for _ in range(3):
        authenticate(connection)
        works(connection, LIFETIME_S - 5)
    closed(connection)
    assert incidents(talk) == []


@pytest.mark.parametrize("step", ["api_versions", "handshake"])
def test_it_begins_too_late(step: str) -> None:
    talk = Conversation()
    connection = talk.connection()
    authenticate(connection)
    works(connection, LIFETIME_S)
    if step == "handshake":
        connection.ask(17, "SaslHandshake", 1, {"mechanism": "PLAIN"})
    else:
        connection.ask(18, "ApiVersions", 3, {"client_software_name": "a", "client_software_version": "1"})
    connection.tcp.fin(1)
    connection.tcp.fin()
    assert incidents(talk) == []


def test_the_client_closes() -> None:
    talk = Conversation()
    connection = talk.connection()
    authenticate(connection)
    works(connection, LIFETIME_S)
    closed(connection, by=0)
    assert incidents(talk) == []


def test_it_leaves_without_a_request() -> None:
    """An idle connection, or a broker that ends."""
    talk = Conversation()
    connection = talk.connection()
    authenticate(connection)
    works(connection, LIFETIME_S + 5)
    connection.tcp.fin(1)
    connection.tcp.fin()
    assert incidents(talk) == []


@pytest.mark.parametrize("lifetime_s", [0, 100])
def test_the_session_is_not_over(lifetime_s: int) -> None:
    talk = Conversation()
    connection = talk.connection()
    authenticate(connection, lifetime_s)
    works(connection, LIFETIME_S)
    closed(connection)
    assert incidents(talk) == []


def test_the_broker_does_not_end_sessions() -> None:
    """It answers requests long after the end: it closes for another reason."""
    talk = Conversation()
    connection = talk.connection()
    authenticate(connection)
    works(connection, LIFETIME_S + 60)
    closed(connection)
    assert incidents(talk) == []


def test_a_refused_login() -> None:
    talk = Conversation()
    connection = talk.connection()
    authenticate(connection, error=58)
    talk.pause(LIFETIME_S)
    closed(connection)
    assert [finding.code for finding in incidents(talk)] == ["NOT_AUTHORIZED"]


def test_a_clock_that_may_have_been_stepped() -> None:
    """Without TCP timestamps a step forward looks like time that passed."""
    talk = Conversation()
    talk.wire.stamped = False
    connection = talk.connection()
    authenticate(connection)
    talk.pause(LIFETIME_S)
    packets = closed(connection)
    found = [it for it in incidents(talk) if it.code == "SASL_SESSION_EXPIRED"]
    assert found == [unknown("SASL_SESSION_EXPIRED", at=packets[0], because="clock")]


def test_a_renewal_may_be_missing() -> None:
    talk = Conversation()
    connection = talk.connection()
    authenticate(connection)
    works(connection, LIFETIME_S // 2)
    again = connection.ask(36, "SaslAuthenticate", 2, {"auth_bytes": b"x"})
    again.answered(session_lifetime_ms=1000, auth_bytes=b"", error_message=None)
    works(connection, LIFETIME_S // 2)
    packets = closed(connection)
    found = incidents(talk.without_packets(again.all_packets))
    assert [it for it in found if it.code == "SASL_SESSION_EXPIRED"] == [
        unknown("SASL_SESSION_EXPIRED", at=packets[0], because="gap")
    ]


def test_the_capture_begins_in_it() -> None:
    talk = Conversation()
    connection = talk.connection()
    asked = authenticate(connection)
    works(connection, LIFETIME_S)
    closed(connection)
    assert incidents(talk.without_packets(range(1, asked.packet + 1))) == []


def test_one_direction_alone() -> None:
    talk = Conversation()
    forgets(talk)
    broker = (9092).to_bytes(2, "big")
    sides = [{number for number, it in talk.packets() if (it.data[34:36] == broker) is side} for side in (True, False)]
    for packets in sides:
        assert [it for it in incidents(talk.without_packets(packets)) if it.code == "SASL_SESSION_EXPIRED"] == []
