"""Requests of administrators about share groups: an operation for each group of a request.

The requests to share coordinators are in kshark.analysis.states.operations.chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from kshark.analysis.facts.reading import doubt_of
from kshark.analysis.states.operations.listing import (
    MissingPart,
    Operation,
    OperationKind,
    OperationOutcome,
    OperationPartition,
)
from kshark.api_keys import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_GROUPS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    LIST_GROUPS,
    SHARE_GROUP_DESCRIBE,
)
from kshark.model import Exchange, Message


def body_of(message: Message | None) -> Any:
    """Return the body of a message that was read to its end, or None."""
    return None if message is None or message.body is UNSET or doubt_of(message) is not None else message.body


def operation_of(
    exchange: Exchange,
    kind: OperationKind,
    group_id: str,
    error: int | None,
    partitions: Iterable[OperationPartition] = (),
) -> Operation:
    """Create an operation from its client's view.

    `error`: the error code of the answer for the group; None if it has none.
    """
    request, response = exchange.request, exchange.response
    assert request is not None
    rows = [*partitions]
    outcome, because = _outcome(exchange, error, rows)
    return Operation(
        group_id,
        kind,
        request.packet,
        request.time_ns,
        None if response is None else response.packet,
        response.latency_ns if response is not None and isinstance(response.latency_ns, int) else None,
        request.client_id if isinstance(request.client_id, str) else None,
        exchange.flow.client,
        exchange.flow.broker,
        outcome,
        error or next((row.error_code for row in rows if row.error_code), error),
        because,
        None,
        rows,
    )


def _outcome(
    exchange: Exchange, error: int | None, rows: list[OperationPartition]
) -> tuple[OperationOutcome, MissingPart | None]:
    if exchange.response is None:
        return "unanswered", None
    if body_of(exchange.response) is None:
        return "unknown", None
    if error:
        return "refused", None
    for row in rows:
        row.lacking = row.error_code is None
    if error is None or any(row.lacking for row in rows):
        return "unfinished", "not_told"
    wrong = sum(row.error_code != 0 for row in rows)
    return ("done" if not wrong else "refused" if wrong == len(rows) else "partly"), None


# -- one function for each API


def _listed(exchange: Exchange, asked: Any, answer: Any) -> Iterator[Operation]:
    for group in getattr(answer, "groups", None) or ():
        if "share" in (group.protocol_type, getattr(group, "group_type", None)):
            yield operation_of(exchange, "list", group.group_id, answer.error_code)


def _described(exchange: Exchange, asked: Any, answer: Any) -> Iterator[Operation]:
    errors = {group.group_id: group.error_code for group in getattr(answer, "groups", None) or ()}
    for group_id in asked.group_ids or ():
        yield operation_of(exchange, "describe", group_id, errors.get(group_id))


def _offsets_described(exchange: Exchange, asked: Any, answer: Any) -> Iterator[Operation]:
    answers = {group.group_id: group for group in getattr(answer, "groups", None) or ()}
    for group in asked.groups or ():
        answered = answers.get(group.group_id)
        rows = _rows(group.topics, lambda number: (number, None))
        for topic in answered.topics or () if answered is not None else ():
            for partition in topic.partitions or ():
                rows[topic.topic_name, partition.partition_index] = OperationPartition(
                    topic.topic_id,
                    topic.topic_name,
                    partition.partition_index,
                    partition.start_offset,
                    partition.error_code,
                    lag=_lag(partition),
                )
        error = None if answered is None else answered.error_code
        yield operation_of(exchange, "describe_offsets", group.group_id, error, rows.values())


def _lag(partition: Any) -> int | None:
    """Return the lag of a partition; version 0 has none."""
    lag = getattr(partition, "lag", None)
    return lag if isinstance(lag, int) else None


def _offsets_altered(exchange: Exchange, asked: Any, answer: Any) -> Iterator[Operation]:
    rows = _rows(asked.topics, lambda partition: (partition.partition_index, partition.start_offset))
    for topic in getattr(answer, "responses", None) or ():
        for partition in topic.partitions or ():
            row = rows.get((topic.topic_name, partition.partition_index))
            if row is not None:
                row.topic_id, row.error_code = topic.topic_id, partition.error_code
    yield operation_of(exchange, "alter_offsets", asked.group_id, getattr(answer, "error_code", None), rows.values())


def _offsets_deleted(exchange: Exchange, asked: Any, answer: Any) -> Iterator[Operation]:
    rows = {topic.topic_name: OperationPartition(None, topic.topic_name, None) for topic in asked.topics or ()}
    for topic in getattr(answer, "responses", None) or ():
        row = rows.get(topic.topic_name)
        if row is not None:
            row.topic_id, row.error_code = topic.topic_id, topic.error_code
    yield operation_of(exchange, "delete_offsets", asked.group_id, getattr(answer, "error_code", None), rows.values())


def _group_deleted(exchange: Exchange, asked: Any, answer: Any) -> Iterator[Operation]:
    errors = {result.group_id: result.error_code for result in getattr(answer, "results", None) or ()}
    for group_id in asked.groups_names or ():
        yield operation_of(exchange, "delete_group", group_id, errors.get(group_id))


def _rows(topics: Any, read: Callable[[Any], tuple[int, int | None]]) -> dict[tuple[str, int], OperationPartition]:
    """Return the partitions of a request; `read` returns the number and start offset of a partition."""
    numbers = ((topic.topic_name, *read(partition)) for topic in topics or () for partition in topic.partitions or ())
    return {(name, number): OperationPartition(None, name, number, start) for name, number, start in numbers}


ADMIN_REQUESTS: Final[Mapping[int, Callable[[Exchange, Any, Any], Iterator[Operation]]]] = {
    LIST_GROUPS: _listed,
    DELETE_GROUPS: _group_deleted,
    SHARE_GROUP_DESCRIBE: _described,
    DESCRIBE_SHARE_GROUP_OFFSETS: _offsets_described,
    ALTER_SHARE_GROUP_OFFSETS: _offsets_altered,
    DELETE_SHARE_GROUP_OFFSETS: _offsets_deleted,
}
