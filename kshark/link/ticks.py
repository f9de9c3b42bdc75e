"""The time that passes between packets, by the ticks of a running capture.

A host's clock may be stepped between two ticks, as between two packets, and nothing shows it. So only the time between
ticks that are close together counts; a step is the rest.
"""

from __future__ import annotations

from kshark.limits import SILENCE_NS, SORTED_NS
from kshark.model import Moment, Weird


class Ticks:
    """Count the time since the last packet.

    `is_certain`: the last tick was in order. It is not if the clock was stepped back, or if packets before it were
    dropped.
    """

    def __init__(self) -> None:
        #: What the host's clock showed last.
        self._last_ns = 0
        self._is_dropped = False
        self.is_certain = False

    def note(self, weird: Weird) -> None:
        """Take a weird of the capture."""
        self._is_dropped = self._is_dropped or weird.code == "PACKETS_DROPPED"

    def packets(self, end: Moment) -> None:
        """Take packets up to the last one, `end`."""
        self._last_ns, self._is_dropped = end.time_ns, False

    def tick(self, time_ns: int, clock_ns: int) -> int:
        """Return the capture's clock at a tick; `clock_ns` was the clock before it, and does not run backwards."""
        passed_ns, self._last_ns = time_ns - self._last_ns, time_ns
        self.is_certain = False
        if not 0 < passed_ns < SILENCE_NS:
            return clock_ns
        if time_ns >= clock_ns:  # less after a step forward, of which the clock knows nothing
            self.is_certain = not self._is_dropped
            return min(clock_ns + passed_ns, time_ns)
        is_stepped = time_ns < clock_ns - SORTED_NS
        return clock_ns + passed_ns if is_stepped else clock_ns
