"""Promises of kshark.analysis.rules.answers: which answer belongs to which request."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, produced, replied, sent
from tests.conversation import Connection, Conversation, note, unknown, violation


def asked(connection: Connection) -> int:
    return sent(connection, METADATA, 0, NO_TOPICS)


def lossy(talk: Conversation) -> tuple[Connection, int]:
    """Return a connection with missing bytes, and the packet that shows the gap.

    After its third message the message boundaries are certain again.
    """
    connection = talk.connection()
    connection.tcp.seq[0] += 100
    first = asked(connection)
    replied(connection, NO_METADATA)
    for _ in range(3):
        asked(connection)
        replied(connection, NO_METADATA)
    return connection, first


@promise
def an_answer_without_a_request() -> Said:
    talk = Conversation()
    connection = talk.connection()
    wrong = replied(connection, NO_METADATA, correlation_id=7)
    replied(connection, NO_METADATA, correlation_id=8)
    return talk, [violation("RESPONSE_UNMATCHED", wrong, blame="broker")]


@promise
def an_answer_whose_request_may_be_missing() -> Said:
    talk = Conversation()
    connection, gap = lossy(talk)
    wrong = replied(connection, NO_METADATA, correlation_id=77)
    return talk, [note("STREAM_GAP", gap), note("RESPONSE_WITHOUT_REQUEST", wrong)]


@promise
def an_answer_without_a_request_after_which_the_client_goes_on() -> Said:
    talk = Conversation()
    connection = talk.connection()
    wrong = replied(connection, NO_METADATA, correlation_id=7)
    asked(connection)
    replied(connection, NO_METADATA)
    return talk, [unknown("RESPONSE_UNMATCHED", wrong, because="hidden_traffic")]


@promise
def an_answer_overtakes_another() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked(connection)
    asked(connection)
    wrong = replied(connection, NO_METADATA)
    return talk, [violation("RESPONSE_OUT_OF_ORDER", wrong, blame="broker")]


@promise
def an_answer_may_overtake_another() -> Said:
    talk = Conversation()
    connection, gap = lossy(talk)
    asked(connection)
    asked(connection)
    wrong = replied(connection, NO_METADATA)
    return talk, [note("STREAM_GAP", gap), unknown("RESPONSE_OUT_OF_ORDER", wrong, because="gap")]


@promise
def a_request_is_open_at_the_end() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked(connection)
    connection.close()
    return talk, [note("REQUEST_UNANSWERED", len(talk.wire.packets) - 1, "client_closed")]


@promise
def a_client_gives_up_a_request() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked(connection)
    talk.pause(30)
    connection.close()
    end = len(talk.wire.packets) - 1
    return talk, [note("REQUEST_TIMEOUT_CLOSE", end), note("REQUEST_UNANSWERED", end, "client_closed")]


@promise
def a_request_without_a_response_is_answered() -> Said:
    talk = Conversation()
    connection = talk.connection()
    produced(connection, b"", acks=0)
    wrong = replied(connection, NO_METADATA)
    return talk, [violation("ACKS0_ANSWERED", wrong, blame="broker")]


@promise
def a_request_without_a_response_may_be_answered() -> Said:
    talk = Conversation()
    connection, gap = lossy(talk)
    produced(connection, b"", acks=0)
    wrong = replied(connection, NO_METADATA)
    return talk, [note("STREAM_GAP", gap), unknown("ACKS0_ANSWERED", wrong, because="gap")]


@promise
def a_correlation_id_is_used_twice() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked(connection)
    wrong = sent(connection, METADATA, 0, NO_TOPICS, correlation_id=connection.correlation_id)
    return talk, [violation("CORRELATION_ID_REUSED", wrong, blame="client")]


@promise
def a_correlation_id_may_be_used_twice() -> Said:
    talk = Conversation()
    connection, gap = lossy(talk)
    asked(connection)
    wrong = sent(connection, METADATA, 0, NO_TOPICS, correlation_id=connection.correlation_id)
    return talk, [note("STREAM_GAP", gap), unknown("CORRELATION_ID_REUSED", wrong, because="gap")]
