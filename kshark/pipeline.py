"""The stages joined: packets in, one time line of messages and everything else worth knowing out.

    link -> reassembly -> tls -> framing -> exchange

Each stage is a small object without input or output of its own: `feed` takes the result of the stage before it and
returns its own, `close` takes the last one and returns the rest (tls and exchange hold nothing of a closed connection,
and have none). No stage calls another. Facts about a connection stand in its kshark.model.Flow, which all stages share;
what reassembly still waits for goes with its chunks, as far as framing."""

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
from kshark.model import Event, Moment, PacketBatch, Segments, Weird
from kshark.reassembly import Copies, Reassembly
from kshark.records import Opening, make_reader
from kshark.registry import Registry
from kshark.tls import KeyLog, TlsStage

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
        self.reassembly = Reassembly(exact=options.exact, measuring=options.transport)
        self.tls = TlsStage(options.tls_keys)
        self.framing = Framing(BodyWitness(registry), options.kafka_ports)

    def batches(self, items: Iterable[PacketBatch | Weird]) -> Iterator[list[Event]]:
        """The time line of a whole capture: a batch for each item, and one when the capture ends."""
        for item in items:
            yield self.feed(item)
        yield self.close()

    def feed(self, item: PacketBatch | Weird) -> list[Event]:
        if isinstance(item, PacketBatch):
            self.tls.keys.add(item.secrets)
        segments, weirds = self.link.feed(item)
        chunks = self.reassembly.feed(segments, weirds)
        chunks = self.tls.feed(chunks)
        return [*self.framing.feed(chunks)]

    def close(self) -> list[Event]:
        weirds = self.link.close()
        chunks = self.reassembly.close(self.link.end, weirds)
        chunks = self.tls.feed(chunks)
        return [*self.framing.close(chunks)]


class Back:
    """The stage that treats connections separately: batches of the time line to pages, lists of events with their
    messages decoded. After it bytes inside messages are opened and secrets are masked, where somebody asked."""

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
        pages = self._exchange.feed(events)
        opened = pages if self.embedding is None else map(self.embedding.open, pages)
        return opened if self.decoders.masking is None else map(self.decoders.masking.masked, opened)


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
        self._reassembly = Reassembly(exact=asked.exact)
        self._tls = TlsStage(asked.tls_keys)
        self._framing = Framing(BodyWitness(registry), asked.kafka_ports, asking=True)
        self._back = Back(asked, registry, asking=True)
        known = [*told]
        self._framing.brokers.told(known)
        if self._back.embedding is not None:
            self._back.embedding.add_facts(known)

    def feed(self, segments: Segments) -> Iterator[list[Event]]:
        """The pages of these segments."""
        chunks = self._tls.feed(self._reassembly.feed(segments))
        return self._back.feed(self._framing.feed(chunks))

    def close(self, end: Moment) -> Iterator[list[Event]]:
        """The capture ends there."""
        chunks = self._tls.feed(self._reassembly.close(end, whole=False))
        return self._back.feed(self._framing.close(chunks))

    @property
    def tls_keys(self) -> KeyLog:
        """The secrets with which TLS is decrypted, to which a capture may add some."""
        return self._tls.keys

    @property
    def copies(self) -> Copies:
        """What was captured twice; to be told of all shares together."""
        return self._reassembly.copies

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
