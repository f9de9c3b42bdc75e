"""What the packets of a connection say of the network, counted for each side; kshark.reassembly.measuring counts it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


class RoundTrips:
    """Times in ns, in which some hundred counters stand for any number of them: the least and the greatest exact, others to two digits."""

    __slots__ = ("_counts", "greatest", "least")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.least: int | None = None
        self.greatest: int | None = None

    def add(self, ns: int) -> None:
        self.least = ns if self.least is None else min(self.least, ns)
        self.greatest = ns if self.greatest is None else max(self.greatest, ns)
        scale = 10 ** max(0, len(str(ns)) - 2)
        self._counts[(ns + scale // 2) // scale * scale] += 1

    def update(self, other: RoundTrips) -> None:
        """Adds those of another connection."""
        if other.least is not None and other.greatest is not None:
            self.least = other.least if self.least is None else min(self.least, other.least)
            self.greatest = other.greatest if self.greatest is None else max(self.greatest, other.greatest)
            self._counts.update(other._counts)

    @property
    def count(self) -> int:
        return self._counts.total()

    @property
    def median(self) -> int | None:
        """None where none was seen."""
        if self.least is None or self.greatest is None:
            return None
        left = (self.count + 1) // 2
        for ns, count in sorted(self._counts.items()):
            left -= count
            if left <= 0:
                return min(max(ns, self.least), self.greatest)
        raise AssertionError(left)


@dataclass(slots=True)
class Sent:
    """What one side sent. Packets, unless told otherwise; `data` are those that carry bytes of the stream.

    `again`: bytes that were here before, or that come so late behind others that the network must have lost them before the capture.
    `late`: bytes that others of the same side overtook. `copies`: sooner again than anybody can send them: they were captured twice.
    """

    packets: int = 0
    data: int = 0
    payload_bytes: int = 0
    again: int = 0
    again_bytes: int = 0
    #: The longest that one of them came behind the first time, or behind what had overtaken it.
    again_ns: int = 0
    late: int = 0
    copies: int = 0
    #: SYNs behind the first one, of the same number.
    syns_again: int = 0
    duplicate_acks: int = 0
    keep_alives: int = 0
    #: Packets that say that there is no room to receive, and how long that went on.
    zero_windows: int = 0
    zero_window_ns: int = 0
    #: From data that this side sent to the other side's acknowledgement, one segment at a time, none that was sent again.
    round_trips: RoundTrips = field(default_factory=RoundTrips)


@dataclass(slots=True)
class Transport:
    """Of one connection, by side."""

    sent: tuple[Sent, Sent] = field(default_factory=lambda: (Sent(), Sent()))
    #: From the SYN to the acknowledgement of its answer: a whole round trip, wherever the capture was taken; None where not all was seen.
    handshake_ns: int | None = None
    #: Whether the SYN was answered; None where no SYN was seen.
    answered: bool | None = None
