"""Which broker coordinates a group: named, shown by its answers, moved."""

from __future__ import annotations

from tests.analysis.talks import metadata, unchanged
from tests.conversation import BROKER, Asked, Connection, Conversation
from tests.groups.talks import group, groups

OTHER = "10.0.0.8:9092"


def named(connection: Connection, node_id: int, address: str, *, key_type: int = 0, error: int = 0) -> Asked:
    host, _, port = address.rpartition(":")
    asked = connection.ask(10, "FindCoordinator", 2, {"key": "g", "key_type": key_type})
    return asked.answered(error, node_id=node_id, host=host, port=int(port))


def coordinators(talk: Conversation) -> list[tuple[int | None, str | None, str | None]]:
    return [(one.node_id, one.host, one.broker) for one in group(talk).coordinators]


def test_the_broker_that_is_named_answers() -> None:
    talk = Conversation()
    named(talk.connection(OTHER), 1, BROKER)
    a = talk.member("a")
    unchanged(a)
    named(talk.connection(OTHER), 1, BROKER)
    assert coordinators(talk) == [(1, BROKER, BROKER)]


def test_a_broker_that_answered_is_named_later() -> None:
    talk = Conversation()
    talk.member("a")
    named(talk.connection(OTHER), 1, BROKER)
    assert coordinators(talk) == [(1, BROKER, BROKER)]


def test_a_name_may_stand_for_the_address_that_answers() -> None:
    talk = Conversation()
    named(talk.connection(OTHER), 1, "kafka-1.internal:9092")
    talk.member("a")
    assert coordinators(talk) == [(1, "kafka-1.internal:9092", BROKER)]


def test_the_coordinator_moves() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(1).answered(16)
    named(a.connection, 2, OTHER)
    unchanged(a.on(talk.connection(OTHER)))
    assert coordinators(talk) == [(None, None, BROKER), (2, OTHER, OTHER)]


def test_a_move_that_nobody_asked_for_is_seen_by_the_answers() -> None:
    talk = Conversation()
    a = talk.member("a")
    unchanged(a.on(talk.connection(OTHER)))
    assert coordinators(talk) == [(None, None, BROKER), (None, None, OTHER)]


BEFORE_NAT = "203.0.113.9:9092"


def test_an_address_may_stand_for_another_that_nobody_speaks_at() -> None:
    """Brokers behind a load balancer are named by its address, and captured by their own."""
    talk = Conversation()
    metadata(talk.connection(), {1: BEFORE_NAT})
    named(talk.connection(), 1, BEFORE_NAT)
    a = talk.member("a")
    named(talk.connection(), 1, BEFORE_NAT)
    unchanged(a)
    assert coordinators(talk) == [(1, BEFORE_NAT, BROKER)]
    (said,) = group(talk).not_captured
    assert said.startswith(f"brokers {BEFORE_NAT}, unless {BROKER} is one of them under another address: ")


def test_a_broker_that_metadata_names_too_is_another_one() -> None:
    talk = Conversation()
    metadata(talk.connection(), {1: BEFORE_NAT, 2: BROKER})
    named(talk.connection(), 1, BEFORE_NAT)
    talk.member("a")
    assert coordinators(talk) == [(1, BEFORE_NAT, None), (None, None, BROKER)]


def test_an_answer_that_was_captured_at_two_addresses_is_no_move() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = a.on(talk.connection(OTHER))
    for _ in range(3):
        outer, inner = a.heartbeat(1), b.heartbeat(1)
        outer.given(1)
        inner.given(1)
        talk.pause(5)
    assert coordinators(talk) == [(None, None, BROKER)]


def test_who_is_named_and_who_answers_as_before_have_not_moved() -> None:
    talk = Conversation()
    named(talk.connection(), 1, BEFORE_NAT)
    a = talk.member("a")
    for _ in range(3):
        named(talk.connection(), 1, BEFORE_NAT)
        unchanged(a)
    assert coordinators(talk) == [(1, BEFORE_NAT, None), (None, None, BROKER)]


def test_a_group_that_was_only_looked_for_is_none() -> None:
    talk = Conversation()
    named(talk.connection(), 1, BROKER)
    assert groups(talk) == []


def test_coordinators_of_transactions_and_failures_are_not_the_groups() -> None:
    talk = Conversation()
    a = talk.member("a")
    named(a.connection, 3, OTHER, key_type=1)
    named(a.connection, -1, ":0", error=15)
    assert coordinators(talk) == [(None, None, BROKER)]
