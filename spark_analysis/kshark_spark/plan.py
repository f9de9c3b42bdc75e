"""Plan the work on large captures: the ranges to read, and the numbers of shares and buckets."""

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
    """Sizes for planning.

    `whole`: bytes of a capture up to which one task does all work. `range`, `share`: bytes of each. `buckets`: their
    number (None: two per core). `dearer`: cost of a byte in many tasks, relative to its cost in one task.
    """

    whole: int = 64 << 20
    range: int = RANGE_BYTES
    share: int = 64 << 20
    buckets: int | None = None
    dearer: float = 2.0


@dataclass(frozen=True)
class Plan:
    """The plan of a capture.

    `number`: index of the capture among those named. `share`, `bucket`: its first share and bucket, numbered over all
    captures. The bucket after the `buckets` others is for incidents.
    """

    number: int
    files: Sequence[str]
    ranges: list[Range]
    end: Moment
    share: int
    shares: int
    bucket: int
    buckets: int


def tasks_for(files: Sequence[str], count: int, cores: int) -> int:
    """Return the number of tasks for `count` items of work on these files: none is small, and all cores have work."""
    return max(1, min(count, max(2 * cores, sum(sizes_of([files])) // RANGE_BYTES)))


def are_split(captures: Sequence[Sequence[str]], cores: int, sizes: Sizes) -> list[bool]:
    """Return, for each capture, true if many tasks read it.

    It must be large, and one task for it would take longer than all cores need for all captures.
    """
    bytes_of = sizes_of(captures)
    return [size > sizes.whole and size * cores > sizes.dearer * sum(bytes_of) for size in bytes_of]


def planned(
    spark: SparkSession, captures: Sequence[Sequence[str]], cores: int, sizes: Sizes
) -> list[Plan | UnreadableInput]:
    """Return the plan of each capture. Finding its ranges reads the whole capture."""
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
        share, bucket = share + shares, bucket + buckets + 1  # the last one is for incidents
    return plans


def _extents(
    spark: SparkSession, files: Sequence[str], cores: int, sizes: Sizes
) -> dict[str, list[Extent] | UnreadableInput]:
    """Return the extents of each file. If their check fails, the file is read from start to end."""
    places, extents = dict[str, list[FilePart]](), dict[str, list[Extent] | UnreadableInput]()
    for file in files:
        try:
            places[file] = parts_of(file, sizes.range)
        except (Error, OSError) as error:
            extents[file] = fault_of(error)
    every = [place for own in places.values() for place in own]
    read = iter(results(spark, every, extent_of, tasks_for(files, len(every), cores)))
    wrong: list[tuple[str, list[FilePart]]] = []
    for file, own in places.items():
        parts = [next(read) for _ in own]
        fault = next((part for part in parts if isinstance(part, UnreadableInput)), None)
        if fault is not None:
            extents[file] = fault
        elif are_proved([part for part in parts if not isinstance(part, UnreadableInput)]):
            extents[file] = [part for part in parts if isinstance(part, Extent)]
        else:
            wrong.append((file, own))
    exact = results(spark, wrong, lambda file: walked(*file), len(wrong))
    return extents | {file: extent for (file, _), extent in zip(wrong, exact, strict=True)}


def located(ranges: Sequence[Range], names: Mapping[str, str], packet: int) -> tuple[str, int] | None:
    """Return the file of a packet and its number there; None if files with overlapping times share a range."""
    at = bisect_left(ranges, packet, key=lambda range: range.begin.packet) - 1
    if at < 0 or len(ranges[at].files) > 1:
        return None
    range_ = ranges[at]
    before = 0 if range_.since is None else range_.since.packets
    return names[range_.files[0]], before + packet - range_.begin.packet
