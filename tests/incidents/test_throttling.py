"""Throttled clients: incident 135."""

from __future__ import annotations

import pytest

from kshark.incidents.watchers.throttling import WAITING_SINCE
from kshark.model import Finding
from kshark.registry import Registry
from tests.conversation import Asked, Connection, Conversation, Thinned, unheard
from tests.incidents.talks import incidents

S = 1_000_000_000


def throttled(talk: Conversation | Thinned) -> list[Finding]:
    return [finding for finding in incidents(talk) if finding.code == "THROTTLED"]


def verdicts(talk: Conversation | Thinned) -> list[tuple[str, str | None]]:
    return [(found.verdict, found.cause) for found in throttled(talk)]


def heartbeat(connection: Connection, throttle_ms: int = 0, *, version: int = 4) -> Asked:
    """A Heartbeat of a classic group: its clients wait themselves from version 2 on, and send one at a time."""
    body = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    return connection.ask(12, "Heartbeat", version, body).answered(throttle_time_ms=throttle_ms)


def produce(connection: Connection, throttle_ms: int | None = 0) -> Asked:
    """A Produce without records; `throttle_ms` None: without an answer so far."""
    asked = connection.ask(
        0, "Produce", 9, {"transactional_id": None, "acks": -1, "timeout_ms": 1500, "topic_data": []}
    )
    return asked if throttle_ms is None else produced(asked, throttle_ms)


def produced(asked: Asked, throttle_ms: int = 0) -> Asked:
    return asked.answered(None, responses=[], throttle_time_ms=throttle_ms)


def test_a_client_that_waits_is_throttled() -> None:
    talk = Conversation()
    a = talk.connection()
    heartbeat(a)
    first = heartbeat(a, 2000)
    talk.pause(2)
    last = heartbeat(a, 1000)
    talk.pause(3)
    heartbeat(a)
    (found,) = throttled(talk)
    assert (found.packet, found.until_packet, found.verdict, found.cause) == (first.packet, last.packet, "note", None)
    assert found.until_ns == talk.wire.packets[last.packet - 1].time_ns + 1 * S
    assert (found.client_id, found.blame) == ("c1", "unknown")
    assert "2 answers (Heartbeat), up to 2.0 s each, so it was to wait for 3.0 s of 3.0 s" in found.argument


def test_it_lasts_if_the_capture_ends_in_its_wait() -> None:
    talk = Conversation()
    heartbeat(talk.connection(), 2000)
    (found,) = throttled(talk)
    assert found.until_packet is None


def test_no_time_is_no_throttling() -> None:
    talk = Conversation()
    heartbeat(talk.connection())
    assert throttled(talk) == []


def test_pauses_are_joined_and_long_ones_are_not() -> None:
    talk = Conversation()
    a = talk.connection()
    for pause in (20, 40, 1):
        heartbeat(a, 1000)
        talk.pause(pause)
    heartbeat(a)
    assert [found.packet for found in throttled(talk)] == [
        talk.exchanges[1].packet,
        talk.exchanges[3].packet,
    ]


def test_clients_are_separate() -> None:
    talk = Conversation()
    a, b = talk.connection(), talk.connection(host="10.0.0.2")
    heartbeat(a, 1000)
    heartbeat(b, 1000)
    assert len(throttled(talk)) == 2


def test_a_client_that_gets_nothing_is_told_why() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    for epoch in range(1, 5):
        a.share_fetch(epoch).answered(throttle_time_ms=5000)
        talk.pause(5)
    a.share_fetch(5).answered()
    (found,) = throttled(talk)
    assert "4 answers (ShareFetch), up to 5.0 s each" in found.argument
    assert "it got no records because of that" in found.argument


def test_the_client_does_not_wait() -> None:
    talk = Conversation()
    a = talk.connection()
    first = heartbeat(a, 2000)
    wrong = heartbeat(a)
    (found,) = throttled(talk)
    assert (found.verdict, found.cause, found.blame, found.packet) == ("violation", "ignored", "client", first.packet)
    assert {witness.request_packet for witness in found.witness} >= {wrong.sent}
    assert f"it did not wait 1 time, first after packet {first.packet} (packet {wrong.sent})" in found.argument


def test_what_was_sent_before_the_answer_arrived_is_in_flight() -> None:
    talk = Conversation()
    a = talk.connection()
    with a.pipelined():
        heartbeat(a, 2000)
        heartbeat(a)
    assert verdicts(talk) == [("note", None)]


def test_without_acknowledgements_nothing_shows_what_the_client_had_received() -> None:
    talk = Conversation()
    a = talk.connection()
    heartbeat(a, 2000)
    heartbeat(a)
    assert verdicts(unheard(talk)) == [("note", None)]


def test_another_connection_is_free() -> None:
    talk = Conversation()
    heartbeat(talk.connection(), 2000)
    heartbeat(talk.connection())
    assert verdicts(talk) == [("note", None)]


def test_clients_of_old_versions_leave_the_waiting_to_the_broker() -> None:
    talk = Conversation()
    a = talk.connection()
    body = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    a.ask(12, "Heartbeat", 1, body).answered(throttle_time_ms=2000)
    a.ask(12, "Heartbeat", 1, body).answered(throttle_time_ms=0)
    assert verdicts(talk) == [("note", None)]


def test_clients_of_share_groups_leave_it_to_the_broker() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(throttle_time_ms=2000)
    a.share_fetch(1).answered()
    assert verdicts(talk) == [("note", None)]


def test_a_producer_may_have_sent_before_it_read_the_answer() -> None:
    talk = Conversation()
    a = talk.connection()
    produce(a, 2000)
    produce(a)
    assert verdicts(talk) == [("note", None)]


def test_a_producer_that_goes_on_does_not_wait() -> None:
    talk = Conversation()
    a = talk.connection()
    produce(a, 2000)
    talk.pause(0.2)
    produce(a)
    assert verdicts(talk) == [("violation", "ignored")]


def test_a_producer_that_never_waits_does_not_either() -> None:
    talk = Conversation()
    a = talk.connection()
    for _ in range(4):
        produce(a, 2000)
    assert verdicts(talk) == [("violation", "ignored")]


def test_a_producer_that_waits_as_a_rule_may_have_been_interrupted() -> None:
    talk = Conversation()
    a = talk.connection()
    for _ in range(4):
        produce(a, 1000)
        talk.pause(1)
    produce(a, 2000)
    talk.pause(0.2)
    produce(a)
    assert verdicts(talk) == [("note", None)]


def test_a_step_of_the_clock_makes_it_unknown() -> None:
    talk = Conversation()
    a = talk.connection()
    for _ in range(20):
        heartbeat(a)
        talk.pause(0.1)
    heartbeat(a, 5000)
    stepped(talk, -10 * S)
    for _ in range(20):
        heartbeat(a)
        talk.pause(0.1)
    (found,) = throttled(talk)
    assert (found.verdict, found.unknown_because, found.cause) == ("unknown", "clock", "ignored")


def stepped(talk: Conversation, by_ns: int) -> None:
    """Set the clock of the capture, not that of the hosts: a pause that packets do not show."""
    talk.wire.stamped = False
    talk.wire.time_ns += by_ns


@pytest.mark.parametrize("key", WAITING_SINCE)
def test_apis_whose_clients_wait_have_a_throttle_time(key: int) -> None:
    api = Registry().api(key)
    assert api is not None
    assert any(field.name == "throttle_time_ms" for field in api.response.root.fields)


def test_fewer_packets_accuse_no_client_that_waits() -> None:
    talk = Conversation()
    a = talk.connection()
    with a.pipelined():
        heartbeat(a, 500)
        heartbeat(a, 1000)
    talk.pause(1)
    for throttle_ms in (1000, 0, 2000):
        heartbeat(a, throttle_ms)
        talk.pause(throttle_ms / 1000)
    heartbeat(a)
    assert verdicts(talk) == [("note", None)]
    for number, _ in talk.packets():
        assert {verdict for verdict, _ in verdicts(talk.without_packets([number]))} <= {"note", "unknown"}
