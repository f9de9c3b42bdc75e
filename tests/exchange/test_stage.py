"""Requests and answers find each other: in order and by correlation id, with everything a wire may do to that."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from msgspec import UNSET

import kshark
from kshark import limits
from kshark.model import Event, Exchange, Message, Weird
from kshark.pipeline import Engine, Options
from tests.packets import Tcp, Wire, batch

METADATA, API_VERSIONS, PRODUCE, SASL_HANDSHAKE = 3, 18, 0, 17


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def request(key: int, version: int, correlation_id: int, body: bytes = b"", client_id: bytes | None = b"c") -> bytes:
    """A request with header 1 (or 2, when the body begins with the tag byte)."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return framed(struct.pack(">hhi", key, version, correlation_id) + name + body)


def metadata(correlation_id: int, client_id: bytes | None = b"c") -> bytes:
    return request(METADATA, 0, correlation_id, struct.pack(">i", 0), client_id)


def answer(correlation_id: int, body: bytes = b"\0" * 8) -> bytes:
    """A Metadata v0 answer without brokers and topics."""
    return framed(struct.pack(">i", correlation_id) + body)


class Talk:
    """One connection, and what the engine makes of it."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.tcp = Tcp(self.wire).open()

    def events(self, *, lost: tuple[int, ...] = (), options: Options | None = None) -> list[Event]:
        whole = batch(self.wire.packets)
        keep = [n for n in range(len(self.wire.packets)) if n + 1 not in lost]
        thinned = batch([self.wire.packets[n] for n in keep])
        thinned.number = whole.number[keep]
        return [event for page in Engine(options).pages([thinned]) for event in page]

    def messages(self, **how: Any) -> list[Message]:
        return [event for event in self.events(**how) if isinstance(event, Message)]

    def exchanges(self, **how: Any) -> list[tuple[str, int | None, int | None]]:
        """Outcome and both correlation ids, in the order in which they were complete."""
        return [
            (
                event.outcome,
                event.request and event.request.correlation_id,
                event.response and event.response.correlation_id,
            )  # type: ignore[misc]
            for event in self.events(**how)
            if isinstance(event, Exchange)
        ]


def codes(message: Message) -> list[str]:
    return [] if message.weird is UNSET else message.weird


def test_an_answer_knows_its_request() -> None:
    talk = Talk()
    (asked,) = talk.tcp.client(metadata(7))
    talk.wire.pause(0.25)
    talk.tcp.broker(answer(7))
    first, second = talk.messages()
    assert (first.kind, first.api, first.client_id, first.correlation_id) == ("request", "Metadata", "c", 7)
    assert (second.kind, second.api, second.client_id, second.request_packet) == ("response", "Metadata", "c", asked)
    assert second.latency_ns == 251_000_000


def test_pipelined_requests_are_answered_in_their_order() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1) + metadata(2) + metadata(3))
    talk.tcp.broker(answer(1) + answer(2) + answer(3))
    assert talk.exchanges() == [("answered", 1, 1), ("answered", 2, 2), ("answered", 3, 3)]


def test_one_id_used_again_and_again_is_matched_in_order() -> None:
    """Re-authenticating Java clients do so within one connection."""
    talk = Talk()
    for _ in range(3):
        talk.tcp.client(metadata(0x7FFFFFF8))
        talk.tcp.broker(answer(0x7FFFFFF8))
    assert talk.exchanges() == [("answered", 0x7FFFFFF8, 0x7FFFFFF8)] * 3
    assert [codes(message) for message in talk.messages()] == [[]] * 6


def test_an_id_that_is_still_open_is_used_again() -> None:
    talk = Talk()
    talk.tcp.client(metadata(5) + metadata(5))
    talk.tcp.broker(answer(5) + answer(5))
    assert [codes(message) for message in talk.messages()] == [[], ["CORRELATION_ID_REUSED"], [], []]
    assert talk.exchanges() == [("answered", 5, 5), ("answered", 5, 5)]


def test_an_id_below_others_that_are_open_is_known_again() -> None:
    talk = Talk()
    talk.tcp.client(metadata(5) + metadata(9) + metadata(7) + metadata(7) + metadata(5))
    assert [codes(message) for message in talk.messages()] == [
        [],
        [],
        [],
        ["CORRELATION_ID_REUSED"],
        ["CORRELATION_ID_REUSED"],
    ]
    talk.tcp.broker(answer(9) + answer(5) + answer(10))
    assert talk.exchanges() == [
        ("answered", 9, 9), ("answered", 5, 5), ("orphan", None, 10),
        ("unanswered", 7, None), ("unanswered", 7, None), ("unanswered", 5, None),
    ]  # fmt: skip


def test_an_answer_out_of_its_order_is_named_and_matched() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1) + metadata(2))
    talk.tcp.broker(answer(2) + answer(1))
    assert [codes(message) for message in talk.messages()][2:] == [["RESPONSE_OUT_OF_ORDER"], []]
    assert talk.exchanges() == [("answered", 2, 2), ("answered", 1, 1)]


def test_an_answer_without_request_is_an_orphan() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1) + answer(99))
    last = talk.messages()[-1]
    assert (last.kind, last.api, last.body, codes(last)) == ("response", UNSET, None, ["RESPONSE_UNMATCHED"])
    assert talk.exchanges()[-1] == ("orphan", None, 99)


def test_an_answer_to_a_request_from_before_the_capture_is_nothing_odd() -> None:
    """The capture begins with packet 5: who counts up from 7 has asked for 6 before."""
    talk = Talk()
    talk.tcp.client(metadata(6))
    talk.tcp.client(metadata(7) + metadata(8) + metadata(9))
    talk.tcp.broker(answer(6) + answer(7) + answer(8))
    talk.tcp.broker(answer(99) + answer(9))
    told = talk.messages(lost=(1, 2, 3, 4))
    odd = {
        message.correlation_id: "RESPONSE_UNMATCHED" in codes(message) for message in told if message.kind == "response"
    }
    assert odd == {6: False, 7: False, 8: False, 99: True, 9: False}


def test_an_answer_lost_by_the_sniffer_leaves_its_request_unanswered() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1) + metadata(2) + metadata(3))
    talk.tcp.broker(answer(1))
    (lost,) = talk.tcp.broker(answer(2))
    talk.tcp.broker(answer(3))
    talk.tcp.close()
    outcomes = sorted(talk.exchanges(lost=(lost,)), key=lambda row: row[1] or 0)
    assert outcomes == [("answered", 1, 1), ("unanswered", 2, None), ("answered", 3, 3)]


def test_a_closed_connection_leaves_requests_unanswered_and_says_so() -> None:
    talk = Talk()
    (asked,) = talk.tcp.client(metadata(1))
    talk.tcp.close()
    (weird,) = [event for event in talk.events() if isinstance(event, Weird)]
    assert (weird.code, weird.first_packet) == ("REQUEST_UNANSWERED", asked)
    assert talk.exchanges() == [("unanswered", 1, None)]


def test_an_answer_that_was_sent_and_not_captured_is_nobodys_fault() -> None:
    """The numbers of what comes behind show that bytes are missing: whether they answered, nobody knows."""
    talk = Talk()
    talk.tcp.client(metadata(1))
    (lost,) = talk.tcp.broker(answer(1))
    talk.tcp.close()
    assert talk.exchanges(lost=(lost,)) == [("unanswered", 1, None)]
    assert [event for event in talk.events(lost=(lost,)) if isinstance(event, Weird)] == []


def test_a_capture_that_ends_first_blames_nobody() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    assert talk.exchanges() == [("unanswered", 1, None)]
    assert [event for event in talk.events() if isinstance(event, Weird)] == []


def produced(correlation_id: int, acks: int) -> bytes:
    return request(
        PRODUCE,
        3,
        correlation_id,
        kshark.encode(PRODUCE, 3, "request", {"acks": acks, "timeout_ms": 1, "topic_data": []}),
    )


def test_a_produce_without_acks_has_no_answer() -> None:
    talk = Talk()
    talk.tcp.client(produced(1, 0) + produced(2, 1))
    talk.tcp.broker(framed(struct.pack(">i", 2) + kshark.encode(PRODUCE, 3, "response", {"responses": []})))
    assert talk.exchanges() == [("one_way", 1, None), ("answered", 2, 2)]


def test_a_broker_that_answers_it_all_the_same_is_named() -> None:
    talk = Talk()
    talk.tcp.client(produced(1, 0))
    talk.tcp.broker(answer(1))
    assert codes(talk.messages()[-1]) == ["ACKS0_ANSWERED"]


def test_a_version_the_broker_does_not_know_is_answered_in_version_0() -> None:
    """KIP-511: error 35 comes in the v0 layout, with what the broker does speak."""
    talk = Talk()
    body = kshark.encode(API_VERSIONS, 4, "request", {"client_software_name": "n", "client_software_version": "1"})
    talk.tcp.client(request(API_VERSIONS, 4, 1, b"\0" + body))
    ranges = [{"api_key": 18, "min_version": 0, "max_version": 3}]
    talk.tcp.broker(
        framed(
            struct.pack(">i", 1) + kshark.encode(API_VERSIONS, 0, "response", {"error_code": 35, "api_keys": ranges})
        )
    )
    last = talk.messages()[-1]
    assert (last.version, last.body.error_code, last.body.api_keys[0].max_version, codes(last)) == (
        4,
        35,
        3,
        ["APIVERSIONS_FALLBACK"],
    )


def test_a_version_nobody_knows_is_read_as_the_nearest_and_marked() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    body = kshark.encode(API_VERSIONS, 5, "request", {"client_software_name": "n", "client_software_version": "1"})
    talk.tcp.client(request(API_VERSIONS, 77, 2, b"\0" + body))
    last = talk.messages()[-1]
    assert (last.version, last.body.client_software_name, codes(last)) == (77, "n", ["VERSION_UNKNOWN"])


def test_an_api_nobody_knows_has_a_header_and_no_body() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    talk.tcp.client(request(4711, 0, 2, b"xyz"))
    last = talk.messages()[-1]
    assert (last.api_key, last.api, last.body, codes(last)) == (4711, UNSET, None, ["UNKNOWN_API"])


def test_an_api_without_dissector_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from kshark_dissectors.index import INDEX

    monkeypatch.setitem(INDEX, METADATA, ("Metadata", "", "0-13"))
    talk = Talk()
    talk.tcp.client(request(10, 0, 0, b"\0\3grp"))  # FindCoordinator
    talk.tcp.client(metadata(1))
    (_, only) = talk.messages()
    assert (only.api, only.body, codes(only)) == ("Metadata", None, ["NO_DISSECTOR"])


@pytest.mark.parametrize("client_id", [None, b"", b"\xff\xfe", "Grüße".encode(), b"x" * 300])
def test_client_ids_of_any_kind(client_id: bytes | None) -> None:
    talk = Talk()
    talk.tcp.client(metadata(1, client_id))
    (only,) = talk.messages()
    assert only.client_id == (None if client_id is None else client_id.decode("utf-8", "backslashreplace"))


@pytest.mark.parametrize("correlation_id", [0, -1, -(1 << 31), (1 << 31) - 1])
def test_correlation_ids_of_any_value(correlation_id: int) -> None:
    talk = Talk()
    talk.tcp.client(metadata(correlation_id))
    talk.tcp.broker(answer(correlation_id))
    assert talk.exchanges() == [("answered", correlation_id, correlation_id)]


def test_tokens_after_the_old_handshake_are_no_kafka_frames() -> None:
    """SaslHandshake v0 is followed by raw tokens until the client sends a request again (KIP-152)."""
    talk = Talk()
    talk.tcp.client(request(SASL_HANDSHAKE, 0, 1, struct.pack(">h", 5) + b"PLAIN"))
    talk.tcp.broker(framed(struct.pack(">ihi", 1, 0, 0)))
    talk.tcp.client(framed(b"\0user\0secret"))
    talk.tcp.broker(framed(b""))
    talk.tcp.client(metadata(2))
    talk.tcp.broker(answer(2))
    kinds = [(message.kind, codes(message)) for message in talk.messages()]
    assert kinds[2:4] == [("request", ["RAW_TOKEN"]), ("response", ["RAW_TOKEN"])]
    assert talk.exchanges() == [("answered", 1, 1), ("answered", 2, 2)]


def test_too_many_open_requests_give_up_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPEN_BYTES", 2 * (limits.OPEN_REQUEST_BYTES + len(metadata(0)) - 4))
    talk = Talk()
    talk.tcp.client(b"".join(metadata(n) for n in range(5)))
    assert [row for row in talk.exchanges() if row[0] == "unanswered"][:3] == [
        ("unanswered", 0, None),
        ("unanswered", 1, None),
        ("unanswered", 2, None),
    ]
    weirds = [event for event in talk.events() if isinstance(event, Weird)]
    assert [(weird.code, weird.flow, weird.first_packet, weird.packet) for weird in weirds] == [
        ("IN_FLIGHT_LIMIT", 0, 4, 4)
    ] * 3
    assert [weird.detail for weird in weirds] == [f"Metadata with correlation id {n} in packet 4" for n in (0, 1, 2)]
    assert not any(codes(message) for message in talk.messages())


def test_a_body_cut_short_shows_what_was_read() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    talk.tcp.client(request(METADATA, 0, 2, struct.pack(">ih", 2, 3) + b"one"))
    last = talk.messages()[-1]
    assert codes(last) == ["BODY_TOO_SHORT"]
    assert last.body.topics[0].name == "one"


def test_bodies_nobody_asked_for_are_not_read() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    assert [message.body for message in talk.messages(options=Options(bodies=frozenset()))] == [UNSET, UNSET]


def test_topic_ids_beyond_the_limit_stay_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS", 1)
    talk = Talk()
    talk.tcp.client(request(METADATA, 12, 1, b"\0" + kshark.encode(METADATA, 12, "request", {"topics": None})))
    topics = [{"name": f"t{n}", "topic_id": "AAAAAAAAAAAAAAAAAAAAB" + letter} for n, letter in enumerate("Awg")]
    talk.tcp.broker(framed(struct.pack(">i", 1) + b"\0" + kshark.encode(METADATA, 12, "response", {"topics": topics})))
    told = talk.events(options=Options(embedded=True))
    assert [event.code for event in told if isinstance(event, Weird)] == ["NAMES_LIMIT"]


def test_answers_that_repeat_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPEATED_ANSWERS", 2)
    talk = Talk()
    told = [0, 1, 0, 2, 3, 0]  # how many ms a broker throttles, which makes the answers differ
    for correlation_id, throttled_ms in enumerate(told):
        asked = kshark.encode(API_VERSIONS, 3, "request", {"client_software_name": "x", "client_software_version": "1"})
        talk.tcp.client(request(API_VERSIONS, 3, correlation_id, b"\0" + asked))
        answered = kshark.encode(API_VERSIONS, 3, "response", {"throttle_time_ms": throttled_ms})
        talk.tcp.broker(framed(struct.pack(">i", correlation_id) + answered))
    bodies = [message.body for message in talk.messages() if message.kind == "response"]
    assert [body.throttle_time_ms for body in bodies] == told
    assert bodies[0] is bodies[2]
    assert bodies[0] is not bodies[5]


def test_an_answer_with_more_behind_it_is_not_taken_for_the_one_before() -> None:
    talk = Talk()
    answered = kshark.encode(API_VERSIONS, 3, "response", {})
    for correlation_id, more in enumerate((b"", b"\0", b"")):
        asked = kshark.encode(API_VERSIONS, 3, "request", {"client_software_name": "x", "client_software_version": "1"})
        talk.tcp.client(request(API_VERSIONS, 3, correlation_id, b"\0" + asked))
        talk.tcp.broker(framed(struct.pack(">i", correlation_id) + answered + more))
    codes = [message.weird for message in talk.messages() if message.kind == "response"]
    assert codes == [UNSET, ["TRAILING_BYTES"], UNSET]
