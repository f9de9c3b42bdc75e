"""Mistakes that a single exchange shows. Rules 24, 41, 45 and 46."""

from __future__ import annotations

from kshark.analysis.evidence import Argument, Needs
from kshark.analysis.memory import Situation
from kshark.analysis.rules.registry import rule
from kshark.analysis.steps import Kind, Reply


@rule("ACK_IN_INITIAL_FETCH", kinds=(Kind.INITIAL,), replies=(Reply.UNTOUCHED,))
def acknowledged_while_opening(now: Situation) -> Argument | None:
    """A new session holds nothing to acknowledge; brokers since 4.1 refuse it."""
    step = now.step
    if not step.opens or not step.acknowledges or step.answer is None or step.answer.error != 42:
        return None
    return Argument(f"{step.story}; it opens a session and acknowledges records", (step,), Needs.EXCHANGE)


@rule("FINAL_WITH_PAYLOAD", kinds=(Kind.FINAL,))
def closed_with_partitions(now: Situation) -> Argument | None:
    """Closing fetches nothing: partitions are listed to acknowledge, or not at all."""
    step = now.step
    idle = [listed.partition for listed in step.listed if not listed.acknowledged]
    if not step.is_fetch or not idle:
        return None
    text = f"{step.here} closes the session and lists {len(idle)} partitions without acknowledging records ({step.packets})"
    return Argument(text, (step,), Needs.EXCHANGE, partition=idle[0])


@rule("DUPLICATE_PARTITION_ENTRY")
def listed_twice(now: Situation) -> Argument | None:
    """At epoch 0 the session is lost; of two acknowledgements the first one is."""
    step = now.step
    again = step.duplicates
    if not again:
        return None
    return Argument(f"{step.here} lists partition {again[0][1]} twice ({step.packets})", (step,), Needs.EXCHANGE, partition=again[0])


@rule("MEMBER_ID_INVALID", replies=(Reply.UNTOUCHED, Reply.UNCLEAR, Reply.FAILED))
def named_badly(now: Situation) -> Argument | None:
    """Null, empty, or longer than a broker takes."""
    step = now.step
    if step.is_named:
        return None
    what = "null" if step.member_id is None else f"{len(step.member_id)} characters long"
    return Argument(f"{step.story}; its member id is {what}", (step,), Needs.EXCHANGE)
