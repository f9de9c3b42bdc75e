"""Limit the number of series: the largest are kept, the rest is summed (counters) or left out (gauges).

A counter's series never goes backwards. What is counted while a series is not shown counts under OTHER, and a series
that is shown later begins with what is counted from then on; so no increase is counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshark.live.metrics.families import BUCKETS, OTHER, Family, Key, Series, Values

#: The most series in one answer.
MOST: Final = 1_000
#: Series of a histogram: its buckets, one for the rest, the sum and the count.
HISTOGRAM_SERIES: Final = len(BUCKETS) + 3
_LEFT_OUT: Final = "kshark_series_left_out"
#: A hidden series takes the place of a shown one if its total is this many times higher: they do not change places
#: with every scrape.
_CLEARLY: Final = 2


class Limiter:
    """Choose the series that are shown; `limit` takes all of them, and must see all states in their order."""

    def __init__(self, families: tuple[Family, ...], most: int = MOST) -> None:
        self._families = families
        self._most = most
        self._counters = {
            family.name: _Counters(len(family.labels)) for family in families if family.kind in ("counter", "histogram")
        }

    def limit(self, series: Series) -> Series:
        """Return at most `most` series."""
        budgets = self._budgets(series)
        shown: Series = {}
        left_out: dict[Key, Values] = {}
        for family in self._families:
            name, keys = family.name, series.get(family.name, {})
            counters = self._counters.get(name)
            if counters is not None:
                shown[name], hidden = counters.take(keys, budgets[name])
            else:
                shown[name] = dict([*keys.items()][: budgets[name]])
                hidden = len(keys) - len(shown[name])
            if hidden:
                left_out[(name,)] = (hidden,)
        shown[_LEFT_OUT] = left_out
        return shown

    def _budgets(self, series: Series) -> dict[str, int]:
        """Return the number of keys that each family may show: an equal part, or all where that is less."""
        room = self._most - len(self._families)  # a line of _LEFT_OUT for each
        widths = {family.name: HISTOGRAM_SERIES if family.kind == "histogram" else 1 for family in self._families}
        demands = {
            name: (len(series.get(name, ())) + (name in self._counters)) * width for name, width in widths.items()
        }
        budgets = {}
        for left, name in zip(range(len(demands), 0, -1), sorted(demands, key=demands.__getitem__), strict=True):
            granted = min(demands[name], room // left)
            budgets[name] = granted // widths[name]
            room -= granted
        return budgets


class _Counters:
    """The series of one counter family, as they are shown."""

    def __init__(self, labels: int) -> None:
        self._other: Key = (OTHER,) * labels
        #: What was counted of each series: in all, and while it was shown.
        self._totals: dict[Key, Values] = {}
        self._values: dict[Key, Values] = {}
        self._shown: set[Key] = set()
        #: What was counted of series while they were not shown; None: nothing yet.
        self._rest: Values | None = None

    def take(self, totals: Mapping[Key, Values], most: int) -> tuple[dict[Key, Values], int]:
        """Return at most `most` series and the number of hidden ones, after counting what is new in `totals`.

        A total that is lower than before was counted anew from zero; one that is missing is forgotten.
        """
        totals = dict(totals)
        hidden_before = totals.pop(self._other, None) if self._other else None
        self._shown &= totals.keys()
        self._choose(totals, most)
        values: dict[Key, Values] = {}
        for key, total in totals.items():
            increase = _increase(total, self._totals.get(key))
            value = self._values.get(key)
            if key in self._shown:
                value = increase if value is None else _sum(value, increase)
            else:
                self._rest = increase if self._rest is None else _sum(self._rest, increase)
            if value is not None:
                values[key] = value
        if hidden_before is not None:  # summed before it came here
            increase = _increase(hidden_before, self._totals.get(self._other))
            self._rest = increase if self._rest is None else _sum(self._rest, increase)
            totals[self._other] = hidden_before
        self._totals, self._values = totals, values
        result = {key: values[key] for key in totals if key in self._shown}
        if self._rest is not None:
            result[self._other] = self._rest
        return result, len(totals) - (hidden_before is not None) - len(self._shown)

    def _choose(self, totals: Mapping[Key, Values], most: int) -> None:
        """Choose the shown series: the largest, but those shown before stay if others are not clearly larger."""
        has_other = self._rest is not None or self._other in totals or len(totals) > most
        room = max(0, most - (has_other and bool(self._other)))
        if len(totals) <= room:
            self._shown = {*totals}
            return

        def size(key: Key) -> float:
            return totals[key][0]

        shown = sorted(self._shown, key=size, reverse=True)[:room]
        waiting = sorted(totals.keys() - {*shown}, key=size, reverse=True)
        free = room - len(shown)
        shown += waiting[:free]
        shown.sort(key=size)
        for smallest, largest in zip([*shown], waiting[free:], strict=False):
            if size(largest) <= _CLEARLY * size(smallest):
                break
            shown.remove(smallest)
            shown.append(largest)
        self._shown = {*shown}


def _increase(total: Values, before: Values | None) -> Values:
    if before is None or total[0] < before[0]:
        return total
    return tuple([new - old for new, old in zip(total, before, strict=True)])


def _sum(first: Values, second: Values) -> Values:
    return tuple([one + two for one, two in zip(first, second, strict=True)])
