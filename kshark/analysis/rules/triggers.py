"""Triggers: what has to be so about a step for a rule to be looked at. Each is told twice, for the session machine and
for Spark's screen.

A step takes the fast path only if the machine calls it plain and every check of that machine declares by its trigger
that it is not concerned. A member without other steps passes Spark's screen; a check that declares nothing (ALWAYS)
lets nobody pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from kshark.analysis.rules import premises


class Trigger(Struct, frozen=True):
    """`sql` is an expression over the columns of kshark_spark.screen.sessions; `python` one over `session` (its state
    before the step) and `step`.

    Where `python` is empty the fast path asks for the contrary anyhow (kshark.analysis.states.session.plain).
    `premise`: whether a situation puts its rules to the test (kshark.analysis.runners.coverage); None: each one does.
    `sign`: of situations of records, the bit that stands for it (kshark.analysis.runners.plain_records); 0: such a rule
    is looked at in every one."""

    name: str
    sql: str = "false"
    python: str = ""
    premise: Callable[[Any], object] | None = None
    sign: int = 0


def compiled(triggers: Iterable[Trigger]) -> Callable[[Any, Any], object]:
    """A function of session and step that says whether any of them holds."""
    told = " or ".join(trigger.python for trigger in triggers if trigger.python)
    test: Callable[[Any, Any], object] = eval(f"lambda session, step: {told or False}")
    return test


#: Every step, plain ones too. This is the default: who declares nothing is asked about everything, on every engine.
ALWAYS: Final = Trigger("always", "true", "True")
#: Every step but plain ones: those that the machine itself calls plain do not concern the rule.
NOT_PLAIN: Final = Trigger("any step that is not plain")
#: Steps whose epoch was not the one due.
NOT_DUE: Final = Trigger("not due")
#: The step behind a refusal.
AFTER_REFUSAL: Final = Trigger("after a refusal", premise=premises.after_refusal)
ELSEWHERE: Final = Trigger("on another connection", "elsewhere", premise=premises.not_crossed_yet)
OVERLAPS: Final = Trigger("while another request is open", "elsewhere")
FORGETS: Final = Trigger("forgets partitions", "forgotten", "step.forgotten", premises.forgets)
REPEATS: Final = Trigger(
    "lists a partition twice", "repeats", "(len(step.listed) > 1 and step.duplicates)", premises.lists_several
)
#: Spark looks at what heartbeats tell in kshark_spark.screen.heartbeats.
DEPARTED: Final = Trigger("of a member that left", "false", "session.member.departure", premises.untold)
ASSIGNED: Final = Trigger(
    "asks for partitions, and knows which are its own",
    "false",
    "(step.listed and session.member.assignments and step.asked_for)",
    premises.asks_for_partitions,
)
OPENED: Final = Trigger(
    "goes on behind its opening, which had partitions that are not its own",
    "false",
    "(step.epoch == 1 and session.member.lacks(session.in_flight.partitions))",
    premises.goes_on_behind_its_opening,
)
ACKNOWLEDGED_ONLY: Final = Trigger(
    "holds partitions that were listed to acknowledge alone",
    "acknowledges_alone",
    "session.in_flight.acknowledged_only",
    premises.holds_acknowledged_only,
)
# Of refusals, and of steps of other machines, no step of the fast path is one.
AFTER_ERROR: Final = Trigger("after a request that did not reach the session", premise=premises.after_error)
AFTER_FINAL: Final = Trigger("after the session was closed", premise=premises.after_final)
AFTER_LAST_EPOCH: Final = Trigger("after the highest epoch", premise=premises.after_last_epoch)
LETS_GO: Final = Trigger("the client ends the connection that opened the session", premise=premises.lets_go)
TROUBLES: Final = Trigger("opens, or is refused, and nothing was said of that of late", premise=premises.troubles)
OTHER_API: Final = Trigger("a fetch after an acknowledgement, or the other way round", premise=premises.of_other_api)
# What is odd about acknowledgements.
NOT_HELD: Final = Trigger("acknowledges what its member may not have", premise=premises.taken, sign=1)
LOST_MEANWHILE: Final = Trigger("acknowledges what its member may have lost meanwhile", sign=1)
PASSES_OVER: Final = Trigger("passes over offsets", premise=premises.taken, sign=2)
LACKING: Final = Trigger("acknowledges offsets without a record", premise=premises.taken, sign=4)
AHEAD: Final = Trigger("was sent before the last records were handed out", sign=8)
REFUSED_BEFORE: Final = Trigger("acknowledges what others were refused, and had before", sign=16)
MANY_BACK: Final = Trigger("gives back or rejects many records", sign=32)
NOT_TAKEN: Final = Trigger("was not taken", sign=64)
# What is odd about records that are handed out.
UNDUE: Final = Trigger("is handed records that were not due, or with another number", sign=1)
AGAIN: Final = Trigger("is handed records as nobody gave them back", sign=2)
DISORDERED: Final = Trigger("is handed ranges that do not follow each other, or what is done with", sign=4)
OUT_OF_REACH: Final = Trigger("is handed offsets that its records do not reach", sign=8)
ANEW: Final = Trigger("is handed the first records since all began anew", sign=16)
GIVEN_UP: Final = Trigger("is handed records that show others to be given up", sign=32)
RELOCKED: Final = Trigger("is handed records with locks that last otherwise than before", sign=64)
STORED: Final = Trigger("acknowledgements were taken, and what their leader stores is seen", premise=premises.stored)
LIMITED: Final = Trigger("takes so many records at most", premise=premises.takes_at_most, sign=128)
REACHED: Final = Trigger("is handed records again that an answer before did not reach, or not all of them", sign=256)
RENEWS: Final = Trigger("renews locks", premise=premises.renews)
FIRST_WRITE: Final = Trigger("the first that a leader stores", premise=premises.stores_first)
NOT_LATE_YET: Final = Trigger("not late, or for the first time", premise=premises.not_late_yet)
GIVEN_NEWER: Final = Trigger("after a newer member epoch was given", premise=premises.given_newer)
TOLD_OUT: Final = Trigger("after a member was told that it is out", premise=premises.told_out)
JOINS_AGAIN: Final = Trigger("joins again", premise=premises.joins_again)
TELLS_TOPICS: Final = Trigger("tells its topics", premise=premises.tells_topics)
SETTLES: Final = Trigger("has had its assignment long enough", premise=premises.settles)
#: What is accepted does not tell that it might have been refused for that.
UNTOLD: Final = Trigger("not told by what is accepted", premise=premises.untold)
