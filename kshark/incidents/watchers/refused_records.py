"""Refused records and offsets: too few replicas in sync, too large, out of range. Rules 162 to 164, and wrong acks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET

from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import NOTES, Rule
from kshark.api_keys import DELETE_RECORDS, FETCH, PRODUCE
from kshark.incidents.incident import Incident
from kshark.incidents.series import Case, SeriesWatcher, client_of
from kshark.incidents.watcher import NOTHING
from kshark.model import Exchange
from kshark.units import counted
from kshark_dissectors.enums import ErrorCode

NOT_ENOUGH_REPLICAS: Final = Rule(
    number=162,
    code="NOT_ENOUGH_REPLICAS",
    text="A partition has fewer replicas in sync than a Produce with acks=all needs.",
    source="Kafka: Partition.appendRecordsToLeader, checkEnoughReplicasReachOffset (min.insync.replicas)",
    blame=(),
    verdicts=NOTES,
    must="With acks=all, at least min.insync.replicas replicas of the partition are in sync.",
    advice="Find out which broker is down or slow (kafka-topics --describe --under-min-isr-partitions). After "
    "NOT_ENOUGH_REPLICAS nothing was appended; after NOT_ENOUGH_REPLICAS_AFTER_APPEND the records are in the leader's "
    "log, so a producer without idempotence writes them twice when it tries again.",
    weight=35,
)
OFFSET_OUT_OF_RANGE: Final = Rule(
    number=163,
    code="OFFSET_OUT_OF_RANGE",
    text="A Fetch or DeleteRecords asks for an offset that the partition does not have.",
    source="Kafka: UnifiedLog.read, ReplicaManager.readFromLog; OffsetFetcher (auto.offset.reset)",
    blame=(),
    verdicts=NOTES,
    must="A consumer fetches from an offset between the start and the end of the partition's log, and records are "
    "deleted up to such an offset.",
    advice="If the offset is below the log start, retention has deleted the records before they were read: the "
    "consumer is too slow, or was away for too long. If it is above the end, the topic was created anew or its log "
    "was truncated. auto.offset.reset decides where the consumer goes on. DeleteRecords with offset -1 deletes all "
    "records.",
    weight=35,
)
MESSAGE_TOO_LARGE: Final = Rule(
    number=164,
    code="MESSAGE_TOO_LARGE",
    text="A broker refuses records because they are too large.",
    source="Kafka: UnifiedLog.append, LogValidator (max.message.bytes, segment.bytes)",
    blame=(),
    verdicts=NOTES,
    must="A record batch is no larger than max.message.bytes of its topic.",
    advice="Let the producer send smaller batches (batch.size, max.request.size, compression.type), or raise "
    "max.message.bytes of the topic.",
    weight=30,
)
ACKS_INVALID: Final = Rule(
    number=None,
    code="ACKS_INVALID",
    text="A Produce has acks other than -1 (all), 0 and 1, and the broker refuses its records.",
    source="Kafka: ReplicaManager.isValidRequiredAcks",
    blame=("client",),
    verdicts=("violation",),
    act="sent Produce with acks that do not exist",
    must="The acks of a Produce are -1 (all), 0 or 1.",
    advice="Set acks to all, 1 or 0. Old brokers (before 0.9) took a number of replicas; use all with "
    "min.insync.replicas instead.",
    weight=60,
)
#: All acks that exist.
_ACKS: Final = frozenset({-1, 0, 1})
#: The rule of each error code, and the APIs whose answers have it.
_ROWS: Final = {
    int(ErrorCode.NOT_ENOUGH_REPLICAS): ({PRODUCE}, NOT_ENOUGH_REPLICAS),
    int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND): ({PRODUCE}, NOT_ENOUGH_REPLICAS),
    int(ErrorCode.MESSAGE_TOO_LARGE): ({PRODUCE}, MESSAGE_TOO_LARGE),
    int(ErrorCode.RECORD_LIST_TOO_LARGE): ({PRODUCE}, MESSAGE_TOO_LARGE),
    int(ErrorCode.INVALID_REQUIRED_ACKS): ({PRODUCE}, ACKS_INVALID),
    int(ErrorCode.OFFSET_OUT_OF_RANGE): ({FETCH, DELETE_RECORDS}, OFFSET_OUT_OF_RANGE),
}


class RefusedRecords(SeriesWatcher):
    """Take the refusals of partitions in Produce, Fetch and DeleteRecords."""

    rows = (ACKS_INVALID, NOT_ENOUGH_REPLICAS, OFFSET_OUT_OF_RANGE, MESSAGE_TOO_LARGE)
    judges = frozenset({PRODUCE, FETCH, DELETE_RECORDS})
    refusals = True

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        request = exchange.request
        if request is None or request.api_key not in self.judges or not is_whole(request):
            return NOTHING
        over: list[Incident] = []
        for placed in codes:
            apis, row = _ROWS.get(placed.code, ((), None))
            if row is not None and request.api_key in apis and placed.partition is not None:
                take = self._wrong_acks if row is ACKS_INVALID else self._collect
                over += take(exchange, placed, row)
        return over

    def _wrong_acks(self, exchange: Exchange, placed: PlacedCode, row: Rule) -> Sequence[Incident]:
        acks = getattr(_body(exchange), "acks", None)
        if acks in _ACKS or acks is None:
            return NOTHING
        facts = f"{client_of(exchange)} sent Produce with acks={acks}, which broker {exchange.flow.broker} refused with"
        argument = f"{facts} INVALID_REQUIRED_ACKS ({placed.code})"
        case = Case(row, argument, verdict="violation", blame="client", about=acks, codes=(placed.code,))
        return self.collect(exchange, case)

    def _collect(self, exchange: Exchange, placed: PlacedCode, row: Rule) -> Sequence[Incident]:
        topic_id = placed.topic_id or self.scene.topic_id(placed.name or "")
        topic = placed.name or self.scene.topic(placed.topic_id or "")
        code = ErrorCode(placed.code)
        facts = _FACTS[row.code](exchange, placed)
        case = Case(
            row,
            f"{client_of(exchange)} {facts} {topic}[{placed.partition}], which broker {exchange.flow.broker} refused "
            f"with {code.name} ({placed.code})",
            about=(placed.code, topic_id, topic, placed.partition),
            codes=(placed.code,),
            topic_id=topic_id,
            partition=placed.partition,
        )
        return self.collect(exchange, case)


def _few_replicas(exchange: Exchange, _: PlacedCode) -> str:
    acks = getattr(_body(exchange), "acks", None)
    return f"sent Produce with acks={'all' if acks == -1 else acks} to"


def _out_of_range(exchange: Exchange, placed: PlacedCode) -> str:
    """Return the offset asked for, and the log's start and end if the answer has them."""
    assert exchange.response is not None
    row: Any = next(_rows(_body(exchange).topics, "partitions", placed), None)
    if exchange.request is not None and exchange.request.api_key == DELETE_RECORDS:
        return f"asked to delete the records before offset {row.offset:,} of" if row is not None else "asked to delete"
    asked = None if row is None else row.fetch_offset
    given: Any = next(_rows(getattr(exchange.response.body, "responses", ()), "partitions", placed), None)
    start, end = (getattr(given, name, -1) for name in ("log_start_offset", "high_watermark"))
    shown = [f"{name} {offset:,}" for name, offset in (("start", start), ("end", end)) if _is_offset(offset)]
    log = f" (the log's {' and '.join(shown)})" if shown else ""
    return f"asked for offset {asked:,}{log} of" if asked is not None else f"asked for an offset{log} of"


def _too_large(exchange: Exchange, placed: PlacedCode) -> str:
    request = exchange.request
    assert request is not None
    records: Any = next((it.records for it in _rows(_body(exchange).topic_data, "partition_data", placed)), None)
    size = getattr(records, "size", None)
    sent = f"{counted(size, 'byte')} of records" if isinstance(size, int) else "records"
    return f"sent {sent} in a Produce of {counted(request.size, 'byte')} to"


_FACTS: Final = {
    NOT_ENOUGH_REPLICAS.code: _few_replicas,
    OFFSET_OUT_OF_RANGE.code: _out_of_range,
    MESSAGE_TOO_LARGE.code: _too_large,
}


def _rows(topics: Any, inside: str, placed: PlacedCode) -> Iterator[Any]:
    """Yield the rows of a partition in a body: `inside` is the name of a topic's list of partitions."""
    for topic in topics or ():
        names = (getattr(topic, name, UNSET) for name in ("topic_id", "topic", "name"))
        if next((it for it in names if it is not UNSET), None) not in (placed.topic_id, placed.name):
            continue
        for row in getattr(topic, inside, None) or ():
            number = getattr(row, "partition", getattr(row, "index", getattr(row, "partition_index", None)))
            if number == placed.partition:
                yield row


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _body(exchange: Exchange) -> Any:
    return None if exchange.request is None else exchange.request.body
