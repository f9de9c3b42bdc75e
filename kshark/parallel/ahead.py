"""What a batch's messages need of the batches before it, read ahead of the processes that decode them.

That is little: the requests that wait for answers, names of topic ids, widths of columns. All headers are read here, since an answer is
nothing without its request, but only bodies that may teach a name or hold records, and records only of Kafka's own topics: 2.5 us a
message. (To search the bytes for these topics' names instead of reading bodies took longer: 1.4 ms a MB.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec import UNSET

from kshark.codec.paths import values
from kshark.embedded import Embedding
from kshark.embedded.companions import ordinary
from kshark.exchange import ExchangeStage, Standing
from kshark.model import Event, Exchange, Message
from kshark.parallel.sparing import SparingDecoders, SparingReader, records_of
from kshark.pipeline import Options
from kshark.places import Place
from kshark.registry import Registry

#: Widths of columns once that message was seen.
Measure = Callable[[Message], tuple[int, ...]]


class Before(NamedTuple):
    """What a process is told before a batch: where connections stand, the names (id, name, packet) it does not know yet, whether the limit
    of names was told, and widths of columns."""

    standings: list[tuple[int, Standing]]
    names: list[tuple[str, str, int]]
    told_full: bool
    widths: tuple[int, ...] | None


class Ahead:
    """Takes the time line's events batch by batch; between two of them it says what is known.

    Options are those of the run: what its processes do not open teaches nothing.
    """

    def __init__(self, options: Options, registry: Registry, measure: Measure | None = None) -> None:
        self._registry = registry
        self._records = SparingReader(opened=options.records, payload=options.payload)
        self._exchange = ExchangeStage(SparingDecoders(registry, self._records, names=options.embedded), self._records)
        self._embedding = Embedding(registry, self._records) if options.embedded else None
        self._measure = measure
        self._widths: tuple[int, ...] | None = None
        #: Where bodies hold records, by API.
        self._in_requests: dict[Any, list[Place]] = {}
        self._in_responses: dict[Any, list[Place]] = {}

    @property
    def names(self) -> int:
        """How many names are known, those that all know from the start included."""
        return 0 if self._embedding is None else len(self._embedding.names.known)

    def before(self, flows: Iterable[int], names: int) -> Before:
        """For the next batch, which has these connections; of the names those behind the first `names`."""
        standings = [(flow, standing) for flow in flows if (standing := self._exchange.standing(flow)) is not None]
        embedding = self._embedding
        if embedding is None:
            return Before(standings, [], False, self._widths)
        return Before(standings, embedding.names.latest(self.names - names), embedding.told_full, self._widths)

    def read(self, events: Iterable[Event], since_ns: int) -> None:
        """A batch; messages before `since_ns` are not measured."""
        exchange, measure = self._exchange, self._measure
        for pages in (*map(exchange.feed, events), exchange.turn()):
            for page in pages:
                if self._embedding is not None:
                    self._learn(page, self._embedding)
                if measure is not None:
                    for event in page:
                        if isinstance(event, Message) and event.time_ns >= since_ns:
                            self._widths = measure(event)

    def _learn(self, page: list[Event], embedding: Embedding) -> None:
        """Most messages have no body here, or records of users' topics."""
        for event in page:
            if type(event) is Message:
                message: Message | None = event if event.kind == "request" else None
                known = self._in_requests
            elif type(event) is Exchange:
                message = event.response
                known = self._in_responses
            else:
                continue
            if message is None or message.body is UNSET or message.body is None:
                continue
            places = known.get(message.api_key)
            if places is None:
                places = known[message.api_key] = records_of(self._registry, message)
            if places:
                names = embedding.names.known
                if all(ordinary(place, message.body, names, controls=False) for place in places):
                    continue
                self._records.open(message, [field for place in places for field in values(message.body, place.way)])
            embedding.open([event])
