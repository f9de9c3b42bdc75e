"""ShareFetch and ShareAcknowledge as rows: requests, acquired records, acknowledgements (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kshark.analysis.facts.calls import Span
from kshark.analysis.facts.reading import record_spans
from kshark.analysis.states.partition.missing_offsets import lacking
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.conditions import any_of, size
from kshark.model import Exchange, Message
from kshark.tables.blocks import Row
from kshark.tables.columns import API, CORRELATION, GROUP, MEMBER, PARTITIONS, SESSION_KEY, TOPIC, Column, table
from kshark.tables.connections import OpenConnection
from kshark.tables.fields import partitions, session_key
from kshark.tables.names import Names
from kshark.tables.pending import PendingRows
from kshark.tables.readers import answered, asked, its, made, optional

_Partition = tuple[str | None, int | None]
APIS: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE)
#: The condition of the column only_lists.
ONLY_LISTS: Final = any_of("topics.partitions", size("acknowledgement_batches") == 0)
_test_only_lists: Final = ONLY_LISTS.compiled()


def _session_key(request: Message, group_id: Any, member_id: Any) -> int:
    return session_key(request.broker, group_id, member_id)


def _repeats(listed: Sequence[_Partition]) -> bool:
    return len(listed) > 1 and len({*listed}) < len(listed)


def _only_lists(asked: Any, listed: Sequence[_Partition]) -> bool:
    return bool(listed) and _test_only_lists(asked)


def _forgotten(asked: Any) -> list[_Partition]:
    forgotten = getattr(asked, "forgotten_topics_data", None)
    return partitions(forgotten) if forgotten else []


def _has_failed(response: Message | None, answer: Any, acknowledged: Sequence[_Partition]) -> bool | None:
    """True if the response has an error for a partition, or does not name an acknowledged partition."""
    if response is None:
        return None
    missing = {*acknowledged}
    for topic in getattr(answer, "responses", None) or ():
        for partition in topic.partitions or ():
            if partition.error_code or getattr(partition, "acknowledge_error_code", 0):
                return True
            missing.discard((topic.topic_id, partition.partition_index))
    return bool(missing)


SHARE_REQUESTS: Final = table(
    "share_requests",
    "ShareFetch or ShareAcknowledge",
    "exchange message response asked answer group_id member_id listed acknowledged "
    "previous_epoch lists_new acknowledges_new",
    CORRELATION,
    API,
    Column("api_version", "smallint", "version of the API", its("message.version")),
    GROUP,
    MEMBER,
    SESSION_KEY.read(made(_session_key, "message", "group_id", "member_id")),
    Column("epoch", "int", "0 opens a share session, -1 closes it", asked("share_session_epoch")),
    Column(
        "previous_epoch",
        "int",
        "epoch of the member's previous request on the connection; null: none, or in the same packet (order unknown)",
        its("previous_epoch"),
        since=2,
    ),
    Column("outcome", "string", "answered, unanswered", its("exchange.outcome")),
    Column("error_code", "smallint", "error code of the response as a whole", answered("error_code")),
    Column("max_wait_ms", "int", "longest time that the broker may wait for records", asked("max_wait_ms")),
    Column("max_records", "int", "most records that the member accepts", asked("max_records")),
    Column(
        "acquire_mode",
        "smallint",
        "0: whole batches, even beyond max_records; 1: never more than max_records (KIP-1206)",
        asked("share_acquire_mode"),
        since=3,
    ),
    Column("renew", "boolean", "true if the request renews acquisition locks", asked("is_renew_ack")),
    Column("partitions", PARTITIONS, "partitions listed in the request", its("listed")),
    Column("repeats", "boolean", "true if a partition is listed twice", made(_repeats, "listed"), since=2),
    Column(
        "only_lists",
        "boolean",
        "true if a partition is listed without acknowledgements",
        made(_only_lists, "asked", "listed"),
        since=2,
    ),
    Column(
        "lists_new",
        "boolean",
        "true if a fetch lists a partition that no earlier fetch on the connection listed",
        its("lists_new"),
        since=2,
    ),
    Column(
        "acknowledges_new",
        "boolean",
        "true if a fetch acknowledges records of a partition that no earlier fetch on the connection listed",
        its("acknowledges_new"),
        since=2,
    ),
    Column("forgotten", PARTITIONS, "partitions removed from the session", made(_forgotten, "asked")),
    Column(
        "failed",
        "boolean",
        "true if the response has an error for a partition, or does not name an acknowledged partition",
        made(_has_failed, "response", "answer", "acknowledged"),
        since=3,
    ),
    Column(
        "latency_ns",
        "bigint",
        "time from the request's last byte to the response's first",
        optional("response.latency_ns"),
    ),
)


def _lacking(spans: Sequence[Span] | None, run: Any) -> int | None:
    """Return the number of offsets in an acquired range without a record; None if unknown."""
    missing_ranges = lacking(spans, run.first_offset, run.last_offset)
    return None if missing_ranges is None else sum(missing.last - missing.first + 1 for missing in missing_ranges)


def _misplaced(run: Any, before: int | None) -> bool:
    return run.last_offset < run.first_offset or (before is not None and run.first_offset <= before)


ACQUIRED: Final = table(
    "acquired",
    "range of records acquired by a ShareFetch",
    "message group_id member_id answer topic_id topic partition run spans before",
    CORRELATION,
    GROUP,
    MEMBER,
    *TOPIC,
    Column("first_offset", "bigint", "first offset of the range", its("run.first_offset")),
    Column("last_offset", "bigint", "last offset of the range, included", its("run.last_offset")),
    Column(
        "delivery_count",
        "int",
        "number of deliveries of these records, this one included",
        its("run.delivery_count"),
    ),
    Column(
        "lock_timeout_ms",
        "int",
        "time after which the lock expires and the records are available again",
        answered("acquisition_lock_timeout_ms"),
    ),
    Column(
        "lacking",
        "bigint",
        "number of offsets in the range without a record in the response; null: unknown",
        made(_lacking, "spans", "run"),
        since=2,
    ),
    Column(
        "misplaced",
        "boolean",
        "true if the range ends before it begins, or begins before the end of the partition's previous range",
        made(_misplaced, "run", "before"),
        since=2,
    ),
)


def _types(batch: Any) -> list[int]:
    return list(batch.acknowledge_types or ())


ACKNOWLEDGEMENTS: Final = table(
    "acknowledgements",
    "acknowledgement batch of one partition",
    "message group_id member_id topic_id topic partition batch piggybacked error_code",
    CORRELATION,
    GROUP,
    MEMBER,
    *TOPIC,
    Column("first_offset", "bigint", "first offset of the range", its("batch.first_offset")),
    Column("last_offset", "bigint", "last offset of the range, included", its("batch.last_offset")),
    Column(
        "types",
        "array<int>",
        "0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for the range, or one for each offset",
        made(_types, "batch"),
    ),
    Column("piggybacked", "boolean", "true if it was sent in a ShareFetch", its("piggybacked")),
    Column(
        "error_code",
        "smallint",
        "error code of the partition in the response; null: not in the response",
        its("error_code"),
    ),
)

_request_row: Final = SHARE_REQUESTS.row_maker()
_acquired_row: Final = ACQUIRED.row_maker()
_acknowledgement_row: Final = ACKNOWLEDGEMENTS.row_maker()


def add(held: PendingRows, names: Names, connection: OpenConnection, request: Message, exchange: Exchange) -> None:
    """Add an exchange to `share_requests`, `acknowledgements` and `acquired`."""
    response, where, earlier = exchange.response, connection.where or connection.named(request), connection.earlier
    asked, answer = request.body, None if response is None else response.body
    group_id, member_id = getattr(asked, "group_id", None), getattr(asked, "member_id", None)
    topics = getattr(asked, "topics", None)
    listed = partitions(topics) if topics else []
    epoch, member = getattr(asked, "share_session_epoch", None), (group_id, member_id)
    previous_epoch = earlier.previous_epoch(member, request.packet, epoch)
    acknowledged = _acknowledged(topics) if topics else []
    fetches = request.api_key == SHARE_FETCH and bool(listed)
    lists_new, acknowledges_new = earlier.adds(member, listed, acknowledged) if fetches else (False, False)
    held.rows["share_requests"].append(
        _request_row(
            where, request.packet, request.time_ns, request.packet,
            exchange, request, response, asked, answer, group_id, member_id, listed, acknowledged,
            previous_epoch, lists_new, acknowledges_new,
        )
    )  # fmt: skip
    if topics:
        common_values = (where, request.packet, request.time_ns, request.packet, request, group_id, member_id)
        held.rows["acknowledgements"] += _acknowledgements(
            common_values, topics, answer, names, piggybacked=request.api_key == SHARE_FETCH
        )
    if response is not None and request.api_key == SHARE_FETCH and (responses := getattr(answer, "responses", None)):
        received = (where, response.packet, response.time_ns, request.packet, response, group_id, member_id, answer)
        held.rows["acquired"] += _acquired(received, responses, names)


def _acknowledgements(common_values: Row, topics: Any, answer: Any, names: Names, *, piggybacked: bool) -> list[Row]:
    rows: list[Row] = []
    errors = None
    for topic in topics:
        topic_id = topic.topic_id
        for partition in topic.partitions or ():
            if not partition.acknowledgement_batches:
                continue
            if errors is None:
                errors = _errors(answer, "acknowledge_error_code" if piggybacked else "error_code")
            index = partition.partition_index
            here = (*common_values, topic_id, names.topic(topic_id), index)
            error_code = errors.get((topic_id, index))
            for batch in partition.acknowledgement_batches:
                rows.append(_acknowledgement_row(*here, batch, piggybacked, error_code))
    return rows


def _acknowledged(topics: Any) -> list[_Partition]:
    """Return the partitions whose records a request acknowledges."""
    return [
        (topic.topic_id, partition.partition_index)
        for topic in topics
        for partition in topic.partitions or ()
        if partition.acknowledgement_batches
    ]


def _errors(answer: Any, name: str) -> dict[tuple[Any, Any], Any]:
    """Return the error of each partition in a response."""
    return {
        (topic.topic_id, partition.partition_index): getattr(partition, name, None)
        for topic in getattr(answer, "responses", None) or ()
        for partition in topic.partitions or ()
    }


def _acquired(common_values: Row, responses: Any, names: Names) -> list[Row]:
    rows: list[Row] = []
    for topic in responses:
        for partition in topic.partitions or ():
            acquired = partition.acquired_records
            if acquired:
                here = (*common_values, topic.topic_id, names.topic(topic.topic_id), partition.partition_index)
                spans, before = record_spans(partition.records), None
                for run in acquired:
                    rows.append(_acquired_row(*here, run, spans, before))
                    before = run.last_offset
    return rows
