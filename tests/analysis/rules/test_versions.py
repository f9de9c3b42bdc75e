"""Versions that are asked for: what nearly breaks a rule, and what cannot be decided."""

from __future__ import annotations

import pytest

from tests.analysis.talks import (
    INVALID_REQUEST,
    METADATA,
    NO_TOPICS,
    UNSUPPORTED_VERSION,
    asked_unoffered,
    broker_closes,
    opened,
    refused_version,
    replied,
    sent,
)
from tests.conversation import Conversation, Thinned, everything, note


def told(talk: Conversation | Thinned) -> list[tuple[str, int]]:
    return [(it.code, it.packet) for it in everything(talk) if it.code != "STREAM_GAP"]


def test_a_version_that_the_broker_has() -> None:
    talk = Conversation()
    talk.connection()
    assert everything(talk) == []


def test_the_refused_request_was_missed() -> None:
    talk = Conversation()
    connection = talk.connection(introduced=False)
    refused_version(connection)
    connection.api_versions("4.2")
    assert [code for code, _ in told(talk.without_packets([4])) if code == "APIVERSIONS_FALLBACK"] == []


@pytest.mark.parametrize(
    ("name", "version", "wrong"),
    [
        ("librdkafka", "2.3.0-rc.1", ""),
        ("x", "1", ""),
        ("", "1", "name ''"),
        ("-x", "1.", "name '-x', version '1.'"),
        ("my_client", "1", "name 'my_client'"),
        ("x", "\n", "version '\\n'"),
        ("ä" * 100, "1", f"name '{'ä' * 40}'"),
    ],
)
def test_names_have_letters_digits_dots_and_hyphens(name: str, version: str, wrong: str) -> None:
    talk = Conversation()
    talk.connection(introduced=False).api_versions("4.2", name, version, INVALID_REQUEST)
    found = [it.argument for it in everything(talk) if it.code == "SOFTWARE_NAME_INVALID"]
    assert [it.partition(" is invalid: ")[2].rpartition(" (")[0] for it in found] == [wrong] * bool(wrong)


def test_a_name_that_is_not_certain_accuses_nobody() -> None:
    talk = Conversation()
    talk.connection(from_syn=False, introduced=False).api_versions("4.2", "my client", error=INVALID_REQUEST)
    assert [it for it in everything(talk) if it.verdict == "violation"] == []


def test_early_access_is_told_of_each_connection() -> None:
    talk = Conversation(release="4.0")
    first, second = (talk.member(name).share_fetch(0, version=0).answered() for name in "ab")
    assert told(talk) == [("EARLY_ACCESS_SHARE_API", first.sent), ("EARLY_ACCESS_SHARE_API", second.sent)]


def test_versions_of_4_1_are_no_early_access() -> None:
    talk = Conversation(release="4.1")
    opened(talk)
    assert everything(talk) == []


def test_what_is_refused_for_another_reason() -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1).answered(INVALID_REQUEST)
    a.heartbeat(1).answered(30)
    assert [it for it in everything(talk) if it.code == "SHARE_FEATURE_OFF"] == []


def test_share_groups_are_switched_off_before_a_session_is_opened() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    join, fetch = a.heartbeat(0, ["t"]).answered(UNSUPPORTED_VERSION), a.share_fetch(0).answered(UNSUPPORTED_VERSION)
    leave = a.share_acknowledge(-1).answered(UNSUPPORTED_VERSION)
    assert everything(talk) == [note("SHARE_FEATURE_OFF", one) for one in (join, fetch, leave)]


def accused(talk: Conversation | Thinned) -> list[str]:
    return [it.code for it in everything(talk) if it.verdict == "violation"]


def test_a_version_that_is_offered_and_not_answered() -> None:
    talk = Conversation()
    connection = talk.connection()
    sent(connection, METADATA, 0, NO_TOPICS)
    broker_closes(connection)
    assert [it.code for it in everything(talk)] == ["REQUEST_UNANSWERED"]


def test_a_version_that_is_answered_is_one_that_the_broker_has() -> None:
    talk = Conversation()
    connection = talk.connection()
    asked_unoffered(connection)
    replied(connection, bytes(2))
    broker_closes(connection)
    assert everything(talk) == []


def test_nobody_asked_what_the_broker_has() -> None:
    talk = Conversation()
    connection = talk.connection(introduced=False)
    asked_unoffered(connection)
    broker_closes(connection)
    assert [it.code for it in everything(talk)] == ["REQUEST_UNANSWERED"]


def test_the_capture_ends_before_the_answer() -> None:
    talk = Conversation()
    asked_unoffered(talk.connection())
    assert everything(talk) == []


def test_without_any_packet_nobody_is_accused_of_more() -> None:
    talk = Conversation()
    connection = talk.connection()
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, bytes(8))
    broker_closes(connection)
    for packet in range(1, len(talk.wire.packets) + 1):
        assert accused(talk.without_packets([packet])) == []
