"""One session on several connections: who used it, when, and what became of it. Rules 27, 32, 33 and 34."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument, StillOpen
from kshark.analysis.facts.calls import ACCEPTED, INVALID_EPOCH, SUBSEQUENT, Step, next_epoch
from kshark.analysis.rules.rule import EXPLAINS, NOTES, NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import ELSEWHERE, OVERLAPS
from kshark.analysis.states.session.copies import is_again, may_be_copy, may_be_one
from kshark.analysis.states.session.situation import Situation
from kshark.analysis.states.session.state import WentOn
from kshark.analysis.states.tables import SESSION

_REFUSED: Final = (INVALID_EPOCH,)


def overtaken(now: Situation) -> Argument | None:
    """Right when it arrived; another request moved the session on before it was answered."""
    step = now.step
    if now.overtaker is not None:
        ahead = now.overtaker
        text = (
            f"{step.here} with epoch {step.epoch} was due and waited; {ahead.story} on {ahead.connection.client}; then "
            f"{step.story}"
        )
        return Argument(text, (*now.known, ahead, step), cause="overtaken")
    rival = next((other for other in now.rivals if not now.is_shifted(other)), None)
    if now.met is None or not any(state.due == step.epoch for state in now.met) or rival is None:
        return None
    first, second = (rival, step) if rival.packet < step.packet else (step, rival)
    text = (
        f"{step.here} with epoch {step.epoch} was due; {rival.story} on {rival.connection.client} at the same time; "
        f"{step.story}"
    )
    given_up = next((end for end in first.connection.ends if end.by == "client" and end.packet < second.packet), None)
    if given_up is not None:
        text = (
            f"{text}; the client had ended the connection with {first.here} (packet {given_up.packet}), and went on "
            f"with {second.here}"
        )
        return Argument(text, (*now.known, rival, step), EXCHANGE, "given_up", noted=True, ends=(given_up,))
    because = None if len({state.due for state in now.met if state not in now.agreeing}) == 1 else "race"
    needs = EXCHANGE.and_proof(StillOpen(first.connection, second.packet))
    return Argument(text, (*now.known, rival, step), needs, "concurrent_requests", because=because)


def overtaken_and_served(now: Situation) -> Argument | None:
    """The session had moved on when the waiting fetch got its records: what is wrong with them can be told in a later
    epoch only."""
    step, ahead = now.step, now.overtaker
    if ahead is None or step.answer is None or not step.answer.acquired:
        return None
    text = (
        f"{step.here} with epoch {step.epoch} was due and waited; {ahead.story} on {ahead.connection.client}; "
        f"then {step.here} was answered with records all the same ({step.packets})"
    )
    return Argument(text, (*now.known, ahead, step), because="unanswered" if ahead.answer is None else None)


def two_writers(now: Situation) -> Argument | None:
    """Another connection used the session since this one did last: two writers with one member id."""
    step, session = now.step, now.session
    last, here = session.last, now.before_here
    if last is None or here is None or last.connection is step.connection or last.packet < here.packet:
        return None
    opening = session.opening
    elsewhere = opening is not None and opening.connection is not step.connection and opening.packet > here.packet
    told = opening if elsewhere and opening is not None else last
    text = (
        f"{here.story}; {told.story} on {told.connection.client}{_same(told, step)}; {step.story} on "
        f"{step.connection.client} again"
    )
    return Argument(text, (here, told, step), cause="reopened_elsewhere" if elsewhere else "two_writers")


def _same(one: Step, two: Step) -> str:
    """Whether both connections are one client's, as far as they say."""
    same = one.connection.host == two.connection.host and one.client_id == two.client_id
    return ", another connection of that client" if same else ", another client"


def crossed(now: Situation) -> Argument | None:
    """The session is used on a connection that did not open it, and ends with the one that did (4.1 and later)."""
    step, opening = now.step, now.session.opening
    if opening is None or opening.connection is step.connection:
        return None
    if step.connection.flow.id in now.session.crossed:
        return None
    text = f"{opening.story} on {opening.connection.client}; {step.story} on {step.connection.client}"
    return Argument(text, (opening, step), noted=True)


def concurrent(now: Situation) -> Argument | None:
    """Sent while another request of the session was open on another connection; on one connection they are handled in
    order."""
    step, session = now.step, now.session
    if now.met is not None and not now.agreeing:
        return None
    for other in session.overlapping:
        if other.connection is step.connection or other.answer is None or not other.packet < step.packet < other.end:
            continue
        clock = step.connection.clock
        if not (clock.is_before(other.time_ns, step.time_ns) and clock.is_before(step.time_ns, other.end_ns)):
            continue
        left = other.connection.client_fin
        if left is not None and left < step.packet:
            continue
        if session.contradicted_at >= other.packet or _may_be_copies(other, step):
            continue
        if now.is_shifted(other):
            continue
        text = (
            f"{step.here} with epoch {step.epoch} was sent on {step.connection.client} (packet {step.packet}) while "
            f"{other.here} with epoch {other.epoch} was open on {other.connection.client} ({other.packets})"
        )
        is_doubtful = other.opens or (step.opens and session.opening is not None and may_be_copy(session.opening, step))
        proof = WentOn(session, other) if is_doubtful else StillOpen(other.connection, other.end)
        needs = EXCHANGE.and_proof(proof, "hidden_traffic" if is_doubtful else "end_not_seen")
        # it may have been under way for long, on a connection that its client has given up since
        return Argument(text, (other, step), needs, because="unanswered" if step.answer is None else None)
    return None


def _may_be_copies(other: Step, step: Step) -> bool:
    """Whether a proxy or a NAT explains the two: as one request that it passed on, or as two that are not open at once
    but by the clock of one of its sides."""
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
        must="A member id belongs to one consumer, which keeps one epoch count per session.",
        advice="Give each consumer its own member id: a random UUID made when it starts. Look for a copied id, or for "
        "one consumer used by two threads.",
        wrong="ShareFetch epoch 0 → 0; on B: ShareFetch epoch 1 → 0; ShareFetch epoch 1 → 123",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → 0; ShareFetch epoch 2 → 0",
        source="KIP-932",
        verdicts=EXPLAINS,
        causes=("two_writers", "reopened_elsewhere"),
        machine=SESSION,
        checks=(Check(two_writers, (SUBSEQUENT,), _REFUSED, order=40),),
    ),
    Rule(
        number=33,
        code="CONCURRENT_SESSION_REQUESTS",
        text="A request of the session was sent while another was open on another connection.",
        must="A session has one open request at a time.",
        advice="Wait for the answer before you send the session's next request, even while a ShareFetch waits for "
        "records. Requests on two connections have no order.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; on B: ShareAcknowledge epoch 2 → 0; … → 0; ShareFetch "
        "epoch 3 → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; … → 0; ShareAcknowledge epoch 2 → 0; ShareFetch epoch "
        "3 → 0",
        source="Kafka: ShareConsumeRequestManager",
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
        must="While a ShareFetch waits, its session sends no other request.",
        advice="Wait for the ShareFetch (a shorter max_wait_ms makes this quick), then acknowledge. The records that "
        "the overtaken fetch acquired are delivered again after their lock expires, with a higher delivery count.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; on B: ShareAcknowledge epoch 2 → 0; … → 123; "
        "ShareFetch epoch 0 → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch 1 → …; … → 0; ShareAcknowledge epoch 2 → 0; ShareFetch epoch "
        "3 → 0",
        source="Kafka: ShareSessionContext",
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
