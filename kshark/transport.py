"""Network measurements of a connection's packets, by side; kshark.reassembly.measuring counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


class RoundTrips:
    """Any number of times in ns, held in a few dozen counters.

    The least and the greatest are exact, the median is exact within a sixteenth.
    """

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
        """The median; None without any time."""
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
    """Counts of one side. They count packets unless stated otherwise; `data` are those that carry bytes of the stream.

    `again`: retransmissions; the bytes were here before, or come so long after later ones that the network must have
    lost them before the capture. `tail_probes`: the last bytes, repeated sooner than any timeout: TCP probes whether
    they arrived, also if only the acknowledgement is delayed. `spurious`: the bytes had been acknowledged, so the
    acknowledgement was lost, or the packets were doubled. `late`: later bytes of the same side overtook these.
    `copies`: repeated sooner than any host can: captured twice, or doubled on the way.
    """

    packets: int = 0
    data: int = 0
    payload_bytes: int = 0
    again: int = 0
    again_bytes: int = 0
    #: The longest time between a retransmission and the first packet, or the packet that had overtaken it.
    again_ns: int = 0
    tail_probes: int = 0
    spurious: int = 0
    late: int = 0
    copies: int = 0
    #: SYNs after the first one, with the same number.
    syns_again: int = 0
    duplicate_acks: int = 0
    keep_alives: int = 0
    #: Packets that announce a receive window of 0, and how long that lasted.
    zero_windows: int = 0
    zero_window_ns: int = 0
    #: Time from data of this side to the other side's acknowledgement, one segment at a time, without retransmissions.
    round_trips: RoundTrips = field(default_factory=RoundTrips)


@dataclass(slots=True)
class Transport:
    """The measurements of one connection."""

    sent: tuple[Sent, Sent] = field(default_factory=lambda: (Sent(), Sent()))
    #: From the SYN to the acknowledgement of its answer: a whole round trip, wherever the capture was taken; None if
    #: not all was seen.
    handshake_ns: int | None = None
    #: True if the SYN was answered; None if no SYN was seen.
    answered: bool | None = None
