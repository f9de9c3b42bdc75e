"""One session on several connections: who used it, when, and what became of it. Rules 27, 32, 33 and 34."""

from __future__ import annotations

from kshark.analysis.evidence import Argument, Needs, StillOpen
from kshark.analysis.memory import Situation
from kshark.analysis.rules.registry import rule
from kshark.analysis.steps import Kind, Reply


@rule("FETCH_OVERTAKEN", kinds=(Kind.SUBSEQUENT,), replies=(Reply.OTHER_EPOCH,))
def overtaken(now: Situation) -> Argument | None:
    """Right when it arrived; another request moved the session on before it was answered."""
    step = now.step
    if now.overtaker is not None:
        ahead = now.overtaker
        text = f"{step.here} with epoch {step.epoch} was due and waited; {ahead.story} on {ahead.connection.client}; then {step.story}"
        return Argument(text, (*now.known, ahead, step), cause="overtaken")
    if now.expected is None or step.epoch not in now.expected or not now.rivals:
        return None
    rival = now.rivals[0]
    text = f"{step.here} with epoch {step.epoch} was due; {rival.story} on {rival.connection.client} at the same time; {step.story}"
    because = None if len(now.expected) == 1 else "unanswered"
    return Argument(text, (*now.known, rival, step), Needs.EXCHANGE, "concurrent_requests", because=because)


@rule("DUPLICATE_MEMBER", kinds=(Kind.SUBSEQUENT,), replies=(Reply.OTHER_EPOCH,))
def two_writers(now: Situation) -> Argument | None:
    """Another endpoint used the session since this one did last: two clients with one member id."""
    step, memory = now.step, now.memory
    last, here = memory.last, now.before_here
    if last is None or here is None or last.connection is step.connection or last.packet < here.packet:
        return None
    opening = memory.opening
    elsewhere = opening is not None and opening.connection is not step.connection and opening.packet > here.packet
    told = opening if elsewhere and opening is not None else last
    text = f"{here.story}; {told.story} on {told.connection.client}; {step.story} on {step.connection.client} again"
    return Argument(text, (here, told, step), cause="reopened_elsewhere" if elsewhere else "two_writers")


@rule("SESSION_CROSS_CONNECTION", kinds=(Kind.SUBSEQUENT,), replies=(Reply.TAKEN,))
def crossed(now: Situation) -> Argument | None:
    """The session is used on a connection that did not open it, and ends with the one that did (4.1 and later)."""
    step, opening = now.step, now.memory.opening
    if opening is None or opening.connection is step.connection:
        return None
    if step.connection.flow.id in now.memory.crossed:
        return None
    text = f"{opening.story} on {opening.connection.client}; {step.story} on {step.connection.client}"
    return Argument(text, (opening, step), noted=True)


@rule("CONCURRENT_SESSION_REQUESTS")
def concurrent(now: Situation) -> Argument | None:
    """Sent while another request of the session was open on another connection; on one connection they are handled in order."""
    step = now.step
    for other in now.memory.overlapping:
        if other.connection is step.connection or other.answer is None or not other.packet < step.packet < other.end:
            continue
        left = other.connection.client_fin
        if left is not None and left < step.packet:
            continue
        text = (
            f"{step.here} with epoch {step.epoch} was sent on {step.connection.client} (packet {step.packet}) while "
            f"{other.here} with epoch {other.epoch} was open on {other.connection.client} ({other.packets})"
        )
        return Argument(text, (other, step), Needs.EXCHANGE, still_open=StillOpen(other.connection, other.end))
    return None
