"""Sharing out: what happens on each connection goes to one process, and only that.

A share is a batch's frames of some connections as columns, with bytes of their own, and between them what else these connections need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from kshark.framing import apart, joined
from kshark.model import Closed, Ends, Event, Flow, Frames, Gap, Side

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s

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
#: Columns of model.Frames with a value for each row.
_BY_ROW: Final = ("stream", "start", "end", "first_packet", "first_time_ns", "last_packet", "last_time_ns", "resync")
#: Before every time.
ALWAYS: Final = -(1 << 62)


class Share(NamedTuple):
    """Frames of one process's connections, in the order of the time line, with bytes of their own and connections by number.

    `steps` stand behind that many of these rows. `where`: file and frame of each row, where there are several files. What is older than
    `since_ns` is decoded and not shown.
    """

    new: list[NewFlow]
    flows: list[int]
    columns: tuple[Any, ...]
    steps: list[tuple[int, Step]]
    where: list[tuple[str, int] | None] | None
    since_ns: int

    @property
    def data(self) -> bytes:
        return bytes(self.columns[0]) if self.columns else b""

    def frames(self, flows: dict[int, Flow]) -> Frames | None:
        """The rows as the stages know them; None where there are none."""
        if not self.columns:
            return None
        data, *columns = self.columns
        return Frames(bytes(data), [flows[number] for number in self.flows], *columns)


class Batch(NamedTuple):
    """What the first process remembers of a batch: which process has which row, and all events but frames with the rows before each.

    `steps`: for each process that has a share the Lost and Ended in it, as rows before it and index in `events`.
    """

    owners: Int64s
    last_time_ns: Int64s
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
        parts: list[Frames] = []
        others: list[tuple[int, Event]] = []
        row = 0
        for event in events:
            if isinstance(event, Frames):
                parts.append(event)
                row += len(event)
            else:
                others.append((row, event))
        frames = _whole(parts)
        owners = self._owners.of(frames)
        places: list[list[tuple[int, int]]] = [[] for _ in self._untold]
        steps: list[list[tuple[int, Step]]] = [[] for _ in self._untold]
        for at, (row, event) in enumerate(others):
            if isinstance(event, (Gap, Closed)) and event.flow in self._owners:
                owner = self._owners.pop(event.flow) if isinstance(event, Closed) else self._owners[event.flow]
                places[owner].append((row, at))
                steps[owner].append((row, _step(event)))
        located = None if where is None or frames is None else [where(packet) for packet in frames.last_packet.tolist()]
        shares = {}
        for worker, untold in enumerate(self._untold):
            untold += lessons
            mine = owners == worker
            if steps[worker] or mine.any():
                told: list[tuple[int, Step]] = [(lesson.row, lesson) for lesson in untold]
                shares[worker] = self._owners.share(worker, frames, mine, [*told, *steps[worker]], located, since_ns)
                untold.clear()
            else:
                untold[:] = [lesson._replace(row=0) for lesson in untold]
        last_time_ns = owners if frames is None else frames.last_time_ns
        return Batch(owners, last_time_ns, others, {worker: places[worker] for worker in shares}, since_ns), shares


def _whole(parts: list[Frames]) -> Frames | None:
    """A batch's frames in one: most often they are parts of what was one before."""
    if len(parts) < 2 or any(part.buffer is not parts[0].buffer for part in parts):
        return joined(parts)
    first = parts[0]
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in _BY_ROW]
    return Frames(first.buffer, first.flows, first.by_client, *columns)


def _step(event: Gap | Closed) -> Lost | Ended:
    flow = event.flow
    if isinstance(event, Gap):
        return Lost(flow.id, event.side, flow.client_side)
    return Ended(flow.id, flow.client_side, event.packet, event.time_ns, event.how)


class _Owners(dict[Flow, int]):
    """The process of each connection that has had frames, chosen when the first comes."""

    def __init__(self, workers: int) -> None:
        self._new: list[list[NewFlow]] = [[] for _ in range(workers)]
        self._load = [0] * workers

    def __missing__(self, flow: Flow) -> int:
        worker = self[flow] = self._load.index(min(self._load))
        self._load[worker] += 1  # so that many new ones in one batch are spread
        self._new[worker].append(NewFlow(flow.id, flow.ends, flow.opened_by, flow.client_side))
        return worker

    def of(self, frames: Frames | None) -> Int64s:
        """The process of each row."""
        if frames is None:
            return np.empty(0, np.int64)
        used, stream = np.unique(frames.stream, return_inverse=True)
        return np.array([self[frames.flows[number]] for number in used.tolist()])[stream]

    def share(
        self,
        worker: int,
        frames: Frames | None,
        mine: NDArray[np.bool_],
        steps: Sequence[tuple[int, Step]],
        located: list[tuple[str, int] | None] | None,
        since_ns: int,
    ) -> Share:
        """What one process gets: rows that are `mine`, and steps with the number of rows before them."""
        own = None if frames is None or not mine.any() else apart(frames.rows(mine))
        new, self._new[worker] = self._new[worker], []
        before = np.concatenate(([0], np.cumsum(mine))).tolist() if steps else []
        self._load[worker] += 0 if own is None else len(own.buffer)
        return Share(
            new,
            [] if own is None else [flow.id for flow in own.flows],
            () if own is None else (PickleBuffer(own.buffer), own.by_client, *(getattr(own, name) for name in _BY_ROW)),
            sorted(((before[row], step) for row, step in steps), key=_row),
            None if located is None else [*compress(located, mine.tolist())],
            since_ns,
        )


def _row(step: tuple[int, Any]) -> int:
    return step[0]
