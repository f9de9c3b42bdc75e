"""Sharing out: what happens on each connection goes to one process, and only that.

A share is a batch's frames of some connections as columns, with bytes of their own, and between them what else these connections need.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, compress
from typing import Any, Final, Literal, NamedTuple

from kshark.model import Closed, Ends, Event, Flow, Frames, Gap, Side

Where = Callable[[int], tuple[str, int] | None]


class Lesson(NamedTuple):
    """What the time line has taught when `row` rows of the batch are over: names (id, name, packet), and widths of columns."""

    row: int
    names: list[tuple[str, str, int]]
    widths: tuple[int, ...] | None = None


class Lost(NamedTuple):
    """A Gap on a connection, as far as decoding depends on it."""

    flow: int
    side: Side
    client_side: Side | None


class Ended(NamedTuple):
    """A Closed."""

    flow: int
    client_side: Side | None
    packet: int
    time_ns: int
    how: Literal["fin", "rst", "reused", "forgotten", "capture"]


class NewFlow(NamedTuple):
    """A connection of which frames come for the first time."""

    id: int
    ends: Ends
    opened_by: Side | None
    client_side: Side | None


Step = Lesson | Lost | Ended
#: Before every time.
ALWAYS: Final = -(1 << 62)


class Share(NamedTuple):
    """Frames of one process's connections, in the order of the time line: model.Frames with sizes in the place of positions in `data`.

    `steps` stand behind that many of these rows. `where`: file and frame of each row, where there are several files. What is older than
    `since_ns` is decoded and not shown.
    """

    flows: list[NewFlow]
    data: bytes
    flow: array[int]
    sent_by_client: list[bool | None]
    size: array[int]
    first_packet: array[int]
    first_time_ns: array[int]
    last_packet: array[int]
    last_time_ns: array[int]
    resync: list[bool] | None
    where: list[tuple[str, int] | None] | None
    steps: list[tuple[int, Step]]
    since_ns: int

    def frames(self, flows: dict[int, Flow]) -> Frames:
        """The rows as the stages know them."""
        ends = [*accumulate(self.size)]
        return Frames(
            self.data,
            [flows[number] for number in self.flow],
            self.sent_by_client,
            [0, *ends[:-1]],
            ends,
            self.first_packet.tolist(),
            self.first_time_ns.tolist(),
            self.last_packet.tolist(),
            self.last_time_ns.tolist(),
            self.resync,
        )


class Batch(NamedTuple):
    """What the first process remembers of a batch: which process has which row, and all events but frames with the rows before each.

    `steps`: for each process that has a share the Lost and Ended in it, as rows before it and index in `events`.
    """

    owners: list[int]
    last_time_ns: list[int]
    events: list[tuple[int, Event]]
    steps: dict[int, list[tuple[int, int]]]
    since_ns: int


class Sharing:
    """Gives every connection to the process that has had the fewest bytes when its first frame comes."""

    def __init__(self, workers: int) -> None:
        self._owners = _Owners(workers)
        #: Lessons of the batches so far that a process has not been told.
        self._untold: list[list[Lesson]] = [[] for _ in range(workers)]

    def teach(self, lesson: Lesson) -> None:
        """All processes are told with their next share."""
        for untold in self._untold:
            untold.append(lesson)

    def cut(self, events: Iterable[Event], lessons: Sequence[Lesson], since_ns: int, where: Where | None) -> tuple[Batch, dict[int, Share]]:
        """The batch, and the shares of the processes that have a part in it."""
        rows = _Rows()
        others: list[tuple[int, Event]] = []
        places: list[list[tuple[int, int]]] = [[] for _ in self._untold]
        steps: list[list[tuple[int, Step]]] = [[] for _ in self._untold]
        for event in events:
            if isinstance(event, Frames):
                rows.add(event, self._owners)
                continue
            if isinstance(event, (Gap, Closed)) and event.flow in self._owners:
                owner = self._owners.pop(event.flow) if isinstance(event, Closed) else self._owners[event.flow]
                places[owner].append((len(rows.owners), len(others)))
                steps[owner].append((len(rows.owners), _step(event)))
            others.append((len(rows.owners), event))
        located = None if where is None else [where(packet) for packet in rows.last_packet]
        shares = {}
        for worker, untold in enumerate(self._untold):
            untold += lessons
            if steps[worker] or worker in rows.owners:
                told: list[tuple[int, Step]] = [(lesson.row, lesson) for lesson in untold]
                shares[worker] = rows.share(worker, self._owners, [*told, *steps[worker]], located, since_ns)
                untold.clear()
            else:
                untold[:] = [lesson._replace(row=0) for lesson in untold]
        batch = Batch(rows.owners, rows.last_time_ns, others, {worker: places[worker] for worker in shares}, since_ns)
        return batch, shares


def _step(event: Gap | Closed) -> Lost | Ended:
    flow = event.flow
    if isinstance(event, Gap):
        return Lost(flow.id, event.side, flow.client_side)
    return Ended(flow.id, flow.client_side, event.packet, event.time_ns, event.how)


class _Owners(dict[Flow, int]):
    """The process of each connection that has had frames, chosen when the first comes."""

    def __init__(self, workers: int) -> None:
        self.new: list[list[NewFlow]] = [[] for _ in range(workers)]
        self.load = [0] * workers

    def __missing__(self, flow: Flow) -> int:
        worker = self[flow] = self.load.index(min(self.load))
        self.load[worker] += 1  # so that many new ones in one batch are spread
        self.new[worker].append(NewFlow(flow.id, flow.ends, flow.opened_by, flow.client_side))
        return worker


class _Rows:
    """A batch's frames, joined."""

    def __init__(self) -> None:
        self.owners: list[int] = []
        self.data: list[bytes] = []
        self.flow: list[int] = []
        self.columns: tuple[list[Any], ...] = ([], [], [], [], [])
        self.resync: list[bool] | None = None
        self.last_packet, self.last_time_ns = self.columns[3:]

    def add(self, frames: Frames, owners: _Owners) -> None:
        buffer = frames.buffer
        before = len(self.owners)
        self.owners += map(owners.__getitem__, frames.flow)
        self.data += [buffer[start:end] for start, end in zip(frames.start, frames.end, strict=True)]
        self.flow += [flow.id for flow in frames.flow]
        times = (frames.first_packet, frames.first_time_ns, frames.last_packet, frames.last_time_ns)
        added: tuple[list[Any], ...] = (frames.sent_by_client, *times)
        for column, values in zip(self.columns, added, strict=True):
            column += values
        if frames.resync is not None or self.resync is not None:
            self.resync = self.resync or [False] * before
            self.resync += frames.resync or [False] * len(frames.flow)

    def share(
        self,
        worker: int,
        owners: _Owners,
        steps: Sequence[tuple[int, Step]],
        located: list[tuple[str, int] | None] | None,
        since_ns: int,
    ) -> Share:
        mine = [*map(worker.__eq__, self.owners)]
        data = [*compress(self.data, mine)]
        sizes = array("q", map(len, data))
        owners.load[worker] += sum(sizes)
        flows, owners.new[worker] = owners.new[worker], []
        before = [0, *accumulate(mine)] if steps else []

        def numbers(column: Iterable[int]) -> array[int]:
            return array("q", compress(column, mine))

        by_client, first_packet, first_time_ns, last_packet, last_time_ns = self.columns
        return Share(
            flows,
            b"".join(data),
            numbers(self.flow),
            [*compress(by_client, mine)],
            sizes,
            numbers(first_packet),
            numbers(first_time_ns),
            numbers(last_packet),
            numbers(last_time_ns),
            None if self.resync is None else [*compress(self.resync, mine)],
            None if located is None else [*compress(located, mine)],
            sorted(((before[row], step) for row, step in steps), key=_row),
            since_ns,
        )


def _row(step: tuple[int, Any]) -> int:
    return step[0]


def part(frames: Frames, first: int, last: int) -> Frames:
    """Rows from `first` to before `last`."""
    columns = [getattr(frames, name) for name in Frames.__slots__ if name != "buffer"]
    return Frames(frames.buffer, *(column and column[first:last] for column in columns))
