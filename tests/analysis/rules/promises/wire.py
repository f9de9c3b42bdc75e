"""Promises of kshark.analysis.rules.wire: bytes that are no messages, and messages with wrong bytes."""

from __future__ import annotations

from typing import Any

import kshark
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, broker_closes, replied, sent
from tests.conversation import TOPIC, Connection, Conversation, note, unknown, violation

PROXY_HEADER = b"PROXY TCP4 203.0.113.7 10.0.0.9 41000 9092\r\n"
#: First bytes of a TLS client.
CLIENT_HELLO = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"


def _over(talk: Conversation) -> int:
    """Return the packet that ends the last connection: the second FIN, before its acknowledgement."""
    return len(talk.wire.packets) - 1


def began_before(talk: Conversation) -> Connection:
    """Return a connection that began before the capture: after its third message, boundaries are certain."""
    connection = talk.connection(from_syn=False, introduced=False)
    for _ in range(4):
        sent(connection, METADATA, 0, NO_TOPICS)
        replied(connection, NO_METADATA)
    return connection


@promise
def a_length_is_negative() -> Said:
    talk = Conversation()
    wrong = talk.connection().tcp.client(b"\xff\xff\xff\xfe" + NO_METADATA)[-1]
    return talk, [violation("FRAME_LENGTH_INVALID", wrong, blame="client")]


@promise
def a_length_may_be_negative() -> Said:
    talk = Conversation()
    wrong = began_before(talk).tcp.client(b"\xff\xff\xff\xfe" + NO_METADATA)[-1]
    return talk, [unknown("FRAME_LENGTH_INVALID", wrong, because="beginning_not_seen")]


@promise
def a_client_closes_within_a_message() -> Said:
    talk = Conversation()
    connection = talk.connection()
    connection.tcp.client(b"\0\0\0\x40" + NO_METADATA)
    connection.close()
    return talk, [note("FRAME_TRUNCATED_AT_CLOSE", _over(talk))]


@promise
def bytes_are_missing() -> Said:
    talk = Conversation()
    connection = talk.connection()
    connection.tcp.seq[0] += 100
    seen = sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)
    connection.close()
    return talk, [note("STREAM_GAP", seen)]


def tls_hello(talk: Conversation) -> Connection:
    """Send TLS to a listener that speaks plain Kafka, as the capture shows."""
    talk.connection()
    connection = talk.connection(introduced=False)
    connection.tcp.client(CLIENT_HELLO)
    return connection


@promise
def tls_goes_to_a_plain_listener() -> Said:
    talk = Conversation()
    broker_closes(tls_hello(talk))
    return talk, [violation("FOREIGN_PROTOCOL", _over(talk), blame="client")]


@promise
def tls_may_go_to_a_plain_listener() -> Said:
    talk = Conversation()
    tls_hello(talk).close()
    return talk, [unknown("FOREIGN_PROTOCOL", _over(talk), because="end_not_seen")]


@promise
def extra_bytes_follow_a_body() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked = sent(connection, METADATA, 0, NO_TOPICS + b"more")
    answer = replied(connection, NO_METADATA + b"more")
    return talk, [
        violation("TRAILING_BYTES", asked, blame="client"),
        violation("TRAILING_BYTES", answer, blame="broker"),
    ]


def began_just_before(talk: Conversation) -> Connection:
    """Return a connection that began before the capture: its first messages are likely, not certain."""
    return talk.connection(from_syn=False, introduced=False)


@promise
def extra_bytes_may_follow_a_body() -> Said:
    talk = Conversation()
    connection = began_just_before(talk)
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)
    asked = sent(connection, METADATA, 0, NO_TOPICS + b"more")
    replied(connection, NO_METADATA)
    return talk, [unknown("TRAILING_BYTES", asked, because="resync")]


@promise
def a_listener_refuses_a_header() -> Said:
    talk = Conversation()
    talk.connection()
    refused = talk.connection(host="10.0.0.5", introduced=False, header=PROXY_HEADER).tcp.reset(1)
    return talk, [violation("PROXY_HEADER_REFUSED", refused, blame="network")]


@promise
def a_listener_may_refuse_a_header() -> Said:
    talk = Conversation()
    connection = talk.connection(host="10.0.0.5", introduced=False, header=PROXY_HEADER)
    sent(connection, METADATA, 0, NO_TOPICS)
    return talk, [unknown("PROXY_HEADER_REFUSED", connection.tcp.reset(1), because="listener_unknown")]


@promise
def a_body_does_not_fit() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked = sent(connection, METADATA, 0, b"")
    replied(connection, NO_METADATA)
    sent(connection, METADATA, 0, NO_TOPICS)
    answer = replied(connection, b"\0\0")
    short = connection.tcp.client(b"\0\0\0\x02ab")[-1]
    blamed = {asked: "client", answer: "broker", short: "client"}
    return talk, [violation("UNDECODABLE_BODY", wrong, blame=whose) for wrong, whose in blamed.items()]


def untagged(version: int, header: bytes = b"", **more: Any) -> bytes:
    """The end of the header and the body of a Fetch."""
    row = {"partition": 0, "fetch_offset": 5, "partition_max_bytes": 1 << 20, **more}
    topics = [{"topic_id": TOPIC, "partitions": [row]}]
    return header + kshark.encode(1, version, "request", {"max_wait_ms": 500, "topics": topics})


def tagged(version: int, tag: str = "0") -> bytes:
    """The same with ReplicaDirectoryId, the tagged field 0 that version 17 brought."""
    return untagged(version, b"\0", _tagged={tag: bytes(range(16))})


def read_before(talk: Conversation) -> Connection:
    """Return a connection on which the broker has answered a request."""
    connection = talk.connection(introduced=False)
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)
    return connection


@promise
def a_tagged_field_is_of_another_version() -> Said:
    """As in a client of franz-go (issue 961)."""
    talk = Conversation()
    connection = read_before(talk)
    sent(connection, 1, 16, tagged(16))
    broker_closes(connection)
    end = _over(talk)
    return talk, [note("REQUEST_UNANSWERED", end), violation("TAG_OF_OTHER_VERSION", end, blame="client")]


@promise
def a_tagged_field_may_be_refused() -> Said:
    """The end of the connection is not in the capture."""
    talk = Conversation()
    wrong = sent(read_before(talk), 1, 16, tagged(16))
    return talk, [unknown("TAG_OF_OTHER_VERSION", wrong, because="end_not_seen")]


@promise
def an_answer_has_a_tagged_field_of_another_version() -> Said:
    talk = Conversation()
    connection = read_before(talk)
    sent(connection, 1, 15, untagged(15, b"\0"))
    replied(connection, b"\0" + kshark.encode(1, 15, "response", {"_tagged": {"0": b"\1"}}))
    connection.close()
    return talk, [violation("TAG_OF_OTHER_VERSION", _over(talk), blame="broker")]


@promise
def a_body_may_not_fit() -> Said:
    talk = Conversation()
    connection = began_just_before(talk)
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)
    asked = sent(connection, METADATA, 0, b"")
    replied(connection, NO_METADATA)
    return talk, [unknown("UNDECODABLE_BODY", asked, because="resync")]
