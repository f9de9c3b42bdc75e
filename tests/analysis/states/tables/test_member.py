"""The table of members, held against the coordinator written a second time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest

from kshark.analysis.facts.calls import Answer
from kshark.analysis.facts.heartbeats import Beat, HeartbeatReply
from kshark.analysis.states.tables.member import (
    ABSENT,
    MemberState,
    proved_alone,
    relations,
    states_after,
)
from kshark.api_keys import SHARE_GROUP_HEARTBEAT
from tests.analysis.plain import connection

FENCED, UNKNOWN_MEMBER = 110, 25
HERE = connection()
GREATER, SMALLER = (
    f"The share group member has a {word} member epoch (8) than the one known" for word in ("greater", "smaller")
)


def beat(epoch: int, error: int | None, given: int | None = None, message: str = "") -> Beat:
    answer = None if error is None else Answer(11, 1, error, None)
    return Beat(
        HERE, SHARE_GROUP_HEARTBEAT, "", 1, 10, 0, 1, "c1", "g", "m", epoch, answer=answer, given=given, message=message
    )


def after(asked: Beat, state: MemberState) -> set[MemberState]:
    return {one for how in relations(asked.epoch, state) for one in states_after(asked, state, how)}


@dataclass
class Coordinator:
    """Kafka's GroupMetadataManager in ten lines: it gives `target` to whoever it takes a heartbeat of."""

    epoch: int
    previous: int
    target: int

    def ask(self, epoch: int) -> int:
        if epoch < -1:
            return 42
        if epoch == 0:
            self.epoch, self.previous = self.target, self.epoch
        elif self.epoch == ABSENT:
            return UNKNOWN_MEMBER
        elif epoch == -1:
            self.epoch = ABSENT
        elif epoch not in (self.epoch, self.previous):
            return FENCED
        elif self.epoch != self.target:
            self.epoch, self.previous = self.target, self.epoch
        return 0


@pytest.mark.parametrize(("known", "previous", "target"), [(ABSENT, ABSENT, 1), (5, 4, 5), (5, 3, 5), (5, 4, 7)])
@pytest.mark.parametrize("epoch", [-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8])
def test_the_table_and_the_coordinator_agree(known: int, previous: int, target: int, epoch: int) -> None:
    coordinator = Coordinator(known, previous, target)
    error = coordinator.ask(epoch)
    asked = beat(epoch, error, (-1 if coordinator.epoch == ABSENT else coordinator.epoch) if error == 0 else 0)
    (found,) = after(asked, MemberState(known, None if known == ABSENT else previous))
    assert found.epoch == coordinator.epoch
    assert found.previous in (None, coordinator.previous)
    if error == 0:
        alone = proved_alone(asked)
        assert alone is not None
        assert alone.epoch == coordinator.epoch


def test_an_unanswered_heartbeat_was_taken_or_not() -> None:
    assert after(beat(5, None), MemberState(5, 4)) == {MemberState(5, 4), MemberState(None, 5)}
    assert after(beat(4, None), MemberState(5, 4)) == {MemberState(5, 4), MemberState(None, 5)}
    assert after(beat(6, None), MemberState(5, 4)) == {MemberState(5, 4)}
    assert after(beat(0, None), MemberState(5, 4)) == {MemberState(5, 4), MemberState(None)}
    assert after(beat(-1, None), MemberState(5, 4)) == {MemberState(5, 4), MemberState(ABSENT, None, "left")}


def test_an_answer_may_contradict_a_standing() -> None:
    assert after(beat(5, FENCED), MemberState(5, 4)) == set()
    assert after(beat(5, UNKNOWN_MEMBER), MemberState(5, 4)) == set()
    assert after(beat(8, 0, 8), MemberState(5, 4)) == set()
    assert after(beat(5, 0, 4), MemberState(5, 4)) == set()
    assert after(beat(5, 0, 5), MemberState(ABSENT)) == set()


def test_brokers_say_how_a_fenced_epoch_stands() -> None:
    assert after(beat(8, FENCED, message=GREATER), MemberState(5, 4)) == {MemberState(5, 4)}
    assert after(beat(8, FENCED, message=SMALLER), MemberState(5, 4)) == set()


def test_a_lost_answer_is_made_up_for_by_the_next() -> None:
    """The epoch that was given unseen is the one before, if another came meanwhile."""
    unseen = after(beat(5, None), MemberState(5, 4))
    again = {one for state in unseen for one in after(beat(5, 0, 6), state)}
    assert again == {MemberState(6, 5), MemberState(6, None)}


def test_no_heartbeat_is_without_a_way_on() -> None:
    """Of each kind every answer leads somewhere from some state, or proves something alone, or contradicts the
    protocol."""
    errors = [reply.value for reply in HeartbeatReply]
    states = [MemberState(ABSENT), MemberState(5, 4), MemberState(None)]
    nowhere = {
        (epoch, error)
        for epoch, error in product((-2, -1, 0, 5), errors)
        if not any(after(beat(epoch, error, 5 if epoch >= 0 else -1), state) for state in states)
    }
    assert nowhere == {(-2, 0), (-1, FENCED), (-1, 81), (0, UNKNOWN_MEMBER), (5, 81)}
