"""Why an epoch was refused with INVALID_SHARE_SESSION_EPOCH (123), as far as counting goes. Rules 18 to 23, 36, 37 and 42."""

from __future__ import annotations

from kshark.analysis.evidence import Argument, Needs
from kshark.analysis.memory import Situation
from kshark.analysis.rules.registry import rule
from kshark.analysis.steps import LAST_EPOCH, REFUSALS, Kind, Reply, next_epoch


def _due(now: Situation) -> str:
    """`exchange 17 (ShareFetch) used epoch 4 and was accepted (packets 88, 89), so 5 was due`."""
    known = now.memory.anchor
    return f"{known.story}{known.on(now.step)}, so {now.due} was due; {now.step.story}" if known is not None else now.step.story


@rule("EPOCH_NEGATIVE", kinds=(Kind.NEGATIVE,), replies=REFUSALS)
def negative(now: Situation) -> Argument | None:
    """Below -1 there is no epoch, whatever the state."""
    return Argument(f"{now.step.story}; no epoch is below -1", (now.step,), Needs.EXCHANGE, "negative")


@rule("ACK_WITH_INITIAL_EPOCH", kinds=(Kind.INITIAL,), replies=(Reply.OTHER_EPOCH,))
def acknowledged_at_zero(now: Situation) -> Argument | None:
    """Only a ShareFetch opens a session."""
    step = now.step
    if step.is_fetch:
        return None
    return Argument(f"{step.story}; a ShareAcknowledge cannot open a session", (step,), Needs.EXCHANGE, "ack_epoch_zero")


@rule("ADVANCED_AFTER_ERROR", kinds=(Kind.SUBSEQUENT,), replies=(Reply.OTHER_EPOCH,))
def counted_an_error(now: Situation) -> Argument | None:
    """The request before was refused without advancing the session, and was counted all the same."""
    step, before = now.step, now.before_here
    if before is None or before.kind is not Kind.SUBSEQUENT:
        return None
    if before.reply not in (Reply.UNTOUCHED, Reply.UNCLEAR) or next_epoch(before.epoch) != step.epoch:
        return None
    if any(due != before.epoch for due in now.agreeing):
        return None
    error = before.answer.error if before.answer is not None else None
    text = f"{before.story} (error {error}), so the session still expected {before.epoch}; {step.story}"
    return Argument(text, (*now.known, before, step), cause="skip_after_error")


@rule("TWO_COUNTERS", replies=(Reply.OTHER_EPOCH,))
def counted_apart(now: Situation) -> Argument | None:
    """Fetches and acknowledgements each go on from their own last epoch."""
    step, last, own = now.step, now.memory.last, now.memory.last_of(now.step.api_key)
    if last is None or own is None or last.api_key == step.api_key:
        return None
    if last.kind is not Kind.SUBSEQUENT or step.epoch != next_epoch(own.epoch) or step.epoch in now.agreeing:
        return None
    text = f"{own.story}; {last.story}; {step.story}: it goes on from {own.epoch}, though both kinds of request share one epoch"
    return Argument(text, (own, last, step), cause="two_counters")


@rule("EPOCH_WRAP_ERROR", kinds=(Kind.SUBSEQUENT,), replies=(Reply.OTHER_EPOCH,))
def wrapped(now: Situation) -> Argument | None:
    """After the highest epoch comes 1."""
    step, last = now.step, now.memory.last
    if last is None or last.epoch != LAST_EPOCH or now.all_agree("replay"):
        return None
    return Argument(f"{last.story}; the epoch after it is 1; {step.story}", (last, step), cause="wrap")


@rule("EPOCH_REPLAY", kinds=(Kind.SUBSEQUENT,), replies=(Reply.OTHER_EPOCH,))
def replayed(now: Situation) -> Argument | None:
    """The epoch that was just used, again."""
    step = now.step
    if not now.all_agree("replay"):
        return None
    lost = now.memory.unanswered
    if lost is not None and lost.epoch == step.epoch and lost is not now.memory.last:
        text = f"{lost.story}{lost.on(step)}, and was taken all the same: {step.story}"
        return Argument(text, (*now.known, lost, step), cause="replay", blame="network")
    return Argument(_due(now), (*now.known, step), cause="replay")


@rule("EPOCH_STALE", kinds=(Kind.SUBSEQUENT,), replies=(Reply.OTHER_EPOCH,))
def went_back(now: Situation) -> Argument | None:
    """An epoch from before the one that was just used."""
    if not now.all_agree("stale"):
        return None
    return Argument(_due(now), (*now.known, now.step), cause="stale")


@rule("EPOCH_SKIP_AHEAD", kinds=(Kind.SUBSEQUENT,), replies=(Reply.OTHER_EPOCH,))
def skipped_ahead(now: Situation) -> Argument | None:
    """The client counted a request that the broker never accepted."""
    step = now.step
    if not now.all_agree("ahead"):
        return None
    lost = now.memory.unanswered
    if lost is not None and lost.kind is Kind.SUBSEQUENT and next_epoch(lost.epoch) == step.epoch:
        text = f"{_due(now)}; {lost.here} with epoch {lost.epoch} was never answered ({lost.packets}) and was counted all the same"
        return Argument(text, (*now.known, lost, step), cause="skip_after_timeout")
    return Argument(_due(now), (*now.known, step), cause="skip_ahead")


@rule("BROKER_REJECTED_RIGHT_EPOCH", kinds=(Kind.INITIAL, Kind.FINAL), replies=(Reply.OTHER_EPOCH,))
def rejected_what_is_never_compared(now: Situation) -> Argument | None:
    """An opening or closing epoch has nothing to be compared with: no state of the session makes it wrong."""
    step = now.step
    if step.kind is Kind.INITIAL and not step.is_fetch:
        return None
    return Argument(f"{step.story}; that epoch fits every state of a session", (step,), Needs.EXCHANGE, "broker_anomaly")


@rule("BROKER_ACCEPTED_WRONG_EPOCH", replies=(Reply.TAKEN,))
def accepted_what_was_not_due(now: Situation) -> Argument | None:
    """No broker accepts an epoch below -1, nor a ShareAcknowledge with epoch 0.

    One that was not due, on the other hand, may have been: something unseen explains it better than the broker's fault.
    """
    step = now.step
    if step.kind is Kind.NEGATIVE or (step.kind is Kind.INITIAL and not step.is_fetch):
        return Argument(f"{step.story}; no state of a session allows that", (step,), Needs.EXCHANGE)
    if now.expected is None or now.agreeing or now.memory.anchor is None:
        return None
    return Argument(f"{now.memory.anchor.story}; {step.story}, which was not due", (now.memory.anchor, step), Needs.ABSENCE)
