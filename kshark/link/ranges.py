"""Join the reports of the link stages of a capture's ranges into those of the whole capture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kshark.link.clock import ClockPart, Judge
from kshark.link.disorder import CLOCK_DOUBTS, disorder_ns
from kshark.link.unread import Unread
from kshark.model import Weird
from kshark.rate_limit import WeirdLimit


def together(ranges: Iterable[Iterable[Weird | ClockPart]]) -> Iterator[Weird]:
    """Yield the joined weirds. Each range gives, in order, the weirds of Link.feed and then those of Link.held."""
    limit, kinds, judge, most_ns, is_zero = WeirdLimit(), Unread(), Judge(), 0, False
    for weird in _judged(ranges, judge):
        far_ns = disorder_ns(weird)
        if far_ns is not None:
            if far_ns > most_ns:
                most_ns = far_ns
                yield weird
        elif weird.code == "CLOCK_STOPPED":
            if weird.time_ns or not is_zero:
                yield weird
            is_zero = is_zero or not weird.time_ns
        elif weird.code in CLOCK_DOUBTS or weird.code == "ENDS_FORGOTTEN":
            yield weird
        elif not kinds.join(weird):
            yield from limit.take(weird)
    yield from limit.close()
    yield from kinds.close()


def _judged(ranges: Iterable[Iterable[Weird | ClockPart]], judge: Judge) -> Iterator[Weird]:
    """Yield all weirds, with those of the clock between those of Link.feed."""
    for weirds in ranges:
        fed: list[Weird] = []
        for weird in weirds:
            if isinstance(weird, ClockPart):
                yield from sorted([*fed, *judge.feed(*weird)], key=lambda weird: weird.packet)
                fed = []
            else:
                fed.append(weird)
        yield from fed
