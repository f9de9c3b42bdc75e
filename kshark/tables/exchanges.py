"""Requests with their responses as columns of `exchanges`.

This table has the most rows, so its columns are made without making rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from msgspec import UNSET

from kshark.analysis.results.error_codes import ErrorCodes
from kshark.model import Exchange, Message
from kshark.records import RecordsField
from kshark.tables.blocks import Block, Texts, Where
from kshark.tables.columns import API, GROUP, MEMBER, Column, table
from kshark.tables.readers import answered, asked, its, made

#: A complete exchange, its connection, and the columns that its messages do not contain: request_position, position,
#: after_request_packet.
Complete = tuple[Exchange, Where, int | None, int, int | None]

#: Most bytes of messages in one block: their JSON is less than 100 times as large, and a column may have 2 GB.
BYTES: Final = 16 << 20

#: Stands for a message that the exchange does not have: all its cells are null.
_ABSENT: Final = cast("Any", Message)(
    packet=None, packets=UNSET, time_ns=None, flow=None, client=None, broker=None, kind=None, api_key=None, api=None,
    version=None,
    correlation_id=None, client_id=None, request_packet=None, latency_ns=None, size=None, body=None,
)  # fmt: skip


def _first_packet(message: Message) -> int | None:
    """Return the first packet of a message; None if it is in one packet."""
    return message.packets[0] if message.packets else None


def _answered_at(response: Message, position: int) -> int | None:
    return None if response is _ABSENT else position - 1


def _given_up(exchange: Exchange) -> int | None:
    return exchange.packet if exchange.outcome == "unanswered" else None


EXCHANGES: Final = table(
    "exchanges",
    "request with its response, or either alone",
    "exchange message request response asked answer asked_json answer_json error_codes "
    "request_position position after_request_packet",
    Column("api_key", "smallint", "number of the API", its("message.api_key")),
    API,
    Column("api_version", "smallint", "version of the API of both messages", its("message.version")),
    Column(
        "correlation_id",
        "int",
        "correlation id of the request; the response repeats it",
        its("message.correlation_id"),
    ),
    Column("client_id", "string", "client id in the header of the request", its("message.client_id")),
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
    Column(
        "latency_ns", "bigint", "time from the request's last byte to the response's first", its("response.latency_ns")
    ),
    Column("request_bytes", "int", "size of the request without its length prefix", its("request.size")),
    Column("response_bytes", "int", "size of the response without its length prefix", its("response.size")),
    Column(
        "outcome",
        "string",
        "answered, body_cut (the snap length cut the answer), unanswered, one_way, orphan",
        its("exchange.outcome"),
    ),
    Column("error_code", "smallint", "error code of the response as a whole", answered("error_code")),
    Column(
        "error_codes",
        "array<smallint>",
        "error codes of the response at any depth, except 0; null: none",
        its("error_codes"),
        since=2,
    ),
    Column("throttle_time_ms", "int", "time for which the broker throttled the client", answered("throttle_time_ms")),
    GROUP.read(asked("group_id")),
    MEMBER.read(asked("member_id")),
    Column(
        "request_json",
        "string",
        "body of the request; records as with --no-records, in Produce with the headers of producers' batches",
        its("asked_json"),
    ),
    Column(
        "response_json",
        "string",
        "body of the response; records as with --no-records, in Fetch and ShareFetch with their spans",
        its("answer_json"),
    ),
    Column(
        "request_first_packet",
        "bigint",
        "its first packet, if it has more than one",
        made(_first_packet, "request"),
    ),
    Column(
        "response_first_packet",
        "bigint",
        "its first packet, if it has more than one",
        made(_first_packet, "response"),
    ),
    Column("request_weird", "array<string>", "codes of the weirds of the request", its("request.weird")),
    Column("response_weird", "array<string>", "codes of the weirds of the response", its("response.weird")),
    Column("request_detail", "string", "details of the weirds of the request", its("request.detail")),
    Column("response_detail", "string", "details of the weirds of the response", its("response.detail")),
    Column(
        "request_position", "bigint", "position of the request among the events of its flow", its("request_position")
    ),
    Column(
        "response_position",
        "bigint",
        "position of the response among the events of its flow",
        made(_answered_at, "response", "position"),
    ),
    Column(
        "position",
        "bigint",
        "position of the exchange's end, complete or given up, among the events of its flow",
        its("position"),
    ),
    Column(
        "given_up_packet",
        "bigint",
        "packet with which it became clear that no response comes",
        made(_given_up, "exchange"),
    ),
    Column(
        "after_request_packet",
        "bigint",
        "for an orphan: packet of the flow's last request before it",
        its("after_request_packet"),
    ),
    Column(
        "proxy",
        "string",
        "address:port of the load balancer whose PROXY header named the client",
        its("message.proxy"),
        since=3,
        needed=False,
    ),
    Column(
        "request_knows_packet",
        "bigint",
        "last packet of the broker that the client had certainly received when it sent the request, by its TCP "
        "acknowledgement; 0: none, null: unknown",
        its("request.knows"),
        since=3,
        needed=False,
    ),
    Column(
        "response_knows_packet",
        "bigint",
        "last packet of the client that the broker had certainly received when it sent the response; 0: none, null: "
        "unknown",
        its("response.knows"),
        since=3,
        needed=False,
    ),
)
_columns: Final = EXCHANGES.columns_maker()


def size(complete: Iterable[Complete]) -> int:
    """Return the bytes of the exchanges' messages."""
    return sum(
        [message.size for row in complete for message in (row[0].request, row[0].response) if message is not None]
    )


def blocks(complete: Sequence[Complete], codes: ErrorCodes, columns: Collection[str] | None = None) -> Iterator[Block]:
    """Return the rows of these exchanges; several blocks if the messages are long.

    `codes` finds the error codes of responses. `columns`: of the columns that take time to make, only these are made,
    and the others are null; None: all.
    """
    exchanges, where, asked_at, at, after = zip(*complete, strict=True)
    requests = [exchange.request or _ABSENT for exchange in exchanges]
    responses = [exchange.response or _ABSENT for exchange in exchanges]
    sizes = [message.size or 0 for messages in (requests, responses) for message in messages]
    if len(complete) > 1 and sum(sizes) > BYTES:
        half = len(complete) // 2
        yield from blocks(complete[:half], codes, columns)
        yield from blocks(complete[half:], codes, columns)
        return
    first = [exchange.request or exchange.response for exchange in exchanges]
    asked_bodies = [message.body for message in requests]
    answers = [message.body for message in responses]
    asked_json = Texts(asked_bodies) if columns is None or "request_json" in columns else None
    answer_json = Texts(answers) if columns is None or "response_json" in columns else None
    error_codes = codes.column(responses) if columns is None or "error_codes" in columns else None
    own = _columns(
        exchanges, first, requests, responses, asked_bodies, answers, asked_json, answer_json, error_codes,
        asked_at, at, after,
    )  # fmt: skip
    packets = [message.packet for message in first]
    yield Block(where, packets, [message.time_ns for message in first], packets, own)


@contextmanager
def closed(fields: Sequence[RecordsField]) -> Iterator[None]:
    """Encode records as with --no-records inside this context: only their size."""
    opened = [(field.batches, field.partial_bytes) for field in fields]
    for field in fields:
        field.batches = field.partial_bytes = UNSET
    try:
        yield
    finally:
        for field, (batches, partial_bytes) in zip(fields, opened, strict=True):
            field.batches, field.partial_bytes = batches, partial_bytes
