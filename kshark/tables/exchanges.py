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
    asked, answered = exchange.request, exchange.response
    api, client_id = where.api, where.client_id
    asked_packet, asked_ns, asked_size, group_id, member_id, asked_first, asked_weird = _NOT_ASKED if asked is None else _asked(asked)
    packet, ns, latency_ns, size, error_code, throttle_time_ms, first, weird = _NOT_ANSWERED if answered is None else _answered(answered)
    return (
        *common,
        None if where.api_key is UNSET else where.api_key,
        None if api is UNSET else api,
        None if where.version is UNSET else where.version,
        None if where.correlation_id is UNSET else where.correlation_id,
        None if client_id is UNSET else client_id,
        asked_packet,
        packet,
        asked_ns,
        ns,
        latency_ns,
        asked_size,
        size,
        exchange.outcome,
        error_code,
        throttle_time_ms,
        group_id,
        member_id,
        *texts,
        asked_first,
        first,
        asked_weird,
        weird,
        *places,
    )


_NOT_ASKED: Final = (None,) * 7
_NOT_ANSWERED: Final = (None,) * 8


def _asked(message: Message) -> Row:
    body, packets, weird = message.body, message.packets, message.weird
    group_id, member_id = getattr(body, "group_id", None), getattr(body, "member_id", None)
    return (
        message.packet,
        message.time_ns,
        message.size,
        None if group_id is UNSET else group_id,
        None if member_id is UNSET else member_id,
        None if isinstance(packets, UnsetType) else packets[0],
        None if weird is UNSET else weird,
    )


def _answered(message: Message) -> Row:
    body, packets, weird, latency_ns = message.body, message.packets, message.weird, message.latency_ns
    error_code, throttle_time_ms = getattr(body, "error_code", None), getattr(body, "throttle_time_ms", None)
    return (
        message.packet,
        message.time_ns,
        None if latency_ns is UNSET else latency_ns,
        message.size,
        None if error_code is UNSET else error_code,
        None if throttle_time_ms is UNSET else throttle_time_ms,
        None if isinstance(packets, UnsetType) else packets[0],
        None if weird is UNSET else weird,
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
