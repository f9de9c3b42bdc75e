"""Captures whose times are wrong, made of real ones: a file without times, a clock that is set while it records,
packets that are late in the file, packets whose times are off.

Packets keep their numbers where the order of the file is the same. They come as the reader gives them: sorted by time
where times run backwards by little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Final

import numpy as np

from kshark.capture.in_order import TimeOrder
from kshark.model import PacketBatch, Weird
from tests.walks.damage import arranged, joined

#: A capture in words, and as the reader gives it.
Variant = tuple[str, Iterable[PacketBatch | Weird]]
_MS: Final = 1_000_000
_SECOND: Final = 1_000_000_000
#: By how much a clock is set, and by how much packets are out of order or off at most, in nanoseconds.
_STEP_NS: Final = (_SECOND // 2, 60 * _SECOND)
_DISORDERS_NS: Final = (_MS // 5, 2 * _MS, 10 * _MS, 50 * _MS)


def read(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch | Weird]:
    """Yield the packets as the reader of a file does."""
    order = TimeOrder()
    yield from chain.from_iterable(map(order.feed, batches))
    yield from order.flush()


def _zeroed(batches: Iterable[PacketBatch], random: Random) -> Variant:
    """No packet has a time, or none from a packet on."""
    batch = joined([*batches])
    at = random.choice((0, random.randrange(len(batch.number))))
    times = batch.time_ns.copy()
    times[at:] = 0
    return f"without times from packet {batch.number[at]} on", read([replace(batch, time_ns=times)])


def _stepped(batches: Iterable[PacketBatch], random: Random) -> Variant:
    """The clock is set forward or back, once to three times."""
    batch = joined([*batches])
    times, words = batch.time_ns.copy(), []
    for _ in range(random.choice((1, 1, 2, 3))):
        at, by_ns = random.randrange(len(times)), random.choice((-1, 1)) * random.randint(*_STEP_NS)
        times[at:] += by_ns
        words.append(f"the clock set by {by_ns / _SECOND:.3f} s at packet {batch.number[at]}")
    return " and ".join(words), read([replace(batch, time_ns=times)])


def _late_in_the_file(batches: Iterable[PacketBatch], random: Random) -> Variant:
    """Packets have their times, and are written late: a network card with several queues."""
    batch, most_ns = joined([*batches]), random.choice(_DISORDERS_NS)
    return f"packets up to {most_ns / _MS:g} ms late in the file", read([_disordered(batch, most_ns, random)])


def _times_off(batches: Iterable[PacketBatch], random: Random) -> Variant:
    """The file's order is right, and its times are not: packets are stamped late."""
    batch, most_ns = joined([*batches]), random.choice(_DISORDERS_NS)
    times = batch.time_ns + _delays(batch, most_ns, random)
    return f"times up to {most_ns / _MS:g} ms off", read([replace(batch, time_ns=times)])


def _stamped_late(batches: Iterable[PacketBatch], random: Random) -> Variant:
    """Packets are stamped late, and the file is in the order of these times: nothing in it shows that but TCP."""
    batch, most_ns = joined([*batches]), random.choice(_DISORDERS_NS)
    moved = replace(batch, time_ns=batch.time_ns + _delays(batch, most_ns, random))
    rows = np.argsort(moved.time_ns, kind="stable").tolist()
    return f"packets stamped up to {most_ns / _MS:g} ms late", read([arranged(moved, rows)])


def _disordered(batch: PacketBatch, most_ns: int, random: Random) -> PacketBatch:
    late = batch.time_ns + _delays(batch, most_ns, random)
    return arranged(batch, np.argsort(late, kind="stable").tolist())


def _delays(batch: PacketBatch, most_ns: int, random: Random) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Delays of all packets, or of some."""
    share = random.choice((0.02, 0.3, 1.0))
    delays = [random.randint(0, most_ns) if random.random() < share else 0 for _ in range(len(batch.number))]
    return np.array(delays, np.int64)


Clock = Callable[[Iterable[PacketBatch], Random], Variant]
CLOCKS: Final[tuple[Clock, ...]] = (_zeroed, _stepped, _late_in_the_file, _times_off, _stamped_late)
