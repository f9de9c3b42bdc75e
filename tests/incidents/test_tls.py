"""Handshakes of TLS that fail, by Python's own ssl; and those that do not."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any

import pytest

from kshark.model import Event, Weird
from kshark.pipeline import JUDGED, Options
from tests.conversation import Conversation, events, note
from tests.incidents.talks import incidents
from tests.tls.speaking import TLS_12, TLS_13, Secrets, Speaking, connection

HOST = "10.0.0.1"
VERSIONS = pytest.mark.parametrize("version", [TLS_12, TLS_13])


def speaking(talk: Conversation, version: ssl.TLSVersion = TLS_13, host: str = HOST, **change: Any) -> Speaking:
    """A connection whose handshake is not begun. `trusts` False: the client does not know the broker's authority;
    `wants`: the broker wants a certificate; `accepts`: the version that the broker accepts; `tickets`: session tickets
    that it sends."""
    secrets = change.get("secrets") or Secrets()
    connected = talk.connection(introduced=False, host=host).tcp
    base = Speaking(connected, secrets, version)
    client, server = base.contexts
    if not change.get("trusts", True):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.minimum_version = client.maximum_version = version
    if change.get("wants"):
        server.verify_mode = ssl.CERT_REQUIRED
    if "accepts" in change:
        server.maximum_version = max(server.maximum_version, change["accepts"])
        server.minimum_version = server.maximum_version = change["accepts"]
    server.num_tickets = change.get("tickets", 2)
    base.contexts = client, server
    return Speaking(connected, secrets, resumed=base)


def shake(tls: Speaking) -> None:
    """Both ends send what they have to, until one gives up or both are ready."""
    for _ in range(4):
        for side in (0, 1):
            with suppress(ssl.SSLError):
                tls.sides[side].do_handshake()
            tls._flush(side)


def fails(talk: Conversation, by: int, version: ssl.TLSVersion = TLS_13, **change: Any) -> int:
    """A handshake that the side `by` ends; return the packet before it."""
    before = len(talk.wire.packets)
    tls = speaking(talk, version, **change)
    shake(tls)
    tls.tcp.fin(by)
    tls.tcp.fin(1 - by)
    return before


def alerts(found: list[Event]) -> list[tuple[str, int | None, str]]:
    return [(it.detail, it.side, it.stage) for it in found if isinstance(it, Weird) and it.code == "TLS_ALERT"]


@VERSIONS
def test_the_client_does_not_trust_the_broker(version: ssl.TLSVersion) -> None:
    talk = Conversation()
    before = fails(talk, 0, version, trusts=False)
    (found,) = incidents(talk)
    assert found == note("TLS_HANDSHAKE_FAILED", at=before + 1)
    assert found.blame == "unknown"
    assert "1 connection, refused by the client with the alert unknown_ca" in found.argument
    assert f"TLS {version.name[-3:].replace('_', '.')}" in found.argument
    assert found.until_packet == len(talk.wire.packets) - 2


def test_the_broker_wants_a_certificate() -> None:
    talk = Conversation()
    before = fails(talk, 1, TLS_12, wants=True)
    (found,) = incidents(talk)
    assert found == note("TLS_HANDSHAKE_FAILED", at=before + 1)
    assert "refused by the broker with the alert handshake_failure" in found.argument


def test_it_wants_one_and_says_so_under_encryption() -> None:
    """TLS 1.3: the alert is known by its size, and by its name if the keys are known."""
    talk, secrets = Conversation(), Secrets()
    before = fails(talk, 1, wants=True, secrets=secrets)
    (found,) = incidents(talk)
    assert found == note("TLS_HANDSHAKE_FAILED", at=before + 1)
    assert "refused by the broker with an encrypted alert" in found.argument
    assert alerts(events(talk)) == [("encrypted, TLS 1.3", 1, "tls")]
    assert alerts(events(talk, Options(tls_keys=secrets.text))) == [("certificate_required, TLS 1.3", 1, "tls")]
    for size in (1, 2, 3):
        assert alerts(events(talk, JUDGED, size)) == [("encrypted, TLS 1.3", 1, "tls")]


def test_no_version_in_common() -> None:
    talk = Conversation()
    before = fails(talk, 1, TLS_12, accepts=TLS_13)
    (found,) = incidents(talk)
    assert found == note("TLS_HANDSHAKE_FAILED", at=before + 1)
    assert "refused by the broker with the alert protocol_version" in found.argument


def test_repeats_are_one_incident() -> None:
    talk = Conversation()
    first = fails(talk, 0, trusts=False)
    for _ in range(4):
        talk.pause(60)
        fails(talk, 0, trusts=False)
    until = len(talk.wire.packets) - 2
    other = fails(talk, 0, trusts=False, host="10.0.0.2")
    talk.pause(400)
    later = fails(talk, 0, trusts=False)
    found = incidents(talk)
    assert found == [note("TLS_HANDSHAKE_FAILED", at=at + 1) for at in (first, other, later)]
    assert "5 connections in 240." in found[0].argument
    assert found[0].until_packet == until


def test_health_checks_are_no_incident() -> None:
    talk = Conversation()
    for _ in range(5):
        talk.pause(1)
        talk.connection(introduced=False, host="10.0.0.7").close()
    assert incidents(talk) == []
    fails(talk, 0, trusts=False)
    (found,) = incidents(talk)
    assert "Not counted: 5 connections of 10.0.0.7 without a ClientHello" in found.argument


@VERSIONS
@pytest.mark.parametrize("tickets", [0, 2])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("polite", [True, False])
def test_a_handshake_alone_is_no_failure(version: ssl.TLSVersion, tickets: int, first: int, polite: bool) -> None:
    """A health check that does the handshake; either end closes TCP first, after close_notify or not."""
    if first and not polite:
        tickets = 2
    talk = Conversation()
    tls = speaking(talk, version, tickets=tickets)
    shake(tls)
    if polite:
        for side in (0, 1):
            with suppress(ssl.SSLError):
                tls.sides[side].unwrap()
            tls._flush(side)
    tls.tcp.fin(first)
    tls.tcp.fin(1 - first)
    assert incidents(talk) == []


@VERSIONS
def test_connections_that_work(version: ssl.TLSVersion) -> None:
    talk, secrets = Conversation(), Secrets()
    for mutual in (False, True):
        client = connection(talk, secrets, version, mutual=mutual)
        talk.member("a", connection=client)
        client.close()
    assert incidents(talk) == []
    assert alerts(events(talk, Options(tls_keys=secrets.text))) == []


def test_a_client_without_tls() -> None:
    talk = Conversation()
    for _ in range(2):
        talk.pause(1)
        client = talk.connection(introduced=False)
        asked = client.ask(18, "ApiVersions", 3, {"client_software_name": "a", "client_software_version": "1"})
        answer = client.tcp.broker(bytes.fromhex("15030300020250"))
        client.tcp.fin(1)
        client.tcp.fin()
    (found,) = incidents(talk)
    assert found == note("TLS_HANDSHAKE_FAILED", at=1, cause="plain_client")
    assert (found.blame, found.until_packet) == ("client", answer[0])
    assert "Listener 10.0.0.9:9092 speaks TLS, the client 10.0.0.1 does not: 2 connections" in found.argument
    assert asked.correlation_id == 1
    codes = [it.code for it in events(talk) if isinstance(it, Weird)]
    assert "FRAME_LENGTH_INVALID" not in codes


def test_a_client_with_tls_at_a_listener_without() -> None:
    """Rule 4 says that."""
    talk = Conversation()
    talk.connection()
    tls = speaking(talk)
    with suppress(ssl.SSLError):
        tls.sides[0].do_handshake()
    tls._flush(0)
    tls.tcp.fin(1)
    tls.tcp.client(bytes.fromhex("15030300020232"))
    tls.tcp.fin(0)
    assert incidents(talk) == []


def test_a_warning_ends_nothing() -> None:
    """Java brokers send unrecognized_name as a warning before their ServerHello."""
    talk = Conversation()
    tls = speaking(talk, TLS_12)
    with suppress(ssl.SSLError):
        tls.sides[0].do_handshake()
    tls._flush(0)
    tls.tcp.broker(bytes.fromhex("15030300020170"))
    shake(tls)
    tls.tcp.close()
    assert incidents(talk) == []


def test_the_alert_is_missing() -> None:
    talk = Conversation()
    fails(talk, 0, trusts=False)
    (found,) = incidents(talk)
    alert = found.until_packet
    assert alert is not None
    assert incidents(talk.without_packets({alert})) == []


def test_the_capture_begins_in_it() -> None:
    """Without the SYN or the ClientHello nothing shows that these bytes are the beginning of TLS."""
    talk = Conversation()
    fails(talk, 0, trusts=False)
    for count in range(1, 5):
        found = incidents(talk.without_packets(range(1, count + 1)))
        assert [it.code for it in found] in ([], ["TLS_HANDSHAKE_FAILED"])
