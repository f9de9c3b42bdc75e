"""Times of day one behind the other, as messages come: only what changes is made anew."""

from __future__ import annotations

from typing import Final

from kshark.output.units import clock

_SECOND: Final = 1_000_000_000


class Clock:
    """Writes times as `units.clock` does, in microseconds; of times in the same second faster."""

    def __init__(self) -> None:
        self._turn_to(0)

    def at(self, time_ns: int) -> str:
        """Time of day in UTC: `14:03:07.412345`."""
        digits = time_ns - self._before_ns
        if not _SECOND <= digits < 2 * _SECOND:
            self._turn_to(time_ns)
            digits = time_ns - self._before_ns
        return self._second + str(digits)[1:7]

    def _turn_to(self, time_ns: int) -> None:
        begin_ns = time_ns - time_ns % _SECOND
        #: A second earlier: what is counted from there has ten digits, and the zeros of the fraction among them.
        self._before_ns = begin_ns - _SECOND
        self._second = clock(begin_ns).removesuffix("000000")
