"""A capture in ranges, which several processes read at the same time: byte ranges of large pcap files, other files whole.

First the extents of all files are found, apart from each other: how many packets lie between two places, and their times. Joined they say
where each range begins: with which packet of the capture, after which time. Files that overlap in time are one range, read as one.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec.structs import replace as changed

from kshark.capture.captures import Captures
from kshark.capture.files import open_file, size_of
from kshark.capture.merge import NEVER, Lane, merge
from kshark.capture.numbering import Numbering
from kshark.capture.pcap import FILE_HEADER, FORMATS, PcapReader
from kshark.capture.resync import READ, first_record
from kshark.capture.source import open_capture
from kshark.errors import UnreadableInput
from kshark.limits import BATCH_BYTES
from kshark.model import BEGIN, Moment, PacketBatch, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

#: Bytes of a range.
RANGE_BYTES: Final = 64 << 20


class Place(NamedTuple):
    """What somebody looks at to find its extent: the records of a pcap file that begin between two bytes, None: a whole file of any
    format."""

    file: str
    bytes: tuple[int, int] | None


class Extent(NamedTuple):
    """Where its records begin and end, how many packets they are, the time of the first, and the greatest of all."""

    first: int
    behind: int
    packets: int = 0
    first_ns: int = -NEVER
    most_ns: int = -NEVER

    def add(self, time_ns: Int64s) -> Extent:
        if not len(time_ns):
            return self
        first_ns = self.first_ns if self.packets else int(time_ns[0])
        return self._replace(packets=self.packets + len(time_ns), first_ns=first_ns, most_ns=max(self.most_ns, int(time_ns.max())))


class Range(NamedTuple):
    """Files read as one, or bytes of a pcap file with so many packets of that file before them. `begin`: where the capture stands before
    it; `named`: there are other files, so what is said of this one names it."""

    files: tuple[str, ...]
    bytes: tuple[int, int] | None
    before: int
    begin: Moment
    named: bool


# -- extents


def places_of(file: str, range_bytes: int = RANGE_BYTES) -> list[Place]:
    """The places of a file. Raises UnreadableInput where it is no capture."""
    capture = open_capture(file)
    capture.close()
    if not capture.regular:
        raise UnreadableInput(f"{file}: a pipe cannot be read by several; write it into a file")
    size = size_of(file)
    count = size // range_bytes if _head(file)[:4] in FORMATS else 0
    if count < 2:
        return [Place(file, None)]
    return [Place(file, cut) for cut in pairwise([FILE_HEADER, *(size * at // count for at in range(1, count)), size])]


def extent_of(place: Place) -> Extent | None:
    """What is there; None where no record was found to begin with."""
    if place.bytes is None:
        return _whole(place.file)
    begin, end = place.bytes
    first: int | None = begin
    size = size_of(place.file)
    if begin > FILE_HEADER:
        head = _head(place.file)
        form = FORMATS[head[:4]]
        (around_s,) = struct.unpack_from(form.order + "I", head, FILE_HEADER)
        with open_file(place.file) as file:
            file.seek(begin)
            data = file.read(READ)
        found = first_record(data, form, around_s, to_end=begin + len(data) >= size)
        first = None if found is None else begin + found
    return None if first is None else next(_walk(place.file, first, [end] if end < size else []))


def are_proved(extents: Sequence[Extent | None]) -> bool:
    """Whether the extents of a file's places are right: each ends where the next one begins."""
    return all(one is not None and two is not None and one.behind == two.first for one, two in pairwise(extents)) and None not in extents


def walked(file: str, places: Iterable[Place]) -> list[Extent]:
    """The extents of a file's places, read from its beginning to its end."""
    return [*_walk(file, FILE_HEADER, [place.bytes[1] for place in places if place.bytes is not None][:-1])]


def _whole(file: str) -> Extent:
    extent = Extent(0, size_of(file))
    last = 0
    for item in open_capture(file):
        if isinstance(item, PacketBatch):
            extent, last = extent.add(item.time_ns), int(item.number[-1])
    return extent._replace(packets=last)


def _walk(file: str, first: int, cuts: Iterable[int]) -> Iterator[Extent]:
    """From a record on; an extent ends with the first record behind a cut, the last one with the file, whatever its end looks like."""
    extent, left = Extent(first, size_of(file)), deque(cuts)
    reader = PcapReader(skipped=first - FILE_HEADER)
    with open_file(file) as source:
        data = source.read(FILE_HEADER)
        step = FORMATS[data[:4]].record_header
        while data:
            for batch in reader.feed(data):
                if isinstance(batch, Weird):  # nothing behind it can be read
                    yield extent
                    return
                behind = first + np.cumsum(batch.length + step)
                starts = behind - batch.length - step
                at = 0
                while left and starts[-1] >= left[0]:
                    cut = int(np.searchsorted(starts, left.popleft()))
                    yield extent.add(batch.time_ns[at:cut])._replace(behind=int(starts[cut]))
                    extent, at = Extent(int(starts[cut]), extent.behind), cut
                extent, first = extent.add(batch.time_ns[at:]), int(behind[-1])
            if source.tell() == FILE_HEADER:
                source.seek(first)
            data = source.read(BATCH_BYTES)
    yield extent


# -- ranges


def ranges_of(files: Sequence[str], extents: Sequence[Sequence[Extent]]) -> tuple[list[Range], Moment]:
    """A capture's ranges in their order, from the extents of each of its files; and where it ends."""
    found: list[Range] = []
    end = BEGIN
    for group in _one_behind_the_other([_all_of(each) for each in extents]):
        parts = extents[group[0]] if len(group) == 1 else [_all_of(list(map(_all_of, (extents[at] for at in group))))]
        named, before = tuple(files[at] for at in group), 0
        for part in parts:
            span = (part.first, part.behind) if len(parts) > 1 else None
            found.append(Range(named, span, before, end, len(files) > 1))
            before += part.packets
            end = Moment(end.packet + part.packets, max(end.clock_ns, part.most_ns))
    return found, end


def _all_of(extents: Sequence[Extent]) -> Extent:
    packets = sum(extent.packets for extent in extents)
    first_ns = min((extent.first_ns for extent in extents if extent.packets), default=-NEVER)
    return Extent(extents[0].first, extents[-1].behind, packets, first_ns, max(extent.most_ns for extent in extents))


def _one_behind_the_other(files: Sequence[Extent]) -> list[list[int]]:
    """The files in the order of their first packets, those that overlap together; kshark.capture.merge takes them in the same order."""
    groups: list[list[int]] = []
    last = (-NEVER, -1)
    for at in sorted(range(len(files)), key=lambda at: (files[at].first_ns, at)):
        if groups and last > (files[at].first_ns, at):
            groups[-1] = sorted([*groups[-1], at])
        else:
            groups.append([at])
        last = max(last, (files[at].most_ns, at))
    return groups


# -- reading


def read_range(range_: Range) -> Iterator[PacketBatch | Weird]:
    """The packets of a range, numbered as in the whole capture, and what is said of them."""
    base = range_.begin.packet - range_.before
    for item in _items(range_):
        if isinstance(item, PacketBatch):
            yield replace(item, number=item.number + base) if base else item
        else:
            yield changed(item, packet=item.packet + base) if base and item.packet else item


def _items(range_: Range) -> Iterator[PacketBatch | Weird]:
    files = range_.files
    if range_.bytes is None:
        if range_.named and len(files) == 1:
            return merge([Lane(files[0], 0)], Numbering(files))
        return iter(Captures(files))
    items = _bytes_of(files[0], *range_.bytes, range_.before)
    return (_naming(files[0], item) if range_.named and isinstance(item, Weird) else item for item in items)


def _bytes_of(file: str, first: int, behind: int, packets: int) -> Iterator[PacketBatch | Weird]:
    reader = PcapReader(skipped=first - FILE_HEADER, packets=packets)
    with open_file(file) as source:
        yield from reader.feed(source.read(FILE_HEADER))
        source.seek(first)
        left = behind - first
        while left > 0 and (data := source.read(min(left, BATCH_BYTES))):
            yield from reader.feed(data)
            left -= len(data)
    yield from reader.close()


def _naming(file: str, weird: Weird) -> Weird:
    """As where several files are read as one."""
    return changed(weird, detail=f"{file}: {weird.detail}")


def _head(file: str) -> bytes:
    """The file's header and the beginning of its first record."""
    with open_file(file) as source:
        return source.read(2 * FILE_HEADER)
