"""Join the stages: packets in, one time line of messages and other events out.

    link -> reassembly -> proxy -> tls -> framing -> exchange

Each stage is a small object without input or output of its own: `feed` takes the result of the stage before it and
returns its own, `close` takes the last one and returns the rest (proxy, tls and exchange hold nothing of a
closed connection, and have no `close`). No stage calls another. Facts about a connection stand in its
kshark.model.Flow, which all stages share. The holes that reassembly still waits for are passed on with its chunks, as
far as framing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.codec.masking import Masking
from kshark.exchange import BodyWitness, Decoders, ExchangeStage
from kshark.framing import Framing
from kshark.link import Link
from kshark.model import Event, PacketBatch, Tick, Weird, is_logged
from kshark.proxy import ProxyStage
from kshark.reassembly import Reassembly
from kshark.records import Opening, make_reader
from kshark.registry import Registry
from kshark.tls import TlsStage

if TYPE_CHECKING:
    from kshark.embedded.stage import Embedding
    from kshark.names import TopicNames
    from kshark.requests import LoggedRequests


@dataclass(frozen=True, slots=True)
class Options:
    """The consumer's options; data that no consumer needs is not read.

    `records`: how far record batches are opened (kshark.records.Opening). `payload`: read keys, values and header
    values of records, or only their sizes. `bodies`: api keys whose bodies are read, None for all. `kafka_ports`: ports
    whose connections are Kafka whatever their bytes are. `dissectors`: files with user-defined APIs. `embedded`: open
    structures inside bytes and learn topic names, for consumers that show bodies. `tls_keys`: the text of a TLS key
    log, as SSLKEYLOGFILE makes it. `max_request_bytes`: the brokers' `socket.request.max.bytes`, None if it is unknown.
    `secrets`: credentials are shown, not masked. `transport`: packets are measured for
    Flow.transport. `knows`: messages say what their sender had received, for rules (Message.knows). `exact`: no stage
    takes its fast path; the events are the same (tests compare the two).
    """

    records: Opening = True
    payload: bool = True
    bodies: frozenset[int] | None = None
    kafka_ports: frozenset[int] = frozenset()
    dissectors: tuple[Path, ...] = ()
    embedded: bool = False
    tls_keys: bytes = field(default=b"", repr=False)
    max_request_bytes: int | None = None
    secrets: bool = False
    transport: bool = False
    knows: bool = True
    exact: bool = False


#: Options for rules: all bodies, which are not shown, and of record batches only a check against their headers.
JUDGED: Final = Options(records="checked", payload=False, secrets=True)


class Front:
    """The stages that need all connections: packets to frames and events, in the one time line."""

    def __init__(self, options: Options, registry: Registry) -> None:
        self.link = Link(exact=options.exact)
        self.reassembly = Reassembly(exact=options.exact, measuring=options.transport)
        self.proxy = ProxyStage()
        self.tls = TlsStage(options.tls_keys)
        self.framing = Framing(BodyWitness(registry), options.kafka_ports, max_request_bytes=options.max_request_bytes)
        self._registry = registry
        #: In place of all these stages for a request log; None until there is one.
        self._requests: LoggedRequests | None = None

    def batches(self, items: Iterable[PacketBatch | Weird | Tick]) -> Iterator[list[Event]]:
        """Yield the time line of a whole capture: a batch for each item, and one when the capture ends."""
        for item in items:
            yield self.feed(item)
        yield self.close()

    def feed(self, item: PacketBatch | Weird | Tick) -> list[Event]:
        if isinstance(item, Tick):
            return self._tick(item)
        if isinstance(item, PacketBatch):
            if is_logged(item):
                return [*self._logged().feed(item)]
            self.tls.keys.add(item.secrets)
        segments, weirds = self.link.feed(item)
        chunks = self.reassembly.feed(segments, weirds)
        chunks = self.tls.feed(self.proxy.feed(chunks))
        return [*self.framing.feed(chunks)]

    def _logged(self) -> LoggedRequests:
        """Return the stage for a request log. Import it only for a capture that is one."""
        if self._requests is None:
            from kshark.requests import LoggedRequests

            self._requests = LoggedRequests(self._registry)
        return self._requests

    def _tick(self, item: Tick) -> list[Event]:
        """Let time pass: give up holes, and release what was held for them."""
        tick, weirds = self.link.tick(item)
        clock_ns = self.link.end.clock_ns
        chunks = self.reassembly.tick(clock_ns, weirds)
        if chunks.items:
            chunks = self.tls.feed(self.proxy.feed(chunks))
        return [*self.framing.tick(chunks, clock_ns, tick)]

    def close(self) -> list[Event]:
        weirds = self.link.close()
        chunks = self.reassembly.close(self.link.end, weirds)
        chunks = self.tls.feed(self.proxy.feed(chunks))
        logged = [] if self._requests is None else self._requests.close()
        return [*logged, *self.framing.close(chunks)]


class Back:
    """The stage that treats connections separately: batches of the time line to pages, lists of events with decoded
    messages.

    After it, bytes inside messages are opened and secrets are masked, if the options ask for it.
    """

    def __init__(self, options: Options, registry: Registry) -> None:
        self.records = make_reader(options.records, options.payload, exact=options.exact)
        masking = None if options.secrets else Masking()
        self.decoders = Decoders(registry, self.records, options.bodies, exact=options.exact, masking=masking)
        self._exchange = ExchangeStage(self.decoders, self.records, options.max_request_bytes, knows=options.knows)
        self.embedding: Embedding | None = None
        if options.embedded:
            from kshark.embedded.stage import Embedding  # imported only by consumers that show bodies

            self.embedding = Embedding(registry, self.records, secrets=options.secrets)

    @property
    def names(self) -> TopicNames | None:
        """Names of topic ids as they become known; None if structures inside bytes are not opened."""
        return None if self.embedding is None else self.embedding.names

    def pages(self, batches: Iterable[Iterable[Event]]) -> Iterator[list[Event]]:
        """Yield the pages of a whole time line."""
        return chain.from_iterable(map(self.feed, batches))

    def feed(self, events: Iterable[Event]) -> Iterator[list[Event]]:
        """Yield the pages of one batch."""
        pages = self._exchange.feed(events)
        opened = pages if self.embedding is None else map(self.embedding.open, pages)
        return opened if self.decoders.masking is None else map(self.decoders.masking.masked, opened)


class Engine:
    """All stages of one capture: items of a capture source in, pages out (lists of events in time line order).

    A running capture gives a Tick where no packet comes for a while, so that what is held is not held until the next
    packet. It passes through the stages as an event, unless something before it is still held.

    A consumer that needs the time line itself joins `front` and `back` in the same way. Between two items the state can
    be saved and restored (kshark.snapshot).
    """

    def __init__(self, options: Options | None = None, registry: Registry | None = None) -> None:
        self.options = options or Options()
        self.registry = registry or Registry(self.options.dissectors)
        self.front = Front(self.options, self.registry)
        self.back = Back(self.options, self.registry)

    def feed(self, item: PacketBatch | Weird | Tick) -> Iterator[list[Event]]:
        """Yield the pages of one item."""
        return self.back.feed(self.front.feed(item))

    def close(self) -> Iterator[list[Event]]:
        """Yield the pages of the events that only the capture's end shows."""
        return self.back.feed(self.front.close())

    def pages(self, items: Iterable[PacketBatch | Weird | Tick]) -> Iterator[list[Event]]:
        """Yield the pages of a whole capture; the next item is read after the pages of those before it."""
        for item in items:
            yield from self.feed(item)
        yield from self.close()
