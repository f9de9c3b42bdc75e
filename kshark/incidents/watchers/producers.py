"""Idempotent producers: batches out of order, and records written twice. Rules 153 and 154.

A broker keeps, for each producer and partition, the epoch and the next sequence, which counts records. A batch of a
higher epoch begins at sequence 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import UNSET, Struct, field

from kshark import limits
from kshark.analysis.facts.bases import ANSWER_RECEIVED, NO_CONNECTION, Limit
from kshark.analysis.facts.reading import is_whole, topic_key
from kshark.analysis.rules.rule import ACCUSES, NOTES_TOO, Rule, Verdict
from kshark.api_keys import FETCH, PRODUCE
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.series import Case, SeriesWatcher, client_of, without_bodies
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent
from kshark.model import Exchange, Gap, Witness
from kshark.recent import Recent
from kshark.records import ProducedBatch, same_records
from kshark.records.batch import TRANSACTIONAL
from kshark.units import counted
from kshark_dissectors.enums import ErrorCode

_OUT_OF_ORDER: Final = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
_DUPLICATE: Final = int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
#: The sequence after the highest one is 0. Kafka: DefaultRecordBatch.incrementSequence.
_SEQUENCES: Final = 1 << 31
#: The error of a batch without an answer: it may have been appended.
_UNANSWERED: Final = -2
#: Answered batches of a producer and partition that are remembered. Kafka's brokers remember five, too.
_REMEMBERED: Final = 5

SEQUENCE_OUT_OF_ORDER: Final = Rule(
    number=153,
    code="SEQUENCE_OUT_OF_ORDER",
    text="A batch of an idempotent producer has another sequence than the one that is due.",
    source="KIP-98, KIP-360; Kafka: ProducerAppendInfo.checkSequence",
    rests_on=(NO_CONNECTION, ANSWER_RECEIVED, Limit("SESSIONS")),
    blame=("client",),
    verdicts=NOTES_TOO,
    causes=("counted_by_batch", "gap_after_failure", "epoch_bump_left_others", "broker_lost", "unknown"),
    act="sent a batch with a wrong sequence",
    must="The base sequence of a batch is that of the batch before plus its number of records, and 0 after a higher "
    "producer epoch.",
    advice="After a refused batch send that batch again before the ones after it, or raise the producer epoch and "
    "begin each partition at sequence 0 (KIP-360).",
    weight=60,
)
DUPLICATE_BATCH: Final = Rule(
    number=154,
    code="DUPLICATE_BATCH",
    text="A producer writes the same records again under a higher producer epoch, and they are in the log twice.",
    source="KIP-360; Kafka: TransactionManager.bumpIdempotentProducerEpoch",
    rests_on=(Limit("SESSIONS"),),
    blame=("client",),
    verdicts=ACCUSES,
    causes=("written_twice",),
    act="wrote the same records twice",
    must="After it has raised its epoch, a producer sends no batch again that may have been appended.",
    advice="Raise the epoch only after all batches in flight have an answer, and report those without one as failed. "
    "Consumers get these records twice: remove the duplicates by key.",
    weight=80,
)


class _Sent(Struct, frozen=True):
    """A batch and its exchange, without the bodies. `error` 0: it was appended; _UNANSWERED: it is unknown."""

    batch: ProducedBatch
    error: int
    acks: int
    exchange: Exchange

    @property
    def witness(self) -> tuple[Witness, ...]:
        return witness_of(self.exchange)

    @property
    def epoch(self) -> int:
        return self.batch[8]

    @property
    def first(self) -> int:
        return self.batch[9]

    @property
    def count(self) -> int:
        return self.batch[10]

    @property
    def after(self) -> int:
        """The sequence that follows."""
        return (self.first + self.count) % _SEQUENCES

    @property
    def answered(self) -> int:
        return self.exchange.packet


class _Chain(Struct):
    """The last batches of a producer for a partition, in the order of their answers. `broken`: the first batch that was
    out of order since the last one that was appended, with its cause."""

    sent: deque[_Sent] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    broken: tuple[_Sent, Case] | None = None

    def last(self, epoch: int | None = None) -> _Sent | None:
        """Return the last appended batch of an epoch."""
        return next((it for it in reversed(self.sent) if not it.error and epoch in (None, it.epoch)), None)


class _Place(Struct, frozen=True):
    """A partition and a producer id, in one cluster."""

    cluster: int
    topic: str
    partition: int
    producer_id: int


class Producers(SeriesWatcher):
    """Follow the batches of idempotent producers."""

    rows = (SEQUENCE_OUT_OF_ORDER, DUPLICATE_BATCH)
    apis = frozenset({PRODUCE, FETCH})
    judges = frozenset({PRODUCE})
    kinds = (Gap,)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._chains: Recent[_Place, _Chain] = Recent(_Chain, "SESSIONS")
        #: Hosts whose connections lack bytes. Beyond limits.LOSSY_HOSTS every host counts as one.
        self._lossy: set[str] = set()

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        answer: Any = response.body if response is not None and is_whole(response) else None
        if request is None or not is_whole(request):
            return NOTHING
        if request.api_key == FETCH:
            return self._fetched(exchange, answer) if self._chains and answer is not None else NOTHING
        return self._produced(exchange, request.body, answer)

    def _produced(self, exchange: Exchange, body: Any, answer: Any) -> list[Incident]:
        over: list[Incident] = []
        errors = {
            (topic_key(topic), row.index): row.error_code
            for topic in getattr(answer, "responses", None) or ()
            for row in topic.partition_responses or ()
        }
        kept: Exchange | None = None
        for topic, partition, batches in _batches(body.topic_data, "partition_data", "index"):
            error = errors.get((topic, partition), _UNANSWERED)
            kept = kept or without_bodies(exchange)
            for batch in batches:
                place = _Place(self.scene.cluster_of(exchange.flow), topic, partition, batch[7])
                over += self._answered(place, _Sent(batch, error, body.acks, kept))
        return over

    def _answered(self, place: _Place, sent: _Sent) -> Iterable[Incident]:
        chain = self._chains.of(place)
        incidents: list[Incident] = []
        if sent.error == _OUT_OF_ORDER and sent.first >= 0:
            incidents += self._out_of_order(place, chain, sent)
        elif not sent.error:
            chain.broken = None
            # What was refused, and is not known to be appended, may be sent again.
            earlier = [it for it in chain.sent if it.epoch < sent.epoch]
            if earlier and not any(it.error and same_records(it.batch, sent.batch) for it in chain.sent):
                incidents += self._twice(place, sent, (it for it in earlier if not it.error))
        if sent.error != _DUPLICATE:
            chain.sent.append(sent)
        return incidents

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Gap):
            self._lossy.add(host_of(event.flow.client) if len(self._lossy) < limits.LOSSY_HOSTS else "")
        return NOTHING

    def _certainty(self, exchange: Exchange) -> tuple[Verdict, str | None]:
        """Return the verdict on a fault of the client, and why it is unknown: the capture may lack batches of it."""
        is_lossy = not self._lossy.isdisjoint((host_of(exchange.flow.client), ""))
        return ("unknown", "gap") if is_lossy else ("violation", None)

    # -- out of order

    def _out_of_order(self, place: _Place, chain: _Chain, sent: _Sent) -> Iterable[Incident]:
        """Explain the first refusal of a chain. Batches that were in flight behind it have no cause of their own."""
        if chain.broken is not None and not _knew(sent, chain.broken[0]):
            return self.collect(sent.exchange, chain.broken[1])
        facts, cause, verdict, because, before = _why(chain, sent)
        if verdict == "violation":
            verdict, because = self._certainty(sent.exchange)
        topic, topic_id = self._named(place)
        case = Case(
            SEQUENCE_OUT_OF_ORDER,
            f"{client_of(sent.exchange)} sent {topic}[{place.partition}] a batch with sequence {sent.first} (producer "
            f"{place.producer_id}, epoch {sent.epoch}), which broker {sent.exchange.flow.broker} refused with "
            f"OUT_OF_ORDER_SEQUENCE_NUMBER ({_OUT_OF_ORDER}): {facts}",
            cause,
            verdict,
            because,
            "client",
            before,
            place,
            (_OUT_OF_ORDER,),
            topic_id,
            place.partition,
        )
        chain.broken = sent, case
        return self.collect(sent.exchange, case)

    # -- records that are in the log twice

    def _fetched(self, exchange: Exchange, answer: Any) -> list[Incident]:
        """Compare the batches of an answer to Fetch that a producer wrote under several epochs."""
        over: list[Incident] = []
        for topic, partition, batches in _batches(answer.responses, "partitions", "partition_index"):
            if len({batch[8] for batch in batches}) < 2:
                continue
            for index, batch in enumerate(batches):
                place = _Place(self.scene.cluster_of(exchange.flow), topic, partition, batch[7])
                chain = self._chains.get(place)
                again = None if chain is None else _found(chain, batch)
                if again is not None:
                    stored = (_Sent(it, 0, -1, exchange) for it in batches[:index])
                    over += self._twice(place, again, (it for it in stored if it.batch[7] == batch[7]))
        return over

    def _twice(self, place: _Place, again: _Sent, appended: Iterable[_Sent]) -> Iterable[Incident]:
        """Report a batch whose records were appended before under a lower epoch.

        After an aborted transaction its records are written again on purpose.
        """
        if again.batch[3] & TRANSACTIONAL:
            return NOTHING
        first = next((it for it in appended if it.epoch < again.epoch and same_records(it.batch, again.batch)), None)
        if first is None:
            return NOTHING
        topic, topic_id = self._named(place)
        verdict, because = self._certainty(again.exchange)
        case = Case(
            DUPLICATE_BATCH,
            f"{client_of(again.exchange)} wrote {counted(again.count, 'record')} to {topic}[{place.partition}] twice: "
            f"with sequence {first.first} of producer epoch {first.epoch} (appended, packet {first.answered}), and "
            f"again with sequence {again.first} of epoch {again.epoch}",
            "written_twice",
            verdict,
            because,
            "client",
            first.witness,
            place,
            topic_id=topic_id,
            partition=place.partition,
        )
        return self.collect(again.exchange, case)

    def _named(self, place: _Place) -> tuple[str, str | None]:
        """Return the name and the id of a topic, as far as known."""
        names = self.scene.names.by_id
        return self.scene.topic(place.topic), place.topic if place.topic in names else self.scene.topic_id(place.topic)


_Why = tuple[str, str, Verdict, str | None, tuple[Witness, ...]]


def _why(chain: _Chain, sent: _Sent) -> _Why:
    """Return why a batch is out of order: facts, cause, verdict, reason of an unknown one, earlier exchanges."""
    last = chain.last()
    if last is None:
        facts = "the capture does not show a batch before that was appended"
        return facts, "unknown", "unknown", "beginning_not_seen", ()
    of_epoch = chain.last(sent.epoch)
    if of_epoch is None and last.epoch < sent.epoch and 0 < sent.first == last.after:
        facts = (
            f"it goes on after sequence {last.after - 1} of epoch {last.epoch}, and the first batch of a higher epoch "
            "has sequence 0"
        )
        if sent.exchange.flow is not last.exchange.flow:
            return facts, "epoch_bump_left_others", "unknown", "hidden_traffic", last.witness
        return facts, "epoch_bump_left_others", "violation", None, last.witness
    last = of_epoch or last
    due = f"sequence {last.after} was due after the batch of packet {last.answered}"
    if of_epoch is None:
        return due, "unknown", "unknown", "hidden_traffic", last.witness
    if sent.first == last.first + 1 and last.count > 1:
        facts = f"{due}, which has {last.count} records from sequence {last.first} on"
        return facts, "counted_by_batch", "violation", None, last.witness
    if sent.first == last.after:
        is_lost = last.acks == -1
        facts = f"{due}, which the broker had acknowledged{' with acks=all' if is_lost else ''}"
        return facts, "broker_lost" if is_lost else "unknown", "note", None, last.witness
    return _after_failure(chain, sent, last, due)


def _after_failure(chain: _Chain, sent: _Sent, last: _Sent, due: str) -> _Why:
    """Return why a batch with a later sequence than the one that is due is out of order."""
    failed = next((it for it in chain.sent if it.error > 0 and it.epoch == sent.epoch and it.first == last.after), None)
    if failed is None:
        return due, "unknown", "unknown", "hidden_traffic", last.witness
    name = ErrorCode(failed.error).name if failed.error in {*ErrorCode} else "an error"
    facts = f"{due}, and the batch with it was refused with {name} ({failed.error}) in packet {failed.answered}"
    before = (*last.witness, *failed.witness)
    if sent.first == failed.after and _knew(sent, failed):
        return f"{facts}, before this one was sent", "gap_after_failure", "violation", None, before
    return f"{facts}; this one was in flight then", "gap_after_failure", "note", None, before


def _knew(sent: _Sent, before: _Sent) -> bool:
    """True if the client had the answer to a batch of the same connection when it sent another one."""
    request = sent.exchange.request
    assert request is not None
    is_same = sent.exchange.flow is before.exchange.flow
    return is_same and isinstance(request.knows, int) and request.knows >= before.answered


def _found(chain: _Chain, batch: ProducedBatch) -> _Sent | None:
    """Return the Produce of a batch that is stored; the leader changes only its offset."""
    return next((it for it in chain.sent if it.batch[2] == batch[2] and it.batch[7:] == batch[7:]), None)


def _batches(topics: Any, inside: str, number: str) -> Iterator[tuple[str, int, list[ProducedBatch]]]:
    """Yield topics and partitions with their batches of idempotent producers."""
    for topic in topics or ():
        for row in getattr(topic, inside) or ():
            of = row.records  # a dict in bodies from tables
            produced = of.get("produced") if type(of) is dict else getattr(of, "produced", UNSET)
            if produced is not UNSET and produced:
                yield topic_key(topic), getattr(row, number), produced
