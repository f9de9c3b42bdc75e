"""The test of two rates: may the difference be chance?

If a rate is the same before and after, each of the K occurrences falls into the second capture with the probability
q = its share of the opportunities (requests, answers). The chance of at least k of them there is a binomial tail;
Chernoff's bound on it, exp(-K · KL(k/K ‖ q)), is never too small, and exact where all K fall on one side.

Occurrences come in bursts: one outage refuses a hundred requests. So the counts of both captures are first divided by
their design effect: how many times more their blocks differ from each other than chance alone makes them differ. What
happens within one block counts as one occurrence, what happens all the time counts in full. Source: Kish, Survey
Sampling (1965), 8.2; Rao and Scott (1992) for rates.

Occurrences of several kinds have different q; the bound holds with their average (Hoeffding 1963), and the factor is
that of Mantel and Haenszel.
"""

from __future__ import annotations

from math import exp, inf, log
from typing import Final

from msgspec import Struct

from kshark.diff.blocks import Series

#: A difference counts if its chance is below this, the rate changes by the threshold, and the capture with more
#: occurrences has so many.
CHANCE: Final = 0.005
LEAST: Final = 5
#: Widths at which blocks are compared, in blocks: neighbours may belong to one burst.
_WIDTHS: Final = (1, 2, 4, 8)
#: With fewer blocks all occurrences count as one.
_FEW: Final = 4


class Share(Struct, frozen=True):
    """Occurrences of one capture, out of the opportunities for them, in all and by block."""

    count: int
    of: int
    series: Series

    @classmethod
    def made_of(cls, series: Series) -> Share:
        return cls(sum(count for count, _ in series), sum(of for _, of in series), series)

    @property
    def rate(self) -> float:
        return self.count / self.of if self.of else 0.0

    @property
    def per_1000(self) -> float:
        return 1000 * self.rate


def chance(before: Share, after: Share, expected: float | None = None) -> float:
    """Return the greatest probability of a difference like this, or a greater one, if the rates are the same.

    `expected`: the share of all occurrences that would then lie in the second capture; by default that of the totals.
    """
    effect = max(design_effect(before.series), design_effect(after.series))
    if expected is None:
        expected = after.of / (before.of + after.of) if before.of and after.of else 0.0
    return bound(before.count / effect, after.count / effect, expected)


def bound(before: float, after: float, expected: float) -> float:
    """Return Chernoff's bound for counts, which may be fractions; `expected` is the share of those after."""
    total = before + after
    if total <= 0 or not 0 < expected < 1:
        return 1.0
    share = after / total
    pairs = ((share, expected), (1 - share, 1 - expected))
    return min(1.0, exp(-total * sum(part * log(part / other) for part, other in pairs if part > 0)))


def factor(before: Share, after: Share) -> float:
    """Return how many times the rate grew; infinite if it was 0."""
    if not before.rate:
        return inf if after.rate else 1.0
    return after.rate / before.rate


def design_effect(series: Series) -> float:
    """Return how many occurrences count as one, from 1 on: the variance of the rate between blocks, over the one of
    independent occurrences. The largest of several widths of blocks."""
    if len(series) < _FEW:
        return max(1.0, float(sum(count for count, _ in series)))
    return max(_of_blocks(joined) for width in _WIDTHS if len(joined := _joined(series, width)) >= _FEW)


def _joined(series: Series, width: int) -> Series:
    """Return blocks of this width."""
    parts = (series[at : at + width] for at in range(0, len(series), width))
    return [(sum(count for count, _ in part), sum(of for _, of in part)) for part in parts]


def _of_blocks(series: Series) -> float:
    many, total, of = len(series), sum(count for count, _ in series), sum(of for _, of in series)
    if not total or not of:
        return max(1.0, float(total))
    rate = total / of
    squares = sum((count - rate * of) ** 2 for count, of in series) * many / (many - 1)
    return max(1.0, squares / (total * max(1 - rate, 1 / many)))
