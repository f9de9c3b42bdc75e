"""Split a capture into ranges for several processes: byte ranges of large files, whole compressed files.

First the extents of all files are measured independently: the packets between two positions, and their times. Joined,
they give the beginning of each range: its first packet number and the time before it. Files that overlap in time are
one range, read as one. A file with reports before its last range is one range too, since the limit of such reports
counts over the whole file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace as changed

from kshark.capture.captures import Captures
from kshark.capture.destroyed import destroyed
from kshark.capture.files import open_file, size_of
from kshark.capture.formats import FILE_HEADER
from kshark.capture.merge import NEVER, Lane, merge
from kshark.capture.numbering import Numbering
from kshark.capture.pcap import Header, PcapReader
from kshark.capture.pcapng import PcapngReader, Section
from kshark.capture.resume_point import START, ResumePoint
from kshark.capture.resync import READ, first_block, first_record
from kshark.capture.source import HEAD_READ, open_capture, reader_for
from kshark.errors import Changed, UnreadableInput
from kshark.limits import BATCH_BYTES, STOPPED_PACKETS
from kshark.model import BEGIN, Moment, PacketBatch, Weird

#: Bytes of a range.
RANGE_BYTES: Final = 64 << 20


class FilePart(NamedTuple):
    """The part of a file whose extent is measured: the records that begin between two bytes, or None for a
    whole file.
    """

    file: str
    bytes: tuple[int, int] | None


class Extent(NamedTuple):
    """Records of a file: the reader's positions before and after them, their number, the first, the greatest and the
    last time.

    `has_reports` is True if the reader reported anything and continued, `is_ordered` if times do not run backwards.
    `first_run` and `last_run` are the numbers of packets with the first and with the last time.
    """

    begin: ResumePoint[Any]
    end: ResumePoint[Any]
    packets: int = 0
    first_ns: int = -NEVER
    most_ns: int = -NEVER
    last_ns: int = -NEVER
    has_reports: bool = False
    is_ordered: bool = True
    first_run: int = 0
    last_run: int = 0

    def add(self, batch: PacketBatch, before: int) -> Extent:
        """Add a batch; `before` of its packets come before this extent."""
        times = batch.time_ns
        first_ns, last_ns = self.first_ns if self.packets else int(times[0]), int(times[-1])
        ends = int(np.argmax(np.append(times[::-1] != last_ns, True)))
        begins = int(np.argmax(np.append(times != first_ns, True)))
        return self._replace(
            packets=int(batch.number[-1]) - before,
            first_ns=first_ns,
            most_ns=max(self.most_ns, int(times.max())),
            last_ns=last_ns,
            is_ordered=self.is_ordered and int(times[0]) >= self.last_ns and bool((times[1:] >= times[:-1]).all()),
            first_run=self.first_run + begins if self.last_ns in (first_ns, -NEVER) else self.first_run,
            last_run=ends + (self.last_run if ends == len(times) and self.last_ns == last_ns else 0),
        )

    def is_followed_by(self, other: Extent) -> bool:
        """True if the clock of the capture needs no packets of both: times do not run backwards, nor stand still."""
        if not self.packets or not other.packets:
            return True
        is_same = other.first_ns == self.last_ns
        return other.first_ns >= self.last_ns and not (is_same and self.last_run + other.first_run >= STOPPED_PACKETS)


class Range(NamedTuple):
    """Files read as one, or the bytes of a file from the reader's position `since` to `end`.

    `begin`: the position in the capture before it. `named`: there are other files, so reports about this one name it.
    """

    files: tuple[str, ...]
    since: ResumePoint[Any] | None
    end: int
    begin: Moment
    named: bool

    @property
    def before(self) -> int:
        """Packets of the file before this range."""
        return 0 if self.since is None else self.since.packets


class _Joined(Exception):
    """Another capture begins inside the file, so that its first facts do not hold for all of it."""


# -- extents


def parts_of(file: str, range_bytes: int = RANGE_BYTES) -> list[FilePart]:
    """Return the parts of a file. Raises UnreadableInput if it is not a capture."""
    capture = open_capture(file)
    capture.close()
    if not capture.regular:
        raise UnreadableInput(f"{file}: several processes cannot read one pipe; write it into a file")
    size = size_of(file)
    with open_file(file) as source:
        count = 0 if _facts_of(source.read(HEAD_READ)) is None else size // range_bytes
    if count < 2:
        return [FilePart(file, None)]
    return [FilePart(file, cut) for cut in pairwise([0, *(size * at // count & ~3 for at in range(1, count)), size])]


def extent_of(file_part: FilePart) -> Extent | None:
    """Return the extent of a part; None if no first record was found, or if another capture begins there.

    The facts of the file's beginning are assumed to hold there.
    """
    if file_part.bytes is None:
        return _whole(file_part.file)
    begin, end = file_part.bytes
    if not begin:
        return _extent(file_part.file, START, end)
    with open_file(file_part.file) as file:
        head = file.read(HEAD_READ)
        file.seek(begin)
        data = file.read(READ)
    facts, to_end = _facts_of(head), begin + len(data) >= size_of(file_part.file)
    if isinstance(facts, Header):
        (around_s,) = struct.unpack_from(facts.format.order + "I", head, FILE_HEADER)
        position = first_record(data, facts.format, around_s, to_end=to_end)
    else:
        position = None if facts is None else first_block(data, facts.order, to_end=to_end)
    if position is None:
        return None
    return _extent(file_part.file, ResumePoint(begin + position, 0, -NEVER, facts), end)


def _extent(file: str, begin: ResumePoint[Any], end: int) -> Extent | None:
    try:
        return next(_walk(file, begin, [end]))
    except _Joined:
        return None


def are_proved(extents: Sequence[Extent | None]) -> bool:
    """True if the extents of a file's parts are right: each ends where the next one begins, with the same facts."""
    sound = [extent for extent in extents if extent is not None]
    return (
        len(sound) == len(extents)
        and all(
            earlier.end.position == later.begin.position
            and earlier.end.facts == later.begin.facts
            and not earlier.has_reports
            and not (later.packets and later.first_ns == -NEVER)  # packets without a time get that of the previous one
            for earlier, later in pairwise(sound)
        )
        and _are_ordered(sound)
    )


def walked(file: str, file_parts: Iterable[FilePart]) -> list[Extent]:
    """Return the extents of a file's parts, read from its beginning to its end.

    One extent if the file is several captures, or must be sorted by time.
    """
    ends = [file_part.bytes[1] for file_part in file_parts if file_part.bytes is not None]
    try:
        extents = [*_walk(file, START, ends)]
    except _Joined:
        return [_whole(file)]
    return extents if _are_ordered(extents) else [_whole(file)]


def _are_ordered(extents: Sequence[Extent]) -> bool:
    """True if times do not run backwards in several parts of a file."""
    return len(extents) == 1 or (
        all(extent.is_ordered for extent in extents)
        and all(
            earlier.is_followed_by(later)
            for earlier, later in pairwise([extent for extent in extents if extent.packets])
        )
    )


def _facts_of(head: bytes) -> Header | Section | None:
    """Return the facts of a file's beginning; None if it is not a capture, or has none yet."""
    reader = reader_for(head) if destroyed(head) is None else None
    if reader is None:
        return None
    try:
        for _ in reader.feed(head):
            pass
    except UnreadableInput:
        return None
    return reader.resume_point.facts


def _whole(file: str) -> Extent:
    extent = Extent(START, ResumePoint(size_of(file)))
    for item in open_capture(file):
        if isinstance(item, PacketBatch):
            extent = extent.add(item, 0)
    return extent


def _walk(file: str, begin: ResumePoint[Any], cuts: Iterable[int]) -> Iterator[Extent]:
    """Yield extents from a record on: each ends with the first record after a cut, the last one with the file."""
    at, packets, size = begin.position, begin.packets, size_of(file)
    with open_file(file) as source:
        reader = _reader(file, source.read(FILE_HEADER), begin)
        source.seek(at)
        for cut in cuts:
            before = packets
            extent = Extent(reader.resume_point, reader.resume_point)
            while (left := cut - at if at < cut else reader.missing) and (data := source.read(min(left, BATCH_BYTES))):
                at += len(data)
                items = chain(reader.feed(data), _last_items(reader) if at == size else ())
                for item in items:
                    if isinstance(item, PacketBatch):
                        extent, packets = extent.add(item, before), int(item.number[-1])
                    elif reader.stopped:  # nothing after it can be read
                        yield extent._replace(end=reader.resume_point._replace(position=size))
                        return
                    else:
                        extent = extent._replace(has_reports=True)
                if reader.rest:
                    raise _Joined
            yield extent._replace(end=reader.resume_point)


def _last_items(reader: PcapReader | PcapngReader) -> Iterator[PacketBatch | Weird]:
    """Yield the packets that the reader delivers only when the file ends."""
    return (item for item in reader.close() if isinstance(item, PacketBatch))


# -- ranges


def ranges_of(files: Sequence[str], extents: Sequence[Sequence[Extent]]) -> tuple[list[Range], Moment]:
    """Return a capture's ranges in their order, from the extents of each of its files; and the capture's end."""
    ranges: list[Range] = []
    end = BEGIN
    for group in _in_order([_all_of(parts) for parts in extents]):
        parts = extents[group[0]] if len(group) == 1 else [_all_of(list(map(_all_of, (extents[at] for at in group))))]
        if any(part.has_reports for part in (parts if len(files) > 1 else parts[:-1])):
            parts = [_all_of(parts)]
        named, since = tuple(files[at] for at in group), START
        for part in parts:
            since = since._replace(position=part.begin.position, facts=part.begin.facts)
            ranges.append(Range(named, since if len(parts) > 1 else None, part.end.position, end, len(files) > 1))
            if part.packets:
                since = since._replace(packets=since.packets + part.packets, time_ns=part.end.time_ns)
                end = Moment.at(end.packet + part.packets, max(end.clock_ns, part.most_ns), part.last_ns)
    return ranges, end


def _all_of(extents: Sequence[Extent]) -> Extent:
    filled = [extent for extent in extents if extent.packets]
    last = max(enumerate(filled), key=lambda numbered: (numbered[1].most_ns, numbered[0]), default=(0, extents[-1]))[1]
    return Extent(
        extents[0].begin,
        extents[-1].end,
        sum(extent.packets for extent in filled),
        min((extent.first_ns for extent in filled), default=-NEVER),
        last.most_ns,
        last.last_ns,
        has_reports=any(extent.has_reports for extent in extents),
    )


def _in_order(files: Sequence[Extent]) -> list[list[int]]:
    """Return the files in the order of their first packets, overlapping ones together, as kshark.capture.merge orders
    them.
    """
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
    """Yield the packets of a range, numbered as in the whole capture, and the reports about them."""
    base = range_.begin.packet - range_.before
    for item in _items(range_):
        if isinstance(item, PacketBatch):
            yield replace(item, number=item.number + base) if base else item
        else:
            yield changed(item, packet=item.packet + base) if base and item.packet else item


def _items(range_: Range) -> Iterator[PacketBatch | Weird]:
    files = range_.files
    if range_.since is None:
        if range_.named and len(files) == 1:
            return merge([Lane(files[0], 0)], Numbering(files))
        return iter(Captures(files))
    items = _bytes_of(files[0], range_.since, range_.end)
    return (_naming(files[0], item) if range_.named and isinstance(item, Weird) else item for item in items)


def _bytes_of(file: str, since: ResumePoint[Any], end: int) -> Iterator[PacketBatch | Weird]:
    with open_file(file) as source:
        reader = _reader(file, source.read(FILE_HEADER), since)
        source.seek(since.position)
        left = end - since.position
        while left > 0 and (data := source.read(min(left, BATCH_BYTES))):
            yield from reader.feed(data)
            left -= len(data)
    yield from reader.close()


def _reader(file: str, head: bytes, begin: ResumePoint[Any]) -> PcapReader | PcapngReader:
    reader = reader_for(head, begin)
    if reader is None:
        raise Changed(f"{file}: it changed while it was read")
    return reader


def _naming(file: str, weird: Weird) -> Weird:
    """Return the weird with its file's name, as if several files were read as one."""
    return changed(weird, detail=f"{file}: {weird.detail}")
