"""What Writes come to is the same whenever it is asked for; what the start offset has passed is not kept for whoever
never asks."""

from __future__ import annotations

from random import Random

import pytest

from kshark.analysis.facts.calls import Call
from kshark.analysis.facts.state_steps import StateBatch, StateStep
from kshark.analysis.states.stored.batches import StoredBatches
from tests.analysis.plain import connection

BY = StateStep(Call(connection(), 85, "WriteShareGroupState", 1, 1, 0, 1, None, "orders", None, 0), ("t", 0))


def written(random: Random) -> list[tuple[list[StateBatch], int | None]]:
    """Writes of one partition, start offsets among them that go back."""
    start, writes = 0, []
    for _ in range(80):
        start = max(start + random.randint(-3, 9), 0)
        batches = []
        for _ in range(random.randint(0, 4)):
            first = start + random.randint(-6, 20)
            batches.append(
                StateBatch(first, first + random.randint(-1, 8), random.choice((0, 2, 4)), random.randint(1, 4))
            )
        writes.append((batches, random.choice((None, -1, start, start, start))))
    return writes


@pytest.mark.parametrize("seed", range(40))
def test_asking_changes_nothing(seed: int) -> None:
    random = Random(seed)
    often, once = StoredBatches(), StoredBatches()
    for batches, start in written(random):
        often.add(batches, BY, start)
        once.add(batches, BY, start)
        assert often.highest == once.highest
        assert len([*often]) == often.size
        if random.random() < 0.02:
            assert [*often] == [*once]
    assert [*often] == [*once]


def test_nothing_is_kept_of_writes_that_the_start_offset_has_passed() -> None:
    stored = StoredBatches()
    for at in range(0, 100_000, 10):
        stored.add([StateBatch(at, at + 9, 2, 1)], BY, at)
        assert stored.size <= 2
    assert [(one.first, one.last) for one in stored] == [(99_990, 99_999)]
    assert stored.highest == 99_999


def test_a_window_that_stands_still_is_put_together_now_and_then() -> None:
    stored = StoredBatches()
    for at in range(0, 10_000, 10):
        stored.add([StateBatch(at, at + 9, 2, 1)], BY, 0)
        assert stored.size <= at // 10 + 34
    assert len([*stored]) == 1_000
