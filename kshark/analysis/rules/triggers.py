"""Triggers: what has to be so about a step for a rule to be looked at. Each is told twice, for the session machine and for Spark's screen.

A step at which no trigger of its rules holds takes the fast path; a member without such a step passes the screen unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kshark.analysis.session_state import SessionState
from kshark.analysis.steps import Step


@dataclass(frozen=True, slots=True)
class Trigger:
    """`holds` looks at the state of the session before the step. `sql` is the same or more, over the columns of spark_analysis.screen."""

    name: str
    holds: Callable[[SessionState, Step], bool] = field(repr=False)
    sql: str = field(repr=False)


def _elsewhere(session: SessionState, step: Step) -> bool:
    return any(one is not None and one.connection is not step.connection for one in (session.last, session.opening))


def _overlaps(session: SessionState, step: Step) -> bool:
    return any(other.connection is not step.connection for other in session.overlapping)


#: Every step.
ALWAYS: Final = Trigger("always", lambda _session, _step: True, "true")
#: Steps whose epoch was not the one due: never on the fast path.
NOT_DUE: Final = Trigger("not due", lambda _session, _step: False, "false")
#: The step behind a refusal.
AFTER_REFUSAL: Final = Trigger("after a refusal", lambda session, step: session.last is not _before(session, step), "false")
ELSEWHERE: Final = Trigger("on another connection", _elsewhere, "elsewhere")
OVERLAPS: Final = Trigger("while another request is open", _overlaps, "elsewhere")
FORGETS: Final = Trigger("forgets partitions", lambda _session, step: bool(step.forgotten), "forgotten")
REPEATS: Final = Trigger("lists a partition twice", lambda _session, step: len(step.listed) > 1 and bool(step.duplicates), "repeats")
ACKNOWLEDGED_ONLY: Final = Trigger(
    "holds partitions that were listed to acknowledge alone",
    lambda session, _step: bool(session.in_flight.acknowledged_only),
    "acknowledges_alone",
)


def _before(session: SessionState, step: Step) -> Step | None:
    trace = session.here.get(step.connection.flow.id)
    return None if trace is None else trace.last
