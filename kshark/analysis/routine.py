"""The short way of most steps: the request that was due, on the connection used before, accepted, everything around it seen.

No rule has anything to say of such a step and its effect is known, so that the situation it met need not be drawn up. The long way comes to
the same (`Analyzer(exact=True)` takes no other; tests hold the two together).
"""

from __future__ import annotations

from kshark.analysis.memory import Memory
from kshark.analysis.steps import SUBSEQUENT, TAKEN, Step, next_epoch


def is_routine(memory: Memory, step: Step) -> bool:
    """Whether all of it is as it was at the step before, but for the epoch; what would call for a rule makes it False."""
    last, expected = memory.last, memory.expected
    return (
        step.reply is TAKEN
        and step.kind is SUBSEQUENT
        and expected is not None
        and len(expected) == 1
        and step.epoch in expected
        and last is not None
        and last.connection is step.connection
        and memory.overlapping == [last]
        and last.end < step.packet
        and (memory.opening is None or memory.opening.connection is step.connection)
        and step.any_doubt is None
        and not memory.broker.lost
        # The rules about partitions have none to look at.
        and not step.forgotten
        and not memory.holdings.acknowledged_only
        and not step.duplicates
    )


def advance(memory: Memory, step: Step) -> None:
    """The session goes on by one epoch."""
    memory.expected = frozenset((next_epoch(step.epoch),))
    memory.anchor = step
    memory.remember(step, TAKEN)
