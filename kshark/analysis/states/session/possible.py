"""Sets of possible states: the situation of a request, and the states that its answer leaves possible.

After a request without an answer the broker has processed it, or not. Of requests that are open at the same time on
several connections the broker processed one first, and the order is unknown. Each possibility is a branch. An answer
removes the branches that it contradicts. If it contradicts all of them, some traffic is missing, and only the facts
that the exchange itself proves are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kshark.analysis.facts.calls import (
    ACCEPTED,
    FAILED_REOPEN,
    INVALID_EPOCH,
    SUBSEQUENT,
    UNANSWERED,
    Reply,
    ShareStep,
    next_epoch,
)
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.known import Known, known_if
from kshark.analysis.states.session.end_causes import end_causes, is_unsure
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.session.state import REPLACED, UNSEEN, Branch, EndCause, PossibleState, SessionState
from kshark.analysis.states.tables.session import ABSENT, SessionEffect, due_after, proved_alone, thens

#: Branches that are followed at the same time; with more of them the state counts as unknown.
_BRANCHES: Final = 64
#: Requests open at the same time whose orders are tried; with more of them only the order of the capture is used.
_RIVALS: Final = 4
#: Later requests whose orders are tried after that; with more of them nothing is concluded.
_RIVALS_AFTER: Final = 6


def situation(session: SessionState, step: ShareStep, later: Sequence[ShareStep]) -> SessionSituation:
    """Return the states that the request may have met, and those that agree with the answer.

    `later`: requests sent before the answer, all of them settled.
    """
    _look_for_holes(session, step)
    rivals = tuple(other for other in later if other.connection is not step.connection)
    overtaker = _overtaker(step, rivals)
    seen = _open_beside(session, step, rivals)
    if session.branches is None:
        return SessionSituation(step, session, step.reply, None, (), (), seen, overtaker)
    met: list[PossibleState] = []
    ways: list[tuple[PossibleState, tuple[Branch, ...]]] = []
    for branch in session.branches:
        for ahead in _orders(session, branch, rivals, later):
            early = next((state for other, state in ahead.early if other is step), None)
            if early is not None:
                met.append(early)
                ways.append((early, (Branch(ahead.state, tuple(pair for pair in ahead.early if pair[0] is not step)),)))
                continue
            overtakes = overtaker is not None and all(other is not overtaker for other, _ in ahead.early)
            for state in _with_ends(session, ahead.state, step):
                met.append(state)
                following = _following(session, step, state, _reply(step, state, overtakes=overtakes))
                if following:
                    ways.append((state, tuple(Branch(after, ahead.early) for after in following)))
    if rivals:  # where no way agrees with the later answers, requests are missing
        ways = _agreeing_ways(session, ways, step, later)
    agreeing = _distinct(state for state, _ in ways)
    overtaken, contested = None, False
    if overtaker is not None and any(state.due == step.epoch for state in agreeing):
        contested = any(state.due != step.epoch for state in agreeing) or not _is_counted(overtaker, later)
        overtaken = None if contested else overtaker
    reply = ACCEPTED if overtaken is not None else step.reply
    after = _distinct_branches([branch for _, branches in ways for branch in branches])
    was_due = bool(rivals) and any(branch.state.due == step.epoch for branch in session.branches)
    return SessionSituation(step, session, reply, _distinct(met), agreeing, after, seen, overtaken, contested, was_due)


def conclude(situation: SessionSituation) -> None:
    """Set the states that are possible after the step, and add it to the session's past."""
    session, step = situation.session, situation.step
    if step.refused and situation.continues:
        session.refused_in_sequence = step
    _set_branches(situation)
    if step.is_counted or proved_alone(step, step.reply) is not None:
        session.anchor = step
    if step.is_counted and (step.opens or session.unbroken is None):
        session.unbroken = step
    session.remember(step, situation.reply)


def _set_branches(situation: SessionSituation) -> None:
    """Set the branches after the step: those that agree with its answer, or else the state that it proves alone."""
    session, step = situation.session, situation.step
    proved = proved_alone(step, situation.reply)
    if step.any_doubt is not None:
        session.lose_sight(step.any_doubt)
    elif situation.after:
        session.branches = situation.after
        if len(session.branches) > _BRANCHES:
            session.lose_sight("unanswered")
    elif proved is not None:
        session.unbroken = None
        if situation.met is not None:
            session.in_flight.forget()
            session.count, session.contradicted_at = 0, step.packet
        state = _state_after(session, proved, step, PossibleState(ABSENT), situation.reply)
        if state.ended is not None and state.ended.cause == UNSEEN:
            state.ended = state.ended._replace(known=situation.knowledge)
        session.branches = (Branch(state),)
    elif situation.met is not None:
        session.contradicted_at = step.packet
        session.lose_sight("hidden_traffic")


# -- one step in one state


def _following(session: SessionState, step: ShareStep, state: PossibleState, reply: Reply) -> tuple[PossibleState, ...]:
    """Return the states that are possible after the step; none if the answer contradicts the state."""
    return tuple(_state_after(session, then, step, state, reply) for then in thens(step, state.due, reply))


def _state_after(
    session: SessionState, then: SessionEffect, step: ShareStep, state: PossibleState, reply: Reply
) -> PossibleState:
    due = due_after(then, step, state.due)
    if then is SessionEffect.STAYS:
        return state
    if then is SessionEffect.NEXT:
        return PossibleState(due, state.opening, None, state.replaced)
    if then is SessionEffect.FIRST:
        return PossibleState(
            due,
            step,
            None,
            tuple(connection for connection in _openers(state, step) if connection is not step.connection),
        )
    if state.due == ABSENT and state.ended is not None and not step.opens:
        return state
    ended = EndCause(_end_cause_of(step, reply), step.end, step.end_ns, step.story, step, _answer_known(reply))
    return PossibleState(due, None, ended, _openers(state, step))


def _openers(state: PossibleState, step: ShareStep) -> tuple[ConnectionFacts, ...]:
    """Return the open connections that have opened a session of the member.

    Release 4.1 ends sessions with them, even if their own sessions were replaced.
    """
    opened = (*state.replaced, state.opening.connection) if state.opening is not None else state.replaced
    return tuple(
        connection
        for connection in dict.fromkeys(opened)
        if connection.over_at is None or connection.over_at > step.packet
    )[-REPLACED:]


def _end_cause_of(step: ShareStep, reply: Reply) -> str:
    """Return the cause of an end by a request; UNSEEN for a refusal that shows an end without a known cause."""
    if not step.opens:
        return "final_epoch" if reply is ACCEPTED or is_unsure(reply) else UNSEEN
    return "failed_reopen" if reply is FAILED_REOPEN else "session_limit"


def _answer_known(reply: Reply) -> Known:
    return known_if(not is_unsure(reply), "unanswered")


def _with_ends(session: SessionState, state: PossibleState, step: ShareStep) -> tuple[PossibleState, ...]:
    """Return the state, and the states without a session after other causes than a request."""
    if state.due == ABSENT or (step.is_counted and not step.opens):
        return (state,)
    return (
        state,
        *(PossibleState(ABSENT, None, cause, _openers(state, step)) for cause in end_causes(session, state, step)),
    )


def _reply(step: ShareStep, state: PossibleState, *, overtakes: bool) -> Reply:
    """Return the reply before the broker changed it: an overtaken fetch was accepted first."""
    return ACCEPTED if overtakes and state.due == step.epoch and step.reply is INVALID_EPOCH else step.reply


# -- requests that are open at the same time


def _overtaker(step: ShareStep, rivals: Sequence[ShareStep]) -> ShareStep | None:
    """Return the request on another connection that advanced the session while this fetch waited.

    Kafka compares the epoch again before it answers (ShareSessionContext); later releases may also deliver the records.
    A request after an opening belongs to another session. The one that advanced it may be overtaken itself.
    """
    if not rivals or not step.is_fetch or step.kind is not SUBSEQUENT or step.reply not in (INVALID_EPOCH, ACCEPTED):
        return None
    opened = min((other.arrival for other in rivals if other.opens), default=step.end)
    refused = step.reply is INVALID_EPOCH
    follows = [
        other
        for other in _followers(step, rivals)
        if other.arrival < opened
        and (
            other.reply is UNANSWERED
            or (other.is_counted and (refused or other.end < step.end))
            or (refused and other.is_fetch and other.reply is INVALID_EPOCH)
        )
    ]
    return min(follows, key=lambda other: other.reply is INVALID_EPOCH, default=None)


def _followers(step: ShareStep, others: Iterable[ShareStep]) -> Iterator[ShareStep]:
    """Yield the requests with the next epoch that the broker took from other connections while the request was open."""
    for other in others:
        continues = other.kind is SUBSEQUENT and other.epoch == next_epoch(step.epoch)
        if continues and other.connection is not step.connection and step.arrival < other.arrival < step.end:
            yield other


def _is_counted(overtaker: ShareStep, later: Iterable[ShareStep]) -> bool:
    """True if the broker counted a request, unless it was refused at once: of a refused one, if the next was counted
    while it waited.
    """
    return overtaker.reply is not INVALID_EPOCH or any(other.is_counted for other in _followers(overtaker, later))


def _open_beside(session: SessionState, step: ShareStep, rivals: Iterable[ShareStep]) -> tuple[ShareStep, ...]:
    """Return the requests that the session counted while they were open at the same time on other connections."""
    around = (*session.overlapping, *rivals)
    return tuple(
        other
        for other in around
        if other.connection is not step.connection and other.is_counted and other.end > step.packet
    )


def _orders(
    session: SessionState, branch: Branch, rivals: Sequence[ShareStep], later: Sequence[ShareStep]
) -> Iterator[Branch]:
    """Yield the branch, and the branches in which the broker processed some rivals before the step."""
    yield branch
    if not rivals or len(rivals) > _RIVALS:
        return
    for rival in rivals:
        if any(other is rival for other, _ in branch.early) or _waits(rival, branch, later):
            continue
        for state in _with_ends(session, branch.state, rival):
            for following in _following(session, rival, state, rival.reply):
                yield from _orders(session, Branch(following, (*branch.early, (rival, state))), rivals, later)


def _waits(rival: ShareStep, branch: Branch, later: Sequence[ShareStep]) -> bool:
    """True if another request on the rival's connection comes first: the broker processes a connection in order."""
    return any(
        other.connection is rival.connection
        and other.arrival < rival.arrival
        and all(early is not other for early, _ in branch.early)
        for other in later
        if other is not rival
    )


def _agreeing_ways(
    session: SessionState,
    ways: Iterable[tuple[PossibleState, tuple[Branch, ...]]],
    step: ShareStep,
    later: Sequence[ShareStep],
) -> list[tuple[PossibleState, tuple[Branch, ...]]]:
    """Keep the possibilities that agree with the answers to later requests."""

    def is_possible(branch: Branch) -> bool:
        left = [other for other in later if other is not step and all(early is not other for early, _ in branch.early)]
        return len(left) > _RIVALS_AFTER or _has_order(session, (branch.state,), left, step.end)

    left = ((state, tuple(filter(is_possible, branches))) for state, branches in ways)
    return [(state, branches) for state, branches in left if branches]


def _has_order(session: SessionState, states: tuple[PossibleState, ...], left: Sequence[ShareStep], by: int) -> bool:
    """True if an order of these requests agrees with all answers until packet `by`. Unanswered ones may come later."""
    if all(step.reply is UNANSWERED or step.end > by for step in left):
        return True
    for step in left:
        others = [other for other in left if other is not step]
        if any(_comes_first(other, step) for other in others):
            continue
        after = _after(session, states, step, others)
        if after and _has_order(session, after, others, by):
            return True
    return False


def _comes_first(first: ShareStep, second: ShareStep) -> bool:
    """True if the broker processed the first request before the other one.

    On one connection the requests are in order. Otherwise the first was answered before the other was sent.
    """
    return first.arrival < second.arrival if first.connection is second.connection else first.end < second.packet


def _after(
    session: SessionState, states: Iterable[PossibleState], step: ShareStep, others: Iterable[ShareStep]
) -> tuple[PossibleState, ...]:
    """Return the possible states after a request. It may also have been counted before its answer was changed."""
    met = [possible for state in states for possible in _with_ends(session, state, step)]
    after = [following for state in met for following in _following(session, step, state, step.reply)]
    follows = any(other.kind is SUBSEQUENT and other.epoch == next_epoch(step.epoch) for other in others)
    if follows and step.is_fetch and step.kind is SUBSEQUENT and step.reply is INVALID_EPOCH:
        due = [state for state in met if state.due == step.epoch]
        after += [following for state in due for following in _following(session, step, state, ACCEPTED)]
    return _distinct(after)


# -- sets of states


def _distinct(states: Iterable[PossibleState]) -> tuple[PossibleState, ...]:
    kept = tuple(states)
    return kept if len(kept) < 2 else tuple({state.identity: state for state in kept}.values())


def _distinct_branches(branches: Sequence[Branch]) -> tuple[Branch, ...]:
    if len(branches) < 2:
        return tuple(branches)
    return tuple(
        {(branch.state.identity, *(id(step) for step, _ in branch.early)): branch for branch in branches}.values()
    )


def _look_for_holes(session: SessionState, step: ShareStep) -> None:
    """Forget the state of the session if requests may be missing."""
    reason = None if session.branches is None else session.missing_before(step)
    if reason is not None:
        session.lose_sight(reason)
        if session.opening is not None and step.connection is not session.opening.connection:
            session.opening = None
