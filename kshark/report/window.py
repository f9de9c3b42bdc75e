"""The time axis of a drawing. Positions are percentages of the width, so that a drawing adapts to its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kshark.units import clock, moment

_SECOND: Final = 1_000_000_000
#: Labelled positions of the axis; on a phone every second one.
_TIMES: Final = 5


class Window(NamedTuple):
    """The time span of a drawing."""

    first_ns: int
    last_ns: int

    def at(self, time_ns: int) -> float:
        """Return the position of a time, in percent of the width; a time outside of the span is at its end."""
        inside_ns = min(max(time_ns, self.first_ns), max(self.last_ns, self.first_ns))
        return round(0.8 + 98.0 * (inside_ns - self.first_ns) / max(1, self.last_ns - self.first_ns), 2)

    def label(self, time_ns: int) -> str:
        """Return a time with the parts that tell the labels of this span apart."""
        span_ns = self.last_ns - self.first_ns
        if span_ns >= 86_400 * _SECOND:
            return moment(time_ns)[5:16]
        return clock(time_ns, 3 if span_ns < 20 * _SECOND else 1)[: 8 if span_ns >= 600 * _SECOND else None]


def axis(window: Window, top: int) -> Iterator[str]:
    """Yield a line with ticks and times, `top` pixels from the top."""
    yield f'<line class="axis" x1="0" x2="100%" y1="{top}" y2="{top}"/>'
    for index in range(_TIMES):
        time_ns = window.first_ns + (window.last_ns - window.first_ns) * index // (_TIMES - 1)
        x, anchor = window.at(time_ns), "start" if index == 0 else "end" if index == _TIMES - 1 else "middle"
        fine = " fine" if index % 2 else ""
        yield f'<line class="axis" x1="{x}%" x2="{x}%" y1="{top}" y2="{top + 4}"/>'
        text = window.label(time_ns)
        yield f'<text class="axis{fine}" x="{x}%" y="{top + 16}" text-anchor="{anchor}">{text}</text>'
