"""What the analysis holds of share sessions that are idle, in bytes: most have nothing to remember of all that may be
remembered."""

from __future__ import annotations

import gc
import tracemalloc

from kshark.analysis import Analyzer
from tests.analysis.talks import unread
from tests.conversation import Conversation, events


def held_behind(talk: Conversation) -> int:
    """Bytes when all of it is read and its connections are still open; the messages themselves not counted."""
    happened, analyzer = events(talk)[:-1], Analyzer()
    gc.collect()
    tracemalloc.start()
    try:
        analyzer.page(happened)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def held(sessions: int, upto: int) -> int:
    """Bytes for so many sessions on one connection, epochs used up to that one."""
    talk = Conversation()
    connection = talk.connection()
    for number in range(sessions):
        member = talk.member(f"member-{number}", connection=connection)
        for epoch in range(upto + 1):
            member.share_fetch(epoch).answered()
    return held_behind(talk)


def test_an_idle_session_takes_little() -> None:
    held(20, 1)  # what is made once
    few, many = held(20, 1), held(60, 1)
    assert (many - few) / 40 < 5_200


def test_a_session_takes_no_more_the_longer_it_is_used() -> None:
    held(10, 1)
    assert held(10, 40) < 1.2 * held(10, 2)


def test_requests_that_cannot_be_read_take_nothing() -> None:
    """Each of them makes all sessions of its connection doubtful."""

    def unreadable(count: int) -> int:
        talk = Conversation()
        connection = talk.connection()
        for number in range(20):
            talk.member(f"member-{number}", connection=connection).share_fetch(0).answered()
        for _ in range(count):
            unread(connection)
        return held_behind(talk)

    unreadable(5)
    assert unreadable(300) < unreadable(30) + 50_000
