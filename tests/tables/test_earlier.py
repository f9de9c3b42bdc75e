"""What a row of `share_requests` tells of the requests before it: of the same member, on the same connection."""

from __future__ import annotations

from typing import Any

import pytest

from kshark import limits
from kshark.tables import TABLES, Rows
from tests.conversation import Conversation, events

COLUMNS = [column.name for column in TABLES["share_requests"].columns]


def told(talk: Conversation, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of the rows, in their order."""
    rows = Rows("talk")
    found = [row for event in events(talk) for table, row in rows.feed(event) if table == "share_requests"]
    return [tuple(row[COLUMNS.index(column)] for column in columns) for row in found]


def test_each_request_knows_the_epoch_before_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = talk.member("b", connection=a.connection)
    for member, epoch in ((a, 0), (b, 0), (a, 1), (b, 5), (a, -1), (a, 7)):
        member.share_fetch(epoch).answered()
    elsewhere = a.on(talk.connection())
    elsewhere.share_acknowledge(8).answered()
    assert told(talk, "member_id", "epoch", "previous_epoch") == [
        (a.member_id, 0, None),
        (b.member_id, 0, None),
        (a.member_id, 1, 0),
        (b.member_id, 5, 0),
        (a.member_id, -1, 1),
        (a.member_id, 7, -1),
        (a.member_id, 8, None),
    ]


def test_requests_whose_order_their_answers_turn_round_have_none_before_them() -> None:
    talk = Conversation()
    a = talk.member("a")
    first, second = a.share_fetch(0), a.share_fetch(1)
    second.answered()
    first.answered()
    assert told(talk, "epoch", "previous_epoch") == [(1, None), (0, None)]


def test_what_a_request_lists() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1, [1], acks=[(0, 0, 1)]).answered()
    a.share_fetch(2, [2], acks=[(0, 0, 1)]).answered()
    a.share_fetch(3, [2], acks=[(1, 1, 1)]).answered()
    a.share_fetch(4, [3, 3]).answered()
    a.share_acknowledge(5, [(0, 3, 1)]).answered()
    a.share_fetch(6).answered()
    assert told(talk, "epoch", "only_lists", "lists_new", "acknowledges_new", "repeats") == [
        (0, True, True, False, False),
        (1, False, False, False, False),
        (2, False, True, True, False),
        (3, False, False, False, False),
        (4, True, True, False, True),
        (5, False, False, False, False),
        (6, False, False, False, False),
    ]


def test_beyond_a_limit_the_next_request_is_a_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMBERS_OF_CONNECTION", 1)
    monkeypatch.setattr(limits, "SESSION_PARTITIONS", 1)
    talk = Conversation()
    a = talk.member("a")
    b = talk.member("b", connection=a.connection)
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1, [0], acks=[(0, 0, 1)]).answered()
    b.share_fetch(0).answered()
    a.share_fetch(2).answered()
    assert told(talk, "previous_epoch", "acknowledges_new") == [(None, False), (0, True), (None, False), (None, False)]
