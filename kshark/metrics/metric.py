"""A metric: what it is called, and what it is computed of, or why it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kshark.metrics.counts import Latest, Span

C = TypeVar("C")

Number = float | int
#: Who names a metric: a KIP, or none.
KIP_932: Final = "KIP-932"
KIP_1103: Final = "KIP-1103"
OURS: Final = "kshark"
#: Seconds in the units of metrics that are so much per time.
_PERIODS: Final = {"/s": 1, "/h": 3600}


@dataclass(frozen=True)
class Metric(Generic[C]):
    """One metric of one thing: a member, a share partition, a group, or all groups.

    `kind` is the type of its MBean, empty where no KIP names it. `unit`: ms, bytes, /s, /h, "s ago", or none for what
    is counted. `told`: the messages that it comes from, or why none shows it; then there is no `value`. What `value`
    gives of a rate is the count that becomes one, of what is so long ago the last time of it. `same_as` names the
    metric that says the same, as a count or for another KIP."""

    name: str
    kip: str
    kind: str
    unit: str
    told: str
    value: Callable[[C], Number | Latest | None] | None = None
    same_as: str = ""

    def of(self, counts: C, span: Span) -> Number | None:
        """Its value for that time; None where nothing was measured. Needs a `value`."""
        assert self.value is not None
        found = self.value(counts)
        if isinstance(found, Latest):
            return None if found.time_ns is None or span.last_ns is None else (span.last_ns - found.time_ns) / 1e9
        if found is None or self.unit not in _PERIODS:
            return found
        return found / span.seconds * _PERIODS[self.unit] if span.seconds else None


def counted(
    name: str,
    rate: str,
    kip: str,
    kind: str,
    told: str,
    value: Callable[[C], Number | None],
    unit: str = "",
    per: str = "/s",
) -> tuple[Metric[C], Metric[C]]:
    """What is counted, and the rate of it."""
    return Metric(name, kip, kind, unit, told, value), again(rate, kip, kind, per, name, value)


def rate_alone(
    name: str, rate: str, kip: str, kind: str, told: str, value: Callable[[C], Number | None]
) -> tuple[Metric[C], Metric[C]]:
    """A rate whose count has no name in the KIP."""
    return Metric(name, OURS, "", "", told, value), again(rate, kip, kind, "/s", name, value)


def again(name: str, kip: str, kind: str, unit: str, same_as: str, value: Callable[[C], Number | None]) -> Metric[C]:
    """What another metric shows already."""
    return Metric(name, kip, kind, unit, f"{same_as}, by time" if unit in _PERIODS else same_as, value, same_as)
