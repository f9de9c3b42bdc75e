"""What a connection carries, told by its bytes; and what is said of bytes that are no frames."""

from __future__ import annotations

import struct

import pytest

from kshark import limits
from kshark.model import Closed, Message, Weird
from tests.exchange.test_stage import Talk, answer, framed, metadata, request

HELLO = request(18, 0, 1)
WELCOME = framed(struct.pack(">ihi", 1, 0, 0))
TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 40
HTTP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#: ConnectRequest: protocol 0, last zxid 0, 18 s, session 0, password of 16 bytes, not read-only.
ZOOKEEPER = framed(struct.pack(">iqiqi16s?", 0, 0, 18_000, 0, 16, bytes(16), False))


def weirds(talk: Talk, **how: object) -> list[Weird]:
    return [event for event in talk.events(**how) if isinstance(event, Weird)]  # type: ignore[arg-type]


def service(talk: Talk) -> str:
    (closed,) = [event for event in talk.events() if isinstance(event, Closed)]
    return closed.flow.service


def again(talk: Talk, port: int) -> None:
    """A second connection to the same broker."""
    talk.tcp = type(talk.tcp)(talk.wire, f"10.0.0.1:{port}", talk.tcp.target, [7_000, 9_000]).open()


@pytest.mark.parametrize(
    ("head", "named"),
    [
        (TLS, "tls"),
        (HTTP, "http"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "other"),
        (ZOOKEEPER, "other"),
        (bytes(range(64, 128)), "other"),
    ],
)
def test_other_protocols_are_named_and_counted(head: bytes, named: str) -> None:
    talk = Talk()
    talk.tcp.client(head)
    assert service(talk) == named
    (weird,) = weirds(talk)
    assert (weird.code, weird.size) == ("TLS_UNREAD" if named == "tls" else "NOT_KAFKA", len(head))


def test_an_answered_request_tells_whatever_follows_it() -> None:
    """Nothing else is known of the broker, and what comes next nobody can read."""
    talk = Talk()
    talk.tcp.client(HELLO + struct.pack(">ihh", 40, -9, 99) + bytes(36))
    talk.tcp.broker(
        framed(struct.pack(">ihi", 1, 0, 2) + struct.pack(">hhh", 3, 0, 13) + struct.pack(">hhh", 18, 0, 4))
    )
    assert service(talk) == "kafka"


@pytest.mark.parametrize("head", [TLS, HTTP])
def test_another_protocol_on_a_kafka_broker_is_foreign(head: bytes) -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    again(talk, 50_001)
    talk.tcp.client(head)
    assert [(weird.code, weird.size) for weird in weirds(talk)] == [("FOREIGN_PROTOCOL", len(head))]


@pytest.mark.parametrize(
    "head",
    [b"\xff\xff\xff\xff\x00\x12", b"\x7f\xff\xff\xffabc", struct.pack(">i", limits.REQUEST_BYTES + 1) + bytes(20)],
)
def test_a_length_that_cannot_be_on_a_known_broker_is_named(head: bytes) -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    again(talk, 50_001)
    talk.tcp.client(head)
    assert next(weird.code for weird in weirds(talk)) == "FRAME_LENGTH_INVALID"


def test_the_client_is_told_by_content_not_by_who_opened() -> None:
    """A capture that shows the answers first: the SYN's sender sends answers, the other side requests."""
    talk = Talk()
    talk.tcp.broker(HELLO + metadata(2))
    talk.tcp.client(WELCOME + answer(2))
    first = next(event for event in talk.events() if isinstance(event, Message))
    assert (first.kind, first.client) == ("request", talk.tcp.target)


def test_an_answer_that_looks_like_a_request_fools_nobody() -> None:
    """Correlation id 7 reads as key 0, version 7: Produce."""
    talk = Talk()
    talk.tcp.client(metadata(7))
    talk.tcp.broker(framed(struct.pack(">i", 7) + b"\0" * 12))
    assert [event.kind for event in talk.events() if isinstance(event, Message)] == ["request", "response"]


def test_a_version_newer_than_known_opens_a_connection() -> None:
    talk = Talk()
    talk.tcp.client(request(18, 99, 1, b"\0\2n\0021\0"))
    talk.tcp.broker(WELCOME)
    assert [event.api for event in talk.events() if isinstance(event, Message)] == ["ApiVersions", "ApiVersions"]


def test_a_connection_that_ends_inside_a_frame() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.client(metadata(2)[:9])
    talk.tcp.close()
    (weird, _) = sorted(weirds(talk), key=lambda weird: weird.code)
    assert (weird.code, weird.size) == ("FRAME_TRUNCATED_AT_CLOSE", 9)


def test_a_gap_inside_a_frame_of_known_length_costs_that_frame_only() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    talk.tcp.client(metadata(2))
    long = answer(2, b"\0" * 4000)
    _first, lost, _last = talk.tcp.broker(long)
    talk.tcp.client(metadata(3))
    talk.tcp.broker(answer(3))
    told = talk.events(lost=(lost,))
    assert [event.correlation_id for event in told if isinstance(event, Message) and event.kind == "response"] == [1, 3]
    assert (
        sum(weird.size for weird in told if isinstance(weird, Weird) and weird.code == "BYTES_SKIPPED")
        == len(long) - 1460
    )
    assert not any(
        "RESYNC" in (event.weird or ())
        for event in told
        if isinstance(event, Message) and isinstance(event.weird, list)
    )


def test_a_lost_request_is_skipped_and_the_next_boundary_found() -> None:
    talk = Talk()
    for number in range(1, 4):
        talk.tcp.client(metadata(number))
        talk.tcp.broker(answer(number))
    (lost,) = talk.tcp.client(metadata(4))
    talk.tcp.broker(answer(4))
    talk.tcp.client(metadata(5))
    talk.tcp.broker(answer(5))
    told = [event for event in talk.events(lost=(lost,)) if isinstance(event, Message)]
    assert [event.correlation_id for event in told if event.kind == "request"] == [1, 2, 3, 5]
    assert told[-2].weird == ["RESYNC"]


def test_a_connection_without_the_first_bytes_of_both_sides_is_recognised() -> None:
    """What is left of the first answer need not begin like one."""
    talk = Talk()
    lost = talk.tcp.client(metadata(0))
    talk.tcp.broker(answer(0, bytes(range(200))), mss=40)
    for number in range(1, 4):
        talk.tcp.client(metadata(number))
        talk.tcp.broker(answer(number))
    lost += [lost[-1] + 1]
    seen = [event for event in talk.events(lost=tuple(lost)) if isinstance(event, Message)]
    assert [event.correlation_id for event in seen if event.kind == "request"] == [1, 2, 3]


def test_a_retransmission_with_other_bytes_is_told() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    before = talk.tcp.seq[0]
    talk.tcp.seq[0] += 10
    talk.tcp.client(b"abcdef")
    talk.tcp.seq[0] = before + 10
    talk.tcp.client(b"abcXef")
    assert "OVERLAP_DIFFERS" in [weird.code for weird in weirds(talk)]


def test_too_many_connections_forget_the_longest_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FLOWS", 10)
    talk = Talk()
    for port in range(50_001, 50_020):
        again(talk, port)
    assert "FLOWS_FORGOTTEN" in [weird.code for weird in weirds(talk)]
