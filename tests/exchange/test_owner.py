"""Whose an answer is: its request's group and member, where it names none itself."""

from __future__ import annotations

import pytest
from msgspec import UNSET

import kshark
from kshark.model import Message
from kshark.pipeline import Options
from tests.conversation import Conversation, Member, events
from tests.shared import CAPTURES

NOBODY = (UNSET, UNSET)


def owners(talk: Conversation, options: Options | None = None, api: str = "") -> list[tuple[object, object]]:
    """Of the answers of an API, of all others than ApiVersions if none is told."""
    answers = [event for event in events(talk, options) if isinstance(event, Message) and event.kind == "response"]
    return [
        (answer.group_id, answer.member_id)
        for answer in answers
        if answer.api != "ApiVersions" and api in ("", answer.api)
    ]


def member(talk: Conversation) -> Member:
    return talk.member("a", group="orders", joined=False)


def test_answers_to_a_share_consumer_belong_to_it() -> None:
    talk = Conversation()
    a = member(talk)
    a.share_fetch(0).answered()
    a.share_acknowledge(1).answered(123)
    a.share_acknowledge(1)
    assert owners(talk) == [("orders", a.member_id)] * 2


def test_two_members_on_one_connection_are_not_taken_for_one_another() -> None:
    talk = Conversation()
    a = member(talk)
    b = talk.member("b", group="bills", connection=a.connection, joined=False)
    first, second = a.share_fetch(0), b.share_fetch(0)
    first.answered()
    second.answered()
    assert owners(talk) == [("orders", a.member_id), ("bills", b.member_id)]


def test_what_an_answer_says_itself_is_not_said_again() -> None:
    talk = Conversation()
    a = member(talk)
    a.heartbeat(0, ["t"]).answered(member_id=a.member_id, member_epoch=1, heartbeat_interval_ms=5000)
    a.heartbeat(1).answered(110, member_id=None)
    assert owners(talk) == [("orders", UNSET), ("orders", a.member_id)]


@pytest.mark.parametrize(
    ("api", "key", "version", "body", "owner"),
    [
        ("OffsetCommit", 8, 8, {"group_id": "g", "member_id": "m", "topics": []}, ("g", "m")),
        ("ReadShareGroupState", 84, 0, {"group_id": "g", "topics": []}, ("g", UNSET)),
        ("AlterShareGroupOffsets", 91, 0, {"group_id": "g", "topics": []}, ("g", UNSET)),
        ("LeaveGroup", 13, 4, {"group_id": "g", "members": [{"member_id": "m"}]}, ("g", UNSET)),
        ("Metadata", 3, 12, {"topics": []}, NOBODY),
        ("DescribeGroups", 15, 5, {"groups": ["g"]}, NOBODY),
    ],
)
def test_any_api_whose_request_names_a_group_or_a_member(
    api: str, key: int, version: int, body: object, owner: object
) -> None:
    talk = Conversation()
    talk.connection().ask(key, api, version, body).answered(None)  # type: ignore[arg-type]
    assert owners(talk) == [owner]


def test_a_share_session_without_a_name_has_no_owner() -> None:
    talk = Conversation()
    talk.connection().ask(78, "ShareFetch", 1, {"group_id": None, "member_id": None, "topics": []}).answered()
    assert owners(talk) == [NOBODY]


def test_bodies_that_nobody_reads_name_nobody() -> None:
    talk = Conversation()
    member(talk).share_fetch(0).answered()
    assert owners(talk, Options(bodies=frozenset())) == [NOBODY]


def test_a_reader_who_makes_dicts_of_bodies_meanwhile_does_not_disturb() -> None:
    answers = [
        message
        for message in kshark.read(CAPTURES / "adv-epochs.pcap")
        if message.kind == "response" and message.api_key == 79
    ]
    assert answers
    assert {(answer.group_id, answer.member_id) for answer in answers} == {("g", "6L2wg8gJQne7ftm-XDlUYw")}
