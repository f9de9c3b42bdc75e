"""Headers of every kind: their versions and tags, ids that are anything, tokens without one, versions that nobody
knows."""

from __future__ import annotations

import gzip
import json
from struct import pack
from typing import Any

import pytest
from msgspec import UNSET

from kshark import encode
from kshark.codec import compile_writer, plain
from kshark.face import pages
from kshark.model import Message
from tests.embedding import REGISTRY, exchange, messages, request_frame, response_frame
from tests.packets import Tcp, Wire
from tests.shared import CAPTURES, shared


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def tcp(wire: Wire) -> Tcp:
    """A connection that is known for Kafka's."""
    tcp = Tcp(wire).open()
    exchange(tcp, 18, 0, {}, {"api_keys": []}, correlation_id=0)
    return tcp


def framed(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def tags(*pairs: tuple[int, bytes]) -> bytes:
    return bytes([len(pairs)]) + b"".join(bytes([tag, len(content)]) + content for tag, content in pairs)


HEARTBEAT = {"group_id": "g", "generation_id": 5, "member_id": "m"}


def later(wire: Wire) -> list[Message]:
    """What was said behind the introduction."""
    return messages(wire)[2:]


# -- tags


def test_tags_of_both_headers_are_passed_over(wire: Wire, tcp: Tcp) -> None:
    some = tags((0, b"abc"), (9, b""))
    tcp.client(framed(pack(">hhih2s", 12, 4, 7, 2, b"c1") + some + encode(12, 4, "request", HEARTBEAT)))
    tcp.broker(framed(pack(">i", 7) + some + encode(12, 4, "response", {"error_code": 27})))
    asked, answer = later(wire)
    assert (asked.client_id, asked.body.group_id, asked.weird) == ("c1", "g", UNSET)
    assert (answer.body.error_code, answer.weird) == (27, UNSET)


@pytest.mark.parametrize("wrong", [b"\x01\x00\x7f", b"\x01", b"\xff\xff\xff\xff\xff", b"\x02\x00\x00\x01"])
def test_tags_that_point_outside_the_frame_end_the_reading(wire: Wire, tcp: Tcp, wrong: bytes) -> None:
    tcp.client(framed(request_frame(12, 4, HEARTBEAT)))
    tcp.client(framed(pack(">hhih", 12, 4, 8, -1) + wrong))
    tcp.broker(framed(pack(">i", 1) + wrong))
    _, asked, answer = later(wire)
    for message in (asked, answer):
        assert isinstance(message.weird, list)
        assert message.detail == "header"
        assert message.body is None


def test_the_answer_to_api_versions_has_no_tags_in_its_header(wire: Wire, tcp: Tcp) -> None:
    exchange(
        tcp, 18, 4, {"client_software_name": "a"}, {"error_code": 0, "api_keys": [{"api_key": 3, "max_version": 12}]}
    )
    answer = later(wire)[-1]
    assert (answer.version, answer.body.api_keys[0].max_version, answer.weird) == (4, 12, UNSET)


def test_controlled_shutdown_0_has_no_client_id(wire: Wire, tcp: Tcp) -> None:
    exchange(tcp, 7, 0, {"broker_id": 258}, {"error_code": 0})
    exchange(tcp, 7, 1, {"broker_id": 258}, {"error_code": 0})
    first, _, second, _ = later(wire)
    assert (first.client_id, first.body.broker_id, first.weird) == (UNSET, 258, UNSET)
    assert (second.client_id, second.body.broker_id, second.weird) == ("c1", 258, UNSET)


@pytest.mark.sweep
def test_a_real_broker_sends_controlled_shutdown_in_every_version() -> None:
    versions = {}
    for page in pages((shared("captures", "kafka-4", "sweep-3.9.2-zk.pcap"),)):
        for event in page:
            if isinstance(event, Message) and event.api == "ControlledShutdown" and event.kind == "request":
                versions[event.version] = (event.weird, event.client_id is UNSET, isinstance(event.body.broker_id, int))
    assert versions == {version: (UNSET, version == 0, True) for version in range(4)}


# -- ids


@pytest.mark.parametrize("correlation_id", [0, -1, 2147483647, -2147483648, 0x7FFFFFF8])
def test_correlation_ids_are_any_number(wire: Wire, tcp: Tcp, correlation_id: int) -> None:
    exchange(tcp, 12, 4, HEARTBEAT, {"error_code": 0}, correlation_id=correlation_id)
    asked, answer = later(wire)
    assert asked.correlation_id == answer.correlation_id == correlation_id
    assert answer.request_packet == asked.packet


def test_one_correlation_id_again_and_again_is_answered_in_order(wire: Wire, tcp: Tcp) -> None:
    for generation in (1, 2, 3):
        exchange(tcp, 12, 4, {**HEARTBEAT, "generation_id": generation}, {"error_code": generation})
    told = later(wire)
    assert [message.weird for message in told] == [UNSET] * 6
    assert [(a.body.generation_id, b.body.error_code) for a, b in zip(told[::2], told[1::2], strict=True)] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]


@pytest.mark.parametrize(
    ("raw", "shown"), [(b"caf\xe9", "caf\\xe9"), (b"\0\x1b[2J", "\0\x1b[2J"), (b"", ""), ("näme".encode(), "näme")]
)
def test_a_client_id_may_be_any_bytes(wire: Wire, tcp: Tcp, raw: bytes, shown: str) -> None:
    tcp.client(framed(pack(">hhih", 12, 0, 7, len(raw)) + raw + encode(12, 0, "request", HEARTBEAT)))
    (asked,) = later(wire)
    assert (asked.client_id, asked.body.group_id, asked.weird) == (shown, "g", UNSET)


def test_a_client_id_ends_with_its_frame(wire: Wire, tcp: Tcp) -> None:
    tcp.client(framed(pack(">hhih", 12, 0, 7, 99) + b"c1") + framed(request_frame(12, 4, HEARTBEAT)))
    cut, asked = later(wire)
    assert (cut.client_id, cut.body, cut.weird) == (UNSET, None, ["BODY_TOO_SHORT"])
    assert asked.body.group_id == "g"


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("behind", [b"\xff\xfb", b"\0\0", b"\x7f\xff"])
def test_a_client_id_is_not_read_of_what_follows_its_frame(wire: Wire, tcp: Tcp, missing: int, behind: bytes) -> None:
    """A frame that ends before the client id's length, and in the same segment bytes that would be one."""
    tcp.client(framed(request_frame(12, 4, HEARTBEAT)) + framed(pack(">hhih", 12, 0, 7, 0)[:-missing]) + behind)
    cut = later(wire)[1]
    assert (cut.correlation_id, cut.client_id, cut.body, cut.weird) == (7, UNSET, None, ["BODY_TOO_SHORT"])


def test_a_client_id_may_be_null(wire: Wire, tcp: Tcp) -> None:
    tcp.client(framed(request_frame(12, 4, HEARTBEAT, client_id=None)))
    (asked,) = later(wire)
    assert (asked.client_id, asked.weird) == (None, UNSET)


# -- versions that nobody knows


def test_a_newer_version_is_read_as_the_newest_as_far_as_it_fits(wire: Wire, tcp: Tcp) -> None:
    header = compile_writer(REGISTRY.request_header, 2)
    fields = {"request_api_key": 12, "request_api_version": 5, "correlation_id": 1, "client_id": "c1"}
    body = encode(12, 4, "request", HEARTBEAT)
    tcp.client(framed(header(fields) + body))
    tcp.client(framed(header({**fields, "correlation_id": 2}) + body[:-1] + b"\0\0\0\x2a\0"))
    tcp.broker(framed(response_frame(12, 4, {"error_code": 27})))
    same, longer, answer = later(wire)
    for message in (same, longer):
        assert (message.api, message.version, message.body.member_id) == ("Heartbeat", 5, "m")
        assert message.weird == ["VERSION_UNKNOWN"]
    assert same.detail == answer.detail == "version 5 read as 4"
    assert isinstance(longer.detail, str)
    assert longer.detail.startswith("version 5 read as 4: TRAILING_BYTES at byte ")
    assert (answer.body.error_code, answer.weird) == (27, ["VERSION_UNKNOWN"])


def test_a_broker_that_does_not_know_it_either_answers_in_version_0(wire: Wire, tcp: Tcp) -> None:
    tcp.client(framed(pack(">hhih", 18, 99, 4, -1) + b"\0"))
    tcp.broker(
        framed(
            pack(">i", 4)
            + encode(18, 0, "response", {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 4}]})
        )
    )
    _, answer = later(wire)
    assert plain(answer.body) == {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}


# -- tokens without header


def test_tokens_follow_the_old_handshake_until_requests_come(wire: Wire, tcp: Tcp) -> None:
    exchange(tcp, 17, 0, {"mechanism": "PLAIN"}, {"error_code": 0, "mechanisms": ["PLAIN"]}, correlation_id=1)
    tcp.client(framed(b"\0alice\0secret"))
    tcp.broker(framed(b""))
    exchange(tcp, 12, 4, HEARTBEAT, {"error_code": 0}, correlation_id=2)
    _, _, token, accepted, asked, answer = later(wire)
    for message, kind in ((token, "request"), (accepted, "response")):
        assert (message.kind, message.api, message.body, message.weird) == (kind, UNSET, None, ["RAW_TOKEN"])
    assert (asked.api, answer.request_packet, answer.weird) == ("Heartbeat", asked.packet, UNSET)


def test_a_refused_handshake_is_followed_by_requests(wire: Wire, tcp: Tcp) -> None:
    exchange(tcp, 17, 0, {"mechanism": "X"}, {"error_code": 33, "mechanisms": ["PLAIN"]}, correlation_id=1)
    exchange(tcp, 12, 4, HEARTBEAT, {"error_code": 0}, correlation_id=2)
    assert [message.weird for message in later(wire)] == [UNSET] * 4


def test_real_tokens_are_told_from_frames() -> None:
    """Two clients spoke SaslHandshake v0 and PLAIN: the broker accepted one token with an empty one, and hung up on the
    other."""
    told: dict[int, list[Any]] = {}
    for page in pages((CAPTURES / "security-sasl.pcap",)):
        for event in page:
            if isinstance(event, Message):
                told.setdefault(event.flow, []).append((event.kind, event.api, event.size, event.weird))
    accepted, refused = [rows for rows in told.values() if any(weird == ["RAW_TOKEN"] for *_, weird in rows)]
    shook = [("request", "SaslHandshake", 21, UNSET), ("response", "SaslHandshake", 60, UNSET)]
    token = ("request", UNSET, len("\0admin\0admin-pw"), ["RAW_TOKEN"])
    asked = [("request", "Metadata", 22, UNSET), ("response", "Metadata", 119, UNSET)]
    assert accepted == [*shook, token, ("response", UNSET, 0, ["RAW_TOKEN"]), *asked, *asked]
    assert refused == [*shook, ("request", UNSET, len("\0admin\0nope"), ["RAW_TOKEN"])]
    assert _replies("SaslHandshake v0, raw token, Metadata v0 twice") == [60, 0, 100, 100]


def _replies(what: str) -> list[int]:
    """Sizes of the frames that a hand-made client says it got; of each it wrote down the first 100 bytes."""
    with gzip.open(CAPTURES / "security-sasl.truth.json.gz", "rt") as file:
        (event,) = [event for event in json.load(file)["events"] if what in event["event"]]
    return [len(bytes.fromhex(reply)) for reply in event["replies"]]
