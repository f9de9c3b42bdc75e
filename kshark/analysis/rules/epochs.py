"""Rules 18 to 23, 35 to 37 and 42: why counting made an epoch fail with INVALID_SHARE_SESSION_EPOCH (error 123).

The due epoch follows from the capture. If the capture lacks a whole connection, a second writer there may have advanced
the session: what is reported as skipped ahead or gone back may then be a replay, or that writer's fault
(DUPLICATE_MEMBER). In each case the client counted wrongly: this and the blame are proved, and the cause is the
simplest one that fits. The cause is reported nevertheless, because a refusal looks the same in a whole capture: if a
cause required that the next request follows at once, a quarter of the skips in whole captures would have none.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, STATE, Argument
from kshark.analysis.facts.bases import ANSWER_RECEIVED, AT_LEAST, AT_MOST, BETWEEN_CONNECTIONS, NO_CONNECTION, Limit
from kshark.analysis.facts.calls import (
    ACCEPTED,
    FINAL,
    INITIAL,
    INVALID_EPOCH,
    LAST_EPOCH,
    NEGATIVE,
    REFUSALS,
    REJECTED_EARLY,
    SUBSEQUENT,
    UNCLEAR,
    ShareStep,
    next_epoch,
)
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.refusals import not_explained
from kshark.analysis.rules.rule import CATCH_ALL, EXPLAINS, Check, Rule
from kshark.analysis.rules.triggers import AFTER_ERROR, AFTER_LAST_EPOCH, NOT_DUE, OTHER_API, UNTESTED
from kshark.analysis.states.member.state import REQUEST_TIMEOUT_NS
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.tables import SESSION
from kshark.anomaly import Blame

_REFUSED: Final = (INVALID_EPOCH,)


def _due(situation: SessionSituation) -> str:
    """`ShareFetch #17 used epoch 4 and was accepted (packets 88, 89), so 5 was due; ...`."""
    anchor, step = situation.session.anchor, situation.step
    if anchor is None:
        return step.story
    return f"{anchor.story}{anchor.on(step)}, so {situation.due} was due; {step.story}"


def _witness(situation: SessionSituation) -> tuple[ShareStep, ...]:
    """Return the exchanges that show the due epoch, and the step.

    A request without an answer on another connection counts too: the client may have sent the step before it.
    """
    lost, step = situation.session.unanswered, situation.step
    elsewhere = () if lost is None or lost.connection is step.connection else (lost,)
    return (*situation.epoch_witness, *elsewhere, step)


def negative(situation: SessionSituation) -> Argument | None:
    """Report an epoch below -1, which is invalid in every state."""
    return Argument(f"{situation.step.story}; no epoch is below -1", (situation.step,), EXCHANGE, "negative")


def acknowledged_at_zero(situation: SessionSituation) -> Argument | None:
    """Report a ShareAcknowledge with epoch 0: only a ShareFetch opens a session."""
    step = situation.step
    if step.is_fetch:
        return None
    return Argument(f"{step.story}; a ShareAcknowledge cannot open a session", (step,), EXCHANGE, "ack_epoch_zero")


def counted_an_error(situation: SessionSituation) -> Argument | None:
    """Report a client that counts a request which was refused without advancing the session."""
    step, before = situation.step, situation.before_here
    if before is None or before.kind is not SUBSEQUENT:
        return None
    if before.reply not in (REJECTED_EARLY, UNCLEAR) or next_epoch(before.epoch) != step.epoch:
        return None
    if any(due != before.epoch for due in situation.due_epochs):
        return None
    error = before.answer.error if before.answer is not None else None
    text = f"{before.story} (error {error}), so {before.epoch} was still due; {step.story}"
    return Argument(text, (*situation.epoch_witness, before, step), STATE.after(before), "skip_after_error")


def counted_apart(situation: SessionSituation) -> Argument | None:
    """Report a client that counts fetches and acknowledgements separately."""
    step = situation.step
    last, own = situation.session.last, situation.session.last_of(step.api_key)
    if last is None or own is None or last.api_key == step.api_key or last.kind is not SUBSEQUENT:
        return None
    if step.epoch != next_epoch(own.epoch) or step.epoch in situation.due_epochs or situation.was_due:
        return None
    text = (
        f"{own.story}; {last.story}; {step.story}: it continues after {own.epoch}, although both kinds of request "
        f"share one epoch"
    )
    return Argument(text, (own, last, step), cause="two_counters")


def wrapped(situation: SessionSituation) -> Argument | None:
    """Report an epoch other than 1 after the highest epoch."""
    step, last = situation.step, situation.session.last
    if last is None or last.epoch != LAST_EPOCH or situation.all_agree("replay"):
        return None
    return Argument(f"{last.story}; the epoch after it is 1; {step.story}", (last, step), cause="wrap")


def replayed(situation: SessionSituation) -> Argument | None:
    """Report a request that repeats the last used epoch.

    The network lost an answer if its connection ended without it, and the client soon sent the request again on a
    connection that is new to the session. Otherwise the client counts wrongly. It also did not wait for the answer if
    it sent FIN; a RST with its address may be that of a firewall.
    """
    step = situation.step
    if not situation.all_agree("replay"):
        return None
    lost = situation.session.unanswered
    if lost is not None and lost.epoch == step.epoch and lost is not situation.session.last:
        end = lost.connection.ended_between(lost.packet, step.packet)
        blame: Blame | None = None
        if end is not None and situation.here is None and end.packet != lost.connection.client_fin:
            passed = step.connection.clock.durations.elapsed(PacketTime(end.packet, end.time_ns), step.sent)
            if passed.least_ns < REQUEST_TIMEOUT_NS:
                is_lost = end.by != "client" and passed.is_below(REQUEST_TIMEOUT_NS)
                blame = "network" if is_lost else "unknown"
        text = f"{lost.story}{lost.on(step)}, but the broker had accepted it: {step.story}"
        return Argument(text, (*situation.epoch_witness, lost, step), cause="replay", blame=blame)
    return Argument(_due(situation), _witness(situation), cause="replay")


def went_back(situation: SessionSituation) -> Argument | None:
    """Report an epoch older than the last used one."""
    if not situation.all_agree("stale"):
        return None
    return Argument(_due(situation), _witness(situation), cause="stale")


def skipped_ahead(situation: SessionSituation) -> Argument | None:
    """Report a client that counts a request which the broker never accepted."""
    step = situation.step
    if not situation.all_agree("ahead"):
        return None
    lost = situation.session.unanswered
    if lost is not None and lost.kind is SUBSEQUENT and next_epoch(lost.epoch) == step.epoch:
        text = (
            f"{_due(situation)}; {lost.here} with epoch {lost.epoch} was never answered ({lost.packets}), but the "
            f"client counted it"
        )
        return Argument(text, (*situation.epoch_witness, lost, step), cause="skip_after_timeout")
    counted = counted_an_error(situation)
    if counted is not None:  # perhaps before it got the error: wrong all the same
        return Argument(counted.text, counted.witness, cause="skip_ahead")
    return Argument(_due(situation), _witness(situation), cause="skip_ahead")


def refused_valid_epoch(situation: SessionSituation) -> Argument | None:
    """Report a broker that refuses an opening or closing epoch, which is valid in every state of the session."""
    step = situation.step
    if step.kind is INITIAL and not step.is_fetch:
        return None
    text = f"{step.story}; that epoch is valid in every state of a session"
    return Argument(text, (step,), EXCHANGE, "broker_anomaly")


def accepted_invalid_epoch(situation: SessionSituation) -> Argument | None:
    """Report a broker that accepts an epoch below -1, or a ShareAcknowledge with epoch 0.

    Any other epoch that seems not due stays unproved: missing packets explain it better than a fault of the broker.
    """
    step = situation.step
    if step.kind is NEGATIVE or (step.kind is INITIAL and not step.is_fetch):
        return Argument(f"{step.story}; that epoch is valid in no state of a session", (step,), EXCHANGE)
    anchor = situation.session.anchor
    if situation.met is None or situation.agreeing or anchor is None:
        return None
    return Argument(f"{anchor.story}; {step.story}, which was not due", (anchor, step), ABSENCE)


def refused_unexplained(situation: SessionSituation) -> Argument:
    """Report a refused epoch that no other check explains.

    Some brokers refused the epoch that was due after each ShareFetch with acknowledgements (confluentinc/kafka#1109).
    """
    argument, step, anchor = not_explained(situation), situation.step, situation.session.anchor
    if anchor is None or not (anchor.is_fetch and anchor.acknowledges) or step.epoch != next_epoch(anchor.epoch):
        return argument
    return replace(argument, cause="after_acknowledgements")


EPOCH_REFUSED: Final = Rule(
    number=None,
    code="EPOCH_REFUSED",
    text="The broker answered INVALID_SHARE_SESSION_EPOCH, and the capture does not show why.",
    advice="Open a new session, as after any error 123. To find the cause, start the capture earlier, and capture all "
    "connections of the member, without loss.",
    source="KIP-932",
    blame=(),
    verdicts=("unknown",),
    causes=("unknown", "after_acknowledgements"),
    machine=SESSION,
    checks=(Check(refused_unexplained, replies=(INVALID_EPOCH,), trigger=UNTESTED, order=CATCH_ALL),),
)
ROWS: Final = (
    Rule(
        number=18,
        code="EPOCH_REPLAY",
        text="The last used epoch came again: the same request was sent twice.",
        act="sent the same share session epoch twice",
        weight=45,
        must="Each epoch is used once. After an accepted request, the next epoch follows.",
        advice="Never send a request again with the same epoch. After a lost answer, or on a new connection, open a "
        "new session: send a ShareFetch with epoch 0.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareFetch epoch 1 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareFetch epoch 2 → 0",
        source="KIP-932; Kafka: SharePartitionManager",
        rests_on=(BETWEEN_CONNECTIONS, AT_LEAST, AT_MOST, Limit("WAITING_STEPS")),
        tickets=("twmb/franz-go#922",),
        blame=("client", "network"),
        verdicts=EXPLAINS,
        causes=("replay",),
        machine=SESSION,
        checks=(Check(replayed, (SUBSEQUENT,), _REFUSED, order=80),),
    ),
    Rule(
        number=19,
        code="EPOCH_STALE",
        text="The epoch is older than the last used one.",
        act="sent a share session epoch older than the last one",
        weight=45,
        must="Epochs only increase. A used epoch does not come back.",
        advice="Keep one count per broker, group and member. Set the epoch when you send the request, not when you "
        "queue it.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareFetch epoch 2 → 0; ShareFetch epoch 1 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareFetch epoch 2 → 0; ShareFetch epoch 3 → 0",
        source="KIP-932; Kafka: SharePartitionManager",
        rests_on=(BETWEEN_CONNECTIONS, Limit("WAITING_STEPS")),
        verdicts=EXPLAINS,
        causes=("stale",),
        machine=SESSION,
        checks=(Check(went_back, (SUBSEQUENT,), _REFUSED, order=90),),
    ),
    Rule(
        number=20,
        code="EPOCH_SKIP_AHEAD",
        text="The epoch is too high: the client counted a request that the broker never accepted.",
        act="sent a share session epoch that is too high: it counted a request that the broker never accepted",
        weight=46,
        must="The next request has the epoch after the last accepted one.",
        advice="Count a request when its answer arrives, not when you send it. After a request without an answer, "
        "open a new session: send a ShareFetch with epoch 0.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; on B: ShareFetch epoch 3 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; on B: ShareFetch epoch 0 → 0",
        source="KIP-932; Kafka: ShareSessionHandler",
        rests_on=(BETWEEN_CONNECTIONS, Limit("WAITING_STEPS")),
        verdicts=EXPLAINS,
        causes=("skip_ahead", "skip_after_timeout"),
        machine=SESSION,
        checks=(Check(skipped_ahead, (SUBSEQUENT,), _REFUSED, order=100),),
    ),
    Rule(
        number=21,
        code="EPOCH_WRAP_ERROR",
        text="The epoch after 2147483647 is 1, but the request has another one.",
        act="did not continue with epoch 1 after the last share session epoch",
        weight=45,
        must="The epoch after 2147483647 is 1.",
        advice="After 2147483647, continue with 1. Epoch 0 opens a new session, and numbers below -1 are not epochs.",
        wrong="ShareFetch epoch 2147483647 → 0; ShareFetch epoch 2 → 123",
        right="ShareFetch epoch 2147483647 → 0; ShareFetch epoch 1 → 0",
        provoked_by="Use a mock broker that accepts a high epoch: with a real one it takes 2147483647 requests.",
        source="Kafka: ShareRequestMetadata.nextEpoch",
        rests_on=(BETWEEN_CONNECTIONS, Limit("WAITING_STEPS")),
        verdicts=EXPLAINS,
        causes=("wrap",),
        machine=SESSION,
        checks=(Check(wrapped, (SUBSEQUENT,), _REFUSED, AFTER_LAST_EPOCH, order=70),),
    ),
    Rule(
        number=22,
        code="EPOCH_NEGATIVE",
        text="A request has an epoch below -1.",
        act="sent a share session epoch below -1",
        weight=45,
        must="An epoch is -1 (close), 0 (open), or a number from 1 to 2147483647.",
        advice="Look for a counter that overflowed or was never set.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch -2 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch -1 → 0",
        source="Kafka: SharePartitionManager",
        verdicts=EXPLAINS,
        causes=("negative",),
        machine=SESSION,
        checks=(Check(negative, (NEGATIVE,), REFUSALS, order=10),),
    ),
    Rule(
        number=23,
        code="ACK_WITH_INITIAL_EPOCH",
        text="A ShareAcknowledge has epoch 0, but it cannot open a session.",
        act="tried to open a share session with a ShareAcknowledge",
        weight=45,
        must="A ShareFetch opens a session. A ShareAcknowledge never has epoch 0.",
        advice="Open the session with a ShareFetch first. Acknowledgements of an ended session cannot be sent: the "
        "records are delivered again.",
        wrong="ShareAcknowledge epoch 0, accept 0-4 → 123",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-4 → 0",
        source="Kafka: SharePartitionManager.acknowledgeSessionUpdate",
        verdicts=EXPLAINS,
        causes=("ack_epoch_zero",),
        machine=SESSION,
        checks=(Check(acknowledged_at_zero, (INITIAL,), _REFUSED, order=20),),
    ),
    Rule(
        number=35,
        code="BROKER_ACCEPTED_WRONG_EPOCH",
        text="The broker accepted an epoch that was not due.",
        act="accepted a share session epoch that was not due",
        weight=85,
        must="A broker accepts only the epoch that is due.",
        advice="Nothing to change in the client. Check whether the capture holds all connections to this broker. Then "
        "report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0; ShareAcknowledge epoch 0 → 0",
        right="ShareFetch epoch 0 → 0; ShareAcknowledge epoch 0 → 123",
        source="KIP-932",
        rests_on=(NO_CONNECTION,),
        blame=("broker",),
        machine=SESSION,
        checks=(Check(accepted_invalid_epoch, replies=(ACCEPTED,), trigger=NOT_DUE),),
    ),
    Rule(
        number=36,
        code="BROKER_REJECTED_RIGHT_EPOCH",
        text="The broker refused the epoch that was due.",
        act="refused the share session epoch that was due",
        weight=90,
        must="A broker accepts the epoch that is due.",
        advice="Open a new session, as after any error 123. Report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch -1 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch -1 → 0",
        source="KIP-932",
        blame=("broker",),
        verdicts=EXPLAINS,
        causes=("broker_anomaly",),
        machine=SESSION,
        checks=(Check(refused_valid_epoch, (INITIAL, FINAL), _REFUSED, order=110),),
    ),
    Rule(
        number=37,
        code="ADVANCED_AFTER_ERROR",
        text="A request was rejected, so its epoch was not counted. The client counted it.",
        act="counted a request that the broker had rejected",
        weight=46,
        must="The epoch of a request that is rejected with error 30, 35 or 42 is not counted.",
        advice="After error 30, 35 or 42, use the same epoch again, or open a new session. Fix the rejected request "
        "first.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 42; ShareFetch epoch 2 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 42; ShareFetch epoch 1 → 0",
        provoked_by="Let a test build send a request that the broker rejects as a whole: is_renew_ack with "
        "max_records 500 (Kafka 4.2).",
        source="Kafka: ShareSessionHandler",
        rests_on=(BETWEEN_CONNECTIONS, NO_CONNECTION, Limit("WAITING_STEPS"), ANSWER_RECEIVED),
        verdicts=EXPLAINS,
        causes=("skip_after_error",),
        machine=SESSION,
        checks=(Check(counted_an_error, (SUBSEQUENT,), _REFUSED, AFTER_ERROR, order=50),),
    ),
    Rule(
        number=42,
        code="TWO_COUNTERS",
        text="The client counts ShareFetch and ShareAcknowledge separately, but they share one epoch.",
        act="counted ShareFetch and ShareAcknowledge separately, although they share one epoch",
        weight=57,
        must="ShareFetch and ShareAcknowledge share one epoch.",
        advice="Keep one count for both. Each request to a broker uses the next epoch, whatever its kind.",
        wrong="ShareFetch epoch 0 → 0; ShareAcknowledge epoch 1 → 0; ShareAcknowledge epoch 2 → 0; ShareFetch epoch 1 "
        "→ 123",
        right="ShareFetch epoch 0 → 0; ShareAcknowledge epoch 1 → 0; ShareAcknowledge epoch 2 → 0; ShareFetch epoch 3 "
        "→ 0",
        source="KIP-932",
        rests_on=(BETWEEN_CONNECTIONS, NO_CONNECTION, Limit("WAITING_STEPS")),
        verdicts=EXPLAINS,
        causes=("two_counters",),
        machine=SESSION,
        checks=(Check(counted_apart, replies=_REFUSED, trigger=OTHER_API, order=60),),
    ),
    EPOCH_REFUSED,
)
