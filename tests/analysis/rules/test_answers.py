"""Which answer belongs to which request: what nearly breaks a rule, and what cannot be decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.rules.promises.answers import asked
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, broker_closes, produced, replied, sent
from tests.conversation import BROKER, Connection, Conversation, Thinned, everything, unknown, violation
from tests.packets import Tcp


def accused(talk: Conversation | Thinned) -> list[tuple[str, int]]:
    return [(it.code, it.packet) for it in everything(talk) if it.verdict == "violation"]


def exchanged(connection: Connection, times: int = 1) -> None:
    for _ in range(times):
        asked(connection)
        replied(connection, NO_METADATA)


def test_answers_in_the_order_of_their_requests() -> None:
    talk = Conversation()
    connection = talk.connection()
    first, second = asked(connection), asked(connection)
    replied(connection, NO_METADATA, correlation_id=connection.correlation_id - 1)
    replied(connection, NO_METADATA)
    assert first < second
    assert everything(talk) == []


def test_a_number_may_be_used_again_once_it_is_answered() -> None:
    talk = Conversation()
    connection = talk.connection()
    for _ in range(3):
        sent(connection, METADATA, 0, NO_TOPICS, correlation_id=7)
        replied(connection, NO_METADATA, correlation_id=7)
    assert everything(talk) == []


def test_the_answer_between_two_uses_of_a_number_was_missed() -> None:
    """The hole shows itself behind the second one only."""
    talk = Conversation()
    connection = talk.connection()
    sent(connection, METADATA, 0, NO_TOPICS, correlation_id=7)
    answer = replied(connection, NO_METADATA, correlation_id=7)
    again = sent(connection, METADATA, 0, NO_TOPICS, correlation_id=7)
    found = [it for it in everything(talk.without_packets([answer])) if it.code == "CORRELATION_ID_REUSED"]
    assert found == [unknown("CORRELATION_ID_REUSED", again, because="gap")]


def test_the_request_of_an_answer_was_missed() -> None:
    """Every packet of the conversation, one by one."""
    talk = Conversation()
    connection = talk.connection()
    exchanged(connection, 3)
    broker_closes(connection)
    for packet in range(1, len(talk.wire.packets) + 1):
        assert accused(talk.without_packets([packet])) == []


def test_what_was_asked_before_the_capture_is_answered_in_it() -> None:
    talk = Conversation()
    connection = talk.connection()
    asked(connection)
    asked(connection)
    replied(connection, NO_METADATA, correlation_id=connection.correlation_id - 1)
    replied(connection, NO_METADATA)
    exchanged(connection, 4)
    begun = talk.without_packets(range(1, 8))
    assert [it.code for it in everything(begun)] == []


def test_a_client_that_goes_on_has_seen_something_else() -> None:
    talk = Conversation()
    connection = talk.connection()
    wrong = replied(connection, NO_METADATA, correlation_id=7)
    assert everything(talk) == [violation("RESPONSE_UNMATCHED", wrong)]
    exchanged(connection)
    assert everything(talk) == [unknown("RESPONSE_UNMATCHED", wrong, because="hidden_traffic")]


def test_a_request_that_was_seen_when_it_was_sent_again() -> None:
    """The sniffer missed it the first time, so its answer came before it, and the next answer seems to overtake."""
    talk = Conversation()
    connection = talk.connection()
    exchanged(connection)
    begin = connection.tcp.seq[0]
    missed = asked(connection)
    answer = replied(connection, NO_METADATA)
    connection.tcp.seq[0] = begin
    connection.correlation_id -= 1
    asked(connection)
    asked(connection)
    late = replied(connection, NO_METADATA)
    found = [it for it in everything(talk.without_packets([missed])) if it.code != "REQUEST_UNANSWERED"]
    assert found == [
        unknown("RESPONSE_UNMATCHED", answer, because="disorder"),
        unknown("RESPONSE_OUT_OF_ORDER", late, because="disorder"),
    ]


def test_in_a_capture_whose_times_run_backwards() -> None:
    talk = Conversation()
    connection = talk.connection()
    wrong = replied(connection, NO_METADATA, correlation_id=7)
    packets = talk.wire.packets
    packets[1] = replace(packets[1], time_ns=packets[1].time_ns - 5_000_000)
    assert everything(talk) == [unknown("RESPONSE_UNMATCHED", wrong, because="disorder")]


def test_produce_with_acks_is_answered() -> None:
    talk = Conversation()
    connection = talk.connection()
    produced(connection, b"", acks=1)
    replied(connection, bytes(8))
    produced(connection, b"", acks=0)
    exchanged(connection)
    assert everything(talk) == []


def test_who_closes_a_connection_with_a_request_open() -> None:
    talk = Conversation()
    for close in (broker_closes, Connection.close, Connection.reset):
        connection = talk.connection()
        asked(connection)
        close(connection)
    open_when = [it.argument.partition(" was open when ")[2].partition(" (")[0] for it in everything(talk)]
    assert open_when == [f"the {who} closed the connection" for who in ("broker", "client", "client")]
    asked(talk.connection())
    assert len(everything(talk)) == 3


def test_who_waited_for_less_than_a_timeout_or_did_not_close() -> None:
    talk = Conversation()
    for seconds, close in ((29, Connection.close), (31, broker_closes)):
        connection = talk.connection()
        asked(connection)
        talk.pause(seconds)
        close(connection)
    assert [it.code for it in everything(talk)] == ["REQUEST_UNANSWERED", "REQUEST_UNANSWERED"]


@pytest.mark.parametrize("same_port", [True, False])
def test_a_late_answer_names_the_request_on_the_connection_before(*, same_port: bool) -> None:
    """KAFKA-5595: a broker sent it on the next connection of the same port."""
    talk = Conversation()
    before = talk.connection()
    request = asked(before)
    before.reset()
    port = before.tcp.source if same_port else "10.0.0.1:60000"
    after = Connection(talk, Tcp(talk.wire, port, BROKER, [70_000, 90_000]).open())
    exchanged(after)
    replied(after, NO_METADATA, correlation_id=before.correlation_id)
    (found,) = [it for it in everything(talk) if it.code == "RESPONSE_UNMATCHED"]
    named = f"it fits Metadata with correlation id {before.correlation_id} in packet {request}, on the connection"
    assert (named in found.argument) == same_port
