"""Plain Writes of share state: rules that permit it do not read them."""

from __future__ import annotations

from collections.abc import Iterable

from kshark.analysis.facts.state_steps import StateBatch, StateStep
from kshark.analysis.states.stored.state import StoredState
from kshark.analysis.states.tables.in_flight import STORED
from kshark.analysis.states.tables.persister import LONGEST_WINDOW


def is_plain(step: StateStep, stored: StoredState) -> bool:
    """True if the step is an accepted Write with the epochs of the Write before on its connection, and valid batches.

    No rule needs such a step.
    """
    if not step.accepted or not step.is_write or step.call.any_doubt is not None:
        return False
    before = stored.sender(step).write
    if before is None:
        return False
    start = step.start_offset
    return (
        step.state_epoch == before.state_epoch
        and step.leader_epoch == before.leader_epoch
        and step.negative is None
        and start is not None
        and before.start_offset is not None
        and start >= before.start_offset
        and (stored.start_offset is None or start >= stored.start_offset)
        and (step.complete_count is None or -1 <= step.complete_count <= LONGEST_WINDOW)
        and _are_sound(step.batches, start)
    )


def _are_sound(batches: Iterable[StateBatch], start: int) -> bool:
    """True if the batches are in order from the start offset on, and all can be stored."""
    before = start - 1
    for first, last, state, delivery_count in batches:
        if not before < first <= last or state not in STORED or delivery_count < 0:
            return False
        before = last
    return True
