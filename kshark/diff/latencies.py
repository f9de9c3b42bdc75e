"""Differences of latencies, by API: the broker's work, and apart from it the time for which it waits on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kshark.diff.blocks import BlockLatencies
from kshark.diff.chance import CHANCE, Share, chance
from kshark.diff.difference import Difference, Verdict
from kshark.diff.profile import Profile
from kshark.diff.rates import times
from kshark.registry import Registry
from kshark.units import duration, number

#: Percentiles, and the fewest latencies of each capture for which they mean something.
_LEAST: Final = {50: 10, 99: 100}
#: A smaller difference hurts nobody.
_SMALLEST_NS: Final = 1_000_000


def latency_differences(before: Profile, after: Profile, registry: Registry, threshold: float) -> Iterator[Difference]:
    """Yield a row for each percentile of an API that both captures measure. Needs captures with times."""
    if not (before.has_clock and after.has_clock):
        return
    for name in ("work", "wait"):
        yield from _of_part(getattr(before, name), getattr(after, name), registry, threshold, is_work=name == "work")


def _of_part(
    before: BlockLatencies, after: BlockLatencies, registry: Registry, threshold: float, *, is_work: bool
) -> Iterator[Difference]:
    percents = [*_LEAST]
    measured = before.percentiles(*percents), after.percentiles(*percents)
    for api_key in sorted(measured[0].keys() & measured[1].keys()):
        (count_before, all_before), (count_after, all_after) = (each[api_key] for each in measured)
        for percent, old_ns, new_ns in zip(percents, all_before, all_after, strict=True):
            name = f"{registry.name(api_key) or f'API {api_key}'} {'' if is_work else 'wait '}p{percent}"
            values = {"ms": old_ns / 1e6, "count": count_before}, {"ms": new_ns / 1e6, "count": count_after}
            if min(count_before, count_after) < _LEAST[percent]:
                yield _row(name, values, is_work, None, "not comparable", f"{name}: too few latencies to compare.")
                continue
            odds = None
            verdict: Verdict = "same"
            if _differ(old_ns, new_ns, threshold):
                odds = _odds(before, after, api_key, old_ns, new_ns)
                if odds < CHANCE:
                    verdict = ("worse" if new_ns > old_ns else "better") if is_work else "changed"
            yield _row(name, values, is_work, odds, verdict, _sentence(name, values, verdict, odds))


def _differ(old_ns: int, new_ns: int, threshold: float) -> bool:
    low, high = sorted((old_ns, new_ns))
    return high - low >= _SMALLEST_NS and high >= threshold * low


def _odds(before: BlockLatencies, after: BlockLatencies, api_key: int, old_ns: int, new_ns: int) -> float:
    """Return the chance that so many more latencies are longer than one between both percentiles."""
    between_ns = round((max(old_ns, 1) * max(new_ns, 1)) ** 0.5)
    old, new = (Share.made_of(each.longer_than(api_key, between_ns)) for each in (before, after))
    return chance(old, new)


def _row(
    name: str, values: tuple[Any, Any], is_work: bool, odds: float | None, verdict: Verdict, sentence: str
) -> Difference:
    old, new = (value["ms"] for value in values)
    growth = round(new / old, 4) if old else None
    kind, is_worse = ("latency", verdict == "worse") if is_work else ("wait", False)
    return Difference(kind, name, *values, growth, verdict, sentence, is_worse=is_worse, chance=odds)  # type: ignore[arg-type]


def _sentence(name: str, values: tuple[Any, Any], verdict: Verdict, odds: float | None) -> str:
    old, new = (value["ms"] for value in values)
    shown = [duration(round(value * 1e6)) for value in (old, new)]
    counts = f"{number(values[0]['count'])} and {number(values[1]['count'])} answers"
    if verdict == "same":
        text = f"{name}: {shown[1]}; {shown[0]} before ({counts})."
        return text if odds is None else f"{text} May be chance."
    low, high = sorted((old, new))
    word = "rose" if new > old else "fell"
    return f"{name} {word} from {shown[0]} to {shown[1]} ({f'{times(high / low)}; ' if low else ''}{counts})."
