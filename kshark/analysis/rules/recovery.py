"""What a client does after a refusal, and how often it opens sessions. Rules 29, 30, 38 and 39."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from kshark.analysis.evidence import Argument, Needs
from kshark.analysis.memory import FLAPPING, LOOP, Situation
from kshark.analysis.rules.registry import rule
from kshark.analysis.steps import Kind, Reply, next_epoch
from kshark.analysis.table import ABSENT

#: An opening that follows the answer to the one before within this time did not back off. Kafka: retry.backoff.ms is 100.
_BACKOFF_NS: Final = 100_000_000
#: Answers after which only an epoch 0 goes on.
_NEED_A_NEW_SESSION: Final = frozenset({Reply.NO_SESSION, Reply.OTHER_EPOCH, Reply.NO_ROOM})


@rule("SESSION_REOPEN", kinds=(Kind.INITIAL,), replies=(Reply.TAKEN,))
def reopened(now: Situation) -> Argument | None:
    """The old session is replaced; what the member had acquired in it stays locked."""
    step, memory = now.step, now.memory
    if not step.opens or memory.anchor is None:
        return None
    if not now.expected or ABSENT in now.expected:
        return None
    return Argument(f"{memory.anchor.story}; {step.story}{step.on(memory.anchor)} while that session was open", (memory.anchor, step))


@rule("SESSION_FLAPPING")
def flapping(now: Situation) -> Argument | None:
    """Opened or refused again and again."""
    step, memory = now.step, now.memory
    if not step.is_trouble or step.time_ns < memory.quiet_until or memory.recent_troubles(step) < FLAPPING:
        return None
    text = f"{step.story}: {memory.recent_troubles(step)} sessions opened or refused within a minute"
    return Argument(text, (step,), Needs.EXCHANGE)


@rule("NO_RECOVERY", kinds=(Kind.SUBSEQUENT,))
def went_on(now: Situation) -> Argument | None:
    """Refused with 122, 123 or 133, the client goes on instead of opening a new session."""
    step, before = now.step, now.before_here
    if before is None or before.reply not in _NEED_A_NEW_SESSION or before.end >= step.packet:
        return None
    if now.memory.initial is not None and now.memory.initial.packet > before.end:
        return None
    text = f"{before.story}; {step.story} instead of opening a new session"
    return Argument(text, (before, step), _needed(now, before.epoch))


def _needed(now: Situation, refused: int) -> Needs:
    """Could an opening that the capture does not hold explain the answer as well?"""
    step = now.step
    match step.reply:
        case Reply.OTHER_EPOCH:
            return Needs.STATE
        case Reply.NO_SESSION:
            return Needs.STATE if step.epoch in (refused, next_epoch(refused)) else Needs.ABSENCE
        case Reply.TAKEN:
            return Needs.STATE if step.epoch > 1 else Needs.ABSENCE
        case _:
            return Needs.ABSENCE


@rule("REOPEN_HOT_LOOP", kinds=(Kind.INITIAL,))
def looped(now: Situation) -> Argument | None:
    """Opened again right behind the answer, several times."""
    step = now.step
    loop = (*(now.here.openings if now.here is not None else ()), step)[-LOOP:]
    if not step.opens or len(loop) < LOOP:
        return None
    if any(one.answer is None or two.time_ns - one.answer.time_ns >= _BACKOFF_NS for one, two in pairwise(loop)):
        return None
    text = "; ".join(one.story for one in loop)
    return Argument(f"{text}: each at once behind the answer before", loop, Needs.EXCHANGE)
