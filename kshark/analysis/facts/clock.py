"""The capture's clock: the durations between packets that are certain.

A clock may be set while it records (NTP, a suspended machine), and a file may have no times at all. Order of packets is
another fact (kshark.analysis.facts.connections.PacketOrder): file order may be right where durations are not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct, field

from kshark import limits
from kshark.link.disorder import disorder_ns
from kshark.model import Weird


class PacketTime(NamedTuple):
    """A packet and its time."""

    packet: int
    time_ns: int


#: Creates the NamedTuple in C; see offset_ranges.
packet_time: Final[Callable[[tuple[int, int]], PacketTime]] = partial(tuple.__new__, PacketTime)


class Elapsed(NamedTuple):
    """The shortest and the longest time that may have passed; `most_ns` None: any longer time is possible."""

    least_ns: int
    most_ns: int | None

    def is_at_least(self, ns: int) -> bool:
        return self.least_ns >= ns

    def is_below(self, ns: int) -> bool:
        return self.most_ns is not None and self.most_ns < ns


class ClockDoubt(NamedTuple):
    """Packets between which the clock may be wrong.

    `unproved_ns`: the part of the measured time that may not have passed. How much more may have passed is unknown.
    `is_silence`: the whole capture was silent, so nothing shows how long that lasted.
    """

    first_packet: int
    packet: int
    unproved_ns: int
    is_silence: bool = False


#: Codes of doubts between two packets.
_SILENCE: Final = "SILENCE_UNPROVED"
_PROVED: Final = "SILENCE_PROVED"
_STOPPED: Final = "CLOCK_STOPPED"
_STEP: Final = "CLOCK_STEP"


class Durations(Struct):
    """Facts about the capture's clock so far. `note` takes its weirds, `elapsed` returns durations."""

    _doubts: list[ClockDoubt] = field(default_factory=list)
    #: The most by which times of packets run backwards without a step of the clock.
    _disorder_ns: int = 0
    #: A time that packets have because the clock stands still, or because the file has no times.
    _stopped_ns: int | None = None

    def note(self, weird: Weird) -> None:
        """Take a weird of the capture. Codes that are not about its clock change nothing."""
        code = weird.code
        if code == _STOPPED:
            self._stopped_ns = weird.time_ns
        elif code == _PROVED:
            since = weird.packet if weird.first_packet is None else weird.first_packet
            self._doubts = [
                doubt for doubt in self._doubts if not (doubt.is_silence and since <= doubt.packet <= weird.packet)
            ]
        elif code in (_STEP, _SILENCE):
            self._add(weird, max(weird.by_ns or 0, 0), is_silence=code == _SILENCE)
        elif (back_ns := disorder_ns(weird)) is not None:
            self._disorder_ns = max(self._disorder_ns, back_ns)

    def _add(self, weird: Weird, unproved_ns: int, *, is_silence: bool = False) -> None:
        first = weird.packet - 1 if weird.first_packet is None else weird.first_packet
        self._doubts.append(ClockDoubt(first, weird.packet, unproved_ns, is_silence))
        if len(self._doubts) > limits.CLOCK_DOUBTS:
            old = self._doubts[: limits.CLOCK_DOUBTS // 2 + 1]
            unproved_ns = sum(doubt.unproved_ns for doubt in old)
            joined = ClockDoubt(min(old)[0], max(doubt.packet for doubt in old), unproved_ns)
            self._doubts[: len(old)] = [joined]

    def elapsed(self, since: PacketTime, until: PacketTime) -> Elapsed:
        """Return the time that passed between two packets."""
        measured_ns = until.time_ns - since.time_ns
        if self._stopped_ns is not None and self._stopped_ns in (since.time_ns, until.time_ns):
            return Elapsed(0, None)
        least_ns, is_doubtful = measured_ns - self._disorder_ns, False
        for doubt in reversed(self._doubts):
            if doubt.first_packet < until.packet and doubt.packet > since.packet:
                least_ns, is_doubtful = least_ns - doubt.unproved_ns, True
        return Elapsed(max(least_ns, 0), None if is_doubtful else measured_ns + self._disorder_ns)
