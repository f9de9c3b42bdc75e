"""Transactions of producers, as the capture shows them: which offsets were aborted, and which transactions are open.

Batches come from Produce with the offsets in its answers, and from answers to Fetch and ShareFetch, which also have the
markers. A batch was aborted if the next marker of its producer is an abort, and the capture shows every offset in
between: no other marker is hidden there (KIP-98). A transaction is open from its first batch until EndTxn,
WriteTxnMarkers or a marker ends it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, field

from kshark import limits
from kshark.analysis.facts.reading import is_whole, record_spans, topic_key, transaction_batches
from kshark.api_keys import END_TXN, FETCH, INIT_PRODUCER_ID, METADATA, PRODUCE, SHARE_FETCH, WRITE_TXN_MARKERS
from kshark.endpoints import host_of
from kshark.model import Message, Witness
from kshark.offset_ranges import OffsetRanges, Ranged
from kshark.records import RecordsField, TransactionBatch, produced_of
from kshark.records.batch import TRANSACTIONAL
from kshark.records.spans import LAST, UNREAD
from kshark.records.transactions import ABORT, RECORDS
from kshark_dissectors.enums import ApiKey

#: APIs whose exchanges show transactions.
TRANSACTION_APIS: Final = frozenset(
    {
        INIT_PRODUCER_ID,
        PRODUCE,
        FETCH,
        SHARE_FETCH,
        END_TXN,
        WRITE_TXN_MARKERS,
        METADATA,
        ApiKey.DESCRIBE_TRANSACTIONS,
    }
)
#: A topic's id, or its name while no Metadata shows the id, and a partition.
Place = tuple[str, int]


class Producer(Struct):
    """A transactional producer. `timeout_ms`: of its transactions, None if neither InitProducerId nor
    DescribeTransactions shows it; `is_two_phase`: they have no timeout (KIP-939). `shown`: the exchange that shows it.
    """

    producer_id: int
    transactional_id: str | None
    client_id: str | None
    host: str
    timeout_ms: int | None = None
    is_two_phase: bool = False
    shown: Witness | None = None


class Aborted(Struct, frozen=True):
    """A batch of an aborted transaction. `marker`: the offset of its abort marker, `packet`: the first one after which
    both were known."""

    producer_id: int
    epoch: int
    marker: int
    packet: int


class OpenTransaction(Struct):
    """A transaction in one partition that nothing has ended so far. `begun`: its first Produce, `time_ns` of the
    answer. `ended`: the packet of an accepted EndTxn, after which its markers are due."""

    producer: Producer
    epoch: int
    first: int
    last: int
    begun: Witness
    packet: int
    time_ns: int
    ended: int | None = None


class _Batches(Struct):
    """The batches of one producer in a partition, by first offset: last offset, epoch and type. `over`: the highest
    offset below which its transactions are over."""

    by_offset: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    open: OpenTransaction | None = None
    over: int = -1


class _Partition:
    """The transactions of one partition."""

    def __init__(self) -> None:
        self.producers: OrderedDict[int, _Batches] = OrderedDict()
        self.aborted: OffsetRanges[Aborted] = OffsetRanges()
        #: Offsets whose batches the capture shows, since the first transaction.
        self.shown: OffsetRanges[bool] = OffsetRanges()
        #: A producer has a marker whose batches are not decided.
        self._undecided: set[int] = set()

    def add(self, batch: TransactionBatch) -> _Batches:
        """Add a batch, or a marker."""
        first, last, producer_id, epoch, type_ = batch
        own = self.producers.get(producer_id)
        if own is None:
            own = self.producers[producer_id] = _Batches()
            if len(self.producers) > limits.TRANSACTIONS:
                self._undecided.discard(self.producers.popitem(last=False)[0])
        self.show(first, last)
        if self.aborted.at(first) is None:
            own.by_offset[first] = last, epoch, type_
        if type_ != RECORDS:
            own.over = max(own.over, first)
            if own.open is not None and own.open.first < first:
                own.open = None
            self._undecided.add(producer_id)
        if len(own.by_offset) > limits.TRANSACTIONS:
            del own.by_offset[min(own.by_offset)]
        return own

    def may_be_aborted(self, offset: int) -> bool:
        if self.aborted.at(offset) is not None:
            return True
        return any(
            offset in own.by_offset and (own.open is None or own.open.ended is not None or offset < own.open.first)
            for own in self.producers.values()
        )

    def show(self, first: int, last: int) -> None:
        """Note that the capture shows the batches of these offsets."""
        self.shown.put(first, last, True)
        self.shown.keep(limits.IN_FLIGHT_RANGES)

    def end_before(self, stable: int) -> None:
        """End the transactions that begin before a last stable offset."""
        for own in self.producers.values():
            if own.open is not None and own.open.first < stable:
                own.open = None

    def decide(self, packet: int) -> None:
        """Find the batches that were aborted; forget what is decided."""
        for producer_id in [*self._undecided]:
            self._decide(producer_id, self.producers[producer_id], packet)
        self.aborted.keep(limits.IN_FLIGHT_RANGES)

    def _decide(self, producer_id: int, own: _Batches, packet: int) -> None:
        waiting: list[int] = []
        is_left = False
        for first in sorted(own.by_offset):
            type_ = own.by_offset[first][2]
            waiting.append(first)
            if type_ == RECORDS:
                continue
            for begin in waiting[:-1]:
                end, its_epoch, _ = own.by_offset[begin]
                if self.shown.gaps(end + 1, first - 1):
                    is_left = True
                    continue
                if type_ == ABORT:
                    self.aborted.put(begin, end, Aborted(producer_id, its_epoch, first, packet))
                del own.by_offset[begin]
            waiting = []
        for first in [first for first in own.by_offset if not is_left and first <= own.over]:
            del own.by_offset[first]
        if not is_left:
            self._undecided.discard(producer_id)


class Transactions:
    """The transactions of one cluster. `learn` takes exchanges in the order of the time line."""

    def __init__(self) -> None:
        #: By partition; only those of transactions.
        self.places: OrderedDict[Place, _Partition] = OrderedDict()
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        self._ids: dict[str, str] = {}

    # -- what is known

    def aborted(self, place: Place, first: int, last: int) -> list[Ranged[Aborted]]:
        """Return the aborted batches between two offsets."""
        partition = self.places.get(place)
        return [] if partition is None else partition.aborted.over(first, last)

    def may_be_aborted(self, place: Place, offset: int | None) -> bool:
        """True if a batch begins at an offset whose transaction is over, and may have been aborted."""
        partition = self.places.get(place)
        return partition is not None and offset is not None and partition.may_be_aborted(offset)

    def aborted_at(self, offset: int) -> Iterator[tuple[Place, Ranged[Aborted]]]:
        """Yield the aborted batches that have an offset, of all partitions."""
        for place, partition in self.places.items():
            for batch in partition.aborted.over(offset, offset):
                yield place, batch

    def open(self, place: Place) -> list[OpenTransaction]:
        """Return the open transactions of a partition, in the order of their first offsets."""
        partition = self.places.get(place)
        own = () if partition is None else partition.producers.values()
        return sorted((it.open for it in own if it.open is not None), key=lambda it: it.first)

    # -- exchanges

    def learn(self, request: Message, response: Message | None) -> None:
        """Take an exchange of one of TRANSACTION_APIS."""
        if response is None or not is_whole(response) or not is_whole(request):
            return
        if request.api_key in (FETCH, SHARE_FETCH):
            self._fetched(response)
        elif request.api_key == PRODUCE:
            self._produced(request, response)
        elif request.api_key == METADATA:
            self._named(response.body)
        elif request.api_key == WRITE_TXN_MARKERS:
            self._marked(request.body, response)
        elif request.api_key == ApiKey.DESCRIBE_TRANSACTIONS:
            self._described(request, response)
        elif not response.body.error_code:
            take = self._begun if request.api_key == INIT_PRODUCER_ID else self._ended
            take(request, response)

    def _begun(self, request: Message, response: Message) -> None:
        asked: Any = request.body
        if asked.transactional_id:
            producer = self._producer(response.body.producer_id, asked.transactional_id, request)
            producer.shown, producer.timeout_ms = _witness(request, response), asked.transaction_timeout_ms
            producer.is_two_phase = getattr(asked, "enable2_pc", False) is True
            # Before it gets its id, the coordinator has ended the transaction that an earlier producer left open.
            self._end(producer.producer_id, response.packet)

    def _described(self, request: Message, response: Message) -> None:
        """Take the timeouts of producers whose InitProducerId is not in the capture."""
        for state in response.body.transaction_states or ():
            producer = None if state.error_code else self._producers.get(state.producer_id)
            if producer is not None and producer.timeout_ms is None and state.transaction_timeout_ms > 0:
                producer.timeout_ms, producer.shown = state.transaction_timeout_ms, _witness(request, response)

    def _producer(self, producer_id: int, transactional_id: str | None, request: Message) -> Producer:
        """Return a producer; its client is the one of its last request."""
        producer = self._producers.get(producer_id)
        client_id = request.client_id if isinstance(request.client_id, str) else None
        if producer is None:
            producer = Producer(producer_id, transactional_id, client_id, host_of(request.client))
            self._producers[producer_id] = producer
            if len(self._producers) > limits.PRODUCERS:
                self._producers.popitem(last=False)
        producer.client_id, producer.host = client_id, host_of(request.client)
        producer.transactional_id = transactional_id or producer.transactional_id
        return producer

    def _ended(self, request: Message, response: Message) -> None:
        self._end(request.body.producer_id, response.packet)

    def _end(self, producer_id: int, packet: int) -> None:
        """Note that a producer's transactions have ended; their markers are due."""
        for partition in self.places.values():
            own = partition.producers.get(producer_id)
            if own is not None and own.open is not None and own.open.ended is None:
                own.open.ended = packet

    def _marked(self, asked: Any, response: Message) -> None:
        """Take the markers that a coordinator, or an administrator, has written."""
        failed = {
            (marker.producer_id, topic.name, partition.partition_index)
            for marker in response.body.markers or ()
            for topic in marker.topics or ()
            for partition in topic.partitions or ()
            if partition.error_code
        }
        for marker in asked.markers or ():
            for topic in marker.topics or ():
                for number in topic.partition_indexes or ():
                    partition = self.places.get((self.key(topic), number))
                    own = None if partition is None else partition.producers.get(marker.producer_id)
                    if own is not None and (marker.producer_id, topic.name, number) not in failed:
                        own.open = None

    def _produced(self, request: Message, response: Message) -> None:
        """Take the batches of transactions that a broker has appended."""
        appended = {
            (topic_key(topic), row.index): row.base_offset
            for topic in response.body.responses or ()
            for row in topic.partition_responses or ()
            if not row.error_code and row.base_offset >= 0
        }
        for topic in request.body.topic_data or ():
            for row in topic.partition_data or ():
                first = appended.get((topic_key(topic), row.index), -1)
                for header in headers_of(row.records) if first >= 0 else ():
                    last, place = first + header[4], (self.key(topic), row.index)
                    if header[3] & TRANSACTIONAL:
                        self._open(place, (first, last, header[7], header[8], RECORDS), request, response)
                    elif (partition := self.places.get(place)) is not None:
                        partition.show(first, last)
                    first = last + 1

    def _open(self, place: Place, batch: TransactionBatch, request: Message, response: Message) -> None:
        """Take a batch of a Produce: it begins a transaction, or continues one."""
        first, last, producer_id, epoch, _ = batch
        transactional_id = getattr(request.body, "transactional_id", None)
        producer = self._producer(producer_id, transactional_id if transactional_id is not UNSET else None, request)
        partition = self._partition(place)
        own = partition.add(batch)
        is_over = own.open is None or own.open.ended is not None or own.open.epoch != epoch
        if is_over and first > own.over:
            begun = _witness(request, response)
            own.open = OpenTransaction(producer, epoch, first, last, begun, response.packet, response.time_ns)
        elif own.open is not None:
            own.open.last = max(own.open.last, last)
        partition.decide(response.packet)

    def _fetched(self, response: Message) -> None:
        for topic in getattr(response.body, "responses", None) or ():
            for row in topic.partitions or ():
                batches = transaction_batches(row.records)
                if batches or self.places:
                    place = self.key(topic), row.partition_index
                    self.read(place, batches, record_spans(row.records), response.packet)
                    self.end_before(place, getattr(row, "last_stable_offset", -1))

    def read(self, place: Place, batches: Sequence[TransactionBatch], spans: Any, packet: int) -> None:
        """Take the batches of a partition in an answer to Fetch or ShareFetch, and the offsets that it has."""
        partition = self.places.get(place)
        if partition is None:
            if not batches:
                return
            partition = self._partition(place)
        for batch in batches:
            partition.add(batch)
        for first, last, kind in spans or ():
            if kind != UNREAD and last < LAST:
                partition.show(first, last)
        partition.decide(packet)

    def end_before(self, place: Place, stable: int) -> None:
        """End the transactions that begin before a last stable offset: it does not pass open ones."""
        partition = self.places.get(place)
        if partition is not None and stable > 0:
            partition.end_before(stable)

    # -- places

    def _partition(self, place: Place) -> _Partition:
        partition = self.places.setdefault(place, _Partition())
        self.places.move_to_end(place)
        if len(self.places) > limits.TRANSACTIONAL_PARTITIONS:
            self.places.popitem(last=False)
        return partition

    def key(self, topic: Any) -> str:
        """Return the id of a topic, or its name while the id is unknown."""
        key = topic_key(topic)
        return self._ids.get(key, key)

    def _named(self, body: Any) -> None:
        """Take the ids of topics; what is known by their names is known by their ids from now on."""
        for topic in body.topics or ():
            name, topic_id = topic.name, getattr(topic, "topic_id", UNSET)
            if not isinstance(name, str) or topic_id is UNSET or topic.error_code or self._ids.get(name) == topic_id:
                continue
            if name not in self._ids and len(self._ids) >= limits.TOPICS:
                continue
            self._ids[name] = topic_id
            for place in [place for place in self.places if place[0] == name]:
                self.places.setdefault((topic_id, place[1]), self.places.pop(place))


def _witness(request: Message, response: Message) -> Witness:
    number = None if request.correlation_id is UNSET else request.correlation_id
    return Witness(request.flow, number, request.packet, response.packet)


def headers_of(records: Any) -> Iterable[Any]:
    """Return the headers of the batches in a Produce that have a producer id, also of one from tables."""
    if type(records) is RecordsField:
        produced = produced_of(records)
        return () if produced is UNSET else produced
    return records.get("produced") or () if type(records) is dict else ()
