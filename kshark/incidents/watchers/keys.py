"""The same keys of a topic on different partitions, because its producers hash keys in different ways. Rule 158.

Records of one key are in order only within one partition. Keys are read with `kshark check --records`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import UNSET, Struct, field

from kshark import limits
from kshark.analysis.facts.bases import Limit
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.rules.rule import NOTES, Rule
from kshark.api_keys import METADATA, PRODUCE
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of, span
from kshark.incidents.series import client_of
from kshark.incidents.watcher import NOTHING, Awaited, Watcher
from kshark.model import Exchange, Flow, Witness
from kshark.records import Batch, Record, RecordsField
from kshark.records.partitioners import PARTITIONERS
from kshark.units import counted

#: A hash explains the choice of a client if it explains all its keys, and chance explains them once in so many times.
_CHANCE: Final = 1_000
_DIGEST_BYTES: Final = 8
_KEPT: Final = 4
#: Clients whose partition is kept for one key.
_CLIENTS_OF_KEY: Final = 4

KEY_ON_TWO_PARTITIONS: Final = Rule(
    number=158,
    code="KEY_ON_TWO_PARTITIONS",
    text="Two clients write the same keys of a topic to different partitions, because they hash keys differently.",
    source="Kafka: BuiltInPartitioner (murmur2); librdkafka: partitioner (consistent_random); sarama: HashPartitioner",
    rests_on=(Limit("HASHED_KEYS"),),
    blame=(),
    verdicts=NOTES,
    must="All producers of a topic choose the partition of a key in the same way.",
    advice="Use one hash for all producers of the topic. Java clients use murmur2: set partitioner=murmur2_random in "
    "librdkafka, and a partitioner with murmur2 in sarama. Until then the order of records of one key is lost, and "
    "joins by key miss records.",
    weight=40,
)

Owner = tuple[str, str | None]


class _Client(Struct):
    """A client that writes a topic. `hashes`: those that explain all its keys so far; `keys`: their number."""

    name: str
    hashes: set[str] = field(default_factory=lambda: {*PARTITIONERS})
    keys: int = 0

    def explained_by(self, partitions: int) -> str | None:
        """Return the one hash that explains its choices; None if several do, or chance may."""
        if len(self.hashes) != 1 or float(partitions) ** min(self.keys, 64) < _CHANCE:
            return None
        return next(iter(self.hashes))


class _Choice(Struct, frozen=True):
    """The partition to which a client wrote a key first."""

    owner: Owner
    partition: int
    packet: int
    witness: tuple[Witness, ...]


class _Pair:
    """Two clients that wrote the same keys to different partitions; `before`, `after`: the first such choices."""

    def __init__(self, flow: Flow, before: _Choice, after: _Choice, since: PacketTime) -> None:
        self.flow: Final = flow
        self.before: Final = before
        self.after: Final = after
        self.since: Final = since
        self.until = since
        self.keys = 0
        self.witness: Final[list[Witness]] = [*before.witness]

    def add(self, exchange: Exchange, now: PacketTime) -> None:
        self.keys += 1
        self.until = now
        if len(self.witness) < _KEPT:
            self.witness.extend(witness_of(exchange))


class _Topic:
    """The keys of a topic since its number of partitions is known."""

    def __init__(self, partitions: int) -> None:
        self.partitions: Final = partitions
        self.clients: dict[Owner, _Client] = {}
        #: By digest of the key.
        self.keys: OrderedDict[bytes, tuple[_Choice, ...]] = OrderedDict()
        self.pairs: dict[tuple[Owner, Owner], _Pair] = {}


class HashedKeys(Watcher):
    """Compare the partitions that the clients of a topic choose for the same keys."""

    rows = (KEY_ON_TWO_PARTITIONS,)
    apis = frozenset({PRODUCE, METADATA})

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        from hashlib import blake2b  # 3 ms for OpenSSL, and few commands read keys

        super().__init__(scene, due)
        self._hash: Final = blake2b
        self._topics: OrderedDict[tuple[int, str], _Topic] = OrderedDict()
        self._keys = 0

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        cluster = self.scene.cluster_of(exchange.flow)
        if request is not None and request.api_key == PRODUCE and is_whole(request):
            self._produced(exchange, cluster, request.body)
        elif request is not None and request.api_key == METADATA and response is not None and is_whole(response):
            return self._described(cluster, response.body)
        return NOTHING

    def _described(self, cluster: int, body: Any) -> list[Incident]:
        """Take the numbers of partitions. If one changes, all keys may move."""
        over: list[Incident] = []
        for topic in body.topics or ():
            count = len(topic.partitions or ())
            if topic.error_code or not count or not isinstance(topic.name, str):
                continue
            key = cluster, topic.name
            known = self._topics.get(key)
            if known is not None and known.partitions == count:
                continue
            if known is not None:
                over += self._incidents(topic.name, known)
                self._keys -= len(known.keys)
            self._topics[key] = _Topic(count)
            self._topics.move_to_end(key)
            if len(self._topics) > limits.TOPICS_OF_CONNECTION:
                self._keys -= len(self._topics.popitem(last=False)[1].keys)
        return over

    def _produced(self, exchange: Exchange, cluster: int, body: Any) -> None:
        for data in body.topic_data or ():
            name = getattr(data, "name", UNSET)
            name = self.scene.topic(data.topic_id) if name in (UNSET, None, "") else name
            topic = self._topics.get((cluster, name))
            if topic is None:
                continue
            for row in data.partition_data or ():
                for key in _keys_of(row.records):
                    self._choose(exchange, topic, row.index, key)

    def _choose(self, exchange: Exchange, topic: _Topic, partition: int, key: bytes) -> None:
        """Take a record with a key."""
        digest = self._hash(key, digest_size=_DIGEST_BYTES).digest()
        owner = host_of(exchange.flow.client), client_id_of(exchange.request)
        choices = topic.keys.get(digest, ())
        is_known = any(choice.owner == owner and choice.partition == partition for choice in choices)
        if is_known or len(choices) >= _CLIENTS_OF_KEY:
            return
        client = topic.clients.get(owner)
        if client is None:
            if len(topic.clients) >= limits.RETRIED_PLACES:
                return
            client = topic.clients[owner] = _Client(client_of(exchange))
        client.keys += 1
        client.hashes = {name for name in client.hashes if PARTITIONERS[name](key, topic.partitions) == partition}
        request = exchange.request
        assert request is not None
        chosen = _Choice(owner, partition, request.packet, witness_of(exchange))
        for choice in choices:
            if choice.owner != owner and choice.partition != partition:
                first, second = sorted((choice, chosen), key=lambda it: (it.owner[0], it.owner[1] or ""))
                pair = topic.pairs.get((first.owner, second.owner))
                if pair is None:
                    pair = _Pair(exchange.flow, choice, chosen, self.scene.now)
                    topic.pairs[first.owner, second.owner] = pair
                pair.add(exchange, self.scene.now)
        self._keys += not choices
        topic.keys[digest] = (*choices, chosen)
        if self._keys > limits.HASHED_KEYS:
            fullest = max(self._topics.values(), key=lambda it: len(it.keys))
            fullest.keys.popitem(last=False)
            self._keys -= 1

    def _incidents(self, name: str, topic: _Topic) -> Iterator[Incident]:
        """Yield the pairs of clients whose choices are explained by two hashes."""
        for pair in topic.pairs.values():
            before, after = topic.clients[pair.before.owner], topic.clients[pair.after.owner]
            hashes = before.explained_by(topic.partitions), after.explained_by(topic.partitions)
            if None not in hashes and hashes[0] != hashes[1]:
                yield self._incident(
                    name, topic, pair, (f"{before.name} by {hashes[0]}", f"{after.name} by {hashes[1]}")
                )

    def _incident(self, name: str, topic: _Topic, pair: _Pair, who: tuple[str, str]) -> Incident:
        before, after = pair.before, pair.after
        topic_id = self.scene.topic_id(name)
        return Incident(
            KEY_ON_TWO_PARTITIONS,
            pair.since,
            pair.until,
            pair.flow,
            f"{who[0]} and {who[1]} write {counted(pair.keys, 'key')} of topic {name} to different ones of its "
            f"{counted(topic.partitions, 'partition')} {span(pair.since, pair.until)}: the first one to partition "
            f"{before.partition} (packet {before.packet}) and to partition {after.partition} (packet {after.packet})",
            Where(
                hosts=frozenset({before.owner[0], after.owner[0]}),
                topic_ids=None if topic_id is None else frozenset({topic_id}),
            ),
            tuple(pair.witness),
            of_client=True,
            client_id=after.owner[1],
        )

    def lasting(self) -> Iterable[Incident]:
        return [incident for (_, name), topic in self._topics.items() for incident in self._incidents(name, topic)]

    def close(self) -> Iterable[Incident]:
        return self.lasting()


def _keys_of(records: Any) -> Iterator[bytes]:
    """Yield the keys of the records in a field, if it was opened."""
    if isinstance(records, RecordsField) and records.batches is not UNSET:
        for batch in records.batches:
            if type(batch) is Batch and batch.crc_ok:
                yield from (it.key for it in batch.records if isinstance(it, Record) and it.key is not None)
