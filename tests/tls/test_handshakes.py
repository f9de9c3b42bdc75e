"""What Kafka says under TLS is read as if it were in clear: every version and way of protection that Python's ssl
speaks."""

from __future__ import annotations

import ssl
from random import Random
from typing import Any

import pytest

from kshark.model import Closed, Event, Flow, Message, Weird
from kshark.pipeline import Options
from tests.conversation import TOPIC, Asked, Conversation, Member, events
from tests.tls.speaking import BROKER_NAME, TLS_12, TLS_13, Secrets, Speaking, connection

RECORDS = Random(1).randbytes(100_000)
WAYS: dict[str, dict[str, Any]] = {
    "1.3": {},
    "1.3, the client shows a certificate": {"mutual": True},
    "1.3, the server asks for another key share": {"curve": "secp521r1"},
    "1.3, an RSA certificate": {"key": "rsa"},
    "1.2, GCM 128": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES128-GCM-SHA256"},
    "1.2, GCM 256": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES256-GCM-SHA384"},
    "1.2, ChaCha20": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-CHACHA20-POLY1305"},
    "1.2, CCM": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES128-CCM"},
    "1.2, CCM with a short tag": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES256-CCM8"},
    "1.2, CBC SHA-1, encrypt-then-MAC": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES128-SHA"},
    "1.2, CBC SHA-1": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES256-SHA", "mac_last": False},
    "1.2, CBC SHA-256": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES128-SHA256", "mac_last": False},
    "1.2, CBC SHA-384": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES256-SHA384", "mac_last": False},
    "1.2, CBC SHA-384, encrypt-then-MAC": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES256-SHA384"},
    "1.2, RSA, GCM": {"version": TLS_12, "ciphers": "AES128-GCM-SHA256", "key": "rsa"},
    "1.2, RSA, CBC SHA-256": {"version": TLS_12, "ciphers": "AES256-SHA256", "key": "rsa"},
    "1.2, ECDHE RSA": {"version": TLS_12, "ciphers": "ECDHE-RSA-AES256-GCM-SHA384", "key": "rsa"},
    "1.2, the client shows a certificate": {"version": TLS_12, "mutual": True},
}


def told(talk: Any, secrets: Secrets | None, size: int = 1_000_000, **more: Any) -> list[Event]:
    return events(talk, Options(records=False, tls_keys=b"" if secrets is None else secrets.text, **more), size)


def messages(found: list[Event]) -> list[Message]:
    return [event for event in found if isinstance(event, Message)]


def flows(found: list[Event]) -> list[Flow]:
    return [event.flow for event in found if isinstance(event, Closed)]


def weirds(found: list[Event]) -> list[tuple[str, str]]:
    return [(event.code, event.detail) for event in found if isinstance(event, Weird)]


def session(talk: Conversation, secrets: Secrets, **way: Any) -> list[Asked]:
    """A share session with an answer of many records in it."""
    member = Member(connection(talk, secrets, **way), "g", "a".ljust(22, "A"))
    member.join()
    member.share_fetch(0, [0]).answered()
    answer = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "records": RECORDS}]}]
    member.share_fetch(1, [0]).answered(responses=answer)
    member.share_fetch(-1).answered()
    member.connection.close()
    return talk.exchanges


@pytest.mark.parametrize("way", WAYS)
def test_what_is_said_under_tls_is_read_with_its_packets(way: str) -> None:
    talk, secrets = Conversation(), Secrets()
    asked = session(talk, secrets, **WAYS[way])
    found = told(talk, secrets)
    said = [
        one
        for each in asked
        for one in ((each.api, "request", each.packets), (each.api, "response", each.answer_packets))
    ]
    read = [
        (it.api, it.kind, [*range(it.packets[0], it.packets[1] + 1)] if it.packets else [it.packet])
        for it in messages(found)
    ]
    assert read == said
    assert weirds(found) == []
    (flow,) = flows(found)
    assert flow.service == "kafka"
    assert flow.tls is not None
    assert (flow.tls.server_name, flow.tls.version) == (BROKER_NAME, f"TLS {way[:3]}")
    assert flow.tls.unread == [0, 0]
    assert sum(flow.tls.content) > len(RECORDS)


def test_a_resumed_session_has_secrets_of_its_own() -> None:
    talk, secrets = Conversation(), Secrets()
    for version in (TLS_12, TLS_13):
        first = connection(talk, secrets, version)
        assert isinstance(first.tcp, Speaking)
        again = connection(talk, secrets, version, resumed=first.tcp)
        assert isinstance(again.tcp, Speaking)
        assert again.tcp.sides[0].session_reused
        again.close()
    found = told(talk, secrets)
    assert len(messages(found)) == 2 * len(talk.exchanges) == 8
    assert weirds(found) == []


def test_without_keys_connections_are_named_by_their_broker_and_counted() -> None:
    talk, secrets = Conversation(), Secrets()
    session(talk, secrets)
    found = told(talk, None)
    assert messages(found) == []
    assert weirds(found) == [("TLS_UNREAD", f"no keys for it: 10.0.0.9:9092 ({BROKER_NAME}), TLS 1.3")]
    (weird,) = [event for event in found if isinstance(event, Weird)]
    (flow,) = flows(found)
    assert flow.service == "tls"
    assert weird.size == sum(flow.stream_bytes)


@pytest.mark.parametrize("version", [TLS_12, TLS_13])
def test_keys_that_do_not_fit_are_not_blamed_on_anybody(version: Any) -> None:
    talk, secrets = Conversation(), Secrets()
    session(talk, secrets, version=version)
    lines = [line.split() for line in secrets.text.splitlines() if not line.startswith(b"#")]
    wrong = b"".join(b" ".join((label, random, secret[::-1])) + b"\n" for label, random, secret in lines)
    found = events(talk, Options(tls_keys=wrong))
    assert messages(found) == []
    ((code, detail),) = weirds(found)
    assert (code, detail.partition(":")[0]) == ("TLS_UNREAD", "the keys do not fit")


def test_a_hello_that_nobody_answers() -> None:
    talk, secrets = Conversation(), Secrets()
    speaking = Speaking(talk.connection(introduced=False).tcp, secrets)
    with pytest.raises(ssl.SSLWantReadError):
        speaking.sides[0].do_handshake()
    speaking._flush(0)
    assert weirds(told(talk, secrets)) == [
        ("TLS_UNREAD", f"its ClientHello was not answered: 10.0.0.9:9092 ({BROKER_NAME})")
    ]


def test_what_is_begun_in_the_middle_is_tls_all_the_same() -> None:
    talk, secrets = Conversation(), Secrets()
    session(talk, secrets)
    late = talk.without_packets(range(1, 12))
    assert messages(told(late, secrets)) == []
    ((code, detail),) = weirds(told(late, secrets))
    assert (code, detail.partition(":")[0]) == ("TLS_UNREAD", "its beginning is not in the capture")
