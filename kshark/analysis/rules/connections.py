"""Rules 27, 32, 33 and 34: one session that is used on several connections."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, STATE, Argument, Both, SentAfter, StillOpen
from kshark.analysis.facts.bases import BETWEEN_CONNECTIONS, NO_CONNECTION, Limit
from kshark.analysis.facts.calls import ACCEPTED, INVALID_EPOCH, SUBSEQUENT, ShareStep, next_epoch
from kshark.analysis.rules.rule import EXPLAINS, NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import ELSEWHERE, OVERLAPS
from kshark.analysis.states.session.copies import is_again, may_be_copy, may_be_one
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.session.state import WentOn
from kshark.analysis.states.tables import SESSION

_REFUSED: Final = (INVALID_EPOCH,)


def overtaken(situation: SessionSituation) -> Argument | None:
    """Report a request whose epoch was due when it arrived; another request was counted before its answer."""
    step, ahead = situation.step, situation.overtaker
    if ahead is not None:
        counted = ahead.story
        if ahead.reply is INVALID_EPOCH:
            counted = f"{ahead.here} with epoch {ahead.epoch} was counted, and overtaken itself ({ahead.packets}),"
        text = (
            f"{step.here} with epoch {step.epoch} was due and waited; {counted} on {ahead.connection.name}; then "
            f"{step.story}"
        )
        needs = STATE.and_proof(SentAfter(ahead, step.packet))
        return Argument(text, (*situation.epoch_witness, ahead, step), needs, cause="overtaken")
    rival = next((other for other in situation.rivals if not situation.is_shifted(other)), None)
    if situation.met is None or not any(state.due == step.epoch for state in situation.met) or rival is None:
        return None
    return _raced(situation, rival)


def _raced(situation: SessionSituation, rival: ShareStep) -> Argument:
    """Return the argument about two requests that were open at the same time, one of which was counted first."""
    step = situation.step
    first, second = (rival, step) if rival.packet < step.packet else (step, rival)
    text = (
        f"{step.here} with epoch {step.epoch} was due; {rival.story} on {rival.connection.name} at the same time; "
        f"{step.story}"
    )
    given_up = next((end for end in first.connection.ends if end.by == "client" and end.packet < second.packet), None)
    if given_up is not None:
        text = (
            f"{text}; the client had ended the connection of {first.here} (packet {given_up.packet}) before it sent "
            f"{second.here}"
        )
        witness = (*situation.epoch_witness, rival, step)
        return Argument(text, witness, EXCHANGE, "given_up", noted=True, ends=(given_up,))
    proof = Both(StillOpen(first.connection, second.packet), SentAfter(second, first.packet))
    needs = EXCHANGE.knowing(situation.refused_first).and_proof(proof)
    return Argument(text, (*situation.epoch_witness, rival, step), needs, "concurrent_requests")


def overtaken_and_served(situation: SessionSituation) -> Argument | None:
    """Report a waiting fetch that received records although another request of the session was counted meanwhile.

    A fault in these records is reported in a later epoch only.
    """
    step, ahead = situation.step, situation.overtaker
    if ahead is None or step.answer is None or not step.answer.acquired:
        return None
    text = (
        f"{step.here} with epoch {step.epoch} was due and waited; {ahead.story} on {ahead.connection.name}; "
        f"then {step.here} was still answered with records ({step.packets})"
    )
    return Argument(text, (*situation.epoch_witness, ahead, step), STATE.knowing(ahead.answered))


def two_writers(situation: SessionSituation) -> Argument | None:
    """Report a session that two connections use: another one used it since this connection last did.

    The refusal of an epoch that was due has another reason: the request was overtaken.
    """
    step, session = situation.step, situation.session
    if situation.overtaker is not None:
        return None
    last, here = session.last, situation.before_here
    if last is None or here is None or last.connection is step.connection or last.packet < here.packet:
        return None
    opening = session.opening
    elsewhere = opening is not None and opening.connection is not step.connection and opening.packet > here.packet
    other = opening if elsewhere and opening is not None else last
    text = (
        f"{here.story}; {other.story} on {other.connection.name}{_same_client(other, step)}; {step.story} on "
        f"{step.connection.name} again"
    )
    return Argument(text, (here, other, step), cause="reopened_elsewhere" if elsewhere else "two_writers")


def _same_client(first: ShareStep, second: ShareStep) -> str:
    """Return words for whether both connections belong to one client, by host and client id."""
    is_same = first.connection.host == second.connection.host and first.client_id == second.client_id
    return ", another connection of that client" if is_same else ", another client"


def crossed(situation: SessionSituation) -> Argument | None:
    """Note a session that is used on another connection than its opening.

    Since Kafka 4.1 the session ends with the connection that opened it.
    """
    step, opening = situation.step, situation.session.opening
    if opening is None or opening.connection is step.connection:
        return None
    if step.connection.flow.id in situation.session.crossed:
        return None
    text = f"{opening.story} on {opening.connection.name}; {step.story} on {step.connection.name}"
    return Argument(text, (opening, step), noted=True)


def concurrent(situation: SessionSituation) -> Argument | None:
    """Report a request that was sent while another one of the session was open on another connection.

    The broker handles requests of one connection in order.
    """
    step, session = situation.step, situation.session
    if situation.met is not None and not situation.agreeing:
        return None
    for other in session.overlapping:
        if not _overlaps(step, other):
            continue
        if session.contradicted_at >= other.packet or _may_be_copies(other, step) or situation.is_shifted(other):
            continue
        text = (
            f"{step.here} with epoch {step.epoch} was sent on {step.connection.name} (packet {step.packet}) while "
            f"{other.here} with epoch {other.epoch} was open on {other.connection.name} ({other.packets})"
        )
        is_doubtful = other.opens or (step.opens and session.opening is not None and may_be_copy(session.opening, step))
        proof = WentOn(session, other) if is_doubtful else StillOpen(other.connection, other.end)
        # without an answer, it may be delayed on a connection that its client has given up since
        needs = EXCHANGE.knowing(step.answered).and_proof(Both(proof, SentAfter(step, other.packet)))
        return Argument(text, (other, step), needs)
    return None


def _overlaps(step: ShareStep, other: ShareStep) -> bool:
    """True if the step was sent while the other request was surely open, on another connection."""
    if other.connection is step.connection or other.answer is None or not other.packet < step.packet < other.end:
        return False
    clock, fin = step.connection.clock, other.connection.client_fin
    if not (clock.is_before(other.time_ns, step.time_ns) and clock.is_before(step.time_ns, other.end_ns)):
        return False
    return fin is None or fin >= step.packet


def _may_be_copies(other: ShareStep, step: ShareStep) -> bool:
    """True if a proxy or a NAT explains the two requests.

    Either they are one request that the proxy forwarded, or they overlap only by the clock of one of its sides.
    """
    if other.epoch == step.epoch:
        is_alike = step.answer is None or step.reply is other.reply
        return is_alike and (
            is_again(step, other) or (step.answer is not None and step.end < other.end and may_be_one(step, other))
        )
    return step.kind is SUBSEQUENT and other.is_counted and step.is_counted and step.epoch != next_epoch(other.epoch)


SEEN_TWICE: Final = Rule(
    number=None,
    code="SEEN_TWICE",
    text="Two connections carry the same requests: the capture holds both sides of a proxy or a NAT. Only one of them "
    "is judged.",
    advice="Nothing to change in the client. Capture only one side of the proxy.",
    source="",
    blame=(),
    verdicts=NOTES,
    machine=SESSION,
)
ROWS: Final = (
    SEEN_TWICE,
    Rule(
        number=27,
        code="SESSION_CROSS_CONNECTION",
        text="A session is used on another connection than the one that opened it.",
        advice="Use a session only on the connection that opened it. Since Kafka 4.1 the session ends when that "
        "connection closes.",
        wrong="Kafka 4.0; ShareFetch epoch 0 → 0; on B: ShareFetch epoch 1 → 0",
        right="Kafka 4.0; ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0",
        source="Kafka: ShareSessionCache",
        rests_on=(NO_CONNECTION,),
        tickets=("KAFKA-19015",),
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(Check(crossed, (SUBSEQUENT,), (ACCEPTED,), ELSEWHERE),),
    ),
    Rule(
        number=32,
        code="DUPLICATE_MEMBER",
        text="Two connections use the same member id, each with its own epoch count.",
        act="used one member id on two connections, each with its own epoch count",
        weight=56,
        must="A member id belongs to one consumer, which keeps one epoch count per session.",
        advice="Give each consumer its own member id: a random UUID made when it starts. Look for a copied id, or for "
        "one consumer used by two threads.",
        wrong="ShareFetch epoch 0 → 0; on B: ShareFetch epoch 1 → 0; ShareFetch epoch 1 → 123; ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareFetch epoch 2 → 0",
        source="KIP-932",
        rests_on=(BETWEEN_CONNECTIONS, Limit("WAITING_STEPS")),
        verdicts=EXPLAINS,
        causes=("two_writers", "reopened_elsewhere"),
        machine=SESSION,
        checks=(Check(two_writers, (SUBSEQUENT,), _REFUSED, order=40),),
    ),
    Rule(
        number=33,
        code="CONCURRENT_SESSION_REQUESTS",
        text="A request of the session was sent while another was open on another connection.",
        act="sent a request of its share session while another was open on another connection",
        weight=48,
        must="A session has one open request at a time.",
        advice="Wait for the answer before you send the session's next request, even while a ShareFetch waits for "
        "records. Requests on two connections have no order.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; on B: ShareAcknowledge epoch 2 → 0; … → 0; ShareFetch "
        "epoch 3 → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; … → 0; ShareAcknowledge epoch 2 → 0; ShareFetch epoch "
        "3 → 0",
        source="Kafka: ShareConsumeRequestManager",
        rests_on=(BETWEEN_CONNECTIONS, Limit("OVERLAPPING_STEPS")),
        tickets=("twmb/franz-go#922",),
        at="request",
        machine=SESSION,
        checks=(Check(concurrent, trigger=OVERLAPS),),
    ),
    Rule(
        number=34,
        code="FETCH_OVERTAKEN",
        text="The session moved on while a fetch was waiting for its answer. The records that the fetch acquired stay "
        "locked.",
        act="sent a request that overtook a waiting fetch of the same member: the records of that fetch stay locked",
        weight=60,
        must="While a ShareFetch waits, its session sends no other request.",
        advice="Wait for the ShareFetch (a shorter max_wait_ms makes this quick), then acknowledge. The records that "
        "the overtaken fetch acquired are delivered again after their lock expires, with a higher delivery count.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; on B: ShareAcknowledge epoch 2 → 0; … → 123; "
        "ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; … → 0; ShareAcknowledge epoch 2 → 0; ShareFetch epoch "
        "3 → 0",
        source="Kafka: ShareSessionContext",
        rests_on=(BETWEEN_CONNECTIONS, Limit("OVERLAPPING_STEPS"), Limit("WAITING_STEPS")),
        tickets=("twmb/franz-go#922",),
        verdicts=NOTES_TOO,
        causes=("overtaken", "concurrent_requests", "given_up"),
        machine=SESSION,
        checks=(
            Check(overtaken, (SUBSEQUENT,), _REFUSED, order=30),
            Check(overtaken_and_served, (SUBSEQUENT,), (ACCEPTED,), OVERLAPS),
        ),
    ),
)
