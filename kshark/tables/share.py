"""ShareFetch and ShareAcknowledge as rows: what was asked, what was acquired, what was acknowledged (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kshark.model import Exchange, Message
from kshark.tables.fields import each, partitions, session_key, value
from kshark.tables.names import Names

SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
SHARE_APIS: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE)

Common = Callable[[Message], tuple[Any, ...]]


def rows(
    common: Common, request: Message, response: Message | None, exchange: Exchange, names: Names
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """`share_requests`, `acknowledgements` and `acquired` of one exchange."""
    member = (value(request.body, "group_id"), value(request.body, "member_id"))
    yield "share_requests", _request(common, request, response, exchange.outcome, member)
    for row in _acknowledgements(request, response, names):
        yield "acknowledgements", (*common(request), request.correlation_id, *member, *row)
    if response is not None:
        for row in _acquired(response.body, names):
            yield "acquired", (*common(response), response.correlation_id, *member, *row)


def _request(
    common: Common, request: Message, response: Message | None, outcome: str, member: tuple[str | None, str | None]
) -> tuple[Any, ...]:
    body = request.body
    return (
        *common(request),
        request.correlation_id,
        request.api,
        request.version,
        *member,
        session_key(request.broker, *member),
        value(body, "share_session_epoch"),
        outcome,
        response and value(response.body, "error_code"),
        value(body, "max_wait_ms"),
        value(body, "max_records"),
        value(body, "is_renew_ack"),
        partitions(body, "topics"),
        partitions(body, "forgotten_topics_data"),
        response and response.latency_ns,
    )


def _acknowledgements(request: Message, response: Message | None, names: Names) -> Iterator[tuple[Any, ...]]:
    piggybacked = request.api_key == SHARE_FETCH
    error = "acknowledge_error_code" if piggybacked else "error_code"
    errors = {
        (value(topic, "topic_id"), value(partition, "partition_index")): value(partition, error)
        for topic in each(response and response.body, "responses")
        for partition in each(topic, "partitions")
    }
    for topic in each(request.body, "topics"):
        topic_id = value(topic, "topic_id")
        for partition in each(topic, "partitions"):
            index = value(partition, "partition_index")
            for batch in each(partition, "acknowledgement_batches"):
                yield (
                    topic_id,
                    names.topic(topic_id),
                    index,
                    value(batch, "first_offset"),
                    value(batch, "last_offset"),
                    list(value(batch, "acknowledge_types") or ()),
                    piggybacked,
                    errors.get((topic_id, index)),
                )


def _acquired(body: Any, names: Names) -> Iterator[tuple[Any, ...]]:
    lock_timeout_ms = value(body, "acquisition_lock_timeout_ms")
    for topic in each(body, "responses"):
        topic_id = value(topic, "topic_id")
        for partition in each(topic, "partitions"):
            for acquired in each(partition, "acquired_records"):
                yield (
                    topic_id,
                    names.topic(topic_id),
                    value(partition, "partition_index"),
                    value(acquired, "first_offset"),
                    value(acquired, "last_offset"),
                    value(acquired, "delivery_count"),
                    lock_timeout_ms,
                )
