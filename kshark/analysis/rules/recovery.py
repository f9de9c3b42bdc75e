"""What a client does after a refusal, and how often it opens sessions. Rules 29, 30, 38 and 39."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, Argument
from kshark.analysis.facts.calls import (
    ACCEPTED,
    FAILED_LATER,
    INITIAL,
    NEED_A_NEW_SESSION,
    REFUSALS,
    SUBSEQUENT,
    Kind,
)
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import AFTER_REFUSAL, NOT_PLAIN, TROUBLES
from kshark.analysis.states.session.situation import Situation, continues_from
from kshark.analysis.states.session.state import FLAPPING, LOOP
from kshark.analysis.states.tables import SESSION
from kshark.analysis.states.tables.session import ABSENT

#: A request that follows the one before within this time did not back off. Kafka: retry.backoff.ms is 100.
_BACKOFF_NS: Final = 100_000_000


def reopened(situation: Situation) -> Argument | None:
    """The old session is replaced; what the member had acquired in it stays locked."""
    step, anchor = situation.step, situation.session.anchor
    if not step.opens or anchor is None or not situation.met or any(state.due == ABSENT for state in situation.met):
        return None
    return Argument(f"{anchor.story}; {step.story}{step.on(anchor)} while that session was open", (anchor, step))


def flapping(situation: Situation) -> Argument | None:
    """Opened or refused again and again."""
    step, session = situation.step, situation.session
    if not step.is_trouble or step.time_ns < session.quiet_until or session.recent_troubles(step) < FLAPPING:
        return None
    text = f"{step.story}: {session.recent_troubles(step)} sessions opened or refused within a minute"
    return Argument(text, (step,), EXCHANGE)


def did_not_reopen(situation: Situation) -> Argument | None:
    """Refused with 122, 123 or 133, the client goes on instead of opening a new session.

    At once, with the refused epoch or the next, and refused again: whatever other connections carried, this one waited
    for no new session. Otherwise one may have been opened in between where the capture does not see it."""
    step, before, initial = situation.step, situation.before_here, situation.session.initial
    if before is None or before.reply not in NEED_A_NEW_SESSION or before.end >= step.packet or before.epoch < 0:
        return None
    if before.kind is INITIAL and not before.opens:
        return None
    text = f"{before.story}; {step.story} instead of opening a new session"
    if (
        step.refused
        and step.epoch > 1
        and continues_from(step.epoch, before.epoch)
        and step.time_ns - before.end_ns < _BACKOFF_NS
    ):
        return Argument(text, (before, step), EXCHANGE)
    return None if initial is not None and initial.packet > before.end else Argument(text, (before, step), ABSENCE)


def reopened_in_a_loop(situation: Situation) -> Argument | None:
    """Opened again right behind the request before, several times. A broker without room delays its answer: that is a
    pause too."""
    step = situation.step
    loop = (*(situation.here.openings if situation.here is not None else ()), step)[-LOOP:]
    if not step.opens or len(loop) < LOOP:
        return None
    if any(one.answer is None or two.time_ns - one.time_ns >= _BACKOFF_NS for one, two in pairwise(loop)):
        return None
    text = "; ".join(one.story for one in loop)
    return Argument(f"{text}: each at once behind the one before", loop, EXCHANGE)


ROWS: Final = (
    Rule(
        number=29,
        code="SESSION_REOPEN",
        text="Epoch 0 while a session is open; what the member had acquired stays locked.",
        advice="Close a session by epoch -1 before the next is opened, or acknowledge what was acquired in it: that "
        "stays locked.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; ShareAcknowledge epoch "
        "-1 → 0; ShareFetch epoch 0 → 0",
        source="Kafka: SharePartitionManager",
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(Check(reopened, (INITIAL,), (ACCEPTED, FAILED_LATER), trigger=NOT_PLAIN),),
    ),
    Rule(
        number=30,
        code="SESSION_FLAPPING",
        text="Many sessions opened or refused within a minute.",
        advice="Look what ends the sessions, in the findings around this one. Clients since 4.4 log these errors at "
        "DEBUG only.",
        wrong="ShareFetch epoch 0 → 0; 1000 ms later; ShareFetch epoch 0 → 0; 1000 ms later; ShareFetch epoch 0 → 0; "
        "1000 ms later; ShareFetch epoch 0 → 0; 1000 ms later; ShareFetch epoch 0 → 0; 1000 ms later; "
        "ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0",
        source="Kafka: ShareSessionHandler",
        tickets=("KAFKA-20720",),
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(
            Check(flapping, (INITIAL,), trigger=TROUBLES),
            Check(flapping, tuple(kind for kind in Kind if kind is not INITIAL), tuple(REFUSALS), TROUBLES),
        ),
    ),
    Rule(
        number=38,
        code="NO_RECOVERY",
        text="After 122, 123 or 133 the client went on instead of opening a new session.",
        must="After 122, 123 or 133 the next request is a ShareFetch with epoch 0.",
        advice="Drop the session on these errors and open a new one. What was to be acknowledged is lost: the records "
        "come again.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 3 → 123; ShareFetch epoch 4 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 3 → 123; ShareFetch epoch 0 → 0",
        source="KIP-932; Kafka: ShareSessionHandler",
        tickets=("KAFKA-18164",),
        at="request",
        machine=SESSION,
        checks=(Check(did_not_reopen, (SUBSEQUENT,), trigger=AFTER_REFUSAL),),
    ),
    Rule(
        number=39,
        code="REOPEN_HOT_LOOP",
        text="Sessions are opened one after the other without a pause.",
        must="Before a session is opened once more the client pauses (retry.backoff.ms, 100).",
        advice="Pause before a session is opened again, each time longer.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 0 → 0; ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0; 100 ms later; ShareFetch epoch 0 → 0; 200 ms later; ShareFetch epoch 0 → 0",
        source="Kafka: ShareSessionHandler",
        at="request",
        machine=SESSION,
        checks=(Check(reopened_in_a_loop, (INITIAL,), trigger=NOT_PLAIN),),
    ),
)
