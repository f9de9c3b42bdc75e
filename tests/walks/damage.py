"""What may become of packets between the wire and the file, beside missing some: out of order, repeated, seen from two
places, cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

import numpy as np

from kshark.model import PacketBatch
from tests.thinning import Whole, removals

#: Ethernet, IPv4 and TCP headers of tests.packets.
HEADERS: Final = 54


def arranged(batch: PacketBatch, rows: Sequence[int]) -> PacketBatch:
    """The rows in that order, numbered anew."""
    at = np.array(rows, np.int64)
    return PacketBatch(
        batch.buffer,
        np.arange(1, len(at) + 1, dtype=np.int64),
        batch.time_ns[at],
        batch.link_type[at],
        batch.offset[at],
        batch.length[at],
        batch.wire_length[at],
    )


def joined(batches: Sequence[PacketBatch]) -> PacketBatch:
    """Several batches as one."""
    before = np.cumsum([0, *(len(it.buffer) for it in batches)])
    columns = [
        np.concatenate([getattr(it, name) for it in batches])
        for name in ("number", "time_ns", "link_type", "length", "wire_length")
    ]
    number, time_ns, link_type, length, wire_length = columns
    offset = np.concatenate([it.offset + at for it, at in zip(batches, before, strict=False)])
    return PacketBatch(b"".join(it.buffer for it in batches), number, time_ns, link_type, offset, length, wire_length)


def merged_with_a_copy(batch: PacketBatch, skew_ns: int) -> PacketBatch:
    """The packets twice, once so much later, sorted by time."""
    twice = arranged(batch, [*range(len(batch.number)), *range(len(batch.number))])
    twice.time_ns[len(batch.number) :] += skew_ns
    return arranged(twice, np.argsort(twice.time_ns, kind="stable").tolist())


def missing(whole: Whole, random: Random) -> tuple[str, list[PacketBatch]]:
    """Some packets are not there."""
    words, keep = random.choice(list(removals(whole, random, singles=2, others=1)))
    return words, list(whole.thinned(keep))


def out_of_order(whole: Whole, random: Random) -> tuple[str, list[PacketBatch]]:
    """Neighbours of different connections stand in the file the other way round; their times tell."""
    (batch,) = whole.batches
    rows = list(range(len(batch.number)))
    places = [at for at in rows[1:] if whole.path[at] >> 1 != whole.path[at - 1] >> 1]
    swapped = sorted(random.sample(places, min(len(places), random.randint(1, 4))))
    for at in swapped:
        rows[at - 1], rows[at] = rows[at], rows[at - 1]
    return f"packets {swapped} before their neighbours", [arranged(batch, rows)]


def repeated(whole: Whole, random: Random) -> tuple[str, list[PacketBatch]]:
    """A mirror port gives some packets twice, one right behind the other."""
    (batch,) = whole.batches
    rows = range(len(batch.number))
    twice = set(random.sample(rows, random.randint(1, len(rows))))
    return f"packets {sorted(at + 1 for at in twice)} twice", [
        arranged(batch, [row for row in rows for _ in range(1 + (row in twice))])
    ]


def merged(whole: Whole, random: Random) -> tuple[str, list[PacketBatch]]:
    """The capture and another of the same packets, whose clock is behind, as one, sorted by time."""
    (batch,) = whole.batches
    skew = random.choice((50_000, 3_000_000, 40_000_000, 20_000_000_000))
    return f"merged with a copy {skew / 1e6:g} ms later", [merged_with_a_copy(batch, skew)]


def cut(whole: Whole, random: Random) -> tuple[str, list[PacketBatch]]:
    """Of some packets only the first bytes are there."""
    (batch,) = whole.batches
    long = [at for at, length in enumerate(batch.length.tolist()) if length > HEADERS]
    some = random.sample(long, min(len(long), random.randint(1, 3)))
    length = batch.length.copy()
    for at in some:
        length[at] = random.randrange(HEADERS, int(length[at]))
    return f"packets {sorted(at + 1 for at in some)} cut", [replace(batch, length=length)]


Damage = Callable[[Whole, Random], tuple[str, list[PacketBatch]]]
DAMAGES: Final[dict[str, Damage]] = {it.__name__: it for it in (missing, out_of_order, repeated, merged, cut)}
