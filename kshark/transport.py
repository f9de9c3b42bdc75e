"""What the packets of a connection say of the network, counted for each side; kshark.reassembly.measuring counts it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


class RoundTrips:
    """Times in ns, of which a few dozen counters hold any number: the least and the greatest exact, the median within a
    sixteenth."""

    __slots__ = ("_counts", "greatest", "least")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.least: int | None = None
        self.greatest: int | None = None

    def add(self, ns: int) -> None:
        self.least = ns if self.least is None else min(self.least, ns)
        self.greatest = ns if self.greatest is None else max(self.greatest, ns)
        shift = max(0, ns.bit_length() - 4)
        self._counts[(ns >> shift << shift) + (1 << shift >> 1)] += (
            1  # the middle of those with the same four leading bits
        )

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

    `again`: bytes that were here before, or that come so late behind others that the network must have lost them before
    the capture.
    `tail_probes`: the last bytes, sooner than any timeout: TCP asks so whether they came, also where only the
    acknowledgement is delayed.
    `spurious`: they had been acknowledged already, so the acknowledgement was lost, or they were doubled. `late`: bytes
    that others of the same side overtook. `copies`: sooner again than anybody can send them: captured twice, or doubled
    on the way."""

    packets: int = 0
    data: int = 0
    payload_bytes: int = 0
    again: int = 0
    again_bytes: int = 0
    #: The longest that one of these came behind the first time, or behind what had overtaken it.
    again_ns: int = 0
    tail_probes: int = 0
    spurious: int = 0
    late: int = 0
    copies: int = 0
    #: SYNs behind the first one, of the same number.
    syns_again: int = 0
    duplicate_acks: int = 0
    keep_alives: int = 0
    #: Packets that say that there is no room to receive, and how long that went on.
    zero_windows: int = 0
    zero_window_ns: int = 0
    #: From data that this side sent to the other side's acknowledgement, one segment at a time, none that was sent
    #: again.
    round_trips: RoundTrips = field(default_factory=RoundTrips)


@dataclass(slots=True)
class Transport:
    """Of one connection, by side."""

    sent: tuple[Sent, Sent] = field(default_factory=lambda: (Sent(), Sent()))
    #: From the SYN to the acknowledgement of its answer: a whole round trip, wherever the capture was taken; None where
    #: not all was seen.
    handshake_ns: int | None = None
    #: Whether the SYN was answered; None where no SYN was seen.
    answered: bool | None = None
