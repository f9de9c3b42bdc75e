"""What decoding a batch needs from the batches before it, found out by the first process before any worker has decoded
them.

It is little: the requests that wait for answers, names of topic ids, widths of columns. All headers are read, since an
answer cannot be read without its request; bodies only where they may tell a name or hold records, and records only of
Kafka's own topics: 2.5 us a message. (Searching the bytes for the names of these topics, instead of reading bodies,
took longer: 1.4 ms a MB.)"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec import UNSET

from kshark.codec.paths import values
from kshark.embedded import Embedding
from kshark.embedded.companions import ordinary
from kshark.exchange import ExchangeStage, FlowState
from kshark.facts import Fact
from kshark.model import Event, Exchange, Late, Message
from kshark.parallel.selective import LazyReader, SelectiveDecoders, records_of
from kshark.pipeline import Options
from kshark.places import Place
from kshark.registry import Registry

#: Takes a message, gives the widths of the printed columns from there on.
Measure = Callable[[Message], tuple[int, ...]]


class Context(NamedTuple):
    """What a worker is told before it decodes a batch.

    The state of the batch's connections; the topic names that are new to this worker; whether NAMES_LIMIT was reported;
    the widths of columns.
    """

    states: list[tuple[int, FlowState]]
    names: list[Fact]
    told_full: bool
    widths: tuple[int, ...] | None


class Lookahead:
    """Takes the time line batch by batch; between two of them `context` says what is known.

    `options` are those of the run: names in records that the workers do not open must stay unknown here too, or the
    output would depend on the number of processes. `measure`: how columns grow with a message, where the output has
    any."""

    def __init__(self, options: Options, registry: Registry, measure: Measure | None = None) -> None:
        self._registry = registry
        self._records = LazyReader(opened=options.records, payload=options.payload)
        decoders = SelectiveDecoders(registry, self._records, options.bodies, names=options.embedded)
        self._exchange = ExchangeStage(decoders, self._records)
        self._embedding = Embedding(registry, self._records) if options.embedded else None
        self._measure = measure
        self._widths: tuple[int, ...] | None = None
        #: Where bodies hold records, by API.
        self._in_requests: dict[Any, list[Place]] = {}
        self._in_responses: dict[Any, list[Place]] = {}

    @property
    def names(self) -> int:
        """How many topic names are known, those that every process has from the start included."""
        return 0 if self._embedding is None else len(self._embedding.names.known)

    def context(self, flows: Iterable[int], names: int) -> Context:
        """For the next batch, which has these connections and goes to a worker that knows the first `names` names."""
        states = [(flow, state) for flow in flows if (state := self._exchange.state_of(flow)) is not None]
        embedding = self._embedding
        if embedding is None:
            return Context(states, [], False, self._widths)
        return Context(states, embedding.names.latest(self.names - names), embedding.told_full, self._widths)

    def read(self, events: Iterable[Event], since_ns: int) -> None:
        """A batch; messages before `since_ns` are not measured."""
        measure = self._measure
        for page in self._exchange.feed(events):
            if self._embedding is not None:
                self._learn(page, self._embedding)
            if measure is not None:
                for event in page:
                    if isinstance(event, Message) and event.time_ns >= since_ns:
                        self._widths = measure(event)

    def _learn(self, page: list[Event], embedding: Embedding) -> None:
        """Takes the names that a page tells. Most messages have no body here, or records of users' topics."""
        for event in page:
            if type(event) is Message:
                message: Message | None = event if event.kind == "request" else None
                known = self._in_requests
            elif type(event) is Exchange:
                message = event.response
                known = self._in_responses
            else:
                if type(event) is Late:
                    embedding.names.reach(event.packet)
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
