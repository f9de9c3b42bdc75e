"""Compare the profiles of two captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, get_args

from msgspec import Struct

from kshark.diff.difference import Difference, Kind, Verdict
from kshark.diff.facts import fact_differences
from kshark.diff.latencies import latency_differences
from kshark.diff.profile import Profile
from kshark.diff.rates import rate_differences
from kshark.registry import Registry

_KINDS: Final = {kind: at for at, kind in enumerate(get_args(Kind))}
_VERDICTS: Final = {verdict: at for at, verdict in enumerate(get_args(Verdict))}


class Comparison(Struct):
    """The rows, the worst first, and both captures. `why_not`: why nothing could be compared, else empty."""

    before: Profile
    after: Profile
    rows: list[Difference]
    why_not: str = ""

    @property
    def worse(self) -> list[Difference]:
        return [row for row in self.rows if row.is_worse]

    @property
    def better(self) -> list[Difference]:
        return [row for row in self.rows if row.is_better]

    def summary(self) -> dict[str, Any]:
        """Return the last JSON line."""
        verdicts = Counter(row.verdict for row in self.rows)
        return {
            "summary": {
                "worse": len(self.worse),
                "better": len(self.better),
                "verdicts": {verdict: verdicts[verdict] for verdict in _VERDICTS},
                "may_be_chance": sum(row.may_be_chance for row in self.rows),
                "not_compared": self.why_not or None,
                "before": _summary_of(self.before),
                "after": _summary_of(self.after),
            }
        }


def _summary_of(profile: Profile) -> dict[str, Any]:
    return {
        "file": profile.name,
        "requests": profile.requests,
        "since_ns": profile.times[0] if profile.times else None,
        "until_ns": profile.times[1] if profile.times else None,
        "remarks": profile.remarks,
    }


def compare(before: Profile, after: Profile, registry: Registry, threshold: float) -> Comparison:
    """Compare two captures. `threshold`: the factor from which a difference of rates or latencies counts."""
    why_not = _why_not(before, after, registry)
    rows = [] if why_not else sorted(_rows(before, after, registry, threshold), key=_rank)
    return Comparison(before, after, rows, why_not)


def _rows(before: Profile, after: Profile, registry: Registry, threshold: float) -> Iterator[Difference]:
    yield from rate_differences(before, after, registry, threshold)
    yield from latency_differences(before, after, registry, threshold)
    yield from fact_differences(before, after, registry, threshold)


def _why_not(before: Profile, after: Profile, registry: Registry) -> str:
    """Return why nothing can be compared; empty if something can."""
    reasons = [f"{which}: {each.why_not}" for which, each in (("before", before), ("after", after)) if each.why_not]
    if reasons:
        return ". ".join(reasons)
    if not before.apis & after.apis:
        names = [
            ", ".join(registry.name(api_key) or f"API {api_key}" for api_key in sorted(each.apis)[:3])
            for each in (before, after)
        ]
        return f"the captures have no API in common (before {names[0]}; after {names[1]}). Record the same traffic"
    return ""


def _rank(row: Difference) -> tuple[Any, ...]:
    """Return the sort key: worse rows by weight, then kinds, then verdicts."""
    growth = row.change if row.change is not None else 1e9
    return (
        not row.is_worse,
        -row.weight if row.is_worse else 0,
        _KINDS[row.kind],
        _VERDICTS[row.verdict],
        -growth,
        row.name,
    )
