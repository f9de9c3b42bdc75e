"""Premises: what has to be so for a step to put a rule to the test, where not every step does that the rule could look
at.

Each is a function of the situation; those of steps of sessions ask for nothing but its `session` (before the step) and
its `step`."""

from __future__ import annotations

from typing import Any

from kshark.analysis.facts.calls import (
    FINAL,
    INITIAL,
    LAST_EPOCH,
    NEED_A_NEW_SESSION,
    REJECTED_EARLY,
    SUBSEQUENT,
    UNCLEAR,
    ShareStep,
)
from kshark.analysis.facts.heartbeats import OUT
from kshark.analysis.states.tables.in_flight import RENEW

# -- sessions


def _before_here(now: Any) -> ShareStep | None:
    """The request before this one on the same connection."""
    trace = now.session.here.get(now.step.connection.flow.id)
    return None if trace is None else trace.last


def after_refusal(now: Any) -> bool:
    before = _before_here(now)
    return before is not None and before.reply in NEED_A_NEW_SESSION


def after_error(now: Any) -> bool:
    before = _before_here(now)
    return before is not None and before.kind is SUBSEQUENT and before.reply in (REJECTED_EARLY, UNCLEAR)


def after_final(now: Any) -> bool:
    last = now.session.last
    return last is not None and last.kind is FINAL


def after_last_epoch(now: Any) -> bool:
    last = now.session.last
    return last is not None and last.epoch == LAST_EPOCH and now.step.kind is SUBSEQUENT


def lets_go(now: Any) -> bool:
    opening = now.session.opening
    return now.end.by == "client" and opening is not None and opening.connection is now.connection


def not_crossed_yet(now: Any) -> bool:
    """Of each connection it is told once."""
    return now.step.kind is SUBSEQUENT and now.step.connection.flow.id not in now.session.crossed


def troubles(now: Any) -> bool:
    """Within a minute it is told once."""
    return bool(now.step.is_trouble and now.step.time_ns >= now.session.quiet_until)


def asks_for_partitions(now: Any) -> bool:
    return bool(now.step.is_fetch and now.step.asked_for and now.session.member.assignments)


def continues_after_opening(now: Any) -> bool:
    opening = now.session.opening
    return bool(
        now.step.is_fetch and opening is not None and now.session.last is opening and now.session.member.assignments
    )


def of_other_api(now: Any) -> bool:
    step, last = now.step, now.session.last
    return last is not None and last.api_key != step.api_key and last.kind is SUBSEQUENT is step.kind


def forgets(now: Any) -> bool:
    return bool(now.step.forgotten)


def lists_several(now: Any) -> bool:
    return len(now.step.listed) > 1


def holds_acknowledged_only(now: Any) -> bool:
    return bool(now.session.in_flight.acknowledged_only)


# -- acknowledgements


def taken(now: Any) -> bool:
    return bool(now.error == 0)


def stored(now: Any) -> bool:
    return bool(now.asked.error == 0 and now.persisting.changes)


def takes_at_most(now: Any) -> bool:
    return now.step.most_records is not None


def renews(now: Any) -> bool:
    return any(run.type == RENEW for run in now.runs)


# -- members


def not_late_yet(now: Any) -> bool:
    """Until a heartbeat is in time again it is told once."""
    step, last = now.step, now.member.last
    return step.kind is SUBSEQUENT and not (step.late and last is not None and last.late)


def given_newer(now: Any) -> bool:
    last = now.member.last
    return last is not None and last.given is not None and last.given > last.epoch


def removed_from_group(now: Any) -> bool:
    before = now.before_here
    return before is not None and before.reply in OUT


def joins_again(now: Any) -> bool:
    return now.step.kind is INITIAL and now.member.last is not None


def names_topics(now: Any) -> bool:
    return now.step.kind is INITIAL or now.step.topics is not None


def settles(now: Any) -> bool:
    return bool(now.step.kind is SUBSEQUENT and now.member.settles(now.step))


# -- stored state


def stores_first(now: Any) -> bool:
    """A leader's first Write, or the first since it has read."""
    sender = now.stored.sender(now.step)
    before, read = sender.write, sender.read
    return before is None or not before.is_same_leader(now.step) or (read is not None and read.packet > before.packet)


# -- any


def untold(_: Any) -> bool:
    return False
