"""Times of day of consecutive messages: only the changed digits are formatted again."""

from __future__ import annotations

from typing import Final

from kshark.units import clock

_SECOND: Final = 1_000_000_000


class Clock:
    """Format times like `units.clock`, in microseconds; faster for times within one second."""

    def __init__(self) -> None:
        self._turn_to(0)

    def at(self, time_ns: int) -> str:
        """Return the time of day in UTC: `14:03:07.412345`."""
        digits = time_ns - self._before_ns
        if not _SECOND <= digits < 2 * _SECOND:
            self._turn_to(time_ns)
            digits = time_ns - self._before_ns
        return self._second + str(digits)[1:7]

    def _turn_to(self, time_ns: int) -> None:
        begin_ns = time_ns - time_ns % _SECOND
        #: A second earlier, so that the difference always has ten digits and the fraction keeps its leading zeros.
        self._before_ns = begin_ns - _SECOND
        self._second = clock(begin_ns).removesuffix("000000")
