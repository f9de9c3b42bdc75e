"""A request with its response as a row of `exchanges`."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from kshark.model import Exchange, Message
from kshark.records import RecordsField
from kshark.tables.fields import Row

_JSON: Final = msgspec.json.Encoder()

#: request_position, response_position, position, given_up_packet, after_request_packet.
Places = tuple[int | None, int | None, int, int | None, int | None]


def row(common: Row, where: Message, exchange: Exchange, texts: tuple[str | None, str | None], places: Places) -> Row:
    """`where` is the message whose place the row has, `texts` are both bodies as JSON."""
    request, response = exchange.request, exchange.response
    if request is None:
        asked_packet = asked_ns = asked_size = group_id = member_id = asked_first = asked_weird = None
    else:
        body = request.body
        asked_packet, asked_ns, asked_size = request.packet, request.time_ns, request.size
        group_id, member_id = getattr(body, "group_id", None), getattr(body, "member_id", None)
        asked_first, asked_weird = first_packet(request), set_or_none(request.weird)
    if response is None:
        answer_packet = answer_ns = latency_ns = answer_size = error_code = throttle_time_ms = answer_first = answer_weird = None
    else:
        body = response.body
        answer_packet, answer_ns, answer_size = response.packet, response.time_ns, response.size
        error_code, throttle_time_ms = getattr(body, "error_code", None), getattr(body, "throttle_time_ms", None)
        latency_ns = set_or_none(response.latency_ns)
        answer_first, answer_weird = first_packet(response), set_or_none(response.weird)
    return (
        *common,
        set_or_none(where.api_key),
        set_or_none(where.api),
        set_or_none(where.version),
        set_or_none(where.correlation_id),
        set_or_none(where.client_id),
        asked_packet,
        answer_packet,
        asked_ns,
        answer_ns,
        latency_ns,
        asked_size,
        answer_size,
        exchange.outcome,
        set_or_none(error_code),
        set_or_none(throttle_time_ms),
        set_or_none(group_id),
        set_or_none(member_id),
        *texts,
        asked_first,
        answer_first,
        asked_weird,
        answer_weird,
        *places,
    )


def set_or_none(found: Any) -> Any:
    """What is absent in a message is null in a row."""
    return None if found is UNSET else found


def first_packet(message: Message) -> int | None:
    """Where a message began, when more than one packet carried it."""
    return None if isinstance(message.packets, UnsetType) else message.packets[0]


def body_json(message: Message | None, fields: list[RecordsField] | None = None) -> str | None:
    """A body as one line of JSON, its records `fields` as with --no-records; null where there is none."""
    if message is None or message.body is UNSET or message.body is None:
        return None
    if not fields:
        return _JSON.encode(message.body).decode()
    opened = [(field.batches, field.partial_bytes) for field in fields]
    for field in fields:
        field.batches = field.partial_bytes = UNSET
    try:
        return _JSON.encode(message.body).decode()
    finally:
        for field, (batches, partial_bytes) in zip(fields, opened, strict=True):
            field.batches, field.partial_bytes = batches, partial_bytes
