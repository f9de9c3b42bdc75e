"""Triggers: conditions on a step under which a rule looks at it. Each is written twice, for the session machine and
for Spark's screen.

A step takes the fast path only if the machine calls it plain, and every check of that machine declares by its trigger
that plain steps do not concern it. A member without other steps is left out by Spark's screen. A check without a
trigger (ALWAYS) keeps every member in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from kshark.analysis.rules import premises


class Trigger(Struct, frozen=True):
    """Condition on a step.

    `sql`: expression over the columns of kshark_spark.screen.sessions. `python`: expression over `session` (its state
    before the step) and `step`. If `python` is empty, the fast path excludes such steps anyway
    (kshark.analysis.states.session.plain).
    `premise`: true if a situation tests the rules (kshark.analysis.runners.coverage); None: every situation does.
    `sign`: bit of the trigger for situations of records (kshark.analysis.runners.plain_records); 0: the rule looks at
    all of them.
    """

    name: str
    sql: str = "false"
    python: str = ""
    premise: Callable[[Any], object] | None = None
    sign: int = 0


def compiled(triggers: Iterable[Trigger]) -> Callable[[Any, Any], object]:
    """Return a function of session and step that is true if any of the triggers holds."""
    source = " or ".join(trigger.python for trigger in triggers if trigger.python)
    test: Callable[[Any, Any], object] = eval(f"lambda session, step: {source or False}")
    return test


#: Every step, also plain ones. This is the default: a check without a trigger looks at every step, on every engine.
ALWAYS: Final = Trigger("always", "true", "True")
#: Every step except those that the machine itself calls plain.
NOT_PLAIN: Final = Trigger("any step that is not plain")
#: Steps whose epoch was not due.
NOT_DUE: Final = Trigger("not due")
#: The step after a refusal.
AFTER_REFUSAL: Final = Trigger("after a refusal", premise=premises.after_refusal)
ELSEWHERE: Final = Trigger("on another connection", "elsewhere", premise=premises.not_crossed_yet)
OVERLAPS: Final = Trigger("while another request is open", "elsewhere")
FORGETS: Final = Trigger("forgets partitions", "forgotten", "step.forgotten", premises.forgets)
REPEATS: Final = Trigger(
    "lists a partition twice", "repeats", "(len(step.listed) > 1 and step.duplicates)", premises.lists_several
)
#: Spark evaluates heartbeats in kshark_spark.screen.heartbeats.
DEPARTED: Final = Trigger("of a member that left its group", "false", "session.member.departure", premises.never_tested)
ASSIGNED: Final = Trigger(
    "asks for partitions, with an assignment",
    "false",
    "(step.listed and session.member.assignments and step.asked_for)",
    premises.asks_for_partitions,
)
OPENED: Final = Trigger(
    "follows an opening with partitions that are not assigned",
    "false",
    "(step.epoch == 1 and session.member.lacks(session.in_flight.partitions))",
    premises.continues_after_opening,
)
ACKNOWLEDGED_ONLY: Final = Trigger(
    "holds partitions that were listed only to acknowledge",
    "acknowledges_alone",
    "session.in_flight.acknowledged_only",
    premises.holds_acknowledged_only,
)
# Refusals and steps of other machines never take the fast path.
AFTER_ERROR: Final = Trigger("after a request that did not reach the session", premise=premises.after_error)
AFTER_FINAL: Final = Trigger("after the session was closed", premise=premises.after_final)
AFTER_LAST_EPOCH: Final = Trigger("after the highest epoch", premise=premises.after_last_epoch)
LETS_GO: Final = Trigger("the client closes the connection that opened the session", premise=premises.lets_go)
TROUBLES: Final = Trigger(
    "opens a session or is refused, and was not reported within a minute", premise=premises.troubles
)
OTHER_API: Final = Trigger("a fetch after an acknowledgement, or the reverse", premise=premises.of_other_api)
# Acknowledgements that need a look.
NOT_HELD: Final = Trigger("acknowledges records that its member may not hold", premise=premises.applied, sign=1)
LOST_MEANWHILE: Final = Trigger("acknowledges records that its member may have lost", sign=1)
PASSES_OVER: Final = Trigger("skips offsets", premise=premises.applied, sign=2)
LACKING: Final = Trigger("acknowledges offsets without a record", premise=premises.applied, sign=4)
AHEAD: Final = Trigger("was sent before the last records were delivered", sign=8)
REFUSED_BEFORE: Final = Trigger("acknowledges records that other members held, and were refused", sign=16)
MANY_BACK: Final = Trigger("releases or rejects many records", sign=32)
NOT_APPLIED: Final = Trigger("was not applied", sign=64)
# Acquired records that need a look.
UNDUE: Final = Trigger("receives records that were not due, or with another delivery count", sign=1)
AGAIN: Final = Trigger("receives records again that no member released", sign=2)
DISORDERED: Final = Trigger("receives ranges out of order, or finished records", sign=4)
OUT_OF_REACH: Final = Trigger("receives offsets outside its record batches", sign=8)
ANEW: Final = Trigger("receives the first records after a fresh start", sign=16)
GIVEN_UP: Final = Trigger("receives records that show that others were given up", sign=32)
RELOCKED: Final = Trigger("receives records with another lock duration than before", sign=64)
STORED: Final = Trigger(
    "acknowledgements were accepted, and the capture shows what their leader stores", premise=premises.stored
)
LIMITED: Final = Trigger("limits the number of records", premise=premises.takes_at_most, sign=128)
REACHED: Final = Trigger("receives offsets again whose records an earlier answer lacked", sign=256)
RENEWS: Final = Trigger("renews locks", premise=premises.renews)
FIRST_WRITE: Final = Trigger("the first Write of a leader", premise=premises.stores_first)
NOT_LATE_YET: Final = Trigger("not late, or for the first time", premise=premises.not_late_yet)
GIVEN_NEWER: Final = Trigger("after a newer member epoch was given", premise=premises.given_newer)
REMOVED_FROM_GROUP: Final = Trigger("after a member was removed from its group", premise=premises.removed_from_group)
JOINS_AGAIN: Final = Trigger("joins again", premise=premises.joins_again)
NAMES_TOPICS: Final = Trigger("sends its topics", premise=premises.names_topics)
OWN_GENERATION: Final = Trigger("uses the last generation that it was given", premise=premises.has_its_generation)
OWN_MEMBER_EPOCH: Final = Trigger("uses the last member epoch that it was given", premise=premises.has_its_member_epoch)
OWN_INSTANCE: Final = Trigger("uses the instance id with which it joined", premise=premises.has_its_instance)
SETTLES: Final = Trigger("has its assignment for long enough", premise=premises.settles)
#: Accepted steps do not test these rules: they do not show whether the broker could have refused them.
UNTESTED: Final = Trigger("not tested by accepted steps", premise=premises.never_tested)
