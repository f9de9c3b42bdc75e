"""Bytes that are no messages, and messages whose bytes are wrong: what nearly breaks a rule, and what cannot be
decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import kshark
from kshark import limits
from kshark.analysis import Analyzer
from kshark.model import Finding
from kshark.pipeline import Options
from tests.analysis.rules.promises.wire import CLIENT_HELLO, read_before, tagged, tls_hello, untagged
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, broker_closes, replied, sent
from tests.conversation import TOPIC, Connection, Conversation, Thinned, events, everything, note, unknown, violation

#: Handshake failure, and what a server says to a hello.
ALERT = b"\x15\x03\x03\x00\x02\x02\x28"
SERVER_HELLO = b"\x16\x03\x03\x00\x04\x02\x00\x00\x00"


def told(talk: Conversation | Thinned) -> list[tuple[str, str]]:
    return [(it.code, it.verdict) for it in everything(talk)]


#: Metadata v0 with correlation id 2, and nothing of its body.
HEADER = b"\0\3\0\0\0\0\0\2\0\2c1"


def begun(length: int, header: bytes = HEADER) -> tuple[Conversation, Connection]:
    """A request of which only the beginning was sent."""
    talk = Conversation()
    connection = talk.connection()
    connection.tcp.client(length.to_bytes(4, "big") + header)
    return talk, connection


def test_a_request_longer_than_brokers_accept_by_default_accuses_nobody_by_itself() -> None:
    for length in (limits.REQUEST_BYTES, limits.REQUEST_BYTES + 1, (1 << 31) - 1):
        talk, connection = begun(length)
        assert told(talk) == []
        connection.close()
        assert told(talk) == [("FRAME_TRUNCATED_AT_CLOSE", "note")]


@pytest.mark.parametrize(("length", "is_too_long"), [(limits.REQUEST_BYTES, False), (limits.REQUEST_BYTES + 1, True)])
def test_a_broker_that_closes_at_the_length_shows_that_it_is_too_long(length: int, is_too_long: bool) -> None:
    talk, connection = begun(length)
    broker_closes(connection)
    found = [it for it in everything(talk) if it.code == "FRAME_LENGTH_INVALID"]
    assert [(it.verdict, it.blame) for it in found] == [("violation", "client")] * is_too_long


def test_a_broker_that_reads_a_long_request_accepts_its_length() -> None:
    """It closes in the middle for another reason."""
    talk, connection = begun(limits.REQUEST_BYTES + 1)
    for _ in range(limits.UNREAD_BYTES // 60_000 + 1):
        connection.tcp.client(bytes(60_000), mss=60_000)
    broker_closes(connection)
    assert told(talk) == [("FRAME_TRUNCATED_AT_CLOSE", "note")]


def test_a_broker_that_restarts_refuses_no_length() -> None:
    talk, connection = begun(limits.REQUEST_BYTES + 1)
    other = talk.connection()
    broker_closes(other)
    broker_closes(connection)
    found = [(it.verdict, it.unknown_because) for it in everything(talk) if it.code == "FRAME_LENGTH_INVALID"]
    assert found == [("unknown", "setting_unknown")]


@pytest.mark.parametrize("ends", [broker_closes, Connection.close])
@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize(("most", "is_named"), [(1_000, True), (2_000, False), (None, False)])
def test_a_request_above_the_setting_that_the_user_names(
    ends: Callable[[Connection], None], is_whole: bool, most: int | None, is_named: bool
) -> None:
    talk, connection = begun(1_500, HEADER + bytes(1_500 if is_whole else 200)[: 1_500 - len(HEADER)])
    ends(connection)
    analyzer = Analyzer()
    found = [*analyzer.page(events(talk, Options(max_request_bytes=most))), *analyzer.close()]
    accused = [(it.verdict, it.blame) for it in found if it.code == "FRAME_LENGTH_INVALID"]
    assert accused == [("violation", "client")] * (is_named and ends is broker_closes)


def test_a_length_without_a_header_is_none() -> None:
    for header in (b"GET / HTTP/1.1", b"\0" * 20, b"\0\3\0\0\0\0\0\2\0\2\1\2"):
        talk, _ = begun(limits.REQUEST_BYTES + 1, header)
        assert told(talk) == [("FRAME_LENGTH_INVALID", "violation")]


def test_a_length_behind_missing_bytes_proves_nothing() -> None:
    talk = Conversation()
    connection = talk.connection()
    asked = [sent(connection, METADATA, 0, NO_TOPICS) for _ in range(8)]
    wrong = connection.tcp.client(b"\xff\xff\xff\xfe" + NO_METADATA)[-1]
    assert everything(talk) == [violation("FRAME_LENGTH_INVALID", wrong, blame="client")]
    thinned = [it for it in everything(talk.without_packets(asked[1:2])) if it.code == "FRAME_LENGTH_INVALID"]
    assert thinned == [unknown("FRAME_LENGTH_INVALID", wrong, because="gap")]


def test_behind_an_impossible_length_the_next_one_proves_nothing() -> None:
    talk = Conversation()
    connection = talk.connection()
    first = connection.tcp.client(b"\xff\xff\xff\xfe" + NO_METADATA)[-1]
    for _ in range(4):
        sent(connection, METADATA, 0, NO_TOPICS)
    second = connection.tcp.client(b"\xff\xff\xff\xfe" + NO_METADATA)[-1]
    found = [it for it in everything(talk) if it.code == "FRAME_LENGTH_INVALID"]
    assert found == [
        violation("FRAME_LENGTH_INVALID", first),
        unknown("FRAME_LENGTH_INVALID", second, because="resync"),
    ]


def test_a_broker_that_answers_a_request_with_an_alert_accuses_nobody() -> None:
    """A client that speaks plain Kafka to a TLS listener."""
    talk = Conversation()
    connection = talk.connection(introduced=False)
    sent(connection, METADATA, 0, NO_TOPICS)
    connection.tcp.broker(ALERT)
    broker_closes(connection)
    assert told(talk) == [("REQUEST_UNANSWERED", "note")]


def test_a_capture_may_end_within_a_message() -> None:
    talk = Conversation()
    talk.connection().tcp.client(b"\0\0\0\x40" + NO_METADATA)
    assert told(talk) == []


def answered(connection: Connection) -> None:
    connection.tcp.broker(SERVER_HELLO)
    broker_closes(connection)


@pytest.mark.parametrize(
    "then", [answered, lambda connection: connection.tcp.broker(ALERT)], ids=["a hello", "an alert"]
)
def test_who_answers_tls_speaks_it(then: Callable[[Connection], None]) -> None:
    talk = Conversation()
    then(tls_hello(talk))
    assert told(talk) == []


def test_nobody_knows_that_the_listener_speaks_kafka() -> None:
    talk = Conversation()
    connection = talk.connection(introduced=False)
    connection.tcp.client(CLIENT_HELLO)
    broker_closes(connection)
    assert told(talk) == []


@pytest.mark.parametrize(
    ("missed", "because"), [("beginning", "beginning_not_seen"), ("end", "end_not_seen"), ("answer", "end_not_seen")]
)
def test_what_is_missed_of_a_connection_with_tls(missed: str, because: str) -> None:
    """It may have been answered."""
    talk = Conversation()
    connection = tls_hello(talk)
    hello = len(talk.wire.packets)
    if missed == "answer":
        connection.tcp.broker(SERVER_HELLO)
    broker_closes(connection)
    packets = {"beginning": range(hello - 3, hello), "end": range(hello + 1, 99), "answer": [hello + 1]}[missed]
    found = [it for it in everything(talk.without_packets([*packets])) if it.code == "FOREIGN_PROTOCOL"]
    assert [(it.verdict, it.unknown_because) for it in found] == [("unknown", because)]


def test_a_closed_connection_with_very_many_open_requests() -> None:
    """The last finding stands for all others."""
    talk = Conversation()
    connection = talk.connection()
    for _ in range(limits.WEIRDS_PER_FLOW + 20):
        sent(connection, METADATA, 0, NO_TOPICS)
    connection.close()
    found = everything(talk)
    assert found == [note("REQUEST_UNANSWERED", found[0].packet)] * limits.WEIRDS_PER_FLOW
    often = [it.argument.partition("closed the connection, ")[2].partition(" times")[0] for it in found]
    assert often[-1] == "21"
    assert set(often[:-1]) == {""}


def test_what_is_very_often_odd_hides_nothing_else() -> None:
    """What one rule is about takes no room of another's: other buckets may not know of it."""
    talk = Conversation()
    connection = talk.connection()
    for _ in range(limits.WEIRDS_PER_FLOW):
        sent(connection, METADATA, 0, NO_TOPICS)
        sent(connection, METADATA, 0, NO_TOPICS)
        replied(connection, NO_METADATA)
        replied(connection, NO_METADATA, correlation_id=connection.correlation_id - 1)
    sent(connection, METADATA, 0, NO_TOPICS)
    connection.close()
    assert Counter(told(talk)) == {
        ("RESPONSE_OUT_OF_ORDER", "unknown"): limits.WEIRDS_PER_FLOW,
        ("REQUEST_UNANSWERED", "note"): 1,
    }


def test_holes_are_told_once_a_connection() -> None:
    talk = Conversation()
    connection = talk.connection()
    for _ in range(3):
        connection.tcp.seq[0] += 50
        sent(connection, METADATA, 0, NO_TOPICS)
        replied(connection, NO_METADATA)
    (gap,) = everything(talk)
    assert gap == note("STREAM_GAP", 6)
    assert (
        gap.argument
        == "50 bytes from the client are missing between packets 4 and 6 (up to the end), the first of 3 holes"
    )


def test_a_message_of_an_unknown_version_proves_nothing() -> None:
    """It is read as the nearest version that is known, and may be longer or shorter, its header too."""
    talk = Conversation()
    sent(talk.connection(), METADATA, 99, b"\0" + NO_TOPICS * 30)
    assert told(talk) == []
    sent(talk.connection(), METADATA, 99, b"")
    assert told(talk) == [("UNDECODABLE_BODY", "unknown")]


def test_bytes_of_an_unknown_api_may_be_no_request_at_all() -> None:
    """The header ends behind the frame: a token of a client before SaslHandshake, say."""
    talk = Conversation()
    wrong = talk.connection().tcp.client(b"\0\0\0\x09\x60\x82\x01\x00\xbe\x64\x0b\x00\x40")[-1]
    assert everything(talk) == [unknown("UNDECODABLE_BODY", wrong, because="version_unknown")]


def test_a_token_whose_beginning_was_missed_is_no_broken_answer() -> None:
    talk = Conversation()
    connection = talk.connection()
    handshake = sent(connection, 17, 0, b"\0\x05PLAIN")
    replied(connection, b"\0\0\0\0\0\x01\0\x05PLAIN")
    token = connection.tcp.client(b"\0\0\0\x04\0a\0b")
    connection.tcp.broker(b"\0\0\0\0")
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)

    def accused(found: list[Finding]) -> list[Finding]:
        return [it for it in found if it.verdict == "violation"]

    assert everything(talk) == []
    assert accused(everything(talk.without_packets(token))) == []
    assert accused(everything(talk.without_packets([handshake]))) == []


def of_tags(talk: Conversation) -> list[tuple[str, str, str]]:
    return [(it.verdict, it.blame, it.argument) for it in everything(talk) if it.code == "TAG_OF_OTHER_VERSION"]


def test_a_broker_that_answers_reads_the_tagged_field_in_its_own_way() -> None:
    talk = Conversation()
    connection = read_before(talk)
    sent(connection, 1, 16, tagged(16))
    replied(connection, b"\0" + kshark.encode(1, 16, "response", {}))
    broker_closes(connection)
    assert of_tags(talk) == []


@pytest.mark.parametrize("version", [17, 18])
def test_the_version_has_the_tagged_field(version: int) -> None:
    talk = Conversation()
    connection = read_before(talk)
    sent(connection, 1, version, untagged(version, b"\0", replica_directory_id=TOPIC))
    broker_closes(connection)
    assert of_tags(talk) == []


def test_no_version_knows_the_tagged_field() -> None:
    talk = Conversation()
    connection = read_before(talk)
    sent(connection, 1, 16, tagged(16, tag="9"))
    broker_closes(connection)
    assert of_tags(talk) == []


def test_a_client_refuses_an_answer_with_a_tagged_field_of_another_version() -> None:
    """NodeEndpoints came with version 16 of Fetch, tag 0. The client closes the connection."""
    talk = Conversation()
    connection = read_before(talk)
    sent(connection, 1, 15, untagged(15, b"\0"))
    replied(connection, b"\0" + kshark.encode(1, 15, "response", {"_tagged": {"0": b"\1"}}))
    connection.close()
    ((verdict, blame, argument),) = of_tags(talk)
    assert (verdict, blame) == ("violation", "broker")
    assert "its version has no such tagged field: at byte 12, field node_endpoints" in argument
