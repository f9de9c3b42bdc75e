"""What is believed of a session's state: the situation a request meets, and what its answer leaves possible.

The expected epoch is a small set: after a request without an answer it was taken or not. The answer picks those of its members that it
agrees with; where it agrees with none, something was not seen, and only what the exchange proves by itself is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kshark.analysis.endings import endings_before
from kshark.analysis.memory import Memory, Situation
from kshark.analysis.steps import OTHER_EPOCH, SUBSEQUENT, TAKEN, Reply, Step, next_epoch
from kshark.analysis.table import ABSENT, proved_alone, states_after

#: Epochs that may be due at the same time; with more of them nothing is known.
_FEW: Final = 64
_NONE: Final[frozenset[int]] = frozenset()


def situation(memory: Memory, step: Step, later: Sequence[Step]) -> Situation:
    """What was known when the request came, and which of it the answer agrees with; `later` are requests sent before the answer."""
    _look_for_holes(memory, step)
    endings = endings_before(memory, step)
    expected = memory.expected
    if expected is not None and endings:
        expected = expected | {ABSENT}
    overtaker, rivals = _others_open(memory, step, later) if step.reply is OTHER_EPOCH else (None, ())
    if expected is not None and step.epoch not in expected:
        overtaker = None  # refused at once, whatever came behind it
    reply = TAKEN if overtaker is not None else step.reply
    agreeing, after = _weighed(step, expected, reply)
    doubt = memory.doubt if expected is None else None
    here = memory.here.get(step.connection.flow.id)
    return Situation(step, memory, reply, expected, agreeing, after, doubt, here, endings, overtaker, rivals)


def _weighed(step: Step, expected: frozenset[int] | None, reply: Reply) -> tuple[frozenset[int], frozenset[int]]:
    """The expected states that the answer agrees with, and what is possible after them."""
    if not expected:
        return _NONE, _NONE
    if len(expected) == 1:
        (state,) = expected
        after = states_after(step, state, reply)
        return expected if after else _NONE, after
    following = {state: states_after(step, state, reply) for state in expected}
    return frozenset(state for state, after in following.items() if after), _NONE.union(*following.values())


def conclude(now: Situation) -> None:
    """The states that are possible now; then the step belongs to the past."""
    memory, step = now.memory, now.step
    doubt = step.any_doubt
    if doubt is not None:
        lose_sight(memory, doubt)
    elif now.agreeing:
        memory.expected = now.after
        if len(now.after) > _FEW:
            lose_sight(memory, "unanswered")
    elif (proved := proved_alone(step, now.reply)) is not None:
        if now.expected is not None:
            memory.holdings.forget()
        memory.expected = frozenset({proved})
    elif now.expected is not None:
        lose_sight(memory, "hidden_traffic")
    if step.reply is TAKEN or proved_alone(step, step.reply) is not None:
        memory.anchor = step
    memory.remember(step, now.reply)


def lose_sight(memory: Memory, doubt: str) -> None:
    """What was known of the session may be wrong."""
    memory.expected, memory.doubt = None, doubt
    memory.holdings.forget()


def _look_for_holes(memory: Memory, step: Step) -> None:
    """Requests of this session may have been lost on any connection that it uses."""
    if memory.anchor is None or memory.expected is None or not memory.broker.lost:
        return
    used = [trace.last.connection for trace in memory.here.values()]
    for connection in (*used, step.connection):
        reason = connection.lost.between(memory.anchor.packet, step.packet) if connection.lost else None
        if reason is not None:
            lose_sight(memory, reason)
            if memory.opening is not None and step.connection is not memory.opening.connection:
                memory.opening = None
            return


def _others_open(memory: Memory, step: Step, later: Sequence[Step]) -> tuple[Step | None, tuple[Step, ...]]:
    """The request that overtook a refused one, and all accepted ones that were open at the same time on other connections."""
    others = [
        other
        for other in (*memory.overlapping, *later)
        if other.connection is not step.connection and other.reply is TAKEN and other.end > step.packet
    ]
    ahead = (other for other in others if step.is_fetch and other in later and other.end < step.end and _follows(other, step))
    return next(ahead, None), tuple(others)


def _follows(other: Step, step: Step) -> bool:
    return other.kind is SUBSEQUENT and other.epoch == next_epoch(step.epoch)
