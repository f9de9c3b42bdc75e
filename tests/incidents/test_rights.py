"""Clients that lack rights, or whose credentials are refused, as conversations."""

from __future__ import annotations

from kshark_dissectors.enums import ErrorCode as E
from kshark_dissectors.permissions import NEEDED, RESOURCES
from tests.conversation import TOPIC, Connection, Conversation, registry
from tests.incidents.talks import incidents

HOST = "10.0.0.3"


def client(talk: Conversation, client_id: str = "c1") -> Connection:
    connection = talk.connection(host=HOST, introduced=False)
    connection.client_id = client_id
    return connection


def found(talk: Conversation) -> list[tuple[str, str, str | None]]:
    """Verdict, sentence without times, and cause of each."""
    return [
        (finding.verdict, finding.argument.partition(", from ")[0].partition(", at ")[0], finding.cause)
        for finding in incidents(talk)
        if finding.code == "NOT_AUTHORIZED"
    ]


def heartbeat(connection: Connection, group: str, error: int) -> None:
    body = {"group_id": group, "generation_id": 1, "member_id": "m"}
    connection.ask(12, "Heartbeat", 3, body).answered(error, throttle_time_ms=0)


def metadata(connection: Connection, *topics: tuple[str, int]) -> None:
    rows = [
        {"error_code": int(error), "name": name, "topic_id": TOPIC, "is_internal": False, "partitions": []}
        for name, error in topics
    ]
    connection.ask(3, "Metadata", 12, {"topics": None}).answered(None, brokers=[], topics=rows)


def test_the_right_is_named_by_api_code_and_resource() -> None:
    talk = Conversation()
    heartbeat(client(talk), "billing", E.GROUP_AUTHORIZATION_FAILED)
    assert found(talk) == [
        ("note", "Client c1 (10.0.0.3) lacks READ on group billing: 1 request refused (Heartbeat)", None)
    ]


def test_a_client_has_one_event_with_all_rights_that_it_lacks() -> None:
    talk = Conversation()
    own, other = client(talk), client(talk, "c2")
    for _ in range(3):
        heartbeat(own, "billing", E.GROUP_AUTHORIZATION_FAILED)
        talk.pause(10)
    metadata(own, ("orders", E.TOPIC_AUTHORIZATION_FAILED), ("secret", E.TOPIC_AUTHORIZATION_FAILED))
    heartbeat(other, "billing", E.GROUP_AUTHORIZATION_FAILED)
    assert found(talk) == [
        (
            "note",
            "Client c1 (10.0.0.3) lacks READ on group billing, DESCRIBE on topic orders and DESCRIBE on topic secret: "
            "4 requests refused (Heartbeat ×3 and Metadata)",
            None,
        ),
        ("note", "Client c2 (10.0.0.3) lacks READ on group billing: 1 request refused (Heartbeat)", None),
    ]


def test_after_five_minutes_it_is_another_event() -> None:
    talk = Conversation()
    own = client(talk)
    heartbeat(own, "billing", E.GROUP_AUTHORIZATION_FAILED)
    talk.pause(301)
    heartbeat(own, "billing", E.GROUP_AUTHORIZATION_FAILED)
    assert len(found(talk)) == 2


def test_refused_credentials_are_told_apart() -> None:
    talk = Conversation()
    own = client(talk)
    for _ in range(2):
        own.ask(36, "SaslAuthenticate", 2, {"auth_bytes": b"x"}).answered(
            E.SASL_AUTHENTICATION_FAILED, error_message="no", auth_bytes=b"", session_lifetime_ms=0
        )
    assert found(talk) == [
        ("note", "Broker 10.0.0.9:9092 refused the credentials of client c1 (10.0.0.3) in 2 requests", "credentials")
    ]


def test_the_group_that_is_described_is_not_the_topic() -> None:
    talk = Conversation()
    asked = client(talk).ask(77, "ShareGroupDescribe", 1, {"group_ids": ["g"], "include_authorized_operations": False})
    empty = {"error_message": None, "group_state": "", "group_epoch": 0, "assignment_epoch": 0, "assignor_name": ""}
    group = {"error_code": int(E.TOPIC_AUTHORIZATION_FAILED), "group_id": "g", "members": [], **empty}
    asked.answered(None, throttle_time_ms=0, groups=[{**group, "authorized_operations": 0}])
    ((_, text, _),) = found(talk)
    assert text == "Client c1 (10.0.0.3) lacks DESCRIBE on the topic: 1 request refused (ShareGroupDescribe)"


def test_other_errors_are_none() -> None:
    talk = Conversation()
    heartbeat(client(talk), "billing", E.REBALANCE_IN_PROGRESS)
    assert found(talk) == []


def test_each_api_with_a_right_is_known_and_each_resource_has_a_code() -> None:
    assert [key for key in NEEDED if registry().api(key) is None] == []
    assert {resource for needed in NEEDED.values() for resource in needed} == {*RESOURCES.values()}
