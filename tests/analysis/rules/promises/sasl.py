"""Promises of kshark.analysis.rules.sasl: order of requests on connections with authentication."""

from __future__ import annotations

from tests.analysis.rules.promises.answers import asked
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import ILLEGAL_SASL_STATE, broker_closes, shook_hands
from tests.conversation import Conversation, note, unknown, violation


@promise
def a_request_before_authentication_is_complete() -> Said:
    talk = Conversation()
    connection = talk.connection()
    shook_hands(connection)
    asked(connection)
    broker_closes(connection)
    end = len(talk.wire.packets) - 1
    return talk, [note("REQUEST_UNANSWERED", end, "broker_closed"), violation("SASL_SEQUENCE", end, blame="client")]


@promise
def a_client_closes_before_authentication_is_complete() -> Said:
    talk = Conversation()
    connection = talk.connection()
    shook_hands(connection)
    asked(connection)
    connection.close()
    end = len(talk.wire.packets) - 1
    return talk, [
        note("REQUEST_UNANSWERED", end, "client_closed"),
        unknown("SASL_SEQUENCE", end, because="end_not_seen"),
    ]


@promise
def authentication_that_the_listener_does_not_expect() -> Said:
    talk = Conversation()
    connection = talk.connection()
    shook_hands(connection, ILLEGAL_SASL_STATE)
    broker_closes(connection)
    return talk, [violation("SASL_SEQUENCE", len(talk.wire.packets) - 1, blame="client")]
