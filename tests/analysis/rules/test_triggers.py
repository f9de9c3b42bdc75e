"""Triggers: the steps at which rules are looked at, told in Python and in Spark's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kshark.analysis import RULES
from kshark.analysis.facts.calls import Listed, ShareStep
from kshark.analysis.facts.heartbeats import Beat
from kshark.analysis.rules.triggers import (
    ACKNOWLEDGED_ONLY,
    ALWAYS,
    ASSIGNED,
    DEPARTED,
    FORGETS,
    OPENED,
    REPEATS,
    Trigger,
    compiled,
)
from kshark.analysis.states.member.state import Assignment
from kshark.analysis.states.session.state import SessionState
from tests.analysis.plain import connection, session, step
from tests.shared import ROOT

ONE, TWO = Listed(("t", 1), ()), Listed(("t", 2), ())
TRIGGERS = list(dict.fromkeys(check.trigger for rule in RULES for check in rule.checks))
PLAIN = step(1)
LEAVE = Beat(connection(), 76, "ShareGroupHeartbeat", 1, 5, 0, 1, "c", "g", "a", -1)


def holding() -> SessionState:
    """A session that holds a partition which was listed to acknowledge alone."""
    state = session(1)
    state.in_flight.acknowledged_only = {ONE.partition: PLAIN}
    return state


def of_one_that_was_told() -> SessionState:
    """A session whose member has an assignment."""
    state = session(1)
    state.member.assignments = (Assignment(1, frozenset()),)
    return state


def of_one_that_left() -> SessionState:
    """A session whose member left its group."""
    state = session(1)
    state.member.departure = LEAVE
    return state


@pytest.mark.parametrize(
    ("trigger", "state", "asked", "holds"),
    [
        (ALWAYS, session, PLAIN, True),
        (FORGETS, session, PLAIN, False),
        (FORGETS, session, step(1, forgotten=[("t", 1)]), True),
        (REPEATS, session, PLAIN, False),
        (REPEATS, session, step(1, listed=[ONE]), False),
        (REPEATS, session, step(1, listed=[ONE, TWO]), False),
        (REPEATS, session, step(1, listed=[ONE, TWO, ONE]), True),
        (ACKNOWLEDGED_ONLY, session, PLAIN, False),
        (ACKNOWLEDGED_ONLY, holding, PLAIN, True),
        (ASSIGNED, session, step(1, listed=[ONE]), False),
        (ASSIGNED, of_one_that_was_told, PLAIN, False),
        (ASSIGNED, of_one_that_was_told, step(1, listed=[ONE]), True),
        (DEPARTED, session, PLAIN, False),
        (DEPARTED, of_one_that_left, PLAIN, True),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_where_a_trigger_holds(
    trigger: Trigger, state: Callable[[], SessionState], asked: ShareStep, holds: bool
) -> None:
    assert bool(compiled([trigger])(state(), asked)) is holds


def test_one_of_several_is_enough() -> None:
    either = compiled([FORGETS, Trigger("nowhere", "false"), REPEATS])
    assert either(session(), step(1, listed=[ONE, ONE]))
    assert either(session(), step(1, forgotten=[("t", 1)]))
    assert not either(session(), PLAIN)
    assert not compiled([])(session(), PLAIN)


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: trigger.name)
def test_sparks_words_are_columns_of_its_screen(trigger: Trigger) -> None:
    """tests/spark holds the screen against the machine; this notices without Spark when a name is none."""
    screen = (ROOT / "spark_analysis/kshark_spark/screen/sessions.py").read_text()
    assert trigger.sql in ("true", "false") or f'"{trigger.sql}"' in screen


def test_what_takes_the_exact_path_passes_no_screen() -> None:
    """Where Python looks, Spark has to as well; what heartbeats tell has a screen of its own."""
    assert [each for each in TRIGGERS if each.python and each.sql == "false"] == [ASSIGNED, OPENED, DEPARTED]
