"""Which packet of two connections came first."""

from __future__ import annotations

import pytest

from kshark.analysis.facts.connections import PacketOrder


@pytest.mark.parametrize(
    ("disorder_ns", "later_ns", "is_before"),
    [(0, 0, True), (0, -1, False), (5, 5, False), (5, 6, True), (5, -6, False)],
)
def test_times_within_the_disorder_have_no_order(disorder_ns: int, later_ns: int, is_before: bool) -> None:
    assert PacketOrder(disorder_ns).is_before(1000, 1000 + later_ns) is is_before


def test_a_capture_is_in_order_until_it_is_seen_not_to_be() -> None:
    assert PacketOrder().disorder_ns == 0
