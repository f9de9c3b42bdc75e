"""Triggers: what has to be so about a step for a rule to be looked at. Each is told twice, for the session machine and for Spark's screen.

A step at which no trigger of its rules holds takes the fast path; a member without such a step passes the screen unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Trigger:
    """`sql` is an expression over the columns of spark_analysis.screen; `python` one over `session` (its state before the step) and `step`.

    Where `python` is empty the fast path asks for the contrary anyhow (kshark.analysis.fast_path).
    """

    name: str
    sql: str = field(repr=False)
    python: str = field(repr=False, default="")


def compiled(triggers: Iterable[Trigger]) -> Callable[[Any, Any], object]:
    """A function of session and step that says whether any of them holds."""
    told = " or ".join(trigger.python for trigger in triggers if trigger.python)
    test: Callable[[Any, Any], object] = eval(f"lambda session, step: {told or False}")
    return test


#: Every step.
ALWAYS: Final = Trigger("always", "true", "True")
#: Steps whose epoch was not the one due.
NOT_DUE: Final = Trigger("not due", "false")
#: The step behind a refusal.
AFTER_REFUSAL: Final = Trigger("after a refusal", "false")
ELSEWHERE: Final = Trigger("on another connection", "elsewhere")
OVERLAPS: Final = Trigger("while another request is open", "elsewhere")
FORGETS: Final = Trigger("forgets partitions", "forgotten", "step.forgotten")
REPEATS: Final = Trigger("lists a partition twice", "repeats", "(len(step.listed) > 1 and step.duplicates)")
ACKNOWLEDGED_ONLY: Final = Trigger(
    "holds partitions that were listed to acknowledge alone",
    "acknowledges_alone",
    "session.in_flight.acknowledged_only",
)
