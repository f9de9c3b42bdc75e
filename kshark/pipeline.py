"""The stages joined: packets in, one time line of messages and everything else worth knowing out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.codec.masking import Masking
from kshark.exchange import BodyWitness, Decoders, ExchangeStage
from kshark.facts import Fact, Question
from kshark.framing import Framing
from kshark.link import Link
from kshark.model import EndsOf, Event, Moment, PacketBatch, Segments, Weird
from kshark.reassembly import Copies
from kshark.records import Opening, make_reader
from kshark.registry import Registry
from kshark.tls import KeyLog

if TYPE_CHECKING:
    from kshark.embedded import Embedding
    from kshark.names import TopicNames


@dataclass(frozen=True, slots=True)
class Options:
    """What the consumer asks for; what nobody looks at is not read.

    `records`: how far record batches are opened (kshark.records.Opening). `payload`: keys, values and header values of
    records, or only their sizes. `bodies`: api keys whose bodies are read, None for all. `kafka_ports`: ports whose
    connections are Kafka whatever their bytes look like. `dissectors`: files with APIs of one's own. `embedded`: open
    structures inside bytes and learn topic names, for consumers that show bodies. `tls_keys`: the text of a TLS key
    log, as SSLKEYLOGFILE makes it. `secrets`: credentials are shown, not masked. `transport`: packets are counted for
    Flow.transport. `exact`: no stage takes its fast path; the events are the same (tests compare the two)."""

    records: Opening = True
    payload: bool = True
    bodies: frozenset[int] | None = None
    kafka_ports: frozenset[int] = frozenset()
    dissectors: tuple[Path, ...] = ()
    embedded: bool = False
    tls_keys: bytes = field(default=b"", repr=False)
    secrets: bool = False
    transport: bool = False
    exact: bool = False


#: What judging reads: all bodies, which nobody is shown, and of record batches whether they are what their headers say.
JUDGED: Final = Options(records="checked", payload=False, secrets=True)


class Front:
    """The stages in which connections meet: packets to frames and events, in the one time line."""

    def __init__(self, options: Options, registry: Registry) -> None:
        self.link = Link(exact=options.exact)
        witness = BodyWitness(registry)
        self.framing = Framing(
            witness, options.kafka_ports, options.tls_keys, measuring=options.transport, exact=options.exact
        )

    def batches(self, items: Iterable[PacketBatch | Weird]) -> Iterator[list[Event]]:
        """The time line of a whole capture: a batch for each item, and one when the capture ends."""
        for item in items:
            yield self.feed(item)
        yield self.close()

    def feed(self, item: PacketBatch | Weird) -> list[Event]:
        if isinstance(item, Weird):
            self.framing.tell([item])
            return []
        if item.secrets:
            self.framing.tls_keys.add(item.secrets)
        segments, weirds = self.link.feed(item)
        self.framing.tell(weirds)
        return [*self.framing.feed(segments, self.link.ends)]

    def close(self) -> list[Event]:
        self.framing.tell(self.link.close())
        return [*self.framing.close(self.link.end)]


class Back:
    """The stages that treat connections separately: batches of the time line to pages, lists of events with their
    messages decoded."""

    def __init__(self, options: Options, registry: Registry, *, asking: bool = False) -> None:
        """`asking`: see kshark.embedded.Embedding."""
        self.records = make_reader(options.records, options.payload, exact=options.exact)
        masking = None if options.secrets else Masking()
        self.decoders = Decoders(registry, self.records, options.bodies, exact=options.exact, masking=masking)
        self._exchange = ExchangeStage(self.decoders, self.records)
        self.embedding: Embedding | None = None
        if options.embedded:
            from kshark.embedded import Embedding  # imported only by consumers that show bodies

            self.embedding = Embedding(registry, self.records, asking=asking, secrets=options.secrets)

    @property
    def names(self) -> TopicNames | None:
        """Names of topic ids, as they come to be known; None where structures inside bytes are not opened."""
        return None if self.embedding is None else self.embedding.names

    def pages(self, batches: Iterable[Iterable[Event]]) -> Iterator[list[Event]]:
        """The pages of a whole time line."""
        return chain.from_iterable(map(self.feed, batches))

    def feed(self, events: Iterable[Event]) -> Iterator[list[Event]]:
        """The pages of one batch."""
        pages = self._pages(events)
        opened = pages if self.embedding is None else map(self.embedding.open, pages)
        return opened if self.decoders.masking is None else map(self.decoders.masking.masked, opened)

    def _pages(self, events: Iterable[Event]) -> Iterator[list[Event]]:
        for event in events:
            yield from self._exchange.feed(event)
        yield from self._exchange.flush()


class Engine:
    """All stages of one capture: what a capture source yields in, pages out, which are lists of events in time line
    order.

    Whoever needs the time line itself joins `front` and `back` in the same way.
    Between two items its state can be put away and taken up again (kshark.snapshot)."""

    def __init__(self, options: Options | None = None, registry: Registry | None = None) -> None:
        self.options = options or Options()
        self.registry = registry or Registry(self.options.dissectors)
        self.front = Front(self.options, self.registry)
        self.back = Back(self.options, self.registry)

    def feed(self, item: PacketBatch | Weird) -> Iterator[list[Event]]:
        """The pages of one item."""
        return self.back.feed(self.front.feed(item))

    def close(self) -> Iterator[list[Event]]:
        """The pages of what only the capture's end tells."""
        return self.back.feed(self.front.close())

    def pages(self, items: Iterable[PacketBatch | Weird]) -> Iterator[list[Event]]:
        """The pages of a whole capture; an item is taken when the pages of those before it were."""
        for item in items:
            yield from self.feed(item)
        yield from self.close()


class Share:
    """The stages behind the link, for some of a capture's connections: all between the same two ends come to the same
    share.

    What the others taught is `told` before the first segments; afterwards `taught` is what connections here taught, and
    `asked` what they needed to know, with the answers they had: if `Facts.changed` of one of these, the share is to be
    decoded again, and told more."""

    def __init__(
        self, options: Options | None = None, registry: Registry | None = None, told: Iterable[Fact] = ()
    ) -> None:
        asked = options or Options()
        registry = registry or Registry(asked.dissectors)
        self._framing = Framing(
            BodyWitness(registry), asked.kafka_ports, asked.tls_keys, exact=asked.exact, asking=True
        )
        self._back = Back(asked, registry, asking=True)
        known = [*told]
        self._framing.brokers.told(known)
        if self._back.embedding is not None:
            self._back.embedding.told(known)

    def feed(self, segments: Segments, ends: EndsOf) -> Iterator[list[Event]]:
        """The pages of these segments."""
        return self._back.feed(self._framing.feed(segments, ends))

    def close(self, end: Moment) -> Iterator[list[Event]]:
        """The capture ends there."""
        return self._back.feed(self._framing.close(end, whole=False))

    @property
    def tls_keys(self) -> KeyLog:
        """The secrets with which TLS is decrypted, to which a capture may add some."""
        return self._framing.tls_keys

    @property
    def copies(self) -> Copies:
        """What was captured twice; to be told of all shares together."""
        return self._framing.copies

    @property
    def taught(self) -> Iterator[Fact]:
        yield from self._framing.brokers.taught
        if self._back.embedding is not None:
            yield from self._back.embedding.taught

    @property
    def asked(self) -> Iterator[Question]:
        yield from self._framing.brokers.asked
        if self._back.embedding is not None:
            yield from self._back.embedding.asked
