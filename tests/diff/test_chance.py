"""The test of two rates: never more certain than the exact binomial test, and bursts count once."""

from __future__ import annotations

from math import comb, inf
from random import Random

import pytest

from kshark.diff.blocks import BLOCKS, BlockCounts, BlockLatencies, Series
from kshark.diff.chance import CHANCE, Share, bound, chance, design_effect, factor


def spread(count: int, of: int, blocks: int = BLOCKS) -> Share:
    """So many occurrences, one in a block as long as there are blocks."""
    return Share.made_of([(count * (at + 1) // blocks - count * at // blocks, of // blocks) for at in range(blocks)])


def burst(count: int, of: int, blocks: int = BLOCKS) -> Share:
    return Share.made_of([(count if at == 3 else 0, of // blocks) for at in range(blocks)])


def exact(before: int, after: int, expected: float) -> float:
    """The smaller tail of the binomial distribution."""
    total = before + after
    upper = sum(comb(total, at) * expected**at * (1 - expected) ** (total - at) for at in range(after, total + 1))
    lower = sum(comb(total, at) * expected**at * (1 - expected) ** (total - at) for at in range(after + 1))
    return min(upper, lower)


def test_the_bound_is_never_below_the_exact_test() -> None:
    random = Random(1)
    for _ in range(300):
        before, after, expected = random.randint(0, 40), random.randint(0, 40), random.uniform(0.05, 0.95)
        assert bound(before, after, expected) >= exact(before, after, expected) * (1 - 1e-9)


def test_it_is_exact_where_all_occurrences_are_on_one_side() -> None:
    assert bound(0, 14, 0.4) == pytest.approx(0.4**14)
    assert bound(14, 0, 0.4) == pytest.approx(0.6**14)


@pytest.mark.parametrize(("before", "after", "expected"), [(0, 0, 0.5), (3, 4, 0.0), (3, 4, 1.0), (5, 5, 0.5)])
def test_nothing_follows_from_nothing(before: int, after: int, expected: float) -> None:
    assert bound(before, after, expected) == 1


def test_a_burst_counts_once() -> None:
    assert design_effect(burst(100, 6400).series) == pytest.approx(100, rel=0.05)
    assert chance(spread(0, 6400), burst(100, 6400)) > 0.4
    assert chance(spread(0, 6400), spread(60, 6400)) < CHANCE


def test_occurrences_at_random_count_nearly_in_full() -> None:
    random = Random(2)
    effects = []
    for _ in range(50):
        series: Series = [(sum(random.random() < 0.05 for _ in range(50)), 50) for _ in range(BLOCKS)]
        effects.append(design_effect(series))
    assert sum(effects) / len(effects) < 2


def test_a_capture_of_few_packets_proves_nothing() -> None:
    assert chance(Share.made_of([(0, 20)]), Share.made_of([(20, 20)])) > 0.4


def test_the_factor_is_that_of_the_rates() -> None:
    assert factor(spread(10, 1280), spread(10, 640)) == 2
    assert factor(spread(0, 640), spread(5, 640)) == inf
    assert factor(spread(0, 640), spread(0, 640)) == 1
    assert factor(spread(3, 640), Share.made_of([])) == 0


def test_blocks_do_not_depend_on_the_order_of_packets() -> None:
    packets = [*range(1, 5000, 7)]
    counts = [BlockCounts(), BlockCounts()]
    for packet, other in zip(packets, Random(3).sample(packets, len(packets)), strict=True):
        counts[0].add("a", packet)
        counts[1].add("a", other)
    assert counts[0].series(["a"], ["a"]) == counts[1].series(["a"], ["a"])
    assert counts[0].total("a", "b") == len(packets)
    assert BLOCKS / 2 < len(counts[0].series(["a"], ["a"])) <= BLOCKS


def test_latencies_of_blocks_are_those_of_the_whole() -> None:
    random, latencies = Random(4), BlockLatencies()
    durations = [random.randint(1, 10**9) for _ in range(2000)]
    for packet, ns in enumerate(durations, 1):
        latencies.add(1, packet, ns)
    ((api_key, (count, (p50, p99))),) = latencies.percentiles(50, 99).items()
    ordered = sorted(durations)
    assert (api_key, count) == (1, 2000)
    assert [p50, p99] == pytest.approx([ordered[999], ordered[1979]], rel=0.007)
    series = latencies.longer_than(1, p50)
    assert sum(of for _, of in series) == 2000
    assert sum(longer for longer, _ in series) == pytest.approx(sum(ns > p50 for ns in durations), abs=8)
