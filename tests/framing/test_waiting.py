"""Where in the time line that stands which was known late."""

from __future__ import annotations

from random import Random

import pytest

from kshark.framing.waiting import Waits
from kshark.model import Late
from tests.test_guard import counting


@pytest.mark.parametrize("seed", range(20))
def test_what_was_known_late_stands_where_it_was_known(seed: int) -> None:
    """Pairs of packets in any order: the place is that of the last packet by which the one that is asked for was
    known."""
    random, waits = Random(seed), Waits()
    pairs: list[tuple[int, int]] = []
    for _ in range(40):
        since = random.randrange(100)
        pairs.append((since, since + random.randrange(1, 40)))
        waits.know(Late(1, since, pairs[-1][1]))
        for packet in range(140):
            assert waits.position(packet) == max(
                [known for since, known in pairs if since <= packet < known], default=packet
            )
    horizon = random.randrange(60)
    waits.forget(horizon)
    for packet in range(horizon + 1, 140):
        assert waits.position(packet) == max(
            [known for since, known in pairs if since <= packet < known], default=packet
        )


def test_a_place_is_found_as_fast_behind_many() -> None:
    def steps(count: int) -> int:
        waits = Waits()
        for number in range(count):
            waits.know(Late(1, 10 * number, 10 * number + 15))
        with counting() as counts:
            for number in range(100):
                assert waits.position(10 * number) == 10 * number + 15
        return counts.total()

    assert steps(10_000) == steps(100)
