"""Events about the capture's clock and the order of its packets. Their size is `Weird.by_ns`, never only in a sentence.

Packets of one connection are ordered by their sequence numbers. Packets of different connections are ordered by the
file, which kshark.capture.in_order sorts by time; where clocks differ, those that are close in time have no order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark import limits
from kshark.model import Side, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s


#: Codes of events within whose `by_ns` packets of different connections have no order.
DISORDERS: Final = frozenset({"TIME_DISORDER", "ACKED_UNSEEN", "CAPTURES_OVERLAP", "LOGGED_TIMES"})
#: Codes of events that make durations doubtful, or certain again.
CLOCK_DOUBTS: Final = frozenset({"CLOCK_STEP", "CLOCK_STOPPED", "SILENCE_UNPROVED", "SILENCE_PROVED"})


def disorder(packet: int, time_ns: int, most_ns: int) -> Weird:
    """Packet times run backwards, from this packet on by up to `most_ns`, which only grows."""
    return Weird("TIME_DISORDER", "link", packet, time_ns, _by(most_ns), by_ns=most_ns)


def packets_sorted(packet: int, time_ns: int, most_ns: int) -> Weird:
    """Packets were late in the file, from this one on by up to `most_ns`, and were sorted by time."""
    return Weird("PACKETS_SORTED", "capture", packet, time_ns, _by(most_ns), by_ns=most_ns)


def acked_unseen(flow: int, side: Side, packet: int, time_ns: int, since: int, most_ns: int) -> Weird:
    """Bytes of this packet were acknowledged by an earlier one, `since`, up to `most_ns` before."""
    return Weird("ACKED_UNSEEN", "reassembly", packet, time_ns, _by(most_ns), flow, side, since, by_ns=most_ns)


def overlap(packet: int, time_ns: int, most_ns: int) -> Weird:
    """Captures overlap in time up to this packet: their clocks may differ by up to `most_ns`."""
    return Weird("CAPTURES_OVERLAP", "capture", packet, time_ns, _by(most_ns), by_ns=most_ns)


def logged_times(packet: int, time_ns: int) -> Weird:
    """The rows from this one on are of a request log, whose times are those of its lines."""
    most_ns = limits.LOGGED_ORDER_NS
    return Weird("LOGGED_TIMES", "capture", packet, time_ns, _by(most_ns), by_ns=most_ns)


def step(packet: int, time_ns: int, before: int, by_ns: int, at: int, *, is_least: bool = False) -> Weird:
    """The clock was stepped by `by_ns` between the packets `before` and `at`, as `packet` shows.

    `is_least`: it was stepped back further by the time that passed between the two packets, which is not known.
    """
    by = f"back by at least {_seconds(-by_ns)[1:]}" if is_least else f"by {_seconds(by_ns)}"
    text = f"stepped {by} at packet {at}"
    return Weird("CLOCK_STEP", "link", packet, time_ns, text, first_packet=before, by_ns=by_ns)


def stopped(packet: int, time_ns: int, first: int) -> Weird:
    """All packets since `first` have this time: it is none."""
    text = "packets without a time" if not time_ns else f"{packet - first + 1} packets with one time"
    return Weird("CLOCK_STOPPED", "link", packet, time_ns, text, first_packet=first)


def silence_unproved(packet: int, time_ns: int, before: int, by_ns: int) -> Weird:
    """No packets for `by_ns` between `before` and `packet`, unless the clock was stepped."""
    return Weird(
        "SILENCE_UNPROVED", "link", packet, time_ns, f"for {by_ns / 1e9:.3f} s", first_packet=before, by_ns=by_ns
    )


def silence_proved(packet: int, time_ns: int, silence: int) -> Weird:
    """TCP timestamps of this packet agree with the silence before the packet `silence`."""
    return Weird("SILENCE_PROVED", "link", packet, time_ns, f"before packet {silence}", first_packet=silence)


def _by(most_ns: int) -> str:
    return f"by up to {most_ns / 1e9:.9f} s"


def _seconds(by_ns: int) -> str:
    """Return a signed time in seconds, with at least milliseconds: `-20.000 s`."""
    seconds, milliseconds = divmod((abs(by_ns) + 500_000) // 1_000_000, 1_000)
    return f"{'-' if by_ns < 0 else '+'}{seconds}.{milliseconds:03} s"


def disorder_ns(weird: Weird) -> int | None:
    """Return the time of such a weird, None for others: packets of different connections within that time have no
    order.
    """
    return weird.by_ns if weird.code in DISORDERS else None


def latest_times(times: Int64s, before_ns: int) -> tuple[Int64s, Int64s]:
    """Return for each packet the greatest time since the last step of the clock, and the number of such steps.

    `before_ns`: the greatest time before these packets. A step is further back than packets are sorted.
    """
    latest = np.maximum(np.maximum.accumulate(times), before_ns)
    steps = np.zeros(len(times), np.int64)
    if not (latest - times > limits.SORTED_NS).any():
        return latest, steps
    now, count = before_ns, 0
    for row, time_ns in enumerate(times.tolist()):
        if time_ns < now - limits.SORTED_NS:
            now, count = time_ns, count + 1
        now = max(now, time_ns)
        latest[row], steps[row] = now, count
    return latest, steps


class Growth:
    """Report each growth of a value, at its row and rounded up to a power of two, so that reports are rare."""

    def __init__(self) -> None:
        self._reported_ns = 1

    def reports(self, far_ns: Int64s) -> Iterator[tuple[int, int]]:
        """Yield the rows whose value exceeds all earlier reports, with the new reported value."""
        while len(rows := np.flatnonzero(far_ns >= self._reported_ns)):
            row = int(rows[0])
            self._reported_ns = 1 << int(far_ns[row]).bit_length()
            yield row, self._reported_ns
