"""ShareFetch and ShareAcknowledge as rows: what was asked, what was acquired, what was acknowledged (KIP-932)."""

from __future__ import annotations

from typing import Any, Final

from kshark.model import Exchange, Message
from kshark.tables.fields import Held, Row, partitions, session_key, value
from kshark.tables.names import Names

SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
SHARE_APIS: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE)

#: Group and member.
Member = tuple[str | None, str | None]


def add(held: Held, asked: Row, answered: Row | None, request: Message, exchange: Exchange, names: Names) -> None:
    """Adds one exchange to `share_requests`, `acknowledgements` and `acquired`; `asked` and `answered` are its messages' common columns."""
    member = (value(request.body, "group_id"), value(request.body, "member_id"))
    here = (*asked, request.correlation_id)
    response = exchange.response
    held["share_requests"].append(here + _request(request, response, exchange.outcome, member))
    acknowledged = [
        (value(topic, "topic_id"), partition, batches)
        for topic in getattr(request.body, "topics", None) or ()
        for partition in getattr(topic, "partitions", None) or ()
        if (batches := getattr(partition, "acknowledgement_batches", None))
    ]
    if acknowledged:
        held["acknowledgements"] += _acknowledgements((*here, *member), acknowledged, request, response, names)
    if response is not None and answered is not None:
        _acquired(held["acquired"], (*answered, response.correlation_id, *member), response.body, names)


def _request(request: Message, response: Message | None, outcome: str, member: Member) -> Row:
    body = request.body
    return (
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


def _acknowledgements(
    here: Row, acknowledged: list[tuple[str | None, Any, Any]], request: Message, response: Message | None, names: Names
) -> list[Row]:
    piggybacked = request.api_key == SHARE_FETCH
    error = "acknowledge_error_code" if piggybacked else "error_code"
    errors = {
        (value(topic, "topic_id"), value(partition, "partition_index")): value(partition, error)
        for topic in getattr(response and response.body, "responses", None) or ()
        for partition in getattr(topic, "partitions", None) or ()
    }
    rows = []
    for topic_id, partition, batches in acknowledged:
        index = value(partition, "partition_index")
        place = (*here, topic_id, names.topic(topic_id), index)
        answer = (piggybacked, errors.get((topic_id, index)))
        for batch in batches:
            types = list(value(batch, "acknowledge_types") or ())
            rows.append((*place, value(batch, "first_offset"), value(batch, "last_offset"), types, *answer))
    return rows


def _acquired(rows: list[Row], here: Row, body: Any, names: Names) -> None:
    lock_timeout_ms = value(body, "acquisition_lock_timeout_ms")
    for topic in getattr(body, "responses", None) or ():
        topic_id = value(topic, "topic_id")
        for partition in getattr(topic, "partitions", None) or ():
            acquired = getattr(partition, "acquired_records", None)
            if acquired:
                place = (*here, topic_id, names.topic(topic_id), value(partition, "partition_index"))
                for run in acquired:
                    first, last, count = value(run, "first_offset"), value(run, "last_offset"), value(run, "delivery_count")
                    rows.append((*place, first, last, count, lock_timeout_ms))
