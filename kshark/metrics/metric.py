"""A metric: its name and how it is computed, or why it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kshark.metrics.counts import CountedSpan, Latest

C = TypeVar("C")

Number = float | int
#: The origin of a metric's name: a KIP, or kshark.
KIP_932: Final = "KIP-932"
KIP_1103: Final = "KIP-1103"
OURS: Final = "kshark"
#: Seconds in the units of rates.
_PERIODS: Final = {"/s": 1, "/h": 3600}


@dataclass(frozen=True)
class Metric(Generic[C]):
    """One metric of one kind of thing: a member, a share partition, a group, or all groups.

    `kind`: the type of its MBean, empty if no KIP names it. `unit`: ms, bytes, /s, /h, "s ago", or empty for a count.
    `source`: the messages that it comes from; without a `value`, why no message shows it. `value` of a rate returns the
    count, `value` of a "s ago" metric the last time. `same_as`: the metric with the same content, as a count or from
    another KIP.
    """

    name: str
    kip: str
    kind: str
    unit: str
    source: str
    value: Callable[[C], Number | Latest | None] | None = None
    same_as: str = ""

    def of(self, counts: C, span: CountedSpan) -> Number | None:
        """Return its value for that time span; None if nothing was measured. Needs a `value`."""
        assert self.value is not None
        result = self.value(counts)
        if isinstance(result, Latest):
            return None if result.time_ns is None or span.last_ns is None else (span.last_ns - result.time_ns) / 1e9
        if result is None or self.unit not in _PERIODS:
            return result
        return result / span.seconds * _PERIODS[self.unit] if span.seconds else None


def counted(
    name: str,
    rate: str,
    kip: str,
    kind: str,
    source: str,
    value: Callable[[C], Number | None],
    unit: str = "",
    per: str = "/s",
) -> tuple[Metric[C], Metric[C]]:
    """Return a count and its rate."""
    return Metric(name, kip, kind, unit, source, value), again(rate, kip, kind, per, name, value)


def rate_alone(
    name: str, rate: str, kip: str, kind: str, source: str, value: Callable[[C], Number | None]
) -> tuple[Metric[C], Metric[C]]:
    """Return a rate whose count has no name in the KIP, and the count."""
    return Metric(name, OURS, "", "", source, value), again(rate, kip, kind, "/s", name, value)


def again(name: str, kip: str, kind: str, unit: str, same_as: str, value: Callable[[C], Number | None]) -> Metric[C]:
    """Return a metric with the same content as another one."""
    return Metric(name, kip, kind, unit, f"{same_as}, by time" if unit in _PERIODS else same_as, value, same_as)
