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
        rest = time_ns - self._begin_ns
        if not 0 <= rest < _SECOND:
            self._turn_to(time_ns)
            rest = time_ns - self._begin_ns
        return f"{self._second}{rest // 1000:06}"

    def _turn_to(self, time_ns: int) -> None:
        self._begin_ns = time_ns - time_ns % _SECOND
        self._second = clock(self._begin_ns).removesuffix("000000")
