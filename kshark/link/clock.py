"""Find where the capture's clock was stepped or stood still, and which silences are real.

A silence of the whole capture looks like a step of its clock. The hosts' own clocks decide: a TCP timestamp (RFC 7323)
counts milliseconds on Linux, macOS, FreeBSD and Windows, so between two packets of one direction it advances as much as
the capture's clock does. Only packets around steps and silences are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kshark.limits import SILENCE_NS, SILENCE_PACKETS, SORTED_NS, STOPPED_PACKETS
from kshark.link import disorder
from kshark.model import Moment, PacketBatch, Weird

if TYPE_CHECKING:
    from kshark.link.columns import Columns, Words
    from kshark.model import Int64s

#: Of a TCP header: its length with the timestamp as its only option, the position of its data offset before the
#: payload, and of that option, after two NOPs. RFC 7323, appendix A.
_HEADER: Final = 32
_OFFSET_AT: Final = 20
_OPTION: Final = (0x01, 0x01, 0x08, 0x0A)
_OPTION_BYTES: Final = 12
#: Multipliers that make one number of an endpoint key, the same in every process.
_MIX: Final = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63], np.uint64
)
#: Nanoseconds of a tick: 1 kHz as nearly everywhere; Linux before 4.13 has 250, 300 or 100 Hz, Windows had 10 or 100
#: Hz, Linux 6.7 may have 1 MHz.
_MILLISECOND: Final = 1_000_000
_TICKS: Final = (_MILLISECOND, 4_000_000, 3_333_333, 10_000_000, 100_000_000, 1_000)
#: A tick is learned from so many of them, if they fit that well.
_LEARNED_TICKS: Final = 100
_LEARNED_SHARE: Final = 0.03
#: Two clocks agree within this and 1/2000 of the time; a difference above the second value is a step.
_AGREE_NS: Final = 5_000_000
_DRIFT: Final = 2_000
_STEP_NS: Final = 100_000_000
#: A capture without packets for that long does not exist.
_YEAR_NS: Final = 366 * 86_400 * 10**9
_WRAP: Final = 1 << 32


class Samples(NamedTuple):
    """TCP timestamps as columns, by packet number: time, a number for the directed pair of ends, TSval."""

    number: Int64s
    time_ns: Int64s
    path: Int64s
    tsval: Int64s

    def between(self, first: int, end: int) -> Samples:
        """Return those of the packets from `first` up to `end`, without it."""
        begin, stop = np.searchsorted(self.number, (first, end))
        return Samples(*(column[begin:stop] for column in self))

    def near(self, packets: Int64s) -> Samples:
        """Return those that are at most limits.SILENCE_PACKETS from one of these packets."""
        after = np.searchsorted(packets, self.number - SILENCE_PACKETS)
        rows = np.append(packets, 1 << 62)[after] <= self.number + SILENCE_PACKETS
        return Samples(*(column[rows] for column in self))


def joined(parts: Iterable[Samples]) -> Samples:
    """Join samples that follow each other."""
    return Samples(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


NONE: Final = Samples(*(np.empty(0, np.int64) for _ in Samples._fields))


class Jump(NamedTuple):
    """Two neighbouring packets, `before` and `packet`, with an unlikely distance in time: a step back, or a silence."""

    packet: int
    time_ns: int
    before: int
    by_ns: int


class ClockPart(NamedTuple):
    """The facts of one range of a capture, for `Judge` of the whole: its jumps, and the samples near them and its ends."""

    jumps: list[Jump]
    samples: Samples
    last: int


class Clock:
    """The clock of a capture, or of one range of it that begins after `begin`.

    In a range, `is_part`, jumps are not judged but collected in `part`: the packets that decide may be in the next one.
    """

    def __init__(self, begin: Moment, *, is_part: bool) -> None:
        self._begin = begin
        self._number, self._time_ns = begin.packet, begin.time_ns
        #: The greatest time since the last step back.
        self._latest_ns = begin.time_ns
        #: Of the packets up to now that have one time: their number and the first of them.
        self._same, self._same_since = 0, begin.packet
        self._is_zero = False
        self._growth = disorder.Growth()
        self._judge = Judge()
        self._is_part = is_part
        self._jumps: list[Jump] = []
        self._samples = [NONE]

    def feed(self, batch: PacketBatch, buffer: bytes, columns: Columns) -> list[Weird]:
        """Return what a batch shows; `columns` are its TCP segments in `buffer`."""
        times, numbers = batch.time_ns, batch.number
        steps = np.diff(times, prepend=self._time_ns if self._number else times[:1])
        weirds: list[Weird] = []
        jumps: list[Jump] = []
        if int(steps.min()) < 0 or not self._number:
            weirds += self._backwards(batch, steps, jumps)
        else:
            self._latest_ns = max(self._latest_ns, int(times[-1]))
        if int(steps.max()) >= SILENCE_NS:
            jumps += self._jumps_at(batch, steps, np.flatnonzero(steps >= SILENCE_NS))
        weirds += self._stopped(batch, steps)
        last = int(numbers[-1])
        every = bool(jumps) or self._is_part or self._judge.is_waiting
        samples = _samples(batch, buffer, columns, 0 if every else last - SILENCE_PACKETS)
        if self._is_part:
            self._jumps += jumps
            self._samples.append(samples)
        else:
            weirds += self._judge.feed(sorted(jumps), samples, last)
        self._number, self._time_ns = last, int(times[-1])
        return weirds

    @property
    def part(self) -> ClockPart:
        """The facts of the range."""
        edges = [self._begin.packet, *(jump.packet for jump in sorted(self._jumps)), self._number + 1]
        near = joined(self._samples).near(np.array(edges, np.int64))
        return ClockPart(sorted(self._jumps), near, self._number)

    def _jumps_at(self, batch: PacketBatch, steps: Int64s, rows: Int64s) -> Iterator[Jump]:
        for row in rows.tolist():
            before = int(batch.number[row - 1]) if row else self._number
            yield Jump(int(batch.number[row]), int(batch.time_ns[row]), before, int(steps[row]))

    def _backwards(self, batch: PacketBatch, steps: Int64s, jumps: list[Jump]) -> Iterator[Weird]:
        """Find steps back in a batch that is not in order of time, and yield other disorder."""
        times = batch.time_ns.tolist()
        if not self._number:
            self._latest_ns = times[0]
        if 0 in times and not self._is_zero:
            self._is_zero = True
            first = int(batch.number[times.index(0)])
            yield disorder.stopped(first, 0, first)
        late, back = np.zeros(len(times), np.int64), []
        for row, time_ns in enumerate(times):
            if time_ns < self._latest_ns - SORTED_NS:
                back.append(row)
                self._latest_ns = time_ns
            self._latest_ns = max(self._latest_ns, time_ns)
            late[row] = self._latest_ns - time_ns
        jumps += self._jumps_at(batch, steps, np.array(back, np.int64))
        for row, most_ns in self._growth.reports(late):
            yield disorder.disorder(int(batch.number[row]), times[row], most_ns)

    def _stopped(self, batch: PacketBatch, steps: Int64s) -> Iterator[Weird]:
        """Report runs of packets with one time."""
        moved = np.flatnonzero(steps)
        begins = np.concatenate([[0], moved])
        lengths = np.diff(np.append(begins, len(steps)))
        before = self._same
        lengths[0] += before
        if int(lengths.max()) >= STOPPED_PACKETS:
            for at in np.flatnonzero(lengths >= STOPPED_PACKETS).tolist():
                first_row, had = int(begins[at]), before if at == 0 else 0
                row = first_row + STOPPED_PACKETS - 1 - had
                time_ns = int(batch.time_ns[first_row])
                if row >= first_row and time_ns:
                    first = self._same_since if had else int(batch.number[first_row])
                    yield disorder.stopped(int(batch.number[row]), time_ns, first)
        if len(moved) or not self._same:
            self._same_since = int(batch.number[begins[-1]])
        self._same = int(lengths[-1])


class Judge:
    """Judges the jumps of a capture by TCP timestamps, as soon as packets decide."""

    def __init__(self) -> None:
        #: The last samples, and the packets of the last jumps, of limits.SILENCE_PACKETS packets.
        self._recent = NONE
        self._last_jumps: list[int] = []
        self._open: list[_OpenJump] = []

    @property
    def is_waiting(self) -> bool:
        """True if samples may decide an earlier jump."""
        return bool(self._open)

    def feed(self, jumps: list[Jump], samples: Samples, last: int) -> list[Weird]:
        """Return the verdicts up to the packet `last`, from the next jumps and samples."""
        weirds: list[Weird] = []
        recent = joined([self._recent, samples])
        if jumps or self._open:
            first = min(jump.packet for jump in (*jumps, *(known.jump for known in self._open)))
            self._last_jumps = [at for at in self._last_jumps if at >= first - SILENCE_PACKETS]
            self._last_jumps += [jump.packet for jump in jumps]
            self._open += [
                _OpenJump(jump, recent.between(jump.packet - SILENCE_PACKETS, jump.packet)) for jump in jumps
            ]
            for jump in self._open:
                weirds += jump.feed(samples, self._last_jumps)
            self._open = [jump for jump in self._open if not jump.is_settled(last)]
        self._recent = recent.between(last - SILENCE_PACKETS, last + 1)
        return weirds


class _Before(NamedTuple):
    """The first and the last sample of a direction before a jump: packet, time, TSval."""

    first: tuple[int, int, int]
    last: tuple[int, int, int]

    @property
    def tick_ns(self) -> int | None:
        """The nanoseconds of a tick, if they can be learned from the two."""
        ticks = (self.last[2] - self.first[2]) % _WRAP
        if not _LEARNED_TICKS <= ticks < _WRAP // 2:
            return None
        own = (self.last[1] - self.first[1]) / ticks
        return next((tick for tick in _TICKS if abs(own - tick) <= tick * _LEARNED_SHARE), None)


class _OpenJump:
    """A jump that is not decided yet: each direction with a sample before it may decide by its first one after it."""

    def __init__(self, jump: Jump, before: Samples) -> None:
        self.jump = jump
        self._is_new = True
        self._is_decided = False
        self._before: dict[int, _Before] = {}
        for number, time_ns, path, tsval in zip(*(column.tolist() for column in before), strict=True):
            own, sample = self._before.get(path), (number, time_ns, tsval)
            self._before[path] = _Before(own.first if own is not None else sample, sample)
        #: Sizes of a step, by directions that are sure of it.
        self._sizes: list[int] = []

    def is_settled(self, last: int) -> bool:
        """True if packets after `last` cannot change anything."""
        return self._is_decided or not self._before or last >= self.jump.packet + SILENCE_PACKETS

    def feed(self, samples: Samples, jumps: list[int]) -> Iterator[Weird]:
        """Yield what the samples decide. `jumps`: the packets of all jumps near this one, up to the last sample."""
        jump = self.jump
        if self._is_new:
            yield from self._first(samples.between(jump.packet, jump.packet + 1), jumps)
            self._is_new = False
        if self._is_decided or not self._before:
            return
        own = samples.between(jump.packet + 1, jump.packet + SILENCE_PACKETS)
        for number, time_ns, path, tsval in zip(*(column.tolist() for column in own), strict=True):
            agrees = self._agrees(number, time_ns, path, tsval, jumps)
            if agrees:
                yield disorder.silence_proved(number, time_ns, jump.packet)
            elif len(self._sizes) == 2:
                yield disorder.step(number, time_ns, jump.before, sum(self._sizes) // 2, jump.packet)
            if agrees or len(self._sizes) == 2:
                self._is_decided = True
                return

    def _first(self, samples: Samples, jumps: list[int]) -> Iterator[Weird]:
        """Yield what is certain at the packet of the jump."""
        jump = self.jump
        rows = [*zip(*(column.tolist() for column in samples), strict=True)]
        agrees = any(self._agrees(*row, jumps) for row in rows)
        if jump.by_ns < 0 or jump.by_ns > _YEAR_NS:
            self._is_decided = True
            by_ns = self._sizes[0] if self._sizes else jump.by_ns
            yield disorder.step(jump.packet, jump.time_ns, jump.before, by_ns, jump.packet)
        elif agrees:
            self._is_decided = True
        else:
            yield disorder.silence_unproved(jump.packet, jump.time_ns, jump.before, jump.by_ns)

    def _agrees(self, number: int, time_ns: int, path: int, tsval: int, jumps: list[int]) -> bool:
        """True if the host's clock advanced as much as the capture's; otherwise note the size of the step, if it is
        certain.
        """
        before = self._before.pop(path, None)
        if before is None or number - before.last[0] > SILENCE_PACKETS:
            return False
        ticks, elapsed_ns, tick_ns = (tsval - before.last[2]) % _WRAP, time_ns - before.last[1], before.tick_ns
        if ticks >= _WRAP // 2:
            return False
        off_ns = elapsed_ns - ticks * (tick_ns or _MILLISECOND)
        if abs(off_ns) <= _AGREE_NS + 2 * (tick_ns or _MILLISECOND) + abs(elapsed_ns) // _DRIFT:
            return True
        is_alone = not any(before.last[0] < other <= number and other != self.jump.packet for other in jumps)
        is_step = abs(off_ns) >= max(_STEP_NS, elapsed_ns // 100)
        if tick_ns is not None and is_alone and is_step and all(_is_same(off_ns, size) for size in self._sizes):
            self._sizes.append(off_ns)
        return False


def _is_same(one_ns: int, other_ns: int) -> bool:
    return abs(one_ns - other_ns) <= 2 * _AGREE_NS + abs(other_ns) // (_DRIFT // 2)


def _samples(batch: PacketBatch, buffer: bytes, columns: Columns, after: int) -> Samples:
    """Return the timestamps of segments after the packet `after` whose header has no other option."""
    begin = int(np.searchsorted(batch.number[columns.row], after, "right")) if after > 0 else 0
    offset = columns.offset[begin:]
    if not len(offset) or len(buffer) < _HEADER:
        return NONE
    row = columns.row[begin:]
    ends = np.where(offset < len(batch.buffer), batch.offset[row] + batch.length[row], len(buffer))
    start = np.clip(offset - _HEADER, 0, len(buffer) - _HEADER)
    options = sliding_window_view(np.frombuffer(buffer, np.uint8), _HEADER)[start]
    at = _HEADER - _OPTION_BYTES
    word = np.ascontiguousarray(options[:, at : at + 8]).view(">u4")
    has = (offset >= _HEADER) & (offset <= ends)
    has &= (word[:, 0] == int.from_bytes(bytes(_OPTION), "big")) & (
        options[:, _HEADER - _OFFSET_AT] >> 4 == _HEADER // 4
    )
    row, key = row[has], columns.key[:, begin:][:, has]
    return Samples(batch.number[row], batch.time_ns[row], _paths(key), word[has, 1].astype(np.int64))


def _paths(key: Words) -> Int64s:
    """Return a number for each directed pair of ends."""
    with np.errstate(over="ignore"):
        path: Int64s = (key.T * _MIX).sum(axis=1, dtype=np.uint64).view(np.int64)
    return path
