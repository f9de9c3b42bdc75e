"""Requests with their responses as columns of `exchanges`: the table with the most rows, so its columns are made
without making rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from msgspec import UNSET

from kshark.analysis.results.error_codes import ErrorCodes
from kshark.model import Exchange, Message
from kshark.records import RecordsField
from kshark.tables.blocks import Block, Texts, Where
from kshark.tables.columns import API, GROUP, MEMBER, Column, table
from kshark.tables.readers import answered, asked, its, made

#: A complete exchange, its connection, and the columns that are not in its messages: request_position, position,
#: after_request_packet.
Complete = tuple[Exchange, Where, int | None, int, int | None]

#: Bytes of messages in one block: as JSON they take less than a hundred times as many, and a column may have 2 GB.
BYTES: Final = 16 << 20

#: In the place of a message that the exchange does not have: all its cells are null.
_LACKING: Final = cast("Any", Message)(
    packet=None, packets=UNSET, time_ns=None, flow=None, client=None, broker=None, kind=None, api_key=None, api=None,
    version=None,
    correlation_id=None, client_id=None, request_packet=None, latency_ns=None, size=None, body=None,
)  # fmt: skip


def _first_packet(message: Message) -> int | None:
    """Return where a message began; null where it came in one packet."""
    return message.packets[0] if message.packets else None


def _answered_at(response: Message, position: int) -> int | None:
    return None if response is _LACKING else position - 1


def _given_up(exchange: Exchange) -> int | None:
    return exchange.packet if exchange.outcome == "unanswered" else None


EXCHANGES: Final = table(
    "exchanges",
    "request with its response, or either alone",
    "exchange message request response asked answer asked_json answer_json error_codes "
    "request_position position after_request_packet",
    Column("api_key", "smallint", "number of the API", its("message.api_key")),
    API,
    Column("api_version", "smallint", "version of the API in which both are written", its("message.version")),
    Column(
        "correlation_id",
        "int",
        "that the client gave the request and the response repeats",
        its("message.correlation_id"),
    ),
    Column("client_id", "string", "name that the client gave itself", its("message.client_id")),
    Column("request_packet", "bigint", "last packet of the request", its("request.packet")),
    Column("response_packet", "bigint", "last packet of the response", its("response.packet")),
    Column(
        "request_ts_ns",
        "bigint",
        "time of the request's last packet, in nanoseconds since 1970",
        its("request.time_ns"),
    ),
    Column(
        "response_ts_ns",
        "bigint",
        "time of the response's last packet, in nanoseconds since 1970",
        its("response.time_ns"),
    ),
    Column("latency_ns", "bigint", "from the request's last byte to the response's first", its("response.latency_ns")),
    Column("request_bytes", "int", "without the length prefix", its("request.size")),
    Column("response_bytes", "int", "without the length prefix", its("response.size")),
    Column("outcome", "string", "answered, unanswered, one_way, orphan", its("exchange.outcome")),
    Column("error_code", "smallint", "of the response as a whole", answered("error_code")),
    Column(
        "error_codes",
        "array<smallint>",
        "of the response, at any depth, without those that are 0; null: it has no other",
        its("error_codes"),
        since=2,
    ),
    Column("throttle_time_ms", "int", "for which the broker held the client back", answered("throttle_time_ms")),
    GROUP.read(asked("group_id")),
    MEMBER.read(asked("member_id")),
    Column("request_json", "string", "body; records as with --no-records", its("asked_json")),
    Column(
        "response_json",
        "string",
        "body; records as with --no-records, those of ShareFetch with their spans",
        its("answer_json"),
    ),
    Column(
        "request_first_packet",
        "bigint",
        "where it began, when more than one packet carried it",
        made(_first_packet, "request"),
    ),
    Column(
        "response_first_packet",
        "bigint",
        "where it began, when more than one packet carried it",
        made(_first_packet, "response"),
    ),
    Column("request_weird", "array<string>", "catalogue codes that touch the request", its("request.weird")),
    Column("response_weird", "array<string>", "catalogue codes that touch the response", its("response.weird")),
    Column("request_detail", "string", "what exactly was seen where the request has codes", its("request.detail")),
    Column("response_detail", "string", "what exactly was seen where the response has codes", its("response.detail")),
    Column("request_position", "bigint", "place among the events of its flow", its("request_position")),
    Column(
        "response_position", "bigint", "place among the events of its flow", made(_answered_at, "response", "position")
    ),
    Column(
        "position",
        "bigint",
        "place at which the exchange was complete or given up, among the events of its flow",
        its("position"),
    ),
    Column(
        "given_up_packet",
        "bigint",
        "with which it became clear that no answer comes",
        made(_given_up, "exchange"),
    ),
    Column(
        "after_request_packet",
        "bigint",
        "of an orphan: the flow's last request before it",
        its("after_request_packet"),
    ),
)
_columns: Final = EXCHANGES.columns_maker()


def size(complete: Iterable[Complete]) -> int:
    """Bytes of the exchanges' messages."""
    return sum(
        [message.size for one in complete for message in (one[0].request, one[0].response) if message is not None]
    )


def blocks(complete: Sequence[Complete], codes: ErrorCodes) -> Iterator[Block]:
    """The rows of these exchanges; more than one block if the messages are long. `codes` finds those of answers."""
    exchanges, where, asked_at, at, after = zip(*complete, strict=True)
    requests = [exchange.request or _LACKING for exchange in exchanges]
    responses = [exchange.response or _LACKING for exchange in exchanges]
    sizes = [message.size or 0 for messages in (requests, responses) for message in messages]
    if len(complete) > 1 and sum(sizes) > BYTES:
        half = len(complete) // 2
        yield from blocks(complete[:half], codes)
        yield from blocks(complete[half:], codes)
        return
    first = [exchange.request or exchange.response for exchange in exchanges]
    asked_bodies = [message.body for message in requests]
    answers = [message.body for message in responses]
    error_codes = codes.column(responses)
    own = _columns(
        exchanges, first, requests, responses, asked_bodies, answers, Texts(asked_bodies), Texts(answers), error_codes,
        asked_at, at, after,
    )  # fmt: skip
    packets = [message.packet for message in first]
    yield Block(where, packets, [message.time_ns for message in first], packets, own)


@contextmanager
def closed(fields: Sequence[RecordsField]) -> Iterator[None]:
    """A context in which records are encoded as with --no-records: their size only."""
    opened = [(field.batches, field.partial_bytes) for field in fields]
    for field in fields:
        field.batches = field.partial_bytes = UNSET
    try:
        yield
    finally:
        for field, (batches, partial_bytes) in zip(fields, opened, strict=True):
            field.batches, field.partial_bytes = batches, partial_bytes
