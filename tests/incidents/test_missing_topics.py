"""Topics that clients ask for and that do not exist."""

from __future__ import annotations

from kshark.model import Finding
from kshark_dissectors.enums import ErrorCode as E
from tests.conversation import TOPIC, Asked, Connection, Conversation, note
from tests.incidents.talks import incidents
from tests.incidents.test_retries import client

NO_ID = "A" * 22


def missing(talk: Conversation) -> list[Finding]:
    return [it for it in incidents(talk) if it.code == "TOPIC_MISSING"]


def metadata(connection: Connection, *topics: tuple[str, int, str]) -> Asked:
    """Metadata about topics: the name, the error and the id of each."""
    asked = connection.ask(
        3,
        "Metadata",
        12,
        {
            "topics": [{"topic_id": NO_ID, "name": name} for name, _, _ in topics],
            "allow_auto_topic_creation": True,
            "include_topic_authorized_operations": False,
        },
    )
    rows = [
        {
            "error_code": error, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": [],
            "topic_authorized_operations": -2147483648,
        }
        for name, error, topic_id in topics
    ]  # fmt: skip
    return asked.answered(None, throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=rows)


def asks(talk: Conversation, connection: Connection, name: str, times: int, code: int = 3) -> list[Asked]:
    asked = []
    for _ in range(times):
        talk.pause(0.5)
        asked.append(metadata(connection, (name, code, NO_ID)))
    return asked


def test_a_client_asks_for_a_topic_that_is_not_there() -> None:
    talk = Conversation()
    a = client(talk)
    asked = asks(talk, a, "ordesr", 9)
    metadata(talk.connection(host="10.0.0.7"), ("orders", 0, TOPIC), ("payments", 0, NO_ID))
    (found,) = missing(talk)
    assert found == note("TOPIC_MISSING", asked[0], "no_such_topic")
    assert found.until_packet == asked[-1].packet
    who = "client p1 (10.0.0.3) asked broker 10.0.0.9:9092"
    assert f"{who} for topic ordesr: the cluster has no such topic; 9 times" in found.argument
    assert found.argument.endswith("; there is a topic orders")


def test_no_topic_has_a_similar_name() -> None:
    talk = Conversation()
    asks(talk, client(talk), "x", 9)
    (found,) = missing(talk)
    assert "there is a topic" not in found.argument


def test_a_topic_that_is_created_by_the_first_request() -> None:
    talk = Conversation()
    a = client(talk)
    asks(talk, a, "new", 4)
    metadata(a, ("new", 0, TOPIC))
    assert missing(talk) == []


def test_many_requests_at_once_are_a_loop_and_no_missing_topic_yet() -> None:
    talk = Conversation()
    a = client(talk)
    for _ in range(9):
        metadata(a, ("new", 3, NO_ID))
    assert missing(talk) == []


def test_a_topic_that_was_there_before_is_deleted_and_not_missing() -> None:
    talk = Conversation()
    a = client(talk)
    metadata(a, ("old", 0, TOPIC))
    asks(talk, a, "old", 9)
    assert missing(talk) == []


def test_a_name_that_no_topic_may_have() -> None:
    talk = Conversation()
    (asked,) = asks(talk, client(talk), "bad/topic!", 1, E.INVALID_TOPIC_EXCEPTION)
    assert missing(talk) == [note("TOPIC_MISSING", asked, "invalid_name")]


def test_two_topics_and_two_clients_are_findings_of_their_own() -> None:
    talk = Conversation()
    a, b = client(talk), talk.connection(host="10.0.0.8")
    for _ in range(6):
        metadata(a, ("one", 3, NO_ID), ("two", 3, NO_ID))
        metadata(b, ("one", 3, NO_ID))
        talk.pause(1)
    assert len(missing(talk)) == 3
