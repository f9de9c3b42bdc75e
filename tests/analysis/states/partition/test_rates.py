"""How members acknowledge: counted from the first record on that was not accepted."""

from __future__ import annotations

from unittest.mock import patch

from kshark import limits
from kshark.analysis.states.partition.rates import Rate, Rates
from kshark.analysis.states.partition.records_in_flight import AcknowledgedRange
from kshark.analysis.states.tables.in_flight import ACCEPT, GAP, REJECT, RELEASE, RENEW
from tests.analysis.plain import step


def counted(rates: Rates, *runs: tuple[int, int, int], member: str = "a" * 22) -> tuple[int, int, int, int] | None:
    rate = rates.count(step(1, member=member), "t", [AcknowledgedRange(*run) for run in runs])
    return None if rate is None else told(rate)


def told(rate: Rate) -> tuple[int, int, int, int]:
    return rate.requests, rate.accepted, rate.released, rate.rejected


def test_who_accepts_all_is_not_counted() -> None:
    rates = Rates()
    assert counted(rates, (0, 9, ACCEPT), (10, 10, GAP), (11, 12, RENEW)) is None
    assert counted(rates, (20, 24, ACCEPT), (25, 26, RELEASE), (27, 27, REJECT)) == (1, 5, 2, 1)
    assert counted(rates, (30, 34, ACCEPT)) == (2, 10, 2, 1)
    assert counted(rates, (0, 0, ACCEPT), member="b" * 22) is None


def test_long_ago_does_not_count() -> None:
    rates = Rates()
    assert counted(rates, (0, 999, RELEASE)) == (1, 0, 1000, 0)
    assert counted(rates, (1000, 1000, ACCEPT)) == (1, 1, 0, 0)


def test_who_was_not_heard_of_for_longest_is_forgotten() -> None:
    rates = Rates()
    with patch.object(limits, "RATIONED", 1):
        assert counted(rates, (0, 0, RELEASE)) == (1, 0, 1, 0)
        assert counted(rates, (1, 1, RELEASE), member="b" * 22) == (1, 0, 1, 0)
        assert counted(rates, (2, 2, ACCEPT)) is None
