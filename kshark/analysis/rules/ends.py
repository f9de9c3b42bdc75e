"""Rules 25, 26, 28, 31, 40 and 45: why there is no session (error 122), and sessions that were not closed."""

from __future__ import annotations

from typing import Final

from kshark import limits
from kshark.analysis.facts.argument import EXCHANGE, STATE, Argument, Position, SentAfter, StillOpen
from kshark.analysis.facts.bases import BETWEEN_CONNECTIONS, NO_CONNECTION, SHARE_SESSIONS, Limit
from kshark.analysis.facts.calls import (
    FINAL,
    INITIAL,
    LIMIT_REACHED,
    NEGATIVE,
    SESSION_NOT_FOUND,
    SUBSEQUENT,
    Call,
    ShareStep,
)
from kshark.analysis.facts.releases import agreed, release_known
from kshark.analysis.rules.refusals import not_explained
from kshark.analysis.rules.rule import CATCH_ALL, EXPLAINS, NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import AFTER_FINAL, LETS_GO, NOT_PLAIN, REPEATS, UNTESTED
from kshark.analysis.states.session.situation import ORDINARY, SessionEnd, SessionSituation
from kshark.analysis.states.session.state import EndCause
from kshark.analysis.states.tables import SESSION
from kshark.analysis.states.tables.session import ABSENT

#: Kinds of epoch that need a session.
_IN_A_SESSION: Final = (SUBSEQUENT, FINAL, NEGATIVE)
_NOT_FOUND: Final = (SESSION_NOT_FOUND,)
_UNSEEN: Final = "; an opening that is missing in the capture would also explain it"


def _ended_by(situation: SessionSituation, *causes: str) -> EndCause | None:
    """Return the end of the session that the broker did not find, if it has one of these causes."""
    end_cause = situation.end_cause
    return end_cause if end_cause is not None and end_cause.cause in causes else None


def _argument(situation: SessionSituation, ended: EndCause, *, noted: bool = False, suffix: str = "") -> Argument:
    alive = situation.session.alive
    witness: list[Call] = [step for step in (ended.step or alive,) if step is not None]
    before = "" if ended.step is not None or alive is None else f"{alive.story}; "
    text = f"{before}{ended.description}; {situation.step.story}{suffix}"
    ends = () if ended.end is None else (ended.end,)
    return Argument(text, (*witness, situation.step), STATE.knowing(ended.known), ended.cause, noted=noted, ends=ends)


def used_after_final(situation: SessionSituation) -> Argument | None:
    """Report a session that is used after epoch -1 was accepted."""
    return _used_on(situation, "final_epoch")


def lost_in_a_failed_reopen(situation: SessionSituation) -> Argument | None:
    """Report the use of a session after an epoch 0 that listed a partition twice.

    This epoch 0 ends the old session and opens no new one.
    """
    return _used_on(situation, "failed_reopen")


def _used_on(situation: SessionSituation, cause: str) -> Argument | None:
    ended = _ended_by(situation, cause)
    if ended is None:
        return None
    if ended.step is not None and situation.step.packet < ended.step.packet:
        return _argument(situation, ended, noted=True, suffix=", but had been sent before that")
    if _may_be_delayed(ended.step, situation.step):
        return _argument(situation, ended, noted=True, suffix=", but may have been sent before that")
    return _argument(situation, ended, noted=not situation.continues, suffix="" if situation.continues else _UNSEEN)


def _may_be_delayed(before: ShareStep | None, step: ShareStep) -> bool:
    """True if the request may have been sent before the other one: TCP may have retransmitted it on another connection.

    Seen in a capture at the broker after an outage of one direction.
    """
    if before is None or before.connection is step.connection:
        return False
    return SentAfter(step, before.packet).holds() is not True


def killed_by_an_old_connection(situation: SessionSituation) -> Argument | None:
    """Report a session that ended when an older connection closed, although its own was open.

    Kafka 4.1 does so with a session that was reopened on another connection. The epoch that was due does not matter:
    with another one the broker would have answered INVALID_SHARE_SESSION_EPOCH.
    """
    ended, step = _ended_by(situation, "old_connection_closed"), situation.step
    if ended is None:
        return None
    met = [state for state in situation.met or () if state.due != ABSENT]
    opening = met[0].opening if met and step.kind is SUBSEQUENT else None
    if opening is None or opening.connection.ended_between(opening.packet, step.end) is not None:
        return _argument(situation, ended, noted=True)
    needs = STATE.knowing(ended.known).and_proof(StillOpen(opening.connection, step.end))
    text = f"{opening.story} on {opening.connection.name}; {ended.description}; {step.story}"
    ends = () if ended.end is None else (ended.end,)
    return Argument(text, (opening, step), needs, ended.cause, ends=ends)


def ended_unasked(situation: SessionSituation) -> Argument | None:
    """Note a session that ended, or was not opened, without a fault.

    The connection closed, the broker restarted, the session was evicted, or the broker had no room for it.
    """
    ended = _ended_by(situation, *ORDINARY)
    return _argument(situation, ended, noted=True) if ended else None


def found_no_room(situation: SessionSituation) -> Argument | None:
    """Note an epoch 0 that a full session cache refuses with this error until Kafka 4.0; later releases never do."""
    step = situation.step
    if not step.is_fetch:
        return None
    full = agreed(situation.session.releases, "full_is_not_found")
    if full is False:
        text = f"{step.story}, although it opens a session"
        return Argument(text, (step,), EXCHANGE, "broker_anomaly", blame="broker")
    text = f"{step.story}: the broker had no room for another session"
    return Argument(text, (step,), EXCHANGE.knowing(release_known(full)), "session_limit", noted=True)


def looked_for_none(situation: SessionSituation) -> Argument | None:
    """Report a ShareAcknowledge with epoch 0 that got this error.

    The broker refuses it with another error, before it looks for a session.
    """
    step = situation.step
    if step.is_fetch:
        return None
    text = f"{step.story}; the broker looks for no session with that epoch"
    return Argument(text, (step,), EXCHANGE, "broker_anomaly", blame="broker")


def never_opened(situation: SessionSituation) -> Argument | None:
    """Note a member that joined within the capture and was not seen to open a session with this broker.

    Only a connection that existed when the member joined proves this: before a later one the member may have used
    another connection.
    """
    step, session = situation.step, situation.session
    if session.ever_opened or (situation.end_cause is not None and situation.end_cause.known.is_certain):
        return None
    join, needs = session.member.join, EXCHANGE.knowing(situation.openings)
    if join is None:
        return Argument(f"{step.story}{_UNSEEN}", (step,), needs, "never_opened", noted=True)
    joined = f"the member joined (packet {join.packet}) and was not seen to open a session here"
    text = f"{joined}; {step.story}{_UNSEEN}"
    return Argument(text, (join, step), needs, "never_opened", noted=True)


def limited(situation: SessionSituation) -> Argument | None:
    """Note a broker that holds as many sessions as it allows."""
    return Argument(situation.step.story, (situation.step,), EXCHANGE, noted=True)


def left_open(session_end: SessionEnd) -> Argument | None:
    """Note a session without epoch -1 whose client closes the connection that opened it, or had left the group."""
    session, connection, end = session_end
    opening, last, leave = session.opening, session.last, session.left_before(end.packet)
    if end.by != "client" or not session.is_open or last is None:
        return None
    if opening is None or opening.connection is not connection:
        return None
    if leave is None:
        text = (
            f"{last.story}; the client closed the connection (packet {end.packet}) without closing the session with "
            f"epoch -1"
        )
        return Argument(text, (last,), EXCHANGE, position=Position(connection, end.packet, end.time_ns), ends=(end,))
    text = f"{last.story}; the member left the group ({leave.packets}) without closing the session with epoch -1"
    return Argument(text, (last, leave), EXCHANGE, position=Position(leave.connection, leave.packet, leave.time_ns))


def listed_twice(situation: SessionSituation) -> Argument | None:
    """Report a partition that is listed twice.

    At epoch 0 the session is lost; in later requests the first of the two acknowledgements is lost.
    """
    step = situation.step
    repeated = step.duplicates
    if not repeated:
        return None
    text = f"{step.here} lists partition {repeated[0][1]} twice ({step.packets})"
    return Argument(text, (step,), EXCHANGE, partition=repeated[0])


SESSION_UNKNOWN: Final = Rule(
    number=25,
    code="SESSION_UNKNOWN",
    text="The broker has no session for this member. The cause says what ended or prevented it.",
    act="lost a share session",
    weight=80,
    must="A broker answers SHARE_SESSION_NOT_FOUND only if a request needs a session and there is none.",
    advice="Open a new session: send a ShareFetch with epoch 0 and without acknowledgements. The records that the "
    "member had acquired are delivered again. The cause says why the old session ended.",
    wrong="ShareFetch epoch 0 → 0; ShareAcknowledge epoch 0 → 122",
    right="ShareFetch epoch 0 → 0; ShareAcknowledge epoch 0 → 123",
    source="KIP-932; Kafka: ShareSessionCache",
    rests_on=(NO_CONNECTION, Limit("SESSIONS")),
    tickets=("KAFKA-18198", "KAFKA-19015", "KAFKA-20330"),
    blame=("broker",),
    verdicts=NOTES_TOO,
    causes=(*ORDINARY, "never_opened", "broker_anomaly", "unknown"),
    machine=SESSION,
    checks=(
        Check(ended_unasked, _IN_A_SESSION, _NOT_FOUND, order=150),
        Check(found_no_room, (INITIAL,), _NOT_FOUND, order=170),
        Check(looked_for_none, (INITIAL,), _NOT_FOUND, order=180),
        Check(never_opened, _IN_A_SESSION, _NOT_FOUND, order=190),
        Check(not_explained, replies=_NOT_FOUND, trigger=UNTESTED, order=CATCH_ALL),
    ),
)


def forgotten(step: ShareStep) -> Argument:
    """Return the argument that sessions are missing from this step on; it is reported once."""
    text = (
        f"more than {limits.SESSIONS} share sessions at once: from {step.here} on ({step.packets}) kshark drops those "
        f"unused for longest"
    )
    return Argument(text, (step,), EXCHANGE)


SESSIONS_FORGOTTEN: Final = Rule(
    number=None,
    code="SESSIONS_FORGOTTEN",
    text="There are too many share sessions at once. kshark dropped the state of those unused for longest, so earlier "
    "packets no longer count as evidence for them.",
    advice="Nothing to change in the client. Capture fewer brokers at a time.",
    source="",
    blame=(),
    verdicts=NOTES,
    at="request",
    machine=SESSION,
)
ROWS: Final = (
    SESSION_UNKNOWN,
    Rule(
        number=26,
        code="USE_AFTER_FINAL",
        text="A session was used after it was closed with epoch -1.",
        act="used a closed share session",
        weight=44,
        must="After epoch -1 the next request opens a new session.",
        advice="Drop pending requests when you close the session, or open a new one with epoch 0 first.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareAcknowledge epoch -1 → 0; ShareFetch epoch 2 → 122",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareAcknowledge epoch -1 → 0; ShareFetch epoch 0 → 0",
        provoked_by="Close the consumer, and open it again in the same process.",
        source="KIP-932",
        rests_on=(BETWEEN_CONNECTIONS, NO_CONNECTION, Limit("SESSIONS")),
        verdicts=(*EXPLAINS, *NOTES),
        causes=("final_epoch",),
        machine=SESSION,
        checks=(Check(used_after_final, _IN_A_SESSION, _NOT_FOUND, AFTER_FINAL, order=120),),
    ),
    Rule(
        number=28,
        code="SESSION_KILLED_BY_OLD_CONNECTION",
        text="A session was reopened on a new connection, and ended when the old connection closed.",
        act="wrongly ended a share session that a member had opened again on a new connection",
        weight=90,
        must="A session ends with the connection that opened it, and not with an older one.",
        advice="Upgrade the brokers to 4.2. Until then, open the new session after the old connection is closed. "
        "After error 122, open the session again.",
        wrong="Kafka 4.1; ShareFetch epoch 0 → 0; on B: ShareFetch epoch 0 → 0; A closes; on B: ShareFetch epoch 1 → "
        "122; "
        "on B: ShareFetch epoch 0 → 0",
        right="Kafka 4.2; ShareFetch epoch 0 → 0; on B: ShareFetch epoch 0 → 0; A closes; on B: ShareFetch epoch 1 → 0",
        source="Kafka: ShareSessionCache",
        rests_on=(BETWEEN_CONNECTIONS, NO_CONNECTION, Limit("SESSIONS")),
        tickets=("KAFKA-19950",),
        blame=("broker",),
        verdicts=NOTES_TOO,
        causes=("old_connection_closed",),
        machine=SESSION,
        checks=(Check(killed_by_an_old_connection, _IN_A_SESSION, _NOT_FOUND, UNTESTED, order=140),),
    ),
    Rule(
        number=31,
        code="SESSION_LIMIT",
        text="The broker has no room for another share session.",
        weight=58,
        advice="Try again later with epoch 0. Raise group.share.max.share.sessions on the brokers (2000 by default), "
        "or close unused sessions.",
        wrong="ShareFetch epoch 0 → 133",
        right="ShareFetch epoch 0 → 0",
        source="Kafka: ShareSessionCache",
        rests_on=(SHARE_SESSIONS,),
        tickets=("KAFKA-19231",),
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(Check(limited, replies=(LIMIT_REACHED,), trigger=NOT_PLAIN),),
    ),
    Rule(
        number=40,
        code="SESSION_NOT_CLOSED",
        text="The connection closed, or the member left the group, while the session was open.",
        advice="Send epoch -1 before you close the connection or leave the group. Then other members get the records "
        "at once, and not only after their locks expire.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; a leaves; A closes",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareAcknowledge epoch -1 → 0; a leaves; A closes",
        source="Kafka: ShareConsumeRequestManager",
        rests_on=(BETWEEN_CONNECTIONS,),
        tickets=("KAFKA-19015", "KAFKA-19159"),
        blame=(),
        verdicts=NOTES,
        at="end",
        machine=SESSION,
        checks=(Check(left_open, trigger=LETS_GO, about=SessionEnd),),
    ),
    Rule(
        number=45,
        code="DUPLICATE_PARTITION_ENTRY",
        text="A request lists the same partition twice.",
        act="listed the same partition twice in a request: the broker drops the first entry",
        weight=60,
        must="A request lists each partition once.",
        advice="Put all batches of a partition into one entry. The broker silently drops the first of two entries; at "
        "epoch 0 it drops the whole session.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, list t[0] t[0] → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, list t[0] t[1] → 0",
        source="Kafka: SharePartitionManager",
        rests_on=(NO_CONNECTION,),
        verdicts=NOTES_TOO,
        causes=("failed_reopen",),
        at="request",
        machine=SESSION,
        checks=(
            Check(lost_in_a_failed_reopen, _IN_A_SESSION, _NOT_FOUND, UNTESTED, order=130),
            Check(listed_twice, trigger=REPEATS),
        ),
    ),
    SESSIONS_FORGOTTEN,
)
