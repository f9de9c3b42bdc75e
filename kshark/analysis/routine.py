"""The short way of most steps: the request that was due, on the connection used before, accepted, everything around it seen.

No rule has anything to say of such a step and its effect is known, so that the situation it met need not be drawn up. The long way comes to
the same (`Analyzer(exact=True)` takes no other; tests hold the two together).
"""

from __future__ import annotations

from kshark.analysis.memory import Memory
from kshark.analysis.steps import SUBSEQUENT, TAKEN, Step, next_epoch


def is_routine(memory: Memory, step: Step) -> bool:
    """Whether all of it is as it was at the step before, but for the epoch; what would call for a rule makes it False."""
    last, expected, overlapping, opening = memory.last, memory.expected, memory.overlapping, memory.opening
    return (
        step.reply is TAKEN
        and step.kind is SUBSEQUENT
        # Its epoch was due, and no other.
        and expected is not None
        and len(expected) == 1
        and step.epoch in expected
        # The step before it was accepted too, on the same connection, and had its answer.
        and last is not None
        and last.connection is step.connection
        and len(overlapping) == 1
        and overlapping[0] is last
        and memory.unanswered is None
        and last.end < step.packet
        and (opening is None or opening.connection is step.connection)
        # Every byte was seen.
        and step.any_doubt is None
        and not memory.broker.lost
        # The rules about partitions have none to look at.
        and not step.forgotten
        and not memory.holdings.acknowledged_only
        and not (len(step.listed) > 1 and step.duplicates)
    )


def advance(memory: Memory, step: Step) -> None:
    """The session goes on by one epoch; of what `Memory.remember` looks after, this is all that changes."""
    memory.expected = frozenset((next_epoch(step.epoch),))
    memory.anchor = memory.alive = memory.last = step
    if step.is_fetch:
        memory.last_fetch = step
    else:
        memory.last_acknowledge = step
    memory.gone, memory.ever_opened = None, True
    trace = memory.here[step.connection.flow.id]
    trace.last, trace.openings = step, ()
    memory.overlapping = [step]
    if step.listed or (step.answer is not None and step.answer.acquired):
        memory.holdings.take(step, TAKEN)
        step.lighten()
