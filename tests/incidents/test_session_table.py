"""A broker without room for share sessions: incident 134."""

from __future__ import annotations

import pytest

from kshark.model import Finding
from kshark_dissectors.enums import ErrorCode
from tests.conversation import Asked, Conversation, Member, Thinned
from tests.incidents.talks import incidents

FULL = ErrorCode.SHARE_SESSION_LIMIT_REACHED


def full(talk: Conversation | Thinned) -> list[Finding]:
    return [finding for finding in incidents(talk) if finding.code == "SESSION_TABLE_FULL"]


def client(talk: Conversation, name: str, group: str = "g", host: str = "10.0.0.1") -> Member:
    connection = talk.connection(host=host)
    connection.client_id = name
    return talk.member(name, group, connection)


def refuse(member: Member) -> Asked:
    return member.share_fetch(0, [0]).answered(FULL)


def test_members_of_several_clients_are_refused() -> None:
    talk = Conversation()
    open_one = client(talk, "c0")
    open_one.share_fetch(0, [0]).answered()
    a, b = client(talk, "c1"), client(talk, "c2", "h")
    first = refuse(a)
    open_one.share_fetch(1).answered()
    last = refuse(b)
    talk.pause(10)
    open_one.share_fetch(2).answered()
    (found,) = full(talk)
    assert (found.packet, found.until_packet, found.verdict) == (first.packet, last.packet, "note")
    assert found.broker == "10.0.0.9:9092"
    assert "it refused 2 of 3 ShareFetches (133), of 2 members (c1 and c2) in groups g and h" in found.argument


def test_it_lasts_to_the_end_while_clients_try_again() -> None:
    talk = Conversation()
    a, b = client(talk, "c1"), client(talk, "c2")
    for member in (a, b, a, b):
        refuse(member)
        talk.pause(1)
    (found,) = full(talk)
    assert found.until_packet is None


def test_a_session_that_is_opened_ends_it() -> None:
    talk = Conversation()
    a, b = client(talk, "c1"), client(talk, "c2")
    refuse(a)
    last = refuse(b)
    a.share_fetch(0, [0]).answered()
    (found,) = full(talk)
    assert found.until_packet == last.packet


def test_one_client_alone_may_have_any_reason() -> None:
    talk = Conversation()
    a = client(talk, "c1")
    for _ in range(5):
        refuse(a)
        talk.pause(1)
    assert full(talk) == []


def test_a_client_that_begins_anew_with_another_member_id_is_one_client() -> None:
    talk = Conversation()
    for name in ("a", "b", "c"):
        connection = talk.connection()
        refuse(talk.member(name, connection=connection))
        connection.close()
    assert full(talk) == []


def test_members_that_return_are_several_even_with_one_client_id() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    for member in (a, b, a, b):
        refuse(member)
    assert len(full(talk)) == 1


def test_refusals_far_apart_are_two_incidents() -> None:
    talk = Conversation()
    a, b = client(talk, "c1"), client(talk, "c2")
    for _ in range(2):
        refuse(a)
        refuse(b)
        talk.pause(40)
        a.heartbeat(1).given(1)
    assert len(full(talk)) == 2


@pytest.mark.parametrize("error", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
def test_other_refusals_say_nothing_about_room(error: int) -> None:
    talk = Conversation()
    a, b = client(talk, "c1"), client(talk, "c2")
    for member in (a, b, a, b):
        member.share_fetch(3).answered(error)
    assert full(talk) == []


def test_kafka_4_0_refuses_with_another_code() -> None:
    talk = Conversation(release="4.0")
    a, b = client(talk, "c1"), client(talk, "c2")
    for member in (a, b):
        member.share_fetch(0, [0], version=0).answered(ErrorCode.SHARE_SESSION_NOT_FOUND)
    assert len(full(talk)) == 1


def test_brokers_are_separate() -> None:
    talk = Conversation()
    for name, broker in (("c1", "10.0.0.9:9092"), ("c2", "10.0.0.8:9092")):
        connection = talk.connection(broker)
        connection.client_id = name
        refuse(talk.member(name, connection=connection))
    assert full(talk) == []


def test_answers_without_their_requests_prove_nothing() -> None:
    talk = Conversation()
    a, b = client(talk, "c1"), client(talk, "c2")
    refused = [refuse(member) for member in (a, b)]
    assert full(talk.without_packets([packet for asked in refused for packet in asked.packets])) == []
