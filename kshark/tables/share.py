"""ShareFetch and ShareAcknowledge as rows: what was asked, what was acquired, what was acknowledged (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kshark.analysis.facts.calls import Span
from kshark.analysis.facts.reading import spans_known
from kshark.analysis.states.partition.missing_offsets import lacking
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.conditions import any_of, size
from kshark.model import Exchange, Message
from kshark.tables.blocks import Row
from kshark.tables.connections import Connection
from kshark.tables.fields import partitions, session_key, value
from kshark.tables.held import Held
from kshark.tables.names import Names

_Partition = tuple[str | None, int | None]
APIS: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE)


#: A column that says of requests what this condition does.
ONLY_LISTS: Final = any_of("topics.partitions", size("acknowledgement_batches") == 0)
_only_lists: Final = ONLY_LISTS.compiled()


def add(held: Held, names: Names, connection: Connection, request: Message, exchange: Exchange) -> None:
    """Adds an exchange to `share_requests`, `acknowledgements` and `acquired`."""
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
    row = (
        where,
        request.packet,
        request.time_ns,
        request.packet,
        request.correlation_id,
        request.api,
        request.version,
        group_id,
        member_id,
        session_key(request.broker, group_id, member_id),
        epoch,
        previous_epoch,
        exchange.outcome,
        getattr(answer, "error_code", None),
        getattr(asked, "max_wait_ms", None),
        getattr(asked, "max_records", None),
        value(asked, "share_acquire_mode"),
        getattr(asked, "is_renew_ack", None),
        listed,
        len(listed) > 1 and len({*listed}) < len(listed),
        bool(listed) and _only_lists(asked),
        lists_new,
        acknowledges_new,
        partitions(forgotten) if (forgotten := getattr(asked, "forgotten_topics_data", None)) else [],
        None if response is None else _has_failed(answer, acknowledged),
        None if response is None else response.latency_ns,
    )
    held.rows["share_requests"].append(row)
    if topics:
        place = (where, request.packet, request.time_ns, request.packet, request.correlation_id, group_id, member_id)
        held.rows["acknowledgements"] += _acknowledgements(
            place, topics, answer, names, piggybacked=request.api_key == SHARE_FETCH
        )
    if response is not None and request.api_key == SHARE_FETCH and (responses := getattr(answer, "responses", None)):
        place = (where, response.packet, response.time_ns, request.packet, response.correlation_id, group_id, member_id)
        lock_timeout_ms = getattr(answer, "acquisition_lock_timeout_ms", None)
        held.rows["acquired"] += _acquired(place, responses, lock_timeout_ms, names)


def _acknowledgements(place: Row, topics: Any, answer: Any, names: Names, *, piggybacked: bool) -> list[Row]:
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
            here = (*place, topic_id, names.topic(topic_id), index)
            error_code = errors.get((topic_id, index))
            for batch in partition.acknowledgement_batches:
                types = list(batch.acknowledge_types or ())
                rows.append((*here, batch.first_offset, batch.last_offset, types, piggybacked, error_code))
    return rows


def _acknowledged(topics: Any) -> list[_Partition]:
    """The partitions that a request acknowledges records of."""
    return [
        (topic.topic_id, one.partition_index)
        for topic in topics
        for one in topic.partitions or ()
        if one.acknowledgement_batches
    ]


def _errors(answer: Any, name: str) -> dict[tuple[Any, Any], Any]:
    """The error of each partition that a response names."""
    return {
        (topic.topic_id, partition.partition_index): getattr(partition, name, None)
        for topic in getattr(answer, "responses", None) or ()
        for partition in topic.partitions or ()
    }


def _has_failed(answer: Any, acknowledged: Sequence[_Partition]) -> bool:
    """Whether the answer has an error for a partition, or none of those whose records were acknowledged."""
    missing = {*acknowledged}
    for topic in getattr(answer, "responses", None) or ():
        for partition in topic.partitions or ():
            if partition.error_code or getattr(partition, "acknowledge_error_code", 0):
                return True
            missing.discard((topic.topic_id, partition.partition_index))
    return bool(missing)


def _acquired(place: Row, responses: Any, lock_timeout_ms: Any, names: Names) -> list[Row]:
    rows: list[Row] = []
    for topic in responses:
        for partition in topic.partitions or ():
            acquired = partition.acquired_records
            if acquired:
                here = (*place, topic.topic_id, names.topic(topic.topic_id), partition.partition_index)
                spans, before = spans_known(partition.records), None
                for run in acquired:
                    first, last = run.first_offset, run.last_offset
                    misplaced = last < first or (before is not None and first <= before)
                    rows.append(
                        (
                            *here,
                            first,
                            last,
                            run.delivery_count,
                            lock_timeout_ms,
                            _lacking(spans, first, last),
                            misplaced,
                        )
                    )
                    before = last
    return rows


def _lacking(spans: Sequence[Span] | None, first: int, last: int) -> int | None:
    """How many of these offsets have no record, as far as that is known."""
    lacks = lacking(spans, first, last)
    return None if lacks is None else sum(lack.last - lack.first + 1 for lack in lacks)
