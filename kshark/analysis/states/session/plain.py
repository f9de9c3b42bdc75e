"""The fast path for most steps: the due request, on the same connection, accepted, with all traffic around it seen.

No rule needs such a step (the rows' triggers decide this), and its effect is fixed, so no situation is created. The
exact path gives the same result (`Analyzer(exact=True)` uses only that one; tests compare both).
"""

from __future__ import annotations

from collections.abc import Sequence

from kshark.analysis.facts.calls import ACCEPTED, SUBSEQUENT, ShareStep, next_epoch
from kshark.analysis.states.session.state import Branch, PossibleState, SessionState


def is_plain(session: SessionState, step: ShareStep, later: Sequence[ShareStep]) -> bool:
    """True if the epoch was the only possible one, the step before was accepted, and every byte of both was seen.

    `later`: requests that were sent before the step's answer.
    """
    last, branches, overlapping = session.last, session.branches, session.overlapping
    return (
        step.reply is ACCEPTED
        and step.kind is SUBSEQUENT
        # Its epoch was due, and no other.
        and branches is not None
        and len(branches) == 1
        and branches[0].state.due == step.epoch
        and not branches[0].early
        # The step before it was accepted too, on the same connection, and had its answer.
        and last is not None
        and last.connection is step.connection
        and last.version == step.version
        and len(overlapping) == 1
        and overlapping[0] is last
        and session.unanswered is None
        and last.end < step.packet
        # No other connection was used before this step's answer.
        and (not later or all(other.connection is step.connection for other in later))
        # Every byte was seen.
        and step.any_doubt is None
        and session.missing_before(step) is None
    )


def advance(session: SessionState, step: ShareStep) -> None:
    """Advance the session by one epoch. These are the only changes that `SessionState.remember` would make."""
    (branch,) = session.branches or ()
    state = branch.state
    session.branches = (Branch(PossibleState(next_epoch(step.epoch), state.opening, None, state.replaced)),)
    session.anchor = session.alive = session.last = step
    if step.is_fetch:
        session.last_fetch = step
    else:
        session.last_acknowledge = step
    session.count, session.ever_opened = step.epoch, True
    trace = session.here[step.connection.flow.id]
    trace.before, trace.last, trace.openings, trace.count = trace.last, step, (), step.epoch
    session.overlapping = (step,)
    if step.listed or (step.answer is not None and step.answer.acquired):
        session.in_flight.take(step, ACCEPTED)
        step.lighten()
