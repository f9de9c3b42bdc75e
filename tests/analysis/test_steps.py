"""What a message costs does not grow with what came before it, whatever members and brokers do: counted in steps of
Python."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.analysis import Analyzer
from kshark.model import Event
from tests.analysis import shapes
from tests.analysis.shapes import SHAPES, Shape
from tests.conversation import Conversation, events
from tests.test_guard import counting

#: One shape for each table that may grow: sessions, members, connections, partitions, records in flight, their locks.
QUICK = (
    shapes.sessions_opened_and_closed,
    shapes.members_that_come_and_go,
    shapes.connections_that_end,
    shapes.many_topics,
    shapes.many_ranges,
    shapes.locks_that_end,
)
#: Exchanges at the beginning, and later: from the first number to the second.
BEGINNING, LATER = (10, 40), (110, 170)


def told(shape: Shape, exchanges: int) -> list[Event]:
    talk = Conversation()
    shape(talk, exchanges)
    return events(talk)


def steps(told: list[Event]) -> int:
    analyzer = Analyzer()
    with counting() as counts:
        for event in told:
            analyzer.feed(event)
    return counts.total()


@pytest.mark.parametrize(
    "shape", [shape if shape in QUICK else pytest.param(shape, marks=pytest.mark.slow) for shape in SHAPES]
)
def test_a_message_costs_no_more_behind_many(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether much is remembered or little: what is done beyond a limit is seen, too."""
    talks = [[told(shape, count) for count in counts] for counts in (BEGINNING, LATER)]
    monkeypatch.setattr(limits, "WAITING_STEPS", 8)
    steps(talks[0][0])  # what is made once
    for most in (limits.IN_FLIGHT_RANGES, 150):
        monkeypatch.setattr(limits, "HELD_RANGES", most)
        monkeypatch.setattr(limits, "IN_FLIGHT_RANGES", most)
        at_first, later = (
            (steps(more) - steps(less)) / (many - few)
            for (less, more), (few, many) in zip(talks, (BEGINNING, LATER), strict=True)
        )
        assert later < 1.15 * at_first
