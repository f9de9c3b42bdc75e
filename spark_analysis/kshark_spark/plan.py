"""How the work on large captures is laid out: which ranges are read, how many shares are decoded, how many buckets are
judged."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from kshark.capture.files import sizes_of
from kshark.capture.ranges import (
    RANGE_BYTES,
    Extent,
    FilePart,
    Range,
    are_proved,
    extent_of,
    parts_of,
    ranges_of,
    walked,
)
from kshark.errors import Error, UnreadableInput
from kshark.model import Moment
from kshark_spark.rows import fault_of, results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sizes(NamedTuple):
    """Bytes of a capture up to which one task does it all; bytes of a range, and of a share; buckets (None: two a
    core).

    `dearer`: so much more work a byte is to many tasks than to one.
    """

    whole: int = 64 << 20
    range: int = RANGE_BYTES
    share: int = 64 << 20
    buckets: int | None = None
    dearer: float = 2.0


@dataclass(frozen=True)
class Plan:
    """A capture, the `number`th of those that were named. Its shares and buckets are numbered over all captures,
    `shares` of them from
    `share` on, buckets likewise."""

    number: int
    files: Sequence[str]
    ranges: list[Range]
    end: Moment
    share: int
    shares: int
    bucket: int
    buckets: int


def tasks_for(files: Sequence[str], count: int, cores: int) -> int:
    """Tasks for `count` pieces of work on these files: none is small, all cores have some."""
    return max(1, min(count, max(2 * cores, sum(sizes_of([files])) // RANGE_BYTES)))


def are_shared_out(captures: Sequence[Sequence[str]], cores: int, sizes: Sizes) -> list[bool]:
    """Which captures many tasks read: large ones of which each alone would keep its task busy when all could be done by
    all cores."""
    size = sizes_of(captures)
    return [one > sizes.whole and one * cores > sizes.dearer * sum(size) for one in size]


def planned(
    spark: SparkSession, captures: Sequence[Sequence[str]], cores: int, sizes: Sizes
) -> list[Plan | UnreadableInput]:
    """The plan of each capture; to find its ranges, all of it is read."""
    files = [*dict.fromkeys(chain.from_iterable(captures))]
    extents = _extents(spark, files, cores, sizes)
    plans: list[Plan | UnreadableInput] = []
    share = bucket = 0
    for number, (capture, size) in enumerate(zip(captures, sizes_of(captures), strict=True)):
        parts = [extents[file] for file in capture]
        fault = next((part for part in parts if isinstance(part, UnreadableInput)), None)
        if fault is not None:
            fault.when = "index"
            plans.append(fault)
            continue
        ranges, end = ranges_of(capture, [part for part in parts if not isinstance(part, UnreadableInput)])
        shares = max(2 * cores, -(-size // sizes.share))
        buckets = sizes.buckets or 2 * cores
        plans.append(Plan(number, capture, ranges, end, share, shares, bucket, buckets))
        share, bucket = share + shares, bucket + buckets
    return plans


def _extents(
    spark: SparkSession, files: Sequence[str], cores: int, sizes: Sizes
) -> dict[str, list[Extent] | UnreadableInput]:
    """By file; where they prove wrong, the file is read from its beginning to its end."""
    places, extents = dict[str, list[FilePart]](), dict[str, list[Extent] | UnreadableInput]()
    for file in files:
        try:
            places[file] = parts_of(file, sizes.range)
        except (Error, OSError) as error:
            extents[file] = fault_of(error)
    every = [place for each in places.values() for place in each]
    found = iter(results(spark, every, extent_of, tasks_for(files, len(every), cores)))
    wrong: list[tuple[str, list[FilePart]]] = []
    for file, each in places.items():
        parts = [next(found) for _ in each]
        fault = next((part for part in parts if isinstance(part, UnreadableInput)), None)
        if fault is not None:
            extents[file] = fault
        elif are_proved([part for part in parts if not isinstance(part, UnreadableInput)]):
            extents[file] = [part for part in parts if isinstance(part, Extent)]
        else:
            wrong.append((file, each))
    exact = results(spark, wrong, lambda one: walked(*one), len(wrong))
    return extents | {file: each for (file, _), each in zip(wrong, exact, strict=True)}


def located(ranges: Sequence[Range], names: Mapping[str, str], packet: int) -> tuple[str, int] | None:
    """The file that a packet is in, and its number there; files whose times overlap are one range, and do not tell."""
    at = bisect_left(ranges, packet, key=lambda range: range.begin.packet) - 1
    if at < 0 or len(ranges[at].files) > 1:
        return None
    range_ = ranges[at]
    before = 0 if range_.since is None else range_.since.packets
    return names[range_.files[0]], before + packet - range_.begin.packet
