"""When a connection may be used that asks for authentication: what nearly breaks the rule, and what cannot be
decided."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.analysis.rules.promises.answers import asked
from tests.analysis.talks import NO_METADATA, authenticated, broker_closes, replied, shook_hands
from tests.conversation import Connection, Conversation, Thinned, everything

UNSUPPORTED_SASL_MECHANISM = 33
SASL_AUTHENTICATION_FAILED = 58


def sasl(talk: Conversation | Thinned) -> list[tuple[str, str | None]]:
    return [
        (it.verdict, it.unknown_because)
        for it in everything(talk)
        if it.code in ("SASL_SEQUENCE", "VERSION_NOT_ADVERTISED")
    ]


def used(connection: Connection) -> None:
    """Authentication in two rounds, a request, one more authentication as its time is up, and a request that is never
    answered."""
    shook_hands(connection)
    authenticated(connection)
    authenticated(connection)
    asked(connection)
    replied(connection, NO_METADATA)
    shook_hands(connection)
    asked(connection)
    broker_closes(connection)


def failed(connection: Connection) -> None:
    shook_hands(connection)
    authenticated(connection, SASL_AUTHENTICATION_FAILED)


def test_a_client_is_authenticated_and_then_again() -> None:
    talk = Conversation(release=None)
    used(talk.connection())
    assert sasl(talk) == []


def test_without_any_packet_nobody_is_accused() -> None:
    talk = Conversation(release=None)
    used(talk.connection())
    for packet in range(1, len(talk.wire.packets) + 1):
        assert "violation" not in [verdict for verdict, _ in sasl(talk.without_packets([packet]))], packet


@pytest.mark.parametrize("begin", [lambda _: 0, partial(shook_hands, error=UNSUPPORTED_SASL_MECHANISM), failed])
def test_a_broker_that_refused_closes_the_connection_whatever_comes(begin: Callable[[Connection], object]) -> None:
    """And without a handshake the listener may ask for none."""
    talk = Conversation()
    connection = talk.connection()
    begin(connection)
    asked(connection)
    broker_closes(connection)
    assert sasl(talk) == []
