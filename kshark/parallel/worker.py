"""What every other process does: decodes its share of each batch, and says what is to be shown of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from kshark.model import Closed, Event, Flow, Gap, Message, Weird
from kshark.output.notes import Notes, example
from kshark.parallel.shares import Ended, Lesson, Lost, NewFlow, Share
from kshark.pipeline import Back


class Maker(Protocol):
    """What a command makes of messages in the process that decoded them."""

    def page(self, page: list[Event], since_ns: int) -> None:
        """Takes events in time line order; those before `since_ns` are not shown."""

    def widths(self, widths: tuple[int, ...]) -> None:
        """Columns have to be that wide from the next message on."""

    def made(self) -> Any:
        """What was made since the last time; it goes back to the first process."""


class First(NamedTuple):
    """Where a process saw a code for the first time: in one of its rows, or at one of its Ended events."""

    code: str
    example: str
    row: int
    step: int | None


class Made(NamedTuple):
    """What became of a share. `taught`: names (id, name, packet) that were learned from it and tell what others hold; `known`: how many
    are known in all."""

    what: Any
    notes: Notes
    firsts: list[First]
    taught: list[tuple[str, str, int]]
    known: int


class Worker:
    """Takes shares, in the order of their batches. `telling`: names of topics that are reported when they are learned."""

    def __init__(self, back: Back, maker: Maker, telling: frozenset[str] = frozenset()) -> None:
        self._back = back
        self._maker = maker
        self._telling = telling
        self._told: set[str] = set()
        self._known = 0 if back.embedding is None else len(back.embedding.names.known)
        self._flows: dict[int, Flow] = {}
        self._codes: set[str] = set()
        if back.embedding is not None:
            back.embedding.told_full = True  # the first process tells

    def take(self, share: Share) -> Made:
        notes = Notes()
        firsts: list[First] = []
        row = 0
        for page in self._pages(share):
            notes.add(page)
            if notes.codes() - self._codes:
                firsts += self._firsts(page, row, share)
            row += sum(isinstance(event, Message) for event in page)
            self._maker.page(page, share.since_ns)
        return Made(self._maker.made(), notes, firsts, self._taught(), self._known)

    def _taught(self) -> list[tuple[str, str, int]]:
        if self._back.embedding is None:
            return []
        names = self._back.embedding.names
        before, self._known = self._known, len(names.known)
        latest = names.latest(self._known - before)
        return [learned for learned in latest if learned[1] in self._telling and learned[0] not in self._told]

    def _pages(self, share: Share) -> Iterator[list[Event]]:
        flows = self._flows
        for new in share.new:
            flows[new.id] = _flow(new)
        frames = share.frames(flows)
        at = row = 0
        waiting: list[Event] = []
        for place, step in share.steps:
            if frames is not None and place > at:
                waiting.append(frames.rows(slice(at, place)))
                at = place
            if isinstance(step, Lesson):
                for page in self._back.feed(waiting):
                    row = _locate(page, share, row)
                    yield page
                waiting = []
                self._learn(step)
            else:
                waiting.append(self._event(step))
        if frames is not None and at < len(frames):
            waiting.append(frames.rows(slice(at, None)))
        for page in self._back.feed(waiting):
            row = _locate(page, share, row)
            yield page

    def _learn(self, lesson: Lesson) -> None:
        embedding = self._back.embedding
        if embedding is not None:
            for name in lesson.names:
                embedding.names.tell(*name)
                self._told.add(name[0])
        if lesson.widths is not None:
            self._maker.widths(lesson.widths)

    def _event(self, step: Lost | Ended) -> Event:
        flow = self._flows.pop(step.flow) if isinstance(step, Ended) else self._flows[step.flow]
        flow.client_side = step.client_side
        if isinstance(step, Ended):
            return Closed(flow, step.packet, step.time_ns, step.how)
        return Gap(flow, step.side, 0, 0, 0, 0, -1, "missing")

    def _firsts(self, page: Iterable[Event], row: int, share: Share) -> Iterator[First]:
        """Where codes stand in the page that were not seen before."""
        for event in page:
            if isinstance(event, Message):
                row += 1
                codes, step = (event.weird if isinstance(event.weird, list) else []), None
            elif isinstance(event, Weird):
                codes, step = [event.code], _step_of(event, row, share)
            else:
                continue
            for code in codes:
                if code not in self._codes:
                    self._codes.add(code)
                    yield First(code, example(event), row - 1, step)


def _flow(new: NewFlow) -> Flow:
    return Flow(new.id, new.ends, 0, 0, new.opened_by, "kafka", new.client_side)


def _step_of(weird: Weird, row: int, share: Share) -> int | None:
    """The Ended from which it came."""
    others = [(at, step) for at, step in share.steps if not isinstance(step, Lesson)]
    return next(index for index, (at, step) in enumerate(others) if at == row and step.flow == weird.flow and isinstance(step, Ended))


def _locate(page: list[Event], share: Share, row: int) -> int:
    """Writes file and frame into the messages, where there are several files; the number of rows behind the page."""
    if share.where is None:
        return row
    for event in page:
        if isinstance(event, Message):
            where = share.where[row]
            if where is not None:
                event.file, event.frame = where
            row += 1
    return row
