"""Join the reports of the link stages of a capture's ranges into those of the whole capture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from kshark.link.disorder import disorder_ns
from kshark.link.unread import Unread
from kshark.model import Weird
from kshark.rate_limit import WeirdLimit


def together(ranges: Iterable[Iterable[Weird]]) -> Iterator[Weird]:
    """Yield the joined weirds. Each range gives, in order, the weirds of Link.feed and then those of Link.held."""
    limit, kinds, most_ns = WeirdLimit(), Unread(), 0
    for weird in chain.from_iterable(ranges):
        far_ns = disorder_ns(weird)
        if far_ns is not None:
            if far_ns > most_ns:
                most_ns = far_ns
                yield weird
        elif weird.code == "ENDS_FORGOTTEN":
            yield weird
        elif not kinds.join(weird):
            yield from limit.take(weird)
    yield from limit.close()
    yield from kinds.close()
