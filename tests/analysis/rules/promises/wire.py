"""Promises of kshark.analysis.rules.wire: bytes that are no messages, messages whose bytes are wrong."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, broker_closes, replied, sent
from tests.conversation import Connection, Conversation, note, unknown, violation

#: A client that begins to talk TLS.
CLIENT_HELLO = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"


def _over(talk: Conversation) -> int:
    """The packet with which the last connection is over: the second FIN, before its acknowledgement."""
    return len(talk.wire.packets) - 1


def begun_before(talk: Conversation) -> Connection:
    """A connection that began before the capture; behind its third message boundaries are certain."""
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
    wrong = begun_before(talk).tcp.client(b"\xff\xff\xff\xfe" + NO_METADATA)[-1]
    return talk, [unknown("FRAME_LENGTH_INVALID", wrong, because="beginning_not_seen")]


@promise
def a_client_leaves_within_a_message() -> Said:
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


def secret(talk: Conversation) -> Connection:
    """TLS to a listener that is known to speak plain Kafka."""
    talk.connection()
    connection = talk.connection(introduced=False)
    connection.tcp.client(CLIENT_HELLO)
    return connection


@promise
def tls_goes_to_a_plain_listener() -> Said:
    talk = Conversation()
    broker_closes(secret(talk))
    return talk, [violation("FOREIGN_PROTOCOL", _over(talk), blame="client")]


@promise
def tls_may_go_to_a_plain_listener() -> Said:
    talk = Conversation()
    secret(talk).close()
    return talk, [unknown("FOREIGN_PROTOCOL", _over(talk), because="end_not_seen")]


@promise
def bytes_are_left_behind_a_body() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked = sent(connection, METADATA, 0, NO_TOPICS + b"more")
    answer = replied(connection, NO_METADATA + b"more")
    return talk, [
        violation("TRAILING_BYTES", asked, blame="client"),
        violation("TRAILING_BYTES", answer, blame="broker"),
    ]


def begun_now(talk: Conversation) -> Connection:
    """A connection that began before the capture: its first messages are likely, not certain."""
    return talk.connection(from_syn=False, introduced=False)


@promise
def bytes_may_be_left_behind_a_body() -> Said:
    talk = Conversation()
    connection = begun_now(talk)
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)
    asked = sent(connection, METADATA, 0, NO_TOPICS + b"more")
    replied(connection, NO_METADATA)
    return talk, [unknown("TRAILING_BYTES", asked, because="resync")]


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


@promise
def a_body_may_not_fit() -> Said:
    talk = Conversation()
    connection = begun_now(talk)
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)
    asked = sent(connection, METADATA, 0, b"")
    replied(connection, NO_METADATA)
    return talk, [unknown("UNDECODABLE_BODY", asked, because="resync")]
