"""Premises: conditions on a step under which it tests a rule, for rules that not every step tests.

Each is a function of the situation. Those of session steps read only `session` (before the step) and `step`.
"""

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
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, LEAVE_GROUP

# -- sessions


def _before_here(situation: Any) -> ShareStep | None:
    """Return the request before this one on the same connection."""
    trace = situation.session.here.get(situation.step.connection.flow.id)
    return None if trace is None else trace.last


def after_refusal(situation: Any) -> bool:
    before = _before_here(situation)
    return before is not None and before.reply in NEED_A_NEW_SESSION


def after_error(situation: Any) -> bool:
    before = _before_here(situation)
    return before is not None and before.kind is SUBSEQUENT and before.reply in (REJECTED_EARLY, UNCLEAR)


def after_final(situation: Any) -> bool:
    last = situation.session.last
    return last is not None and last.kind is FINAL


def after_last_epoch(situation: Any) -> bool:
    last = situation.session.last
    return last is not None and last.epoch == LAST_EPOCH and situation.step.kind is SUBSEQUENT


def lets_go(situation: Any) -> bool:
    opening = situation.session.opening
    return situation.end.by == "client" and opening is not None and opening.connection is situation.connection


def not_crossed_yet(situation: Any) -> bool:
    """True if the rule has not reported this connection yet: it reports each connection once."""
    return situation.step.kind is SUBSEQUENT and situation.step.connection.flow.id not in situation.session.crossed


def troubles(situation: Any) -> bool:
    """True if the rule may report: it reports once a minute."""
    return bool(situation.step.is_trouble and situation.step.time_ns >= situation.session.quiet_until)


def asks_for_partitions(situation: Any) -> bool:
    return bool(situation.step.is_fetch and situation.step.asked_for and situation.session.member.assignments)


def continues_after_opening(situation: Any) -> bool:
    opening = situation.session.opening
    return bool(
        situation.step.is_fetch
        and opening is not None
        and situation.session.last is opening
        and situation.session.member.assignments
    )


def of_other_api(situation: Any) -> bool:
    step, last = situation.step, situation.session.last
    return last is not None and last.api_key != step.api_key and last.kind is SUBSEQUENT is step.kind


def forgets(situation: Any) -> bool:
    return bool(situation.step.forgotten)


def lists_several(situation: Any) -> bool:
    return len(situation.step.listed) > 1


def holds_acknowledged_only(situation: Any) -> bool:
    return bool(situation.session.in_flight.acknowledged_only)


# -- acknowledgements


def applied(situation: Any) -> bool:
    return bool(situation.error == 0)


def stored(situation: Any) -> bool:
    return bool(situation.asked.error == 0 and situation.persisting.changes)


def takes_at_most(situation: Any) -> bool:
    return situation.step.most_records is not None


def renews(situation: Any) -> bool:
    return any(run.type == RENEW for run in situation.runs)


# -- members


def not_late_yet(situation: Any) -> bool:
    """True if the rule may report: it reports once until a heartbeat is in time again."""
    step, last = situation.step, situation.member.last
    return step.kind is SUBSEQUENT and not (step.late and last is not None and last.late)


def given_newer(situation: Any) -> bool:
    last = situation.member.last
    return last is not None and last.given is not None and last.given > last.epoch


def removed_from_group(situation: Any) -> bool:
    before = situation.before_here
    return before is not None and before.reply in OUT


def joins_again(situation: Any) -> bool:
    return situation.step.kind is INITIAL and situation.member.last is not None


def names_topics(situation: Any) -> bool:
    return situation.step.kind is INITIAL or situation.step.topics is not None


def settles(situation: Any) -> bool:
    return bool(situation.step.kind is SUBSEQUENT and situation.member.settles(situation.step))


# -- generations


def has_its_generation(situation: Any) -> bool:
    """True if a member of a classic group uses the generation of its last JoinGroup answer."""
    return situation.step.api_key != LEAVE_GROUP and _has_newest(situation, JOIN_GROUP)


def has_its_member_epoch(situation: Any) -> bool:
    """True if a request has the member epoch of the last answer to a heartbeat."""
    return _has_newest(situation, CONSUMER_GROUP_HEARTBEAT)


def _has_newest(situation: Any, given_by: int) -> bool:
    newest = situation.member.newest
    return newest is not None and newest.api_key == given_by and situation.step.epoch == newest.given


def has_its_instance(situation: Any) -> bool:
    """True if the member that joined with an instance id uses it."""
    holder = None if situation.instance is None else situation.instance.holder
    return holder is not None and holder.member_id == situation.step.member_id


# -- stored state


def stores_first(situation: Any) -> bool:
    """True at a leader's first Write, and at the first one since it has read."""
    sender = situation.stored.sender(situation.step)
    before, read = sender.write, sender.read
    return (
        before is None
        or not before.is_same_leader(situation.step)
        or (read is not None and read.packet > before.packet)
    )


# -- any


def never_tested(_: Any) -> bool:
    return False
