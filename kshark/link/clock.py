"""Find where the capture's clock was stepped or stood still, and which silences are real.

A silence of the whole capture looks like a step of its clock. The hosts' own clocks decide: a TCP timestamp (RFC 7323)
counts milliseconds on Linux, macOS, FreeBSD and Windows, so between two packets of one direction it advances as much as
the capture's clock does. Only packets around steps and silences are looked at one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view

from kshark.limits import SILENCE_NS, SILENCE_PACKETS, STOPPED_PACKETS
from kshark.link import disorder
from kshark.model import PacketBatch, Weird

if TYPE_CHECKING:
    from kshark.link.columns import Columns, Words
    from kshark.model import Int64s

#: A TCP header with the timestamp as its only option: its length, the positions of its data offset and of the option,
#: and two NOPs with the option's kind and length. RFC 7323, appendix A.
_HEADER: Final = 32
_DATA_OFFSET_AT: Final = 12
_OPTION_AT: Final = 20
_OPTION: Final = 0x0101_080A
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
    """TCP timestamps as columns, by packet number: time, a number for the directed pair of ends, one for their hosts
    alone, TSval.
    """

    number: Int64s
    time_ns: Int64s
    path: Int64s
    hosts: Int64s
    tsval: Int64s

    def between(self, first: int, end: int) -> Samples:
        """Return those of the packets from `first` up to `end`, without it."""
        begin, stop = self.number.searchsorted((first, end))
        return Samples(*(column[begin:stop] for column in self))


def joined(parts: Iterable[Samples]) -> Samples:
    """Join samples that follow each other."""
    filled = [part for part in parts if len(part.number)]
    if len(filled) < 2:
        return filled[0] if filled else NONE
    return Samples(*[np.concatenate(columns) for columns in zip(*filled, strict=True)])


NONE: Final = Samples(*(np.empty(0, np.int64) for _ in Samples._fields))


class Jump(Struct, frozen=True, order=True):
    """Two neighbouring packets, `before` and `packet`, with an unlikely distance in time: a step back, or a silence."""

    packet: int
    time_ns: int
    before: int
    by_ns: int


class Clock:
    """The clock of a capture."""

    def __init__(self) -> None:
        #: The last packet, and its time.
        self._number = self._time_ns = 0
        #: The greatest time since the last step back.
        self._latest_ns = 0
        #: Of the packets up to now that have one time: their number and the first of them.
        self._same = self._same_since = 0
        self._is_zero = False
        self._growth = disorder.Growth()
        self._judge = Judge()
        #: The last batches, and the packet up to which their samples are known or not needed.
        self._tail: deque[tuple[PacketBatch, bytes, Columns]] = deque()
        self._sampled = 0

    def feed(self, batch: PacketBatch, buffer: bytes, columns: Columns) -> list[Weird]:
        """Return what a batch shows; `columns` are its TCP segments in `buffer`."""
        times, numbers = batch.time_ns, batch.number
        steps = np.diff(times, prepend=self._time_ns if self._number else times[:1])
        weirds: list[Weird] = []
        jumps: list[Jump] = []
        is_backwards = int(steps.min()) < 0
        if is_backwards or not self._number:
            self._latest_ns = self._latest_ns if self._number else int(times[0])
            weirds += self._without_time(batch)
        if is_backwards:
            weirds += self._backwards(batch, steps, jumps)
        else:
            self._latest_ns = max(self._latest_ns, int(times[-1]))
        if int(steps.max()) >= SILENCE_NS:
            jumps += self._jumps_at(batch, steps, np.flatnonzero(steps >= SILENCE_NS))
        jumps.sort()
        weirds += self._stopped(batch, steps)
        last = int(numbers[-1])
        self._number, self._time_ns = last, int(times[-1])
        self._tail.append((batch, buffer, columns))
        if jumps or self._judge.asks_until:
            asked = [jump.packet for jump in jumps]
            first = 0 if self._judge.asks_until else asked[0] - SILENCE_PACKETS
            end = max(self._judge.asks_until, asked[-1] + SILENCE_PACKETS if asked else 0)
            weirds += self._judge.feed(jumps, self._new_samples(first, min(end, last)), last)
        while self._tail[0][0].number[-1] < last - SILENCE_PACKETS:
            self._tail.popleft()
        return weirds

    def _new_samples(self, first: int, last: int) -> Samples:
        """Return the samples of the packets from `first` to `last` that were not returned before."""
        first = max(first, self._sampled + 1)
        samples = [_samples(*batch, first, last) for batch in self._tail if batch[0].number[-1] >= first]
        self._sampled = last
        return joined(samples)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without batches, for a snapshot."""
        self._judge.feed([], self._new_samples(self._number - SILENCE_PACKETS, self._number), self._number)
        self._tail.clear()
        return vars(self)

    def _jumps_at(self, batch: PacketBatch, steps: Int64s, rows: Int64s) -> Iterator[Jump]:
        for row in rows.tolist():
            before = int(batch.number[row - 1]) if row else self._number
            yield Jump(int(batch.number[row]), int(batch.time_ns[row]), before, int(steps[row]))

    def _without_time(self, batch: PacketBatch) -> Iterator[Weird]:
        """Report the first packet with the time 0."""
        rows = np.flatnonzero(batch.time_ns == 0)
        if len(rows) and not self._is_zero:
            self._is_zero = True
            first = int(batch.number[rows[0]])
            yield disorder.stopped(first, 0, first)

    def _backwards(self, batch: PacketBatch, steps: Int64s, jumps: list[Jump]) -> Iterator[Weird]:
        """Find steps back in a batch that is not in order of time, and yield other disorder."""
        latest, count = disorder.latest_times(batch.time_ns, self._latest_ns)
        self._latest_ns = int(latest[-1])
        jumps += self._jumps_at(batch, steps, np.flatnonzero(np.diff(count, prepend=0)))
        for row, most_ns in self._growth.reports(latest - batch.time_ns):
            yield disorder.disorder(int(batch.number[row]), int(batch.time_ns[row]), most_ns)

    def _stopped(self, batch: PacketBatch, steps: Int64s) -> Iterator[Weird]:
        """Report runs of packets with one time."""
        times, far = batch.time_ns, STOPPED_PACKETS - 1
        if steps[0] and steps[-1] and not (times[far:] == times[:-far]).any():
            self._same, self._same_since = 1, int(batch.number[-1])
            return
        begins = np.concatenate([[0], np.flatnonzero(steps)])
        lengths = np.diff(begins, append=len(steps))
        before = self._same
        lengths[0] += before
        for at in np.flatnonzero(lengths >= STOPPED_PACKETS).tolist():
            first_row, had = int(begins[at]), before if at == 0 else 0
            if had < STOPPED_PACKETS and times[first_row]:
                first = self._same_since if had else int(batch.number[first_row])
                yield disorder.stopped(int(batch.number[first_row + far - had]), int(times[first_row]), first)
        if len(begins) > 1 or not before:
            self._same_since = int(batch.number[begins[-1]])
        self._same = int(lengths[-1])


class Judge:
    """Judges the jumps of a capture by TCP timestamps, as soon as packets decide."""

    def __init__(self) -> None:
        #: The last samples, and the packets of the last jumps, of limits.SILENCE_PACKETS packets.
        self._recent = NONE
        self._last_jumps: deque[int] = deque()
        self._open: list[_OpenJump] = []

    @property
    def asks_until(self) -> int:
        """The last packet whose sample may decide an earlier jump; 0 if all are decided."""
        return self._open[-1].jump.packet + SILENCE_PACKETS if self._open else 0

    def feed(self, jumps: list[Jump], samples: Samples, last: int) -> list[Weird]:
        """Return the verdicts up to the packet `last`, from the next jumps and samples."""
        weirds: list[Weird] = []
        recent = joined([self._recent, samples])
        if jumps or self._open:
            for jump in jumps:
                self._last_jumps.append(jump.packet)
                self._open.append(_OpenJump(jump, recent.between(jump.packet - SILENCE_PACKETS, jump.packet)))
            while self._last_jumps[0] < self._open[0].jump.packet - SILENCE_PACKETS:
                self._last_jumps.popleft()
            for open_jump in self._open:
                weirds += open_jump.feed(samples, self._last_jumps)
            self._open = [open_jump for open_jump in self._open if not open_jump.is_settled(last)]
        self._recent = recent.between(last - SILENCE_PACKETS, last + 1) if len(recent.number) else NONE
        return weirds


class _OpenJump:
    """A jump that is not decided yet: each direction with a sample before it may decide by its first one after it."""

    def __init__(self, jump: Jump, before: Samples) -> None:
        self.jump = jump
        self._is_new = True
        self._is_decided = False
        self._before = before
        #: The directions that have a sample before the jump, and none after it so far.
        self._undecided = {*before.path.tolist()}
        #: Sizes of a step, by directions that are sure of it.
        self._sizes: list[int] = []

    def is_settled(self, last: int) -> bool:
        """True if packets after `last` cannot change anything."""
        return self._is_decided or not self._undecided or last >= self.jump.packet + SILENCE_PACKETS

    def feed(self, samples: Samples, jumps: Iterable[int]) -> Iterator[Weird]:
        """Yield what the samples decide. `jumps`: the packets of all jumps near this one, up to the last sample."""
        jump = self.jump
        if self._is_new:
            own = samples.between(jump.packet, jump.packet + 1) if self._undecided else NONE
            yield from self._at_jump(own, jumps)
            self._is_new = False
        if self._is_decided or not self._undecided:
            return
        own = samples.between(jump.packet + 1, jump.packet + SILENCE_PACKETS)
        seen: set[int] = set()
        for row, path in enumerate(own.path.tolist()):
            if path in seen:
                continue
            seen.add(path)
            agrees = self._agrees(own, row, jumps) or self._agrees_by_hosts(own, row)
            if agrees:
                yield disorder.silence_proved(int(own.number[row]), int(own.time_ns[row]), jump.packet)
            elif len(self._sizes) == 2:
                at = int(own.number[row]), int(own.time_ns[row])
                yield disorder.step(*at, jump.before, sum(self._sizes) // 2, jump.packet)
            if agrees or len(self._sizes) == 2:
                self._is_decided = True
                return

    def _at_jump(self, samples: Samples, jumps: Iterable[int]) -> Iterator[Weird]:
        """Yield what is certain at the packet of the jump."""
        jump = self.jump
        agrees = any(
            self._agrees(samples, row, jumps) or self._agrees_by_hosts(samples, row)
            for row in range(len(samples.number))
        )
        if jump.by_ns < 0 or jump.by_ns > _YEAR_NS:
            self._is_decided = True
            is_least = not self._sizes and jump.by_ns < 0
            by_ns = self._sizes[0] if self._sizes else jump.by_ns
            yield disorder.step(jump.packet, jump.time_ns, jump.before, by_ns, jump.packet, is_least=is_least)
        elif agrees:
            self._is_decided = True
        else:
            yield disorder.silence_unproved(jump.packet, jump.time_ns, jump.before, jump.by_ns)

    def _agrees(self, samples: Samples, row: int, jumps: Iterable[int]) -> bool:
        """True if the host's clock advanced as much as the capture's; otherwise note the size of the step, if it is
        certain.
        """
        number, path, before = int(samples.number[row]), int(samples.path[row]), self._before
        if path not in self._undecided:
            return False
        self._undecided.remove(path)
        rows = np.flatnonzero(before.path == path)
        first, last = int(rows[0]), int(rows[-1])
        if number - int(before.number[last]) > SILENCE_PACKETS:
            return False
        ticks = int(samples.tsval[row] - before.tsval[last]) % _WRAP
        elapsed_ns = int(samples.time_ns[row] - before.time_ns[last])
        if ticks >= _WRAP // 2:
            return False
        learned_ns = self._tick_ns(first, last)
        tick_ns = learned_ns or _MILLISECOND
        off_ns = elapsed_ns - ticks * tick_ns
        if abs(off_ns) <= _AGREE_NS + 2 * tick_ns + abs(elapsed_ns) // _DRIFT:
            return True
        is_alone = not any(before.number[last] < other <= number and other != self.jump.packet for other in jumps)
        is_step = abs(off_ns) >= max(_STEP_NS, elapsed_ns // 100)
        if learned_ns is not None and is_alone and is_step and all(_is_same(off_ns, size) for size in self._sizes):
            self._sizes.append(off_ns)
        return False

    def _agrees_by_hosts(self, samples: Samples, row: int) -> bool:
        """True if a new connection shows the same, by an earlier one between its hosts.

        Linux since 4.13 adds one offset to the timestamps of all connections between two addresses
        (secure_tcp_ts_off). Other clocks agree by chance once in a hundred million times.
        """
        before = self._before
        rows = np.flatnonzero(before.hosts == samples.hosts[row])
        if not len(rows) or (before.path == samples.path[row]).any():
            return False
        last = int(rows[-1])
        elapsed_ns = int(samples.time_ns[row] - before.time_ns[last])
        ticks = int(samples.tsval[row] - before.tsval[last]) % _WRAP
        return elapsed_ns > 0 and abs(elapsed_ns - ticks * _MILLISECOND) <= _AGREE_NS + elapsed_ns // _DRIFT

    def _tick_ns(self, first: int, last: int) -> int | None:
        """Return the nanoseconds of a tick, if they can be learned from two samples before the jump."""
        before = self._before
        ticks = int(before.tsval[last] - before.tsval[first]) % _WRAP
        if not _LEARNED_TICKS <= ticks < _WRAP // 2:
            return None
        own = int(before.time_ns[last] - before.time_ns[first]) / ticks
        return next((tick for tick in _TICKS if abs(own - tick) <= tick * _LEARNED_SHARE), None)


def _is_same(one_ns: int, other_ns: int) -> bool:
    return abs(one_ns - other_ns) <= 2 * _AGREE_NS + abs(other_ns) // (_DRIFT // 2)


def _samples(batch: PacketBatch, buffer: bytes, columns: Columns, first: int, last: int) -> Samples:
    """Return the timestamps of segments from the packet `first` to `last` whose header has no other option."""
    begin, end = np.searchsorted(batch.number[columns.row], (first, last + 1))
    row, offset = columns.row[begin:end], columns.offset[begin:end]
    if not len(row) or len(buffer) < _HEADER:
        return NONE
    view = np.frombuffer(buffer, np.uint8)
    words = sliding_window_view(view, 4)
    start = np.maximum(np.minimum(offset, len(buffer)) - _HEADER, 0)
    has = words[start + _OPTION_AT].view(">u4")[:, 0] == _OPTION
    has &= view[start + _DATA_OFFSET_AT] >> 4 == _HEADER // 4
    has &= offset <= np.where(offset < len(batch.buffer), batch.offset[row] + batch.length[row], len(buffer))
    row, key, start = row[has], columns.key[:, begin:end][:, has], start[has]
    tsval = words[start + _OPTION_AT + 4].view(">u4")[:, 0].astype(np.int64)
    return Samples(batch.number[row], batch.time_ns[row], _mixed(key), _mixed(key[:-1]), tsval)


def _mixed(key: Words) -> Int64s:
    """Return one number for the words of each key."""
    with np.errstate(over="ignore"):
        mixed: Int64s = sum(word * by for word, by in zip(key, _MIX, strict=False)).view(np.int64)
    return mixed
