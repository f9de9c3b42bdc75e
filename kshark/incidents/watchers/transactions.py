"""Transactions that nobody ends: readers of committed records get nothing behind them. Rule 156.

A coordinator aborts a transaction that is open for longer than its producer's timeout. A transaction of which it does
not know, or whose markers it could not write, hangs (KIP-664, KIP-890).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import UNSET, Struct

from kshark import limits
from kshark.analysis.facts.bases import AT_LEAST, NO_CONNECTION, Lasted, Limit
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.facts.transactions import TRANSACTION_APIS, OpenTransaction, Place, Transactions, headers_of
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import FETCH, PRODUCE, SHARE_FETCH
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import listed, seconds, span
from kshark.incidents.series import client_of
from kshark.incidents.watcher import NOTHING, Awaited, Watcher
from kshark.model import Exchange, Flow, Message, Witness
from kshark.recent import Recent
from kshark_dissectors.enums import ApiKey, IsolationLevel

_MS: Final = 1_000_000
#: The longest timeout that producers may have by default. Kafka: transaction.max.timeout.ms.
_LONGEST_MS: Final = 900_000
#: After the timeout a coordinator has this time to abort a transaction. Kafka: it looks for such ones every
#: transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 s.
_ABORTING_NS: Final = 10_000_000_000
#: From this version of Produce on, the broker adds partitions to the transaction (KIP-890).
_ADDS_PARTITIONS: Final = 12
_KEPT: Final = 4

TXN_HANGING: Final = Rule(
    number=156,
    code="TXN_HANGING",
    text="A transaction is open for longer than its timeout allows, and readers of committed records wait for it.",
    source="KIP-98, KIP-664, KIP-890; Kafka: TransactionCoordinator.abortTimedOutTransactions",
    rests_on=(
        AT_LEAST,
        NO_CONNECTION,
        Limit("TRANSACTIONAL_PARTITIONS"),
    ),
    blame=(),
    verdicts=("unknown", "note"),
    causes=("not_added", "no_marker", "not_aborted", "unknown"),
    must="A transaction is committed, or aborted by its producer, or by its coordinator after transaction.timeout.ms.",
    advice="Find it (kafka-transactions find-hanging) and end it (kafka-transactions abort). If its partition was "
    "never added to it, let the client send AddPartitionsToTxn before it writes, and leave "
    "transaction.partition.verification.enable on. Else read the coordinator's log: it could not write its markers.",
    weight=70,
)

#: Cluster, producer id and epoch; or cluster, -1, -1 and the partition, if the producer is unknown.
_Key = tuple[int, int, int, Place | None]


class _Stable(Struct, frozen=True):
    """A last stable offset with records behind it, and the first Fetch that shows it."""

    offset: int
    since: PacketTime
    flow: Flow
    witness: tuple[Witness, ...]


class _Hanging:
    """A transaction that hangs. `open`: None if the capture does not show its producer. `ground`: it is open for longer
    than its timeout allows."""

    def __init__(
        self, key: _Key, flow: Flow, since: PacketTime, open_: OpenTransaction | None, cause: str, ground: Lasted
    ) -> None:
        self.key: Final = key
        self.flow: Final = flow
        self.since: Final = since
        self.open: Final = open_
        self.cause: Final = cause
        self.ground: Final = ground
        #: The first offset in each partition, and the partitions where it still hangs.
        self.places: Final[dict[Place, int]] = {}
        self.left: Final[set[Place]] = set()
        self.readers: Final[dict[str, None]] = {}
        self.witness: Final[list[Witness]] = []

    def note(self, place: Place, offset: int, exchange: Exchange) -> None:
        """Note a Fetch that shows it."""
        if place in self.places or len(self.places) < limits.RETRIED_PLACES:
            self.places[place] = offset
            self.left.add(place)
        if len(self.readers) < limits.RETRIED_PLACES:
            self.readers[client_of(exchange)] = None
        if len(self.witness) > _KEPT:
            del self.witness[1]
        self.witness.extend(witness_of(exchange))


class HangingTransactions(Watcher):
    """Compare the last stable offsets in answers to Fetch with the transactions that are open."""

    rows = (TXN_HANGING,)
    apis = TRANSACTION_APIS | {ApiKey.ADD_PARTITIONS_TO_TXN}

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._clusters: defaultdict[int, Transactions] = defaultdict(Transactions)
        #: By cluster and producer id: the connection of its last Produce, and the partitions of its transaction.
        self._flows: OrderedDict[tuple[int, int], Flow] = OrderedDict()
        self._added: Recent[tuple[int, int], set[tuple[str, int]]] = Recent(set, "RETRYING")
        self._stable: OrderedDict[tuple[int, Place], _Stable] = OrderedDict()
        #: By partition: the share groups that fetch it, with the highest offset that each has acquired.
        self._groups: OrderedDict[tuple[int, Place], dict[str, int]] = OrderedDict()
        self._hanging: dict[_Key, _Hanging] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        if request is None or response is None or not self._concerns(request):
            return NOTHING
        if not is_whole(request) or not is_whole(response):
            return NOTHING
        read = _READERS[request.api_key]  # type: ignore[index]  # UNSET is no key
        return read(self, exchange, self.scene.cluster_of(exchange.flow), request, response)

    def _concerns(self, request: Message) -> bool:
        """True unless a quick look shows that a request is of no interest, as most are."""
        api_key, body = request.api_key, request.body
        if api_key == PRODUCE:
            return body is not None and getattr(body, "transactional_id", None) is not None
        if api_key == FETCH:
            return getattr(body, "isolation_level", 0) == IsolationLevel.READ_COMMITTED
        return api_key != SHARE_FETCH or bool(self._flows) or bool(getattr(body, "topics", None))

    def _learn(self, _: Exchange, cluster: int, request: Message, response: Message) -> Iterable[Incident]:
        """Take the producers, their batches and the ends of their transactions."""
        self._clusters[cluster].learn(request, response)
        return NOTHING

    # -- producers

    def _add(self, _: Exchange, cluster: int, request: Message, __: Message) -> Iterable[Incident]:
        """Take the partitions that are added to transactions."""
        body: Any = request.body
        transactions = getattr(body, "transactions", UNSET)
        added = [(it.producer_id, it.topics, it.verify_only) for it in transactions or ()] if transactions else []
        if transactions is UNSET:
            added = [(body.v3_and_below_producer_id, body.v3_and_below_topics, False)]
        for producer_id, topics, verify_only in added:
            for topic in topics or () if not verify_only else ():
                for number in topic.partitions or ():
                    self._put(cluster, producer_id, (topic.name, number))
        return NOTHING

    def _put(self, cluster: int, producer_id: int, partition: tuple[str, int]) -> None:
        partitions = self._added.of((cluster, producer_id))
        if len(partitions) < limits.TOPICS_OF_CONNECTION:
            partitions.add(partition)

    def _end(self, exchange: Exchange, cluster: int, request: Message, response: Message) -> Iterable[Incident]:
        """Take the end of a producer's transaction."""
        asked, answer = request.body, response.body
        if not getattr(answer, "error_code", 0):
            self._added.forget((cluster, getattr(asked, "producer_id", -1)))
        return self._learn(exchange, cluster, request, response)

    def _mark(self, exchange: Exchange, cluster: int, request: Message, response: Message) -> Iterable[Incident]:
        """Take markers: of a coordinator, or of an administrator."""
        self._clusters[cluster].learn(request, response)
        how = f"{client_of(exchange)} ended it with WriteTxnMarkers (packet {response.packet})"
        return self._ended(cluster, how)

    def _produced(self, exchange: Exchange, cluster: int, request: Message, response: Message) -> Iterable[Incident]:
        """Take the connection of a transactional producer, and the partitions that its broker adds."""
        self._clusters[cluster].learn(request, response)
        body: Any = request.body
        for topic in body.topic_data or ():
            for row in topic.partition_data or ():
                for header in headers_of(row.records):
                    key = cluster, header[7]
                    self._flows[key] = exchange.flow
                    self._flows.move_to_end(key)
                    if len(self._flows) > limits.RETRYING:
                        self._flows.popitem(last=False)
                    if (request.version or 0) >= _ADDS_PARTITIONS:
                        self._put(*key, (self._name(self._clusters[cluster].key(topic)), row.index))
        return NOTHING

    def _share_fetched(self, _: Exchange, cluster: int, request: Message, response: Message) -> Iterable[Incident]:
        """Take the partitions that share groups fetch, and how far they have acquired them."""
        asked: Any = request.body
        answer: Any = response.body
        for topic in asked.topics or ():
            for row in topic.partitions or ():
                self._reaches(cluster, topic.topic_id, row.partition_index, asked.group_id, -1)
        for topic in (answer.responses or ()) if self._flows else ():
            for row in topic.partitions or ():
                if acquired := row.acquired_records:
                    last = acquired[-1].last_offset
                    self._reaches(cluster, topic.topic_id, row.partition_index, asked.group_id, last)
        return NOTHING

    def _reaches(self, cluster: int, topic_id: str, partition: int, group_id: str, offset: int) -> None:
        """Note the highest offset that a share group has acquired of a partition; -1: none so far."""
        groups = self._groups.setdefault((cluster, (topic_id, partition)), {})
        if offset > groups.get(group_id, -2):
            groups[group_id] = offset
        if len(self._groups) > limits.TRANSACTIONAL_PARTITIONS:
            self._groups.popitem(last=False)

    # -- readers

    def _fetched(self, exchange: Exchange, cluster: int, _: Message, response: Message) -> Iterable[Incident]:
        """Take the last stable offsets in an answer to a reader of committed records."""
        answer: Any = response.body
        transactions = self._clusters[cluster]
        for topic in answer.responses or ():
            for row in topic.partitions or ():
                waits = row.last_stable_offset < row.high_watermark
                if row.error_code or row.last_stable_offset < 0 or not (waits or transactions.places or self._stable):
                    continue
                place = transactions.key(topic), row.partition_index
                transactions.end_before(place, row.last_stable_offset)
                if waits:
                    self._waits(exchange, cluster, place, row.last_stable_offset)
                else:
                    self._stable.pop((cluster, place), None)
        if not self._hanging:
            return NOTHING
        return self._ended(cluster, f"the last stable offset passed it (packet {self.scene.packet})")

    def _waits(self, exchange: Exchange, cluster: int, place: Place, stable: int) -> None:
        """Take a last stable offset behind which records wait."""
        before = self._stable.get((cluster, place))
        if before is None or before.offset != stable:
            before = self._stable[cluster, place] = _Stable(stable, self.scene.now, exchange.flow, witness_of(exchange))
            if len(self._stable) > limits.TRANSACTIONAL_PARTITIONS:
                self._stable.popitem(last=False)
        open_ = next((it for it in self._clusters[cluster].open(place) if it.first == stable), None)
        since, timeout_ms = before.since, _LONGEST_MS
        key: _Key = (cluster, -1, -1, place)
        if open_ is not None:
            producer = open_.producer
            if producer.is_two_phase:
                return
            since = PacketTime(open_.packet, open_.time_ns)
            timeout_ms = _LONGEST_MS if producer.timeout_ms is None else producer.timeout_ms
            key = cluster, producer.producer_id, open_.epoch, None
        least_ns = timeout_ms * _MS + _ABORTING_NS
        hanging = self._hanging.get(key)
        if hanging is None and self.scene.time_ns - since.time_ns > least_ns and len(self._hanging) < limits.INCIDENTS:
            flow = before.flow if open_ is None else self._flows.get(key[:2], exchange.flow)
            cause = "unknown" if open_ is None else self._cause(cluster, place, open_)
            ground = self.scene.lasted(least_ns, since)
            hanging = self._hanging[key] = _Hanging(key, flow, since, open_, cause, ground)
            if open_ is None:
                hanging.witness.extend(before.witness)
        if hanging is not None:
            hanging.note(place, stable, exchange)

    def _cause(self, cluster: int, place: Place, open_: OpenTransaction) -> str:
        """Return why a transaction hangs."""
        if open_.ended is not None:
            return "no_marker"
        name = self._name(place[0])
        added = self._added.get((cluster, open_.producer.producer_id)) or ()
        if open_.producer.timeout_ms is not None and name != place[0] and (name, place[1]) not in added:
            return "not_added"
        return "not_aborted"

    def _ended(self, cluster: int, how: str) -> list[Incident]:
        """Return the transactions that hang no more."""
        over: list[Incident] = []
        for hanging in [it for it in self._hanging.values() if it.key[0] == cluster]:
            hanging.left.intersection_update([it for it in hanging.left if self._is_open(hanging, it)])
            if not hanging.left:
                del self._hanging[hanging.key]
                over.append(self._incident(hanging, self.scene.now, f"; {how}"))
        return over

    def _is_open(self, hanging: _Hanging, place: Place) -> bool:
        cluster, offset = hanging.key[0], hanging.places[place]
        if hanging.open is None:
            stable = self._stable.get((cluster, place))
            return stable is not None and stable.offset == offset
        return any(it.first == offset for it in self._clusters[cluster].open(place))

    # -- incidents

    def _incident(self, hanging: _Hanging, until: PacketTime | None, how: str = "") -> Incident:
        open_, since = hanging.open, hanging.since
        where = listed(
            f"{self._name(topic)}[{number}] at offset {it}" for (topic, number), it in hanging.places.items()
        )
        who = "a producer that the capture does not show"
        witness = tuple(hanging.witness)
        if open_ is not None:
            who = _named(open_)
            witness = (*((open_.producer.shown,) if open_.producer.shown else ()), open_.begun, *witness)
        is_known = open_ is not None and open_.producer.timeout_ms is not None
        groups = sorted(set(self._waiting_groups(hanging)))
        waiting = [*hanging.readers, *(f"share group {group}" for group in groups)]
        text = (
            f"A transaction of {who} {'is' if until is None else 'was'} open in {where} {span(since, until)}: "
            f"{self._why(hanging)}; {listed(waiting)} {'gets' if len(waiting) == 1 else 'get'} no record after it{how}"
        )
        topics = {topic for topic, _ in hanging.places}
        return Incident(
            TXN_HANGING,
            since,
            until,
            hanging.flow,
            text,
            Where(
                brokers=frozenset({hanging.flow.broker}),
                hosts=None if open_ is None else frozenset({open_.producer.host}),
                client_id=None if open_ is None else open_.producer.client_id,
                topic_ids=frozenset(topics) if len(topics) == 1 else None,
                partition=next(iter(hanging.places))[1] if len(hanging.places) == 1 else None,
            ),
            witness,
            "note" if is_known else "unknown",
            cause=hanging.cause,
            because=None if is_known else "beginning_not_seen",
            of_client=open_ is not None,
            client_id=None if open_ is None else open_.producer.client_id,
            grounds=(hanging.ground,),
        )

    def _why(self, hanging: _Hanging) -> str:
        open_ = hanging.open
        if open_ is None:
            longest = f"the longest timeout of a producer by default ({_LONGEST_MS // 60_000} min)"
            return f"the last stable offset has not moved for longer than {longest}"
        timeout_ms = open_.producer.timeout_ms
        if timeout_ms is None:
            return "the capture does not show its timeout, but the longest one by default is over"
        timeout = f"its timeout is {seconds(timeout_ms * _MS)}"
        match hanging.cause:
            case "no_marker":
                return f"{timeout}, and it was ended in packet {open_.ended}, but no marker was written"
            case "not_added":
                return (
                    f"{timeout}, but its partition was never added to it (AddPartitionsToTxn), so the coordinator does "
                    "not know of it and will not end it"
                )
        return f"{timeout}, and the coordinator has not aborted it"

    def _waiting_groups(self, hanging: _Hanging) -> Iterator[str]:
        """Yield the share groups that have acquired nothing of the transaction."""
        for place, offset in hanging.places.items():
            groups = self._groups.get((hanging.key[0], place), {})
            yield from (group for group, reached in groups.items() if reached < offset)

    def _name(self, topic: str) -> str:
        return self.scene.topic(topic)

    def lasting(self) -> Iterable[Incident]:
        return [self._incident(hanging, None) for hanging in self._hanging.values()]

    def close(self) -> Iterable[Incident]:
        return self.lasting()


_READERS: Final[dict[int, Callable[[HangingTransactions, Exchange, int, Message, Message], Iterable[Incident]]]] = {
    PRODUCE: HangingTransactions._produced,
    FETCH: HangingTransactions._fetched,
    SHARE_FETCH: HangingTransactions._share_fetched,
    ApiKey.METADATA: HangingTransactions._learn,
    ApiKey.INIT_PRODUCER_ID: HangingTransactions._learn,
    ApiKey.DESCRIBE_TRANSACTIONS: HangingTransactions._learn,
    ApiKey.ADD_PARTITIONS_TO_TXN: HangingTransactions._add,
    ApiKey.END_TXN: HangingTransactions._end,
    ApiKey.WRITE_TXN_MARKERS: HangingTransactions._mark,
}


def _named(open_: OpenTransaction) -> str:
    """Return `producer 7 (transactional id tx, client c1, 10.0.0.1)`."""
    producer = open_.producer
    names = [f"transactional id {producer.transactional_id}"] if producer.transactional_id else []
    names += [f"client {producer.client_id}"] if producer.client_id else []
    return f"producer {producer.producer_id} ({', '.join([*names, producer.host])})"
