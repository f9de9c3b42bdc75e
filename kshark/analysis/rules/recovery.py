"""Behaviour of a client after a refusal, and how often it opens sessions. Rules 29, 30, 38 and 39."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, Argument, at_most
from kshark.analysis.facts.bases import ANSWER_RECEIVED, AT_MOST, NO_CONNECTION
from kshark.analysis.facts.calls import (
    ACCEPTED,
    FAILED_LATER,
    INITIAL,
    NEED_A_NEW_SESSION,
    REFUSALS,
    SUBSEQUENT,
    EpochKind,
)
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import AFTER_REFUSAL, NOT_PLAIN, TROUBLES
from kshark.analysis.states.session.situation import SessionSituation, continues_from
from kshark.analysis.states.session.state import FLAPPING, LOOP
from kshark.analysis.states.tables import SESSION
from kshark.analysis.states.tables.session import ABSENT

#: A client that sends its next request within this time did not pause. Kafka: retry.backoff.ms is 100.
_BACKOFF_NS: Final = 100_000_000


def reopened(situation: SessionSituation) -> Argument | None:
    """The new session replaces the old one. The records that the member acquired in it stay locked."""
    step, anchor = situation.step, situation.session.anchor
    if not step.opens or anchor is None or not situation.met or any(state.due == ABSENT for state in situation.met):
        return None
    return Argument(f"{anchor.story}; {step.story}{step.on(anchor)} while that session was open", (anchor, step))


def flapping(situation: SessionSituation) -> Argument | None:
    """Sessions are opened or refused again and again."""
    step, session = situation.step, situation.session
    if not step.is_trouble or step.time_ns < session.quiet_until or session.recent_troubles(step) < FLAPPING:
        return None
    text = f"{step.story}: {session.recent_troubles(step)} sessions opened or refused within a minute"
    return Argument(text, (step,), EXCHANGE)


def did_not_reopen(situation: SessionSituation) -> Argument | None:
    """After 122, 123 or 133 the client continues instead of opening a new session.

    It is proved if the next request comes at once, with the refused epoch or the next one, and is refused again: the
    client waited for no new session on any connection. Otherwise the client may have opened one that the capture does
    not hold.
    """
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
        needs, grounds = EXCHANGE.after(before), (at_most(_BACKOFF_NS, before.ended, step),)
        return Argument(text, (before, step), needs, grounds=grounds)
    if initial is not None and initial.packet > before.end:
        return None
    return Argument(text, (before, step), ABSENCE.after(before))


def reopened_in_a_loop(situation: SessionSituation) -> Argument | None:
    """Sessions are opened several times, each right after the request before.

    A broker that has no room delays its answer: that counts as a pause too. A request that was sent before that answer
    may have been delayed by the network.
    """
    step = situation.step
    loop = (*(situation.here.openings if situation.here is not None else ()), step)[-LOOP:]
    if not step.opens or len(loop) < LOOP:
        return None
    if any(
        opening.answer is None or opening.end > following.packet or following.time_ns - opening.time_ns >= _BACKOFF_NS
        for opening, following in pairwise(loop)
    ):
        return None
    text = "; ".join(opening.story for opening in loop)
    grounds = [at_most(_BACKOFF_NS, opening.sent, following) for opening, following in pairwise(loop)]
    return Argument(f"{text}: each opened right after the one before", loop, EXCHANGE, grounds=grounds)


ROWS: Final = (
    Rule(
        number=29,
        code="SESSION_REOPEN",
        text="A member sends epoch 0 while its session is open. Its acquired records stay locked.",
        advice="Before opening a new session, close the old one with epoch -1 or acknowledge its records: they stay "
        "locked.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0; ShareAcknowledge epoch "
        "-1 → 0; ShareFetch epoch 0 → 0",
        source="Kafka: SharePartitionManager",
        rests_on=(NO_CONNECTION,),
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(Check(reopened, (INITIAL,), (ACCEPTED, FAILED_LATER), trigger=NOT_PLAIN),),
    ),
    Rule(
        number=30,
        code="SESSION_FLAPPING",
        text="Many sessions were opened or refused within a minute.",
        advice="Look for the cause in the findings around this one. Clients since 4.4 log these errors only at DEBUG.",
        wrong="ShareFetch epoch 0 → 0; 1000 ms later; ShareFetch epoch 0 → 0; 1000 ms later; ShareFetch epoch 0 → 0; "
        "1000 ms later; ShareFetch epoch 0 → 0; 1000 ms later; ShareFetch epoch 0 → 0; 1000 ms later; "
        "ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0",
        source="Kafka: ShareSessionHandler",
        rests_on=(AT_MOST,),
        tickets=("KAFKA-20720",),
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(
            Check(flapping, (INITIAL,), trigger=TROUBLES),
            Check(flapping, tuple(kind for kind in EpochKind if kind is not INITIAL), tuple(REFUSALS), TROUBLES),
        ),
    ),
    Rule(
        number=38,
        code="NO_RECOVERY",
        text="After error 122, 123 or 133 the client continued instead of opening a new session.",
        act="continued its share session after a refusal that asks for a new one",
        weight=45,
        must="The next request after error 122, 123 or 133 is a ShareFetch with epoch 0.",
        advice="Drop the session after these errors and open a new one. Acknowledgements that were not sent are lost: "
        "the records are delivered again.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 3 → 123; ShareFetch epoch 4 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 3 → 123; ShareFetch epoch 0 → 0",
        provoked_by="Fill the session cache (group.share.max.share.sessions), or restart the broker, while the client "
        "fetches.",
        source="KIP-932; Kafka: ShareSessionHandler",
        rests_on=(AT_MOST, NO_CONNECTION, ANSWER_RECEIVED),
        tickets=("KAFKA-18164",),
        at="request",
        machine=SESSION,
        checks=(Check(did_not_reopen, (SUBSEQUENT,), trigger=AFTER_REFUSAL),),
    ),
    Rule(
        number=39,
        code="REOPEN_HOT_LOOP",
        text="A client opens sessions one after another without a pause.",
        act="opened share sessions one after another without a pause",
        weight=44,
        must="A client pauses before it opens a session again (retry.backoff.ms, 100).",
        advice="Pause before opening a session again, each time longer.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 0 → 0; ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0; 100 ms later; ShareFetch epoch 0 → 0; 200 ms later; ShareFetch epoch 0 → 0",
        source="Kafka: ShareSessionHandler",
        rests_on=(AT_MOST, ANSWER_RECEIVED),
        at="request",
        machine=SESSION,
        checks=(Check(reopened_in_a_loop, (INITIAL,), trigger=NOT_PLAIN),),
    ),
)
