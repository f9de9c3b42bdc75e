"""Deadlines: what is due and did not come."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from kshark.incidents.due import NEVER, Due


@dataclass(eq=False)
class Answer:
    name: str
    until_ns: int | None

    def due_ns(self) -> int | None:
        return self.until_ns


def names(due: Due[Answer], now_ns: int) -> list[str]:
    return [answer.name for answer in due.passed(now_ns)]


def test_what_did_not_come_is_missed_in_the_order_of_the_deadlines() -> None:
    due = Due[Answer]()
    for answer in (Answer("c", 30), Answer("a", 10), Answer("b", 20)):
        due.add(answer)
    assert due.next_ns == 10
    assert names(due, 10) == []
    assert names(due, 25) == ["a", "b"]
    assert names(due, 25) == []
    assert names(due, 31) == ["c"]
    assert due.next_ns == NEVER


def test_what_came_is_not_missed() -> None:
    due, answer = Due[Answer](), Answer("a", 10)
    due.add(answer)
    answer.until_ns = None
    assert names(due, 100) == []


def test_a_deadline_that_moved_later_is_missed_later() -> None:
    due, answer = Due[Answer](), Answer("a", 10)
    due.add(answer)
    answer.until_ns = 50
    assert names(due, 20) == []
    assert due.next_ns == 50
    assert names(due, 51) == ["a"]


def test_a_deadline_that_moves_earlier_is_added_again_and_missed_once() -> None:
    due, answer = Due[Answer](), Answer("a", 50)
    due.add(answer)
    answer.until_ns = 10
    due.add(answer)
    due.add(answer)
    assert names(due, 11) == ["a"]
    assert names(due, 100) == []


def test_deadlines_survive_a_snapshot() -> None:
    due, answer = Due[Answer](), Answer("a", 50)
    due.add(answer)
    answer.until_ns = 10
    due.add(answer)
    restored: Due[Answer] = pickle.loads(pickle.dumps(due))
    assert names(restored, 11) == ["a"]
    assert names(restored, 100) == []
