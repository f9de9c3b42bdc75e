"""Connections that were forgotten to make room: where one goes on, and where a new one begins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kshark import limits
from kshark.model import Flow
from tests.reassembly.conversation import BROKER, CLIENT, Hole, Talk


@pytest.fixture(autouse=True)
def room_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is remembered of what is over."""
    monkeypatch.setattr(limits, "FLOWS", 1)
    monkeypatch.setattr(limits, "CLOSED_FLOWS", 0)


def forgotten(talk: Talk) -> int:
    """Another connection opens, in a feed of its own of three rows; how many there are before it."""
    before, pair, isn, sent = len(talk.rows), talk.pair, talk.isn, talk.sent
    talk.pair = 7
    talk.open((100_000, 200_000))
    talk.pair, talk.isn, talk.sent = pair, isn, sent
    return before


def flows(talk: Talk, before: int) -> tuple[Flow, Flow | None]:
    """The first connection's flow, and the one behind it, if there is one."""
    heard = talk.fed([before, 3])
    first, *more = [flow for flow in heard.flows if flow.ends.first == "10.0.0.1:50000"]
    return first, more[0] if more else None


def said() -> Talk:
    talk = Talk().open()
    talk.client(b"what?")
    talk.broker(b"that")
    return talk


def test_the_next_byte_of_either_side_goes_on() -> None:
    for side in (CLIENT, BROKER):
        talk = said()
        before = forgotten(talk)
        talk.send(side, b"and?")
        first, second = flows(talk, before)
        assert second is not None
        assert (second.continues, second.begun, second.opened_by) == (first.id, (False, False), None)
        assert talk.fed([before, 3]).of(side, second.id) == [b"and?"]


def test_what_the_other_side_lost_meanwhile_is_a_hole() -> None:
    talk = said()
    before = forgotten(talk)
    talk.client(b"and?", acked=4 + 6)
    talk.broker(b"more", at=4 + 6)
    _, second = flows(talk, before)
    assert second is not None
    assert talk.fed([before, 3]).of(BROKER, second.id) == [Hole(6, "at_close"), b"more"]


def test_before_the_first_byte_it_is_the_same_beginning() -> None:
    talk = Talk().open()
    before = forgotten(talk)
    talk.client(b"what?")
    first, second = flows(talk, before)
    assert second is not None
    assert (second.continues, second.begun, second.opened_by) == (first.id, (True, True), CLIENT)


def anew(talk: Talk) -> Callable[[], object]:
    """With the very number that was due."""
    return lambda: talk.open((1_000 + 1 + 5, 9_000))


def with_a_hole_that_is_filled_too_late(talk: Talk) -> Callable[[], object]:
    talk.client(b"behind", at=9)
    return lambda: talk.client(b"hole", at=5)


def when_its_end_is_known(talk: Talk) -> Callable[[], object]:
    talk.fin(CLIENT, b"", at=5)
    return lambda: talk.client(b"more", at=5)


def when_something_was_not_seen(talk: Talk) -> Callable[[], object]:
    talk.broker(acked=5 + 3)
    return lambda: talk.client(b"it is", at=5)


def with_other_numbers(talk: Talk) -> Callable[[], object]:
    return lambda: talk.client(b"it is", at=6)


def when_one_side_was_never_heard(talk: Talk) -> Callable[[], object]:
    talk.rows = [row for row in talk.rows if row.path == CLIENT and row.payload]
    return lambda: talk.client(b"it is", at=5)


@pytest.mark.parametrize(
    "how",
    [
        anew,
        with_a_hole_that_is_filled_too_late,
        when_its_end_is_known,
        when_something_was_not_seen,
        with_other_numbers,
        when_one_side_was_never_heard,
    ],
)
def test_else_a_new_one_begins(how: Callable[[Talk], Callable[[], object]]) -> None:
    talk = said()
    later = how(talk)
    before = forgotten(talk)
    later()
    _, second = flows(talk, before)
    assert second is None or second.continues is None
