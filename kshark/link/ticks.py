"""The time that passes between packets, by the ticks of a running capture.

A host's clock may be stepped between two ticks, as between two packets, and nothing shows it. So only the time between
ticks that are close together counts; the rest may be a step.
"""

from __future__ import annotations

from kshark.limits import SILENCE_NS
from kshark.model import Moment, Weird


class Ticks:
    """Count the time since the last packet. `is_whole`: no packets were dropped since then."""

    def __init__(self) -> None:
        #: What the host's clock showed last.
        self._last_ns = 0
        self.is_whole = True

    def note(self, weird: Weird) -> None:
        """Take a weird of the capture."""
        self.is_whole = self.is_whole and weird.code != "PACKETS_DROPPED"

    def packets(self, end: Moment) -> None:
        """Take packets up to the last one, `end`."""
        self._last_ns, self.is_whole = end.time_ns, True

    def tick(self, time_ns: int, clock_ns: int) -> int:
        """Return the capture's clock at a tick; `clock_ns` was the clock before it.

        The clock does not run backwards. After a step forward it is earlier than the ticks, until the next packet.
        """
        passed_ns, self._last_ns = time_ns - self._last_ns, time_ns
        return min(clock_ns + passed_ns, time_ns) if 0 < passed_ns < SILENCE_NS and time_ns > clock_ns else clock_ns
