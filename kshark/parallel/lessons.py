"""What connections teach about each other, learned ahead of the processes that show them.

Names of topic ids come from few APIs and from records of Kafka's own topics. All headers are read here, since an answer is nothing without
its request, but only bodies that may teach, and records only in frames in which such a topic's name or id stands: 2.5 us a message.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import UNSET

from kshark.embedding import Embedding
from kshark.exchange import ExchangeStage
from kshark.model import Event, Exchange, Frames, Message
from kshark.parallel.shares import Lesson
from kshark.parallel.sparing import Hits, SparingDecoders, SparingReader, teaching_topics
from kshark.pipeline import Options
from kshark.registry import Registry

#: Widths of columns once that message was seen.
Measure = Callable[[Message], tuple[int, ...]]
#: Of a message that was not read.
_NO_BODY: Final = (UNSET, None)


class Learner:
    """Takes the time line's events batch by batch and says what was taught, and behind which row.

    Options are those of the run: what its processes do not open teaches nothing.
    """

    def __init__(self, options: Options, registry: Registry, measure: Measure | None = None) -> None:
        self._topics = teaching_topics(registry)
        hits = self._hits = Hits(name.encode() for name in self._topics)
        records = SparingReader(hits, opened=options.records, payload=options.payload)
        self._exchange = ExchangeStage(SparingDecoders(registry, records, hits), records)
        self._embedding = Embedding(registry, records)
        self.names = self._embedding.names
        self._count = 0
        self._latest()
        self._measure = measure
        self._widths: tuple[int, ...] | None = None

    def learn(self, events: Iterable[Event], since_ns: int) -> list[Lesson]:
        """The lessons of a batch, in order; messages before `since_ns` are not measured."""
        lessons: list[Lesson] = []
        row = 0
        for event in events:
            for part in self._hits.parts(event) if isinstance(event, Frames) else (event,):
                for page in self._exchange.feed(part):
                    row = self._page(page, row, since_ns, lessons)
                if part is not event:  # what a hit teaches decides what is a hit behind it
                    for page in self._exchange.turn():
                        row = self._page(page, row, since_ns, lessons)
        for page in self._exchange.turn():
            row = self._page(page, row, since_ns, lessons)
        return lessons

    def _page(self, page: list[Event], row: int, since_ns: int, lessons: list[Lesson]) -> int:
        """The number of rows behind the page; most messages have no body here."""
        measure = self._measure
        for event in page:
            if isinstance(event, Message):
                row += 1
                if event.body not in _NO_BODY and event.kind == "request":
                    self._open(event, row, lessons)
                if measure is not None and event.time_ns >= since_ns and (widths := measure(event)) != self._widths:
                    self._widths = widths
                    lessons.append(Lesson(row - 1, [], widths))
            elif isinstance(event, Exchange) and event.response is not None and event.response.body not in _NO_BODY:
                self._open(event, row, lessons)
        return row

    def _open(self, event: Event, row: int, lessons: list[Lesson]) -> None:
        self._embedding.open([event])
        latest = self._latest()
        if latest:
            lessons.append(Lesson(row, latest))

    def _latest(self) -> list[tuple[str, str, int]]:
        """The names that were learned since the last time; ids of topics whose records teach are looked for from now on."""
        before, self._count = self._count, len(self.names.known)
        latest = self.names.latest(self._count - before)
        for topic_id, name, _ in latest:
            if name in self._topics:
                self._hits.add(urlsafe_b64decode(topic_id + "=="))
        return latest
