"""What a message costs does not grow with what came before it, whatever members and brokers do: counted in steps of Python."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kshark import limits
from kshark.analysis import Analyzer
from tests.analysis.talks import handed, unread
from tests.conversation import TOPIC, Conversation, Member, events
from tests.test_guard import counting

Shape = Callable[[Conversation, int], None]


def topic_id(number: int) -> str:
    return base64.urlsafe_b64encode(struct.pack(">QQ", 77, number + 1)).decode().rstrip("=")


def gives(*ranges: tuple[int, int], count: int = 1, topic: str = TOPIC) -> dict[str, Any]:
    """An answer that hands out these ranges, delivered so often."""
    (one,) = handed(*((0, first, last, count) for first, last in ranges))
    return {"responses": [{**one, "topic_id": topic}], "acquisition_lock_timeout_ms": 30_000}


def opened(talk: Conversation) -> Member:
    member = talk.member("a")
    member.share_fetch(0, [0]).answered(**gives())
    return member


def many_topics(talk: Conversation, count: int) -> None:
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number, [0], topic=topic_id(number)).answered(**gives((0, 9), topic=topic_id(number)))


def never_acknowledged(talk: Conversation, count: int) -> None:
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number).answered(**gives((2 * number, 2 * number)))


def falling_offsets(talk: Conversation, count: int) -> None:
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number).answered(**gives((count - number, count - number)))


def acknowledged_from_the_end(talk: Conversation, count: int) -> None:
    member = talk.member("a")
    member.share_fetch(0, [0]).answered(**gives((0, 2 * count)))
    for number in range(count):
        member.share_acknowledge(1 + number, [(2 * (count - number), 2 * (count - number), 1)]).answered()


def sessions_opened_and_closed(talk: Conversation, count: int) -> None:
    member = talk.member("a")
    for number in range(count):
        member.share_fetch(0, [0]).answered(**gives((number, number)))
        member.share_fetch(-1).answered(**gives())


def members_on_one_connection(talk: Conversation, count: int) -> None:
    """Each is given what the others have."""
    connection = talk.connection()
    for number in range(count):
        member = Member(connection, "g", f"m{number}".ljust(22, "A"))
        member.join()
        member.share_fetch(0, [0]).answered(**gives((0, 9), count=1 + number))


def sessions_beside_unread_requests(talk: Conversation, count: int) -> None:
    """On one connection."""
    connection = talk.connection()
    for number in range(count):
        member = Member(connection, "g", f"m{number}".ljust(22, "A"))
        member.join()
        member.share_fetch(0, [0]).answered(**gives((10 * number, 10 * number + 9)))
        for _ in range(3):
            unread(connection)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is done beyond them is seen, too."""
    monkeypatch.setattr(limits, "HELD_RANGES", 150)
    monkeypatch.setattr(limits, "IN_FLIGHT_RANGES", 150)


@pytest.mark.parametrize(
    "shape",
    [
        many_topics,
        never_acknowledged,
        falling_offsets,
        acknowledged_from_the_end,
        sessions_opened_and_closed,
        members_on_one_connection,
        sessions_beside_unread_requests,
    ],
)
def test_a_message_costs_no_more_behind_many(shape: Shape) -> None:
    def steps(count: int) -> int:
        talk = Conversation()
        shape(talk, count)
        told, analyzer = events(talk), Analyzer()
        with counting() as counts:
            for event in told:
                analyzer.feed(event)
        return counts.total()

    steps(10)  # what is made once
    at_first, later = (steps(60) - steps(20)) / 40, (steps(1200) - steps(400)) / 800
    assert later < 1.15 * at_first
