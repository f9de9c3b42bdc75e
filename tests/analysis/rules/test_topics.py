"""Topics that the broker does not know: nearly the same as what is wrong, and what the capture has to hold for that."""

from __future__ import annotations

import pytest

from tests.analysis.rules.promises.topics import UNKNOWN_TOPIC_ID, ZERO
from tests.analysis.talks import INVALID_REQUEST, UNKNOWN_SERVER_ERROR, codes, led_elsewhere, opened, stranger
from tests.conversation import Conversation, Member

UNKNOWN = [("TOPIC_ID_UNKNOWN", "note")]


def test_an_id_of_zeros_that_is_refused_for_another_reason() -> None:
    """Before the session was looked at: nobody has looked for the topic."""
    talk = Conversation()
    opened(talk).share_fetch(1, [0], topic=ZERO).answered(INVALID_REQUEST)
    assert codes(talk) == []


def test_a_partition_listed_twice_has_a_rule_of_its_own() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(0, [0, 0], topic=ZERO).answered(UNKNOWN_SERVER_ERROR)
    assert "TOPIC_ID_UNKNOWN" not in dict(codes(talk))


def test_a_member_id_that_the_broker_does_not_read_fails_alike() -> None:
    talk = Conversation(release="4.1")
    Member(talk.member("a", joined=False).connection, "g", "no uuid").share_fetch(0, [0]).answered(UNKNOWN_SERVER_ERROR)
    assert "TOPIC_ID_UNKNOWN" not in dict(codes(talk))


@pytest.mark.parametrize(
    ("release", "name", "told"), [("4.2", "any name", UNKNOWN), ("4.2", None, []), ("4.1", "any name", [])]
)
def test_brokers_of_4_2_read_any_text(release: str, name: str | None, told: list[tuple[str, str]]) -> None:
    talk = Conversation(release=release)
    Member(talk.member("a", joined=False).connection, "g", name).share_fetch(0, [0]).answered(UNKNOWN_SERVER_ERROR)  # type: ignore[arg-type]
    assert [it for it in codes(talk) if it[0] == "TOPIC_ID_UNKNOWN"] == told


def test_acknowledgements_are_answered_with_another_code() -> None:
    """What fails as a whole failed for a reason that nobody sees."""
    talk = Conversation()
    opened(talk).share_acknowledge(1).answered(UNKNOWN_SERVER_ERROR)
    assert codes(talk) == []


def test_a_topic_that_is_forgotten_fails_no_more() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(UNKNOWN_SERVER_ERROR)
    a.share_fetch(1, forget=[0]).answered()
    assert codes(talk) == UNKNOWN


def test_a_request_that_is_not_certain_accuses_nobody() -> None:
    talk = Conversation()
    stranger(talk).share_fetch(0, [0], topic=ZERO).answered(UNKNOWN_SERVER_ERROR)
    assert [it for it in codes(talk) if it[1] == "violation"] == []


def test_an_id_of_zeros_is_the_clients_fault_wherever_it_is_refused() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(0, [0], topic=ZERO).answered(**led_elsewhere(error=UNKNOWN_TOPIC_ID, topic=ZERO))
    assert [it for it in codes(talk) if it[0] == "TOPIC_ID_UNKNOWN"] == [("TOPIC_ID_UNKNOWN", "violation")]


@pytest.mark.parametrize("error", [UNKNOWN_TOPIC_ID, UNKNOWN_SERVER_ERROR])
def test_no_missing_packet_accuses_anybody(error: int) -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1, [0]).answered(UNKNOWN_SERVER_ERROR)
    a.share_fetch(2, [1], topic=ZERO).answered(error)
    a.share_fetch(3).answered()
    clean = codes(talk)
    for number, _ in talk.packets():
        accused = [it for it in codes(talk.without_packets([number])) if it[1] == "violation"]
        assert all(it in clean for it in accused), number
