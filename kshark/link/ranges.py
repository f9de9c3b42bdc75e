"""Join the reports of the link stages of a capture's ranges into those of the whole capture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from kshark.link.clock import ClockPart, Judge
from kshark.link.disorder import disorder_ns
from kshark.link.unread import Unread
from kshark.model import Weird
from kshark.rate_limit import WeirdLimit


def together(ranges: Iterable[Iterable[Weird | ClockPart]]) -> Iterator[Weird]:
    """Yield the joined weirds. Each range gives, in order, the weirds of Link.feed and then those of Link.held."""
    limit, kinds, judge, most_ns, is_zero = WeirdLimit(), Unread(), Judge(), 0, False
    for weird in chain.from_iterable(ranges):
        if isinstance(weird, ClockPart):
            yield from judge.feed(*weird)
            continue
        far_ns = disorder_ns(weird)
        if far_ns is not None:
            if far_ns > most_ns:
                most_ns = far_ns
                yield weird
        elif weird.code == "CLOCK_STOPPED":
            if weird.time_ns or not is_zero:
                yield weird
            is_zero = is_zero or not weird.time_ns
        elif weird.code == "ENDS_FORGOTTEN":
            yield weird
        elif not kinds.join(weird):
            yield from limit.take(weird)
    yield from limit.close()
    yield from kinds.close()
