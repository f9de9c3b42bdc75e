"""Why nothing could be judged: the sentence, from the connections that are not Kafka."""

from __future__ import annotations

from collections import Counter

import pytest

from kshark.model import Ends, Flow, Weird
from kshark.unread import Unread

NO_KEYS = "no keys for it: 127.0.0.1:19093 (broker.example), TLS 1.3"


def tls(*details: str) -> Unread:
    unread = Unread()
    for detail in details:
        unread.weird(Weird("TLS_UNREAD", "tls", 1, 1, detail))
    return unread


def test_tls_without_keys() -> None:
    assert tls(*[NO_KEYS] * 3).why() == (
        "all 3 connections to 127.0.0.1:19093 (broker.example) are TLS 1.3, and no keys were given. Use --tls-keys "
        "FILE; how to get one: kshark explain tls-keys"
    )


@pytest.mark.parametrize(
    ("details", "has_keys", "sentence"),
    [
        (
            [NO_KEYS],
            True,
            "1 connection to 127.0.0.1:19093 (broker.example) is TLS 1.3, and the key log has no keys for it.",
        ),
        (
            ["its beginning is not in the capture: 10.0.0.1:1 - 10.0.0.9:9093"] * 2,
            False,
            "all 2 connections are TLS, and the capture lacks the handshake. Begin to record before ",
        ),
        (
            ["the keys do not fit: 10.0.0.9:9093, TLS 1.2"],
            True,
            "1 connection to 10.0.0.9:9093 is TLS 1.2, and the keys do not fit.",
        ),
        (
            [f"no keys for it: 10.0.0.{n}:9093, TLS 1.2" for n in range(5)],
            False,
            "all 5 connections to 10.0.0.0:9093, 10.0.0.1:9093, 10.0.0.2:9093 and 2 more are TLS 1.2, and no keys ",
        ),
    ],
)
def test_what_is_missing_is_said(details: list[str], has_keys: bool, sentence: str) -> None:
    assert tls(*details).why(has_keys=has_keys).startswith(sentence)


def test_other_connections_beside_tls_are_counted() -> None:
    unread = tls(NO_KEYS, NO_KEYS)
    unread.kafka = 1
    assert unread.why().startswith(
        "2 connections to 127.0.0.1:19093 (broker.example) are TLS 1.3, and no keys were given; "
        "1 connection beside them could not be judged. "
    )


def flow(service: str, port: int, *, size: int = 1) -> Flow:
    return Flow(0, Ends("10.0.0.1:5000", f"10.0.0.9:{port}"), 1, 1, service=service, stream_bytes=[size, 0])  # type: ignore[arg-type]


def test_other_protocols_are_named_with_their_ports() -> None:
    unread = Unread()
    for service, port, times in (("http", 8080, 12), ("unknown", 22, 3), ("other", 2181, 2), ("http", 80, 1)):
        for _ in range(times):
            unread.connection(flow(service, port))
    assert unread.why() == (
        "none of its connections is Kafka: 12 connections to port 8080 (HTTP), 3 connections to port 22 (not "
        "recognised), 2 connections to port 2181 (another protocol) and 1 more. If one is, name its port with "
        "-d tcp.port==8080,kafka; else record at a broker's port"
    )


def test_connections_without_data_and_no_connections() -> None:
    unread = Unread()
    assert unread.why().startswith("it has no TCP connection. Check the interface")
    unread.connection(flow("unknown", 9092, size=0))
    assert unread.why().startswith("1 connection in it, without data. ")
    unread.connection(flow("kafka", 9092))
    assert unread.why().startswith("no Kafka message in it is whole. ")


def test_parts_add_up() -> None:
    parts = [tls(NO_KEYS), tls(NO_KEYS, "the keys do not fit: 10.0.0.9:9093, TLS 1.2"), Unread()]
    parts[2].connection(flow("http", 80))
    whole = Unread()
    for part in parts:
        whole.join(part)
    assert whole.tls == Counter({NO_KEYS: 2, "the keys do not fit: 10.0.0.9:9093, TLS 1.2": 1})
    assert whole.others == Counter({("http", 80): 1})
