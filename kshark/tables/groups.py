"""Heartbeats of all group types, and requests of partition leaders to the share coordinator, as rows.

Sources: KIP-932, KIP-848.
"""

from __future__ import annotations

from typing import Any, Final

from kshark.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_SHARE_GROUP_STATE,
    HEARTBEAT,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    SHARE_GROUP_HEARTBEAT,
    WRITE_SHARE_GROUP_STATE,
)
from kshark.model import Exchange, Message
from kshark.tables.columns import CORRELATION, GROUP, MEMBER, PARTITION, PARTITIONS, TOPIC_ID, Column, table
from kshark.tables.connections import OpenConnection
from kshark.tables.fields import partitions, value
from kshark.tables.names import Names
from kshark.tables.pending import PendingRows
from kshark.tables.readers import answered, asked, field, its, made

#: By API key: the type of the group; the operation on the share state.
GROUP_TYPES: Final[dict[Any, str]] = {
    HEARTBEAT: "classic",
    CONSUMER_GROUP_HEARTBEAT: "consumer",
    SHARE_GROUP_HEARTBEAT: "share",
}
OPERATIONS: Final[dict[Any, str]] = {
    INITIALIZE_SHARE_GROUP_STATE: "initialize",
    READ_SHARE_GROUP_STATE: "read",
    WRITE_SHARE_GROUP_STATE: "write",
    DELETE_SHARE_GROUP_STATE: "delete",
    READ_SHARE_GROUP_STATE_SUMMARY: "read_summary",
}

_READS: Final = (READ_SHARE_GROUP_STATE, READ_SHARE_GROUP_STATE_SUMMARY)


def _group_type(request: Message) -> str:
    return GROUP_TYPES[request.api_key]


def _member(asked: Any, answer: Any) -> Any:
    """Return the member id; a broker may assign it in its response."""
    return getattr(asked, "member_id", None) or getattr(answer, "member_id", None)


def _epoch(asked: Any) -> Any:
    epoch = getattr(asked, "member_epoch", None)
    return getattr(asked, "generation_id", None) if epoch is None else epoch


def _outcome(response: Message | None) -> str:
    return "unanswered" if response is None else "answered"


def _subscribed(asked: Any) -> list[str] | None:
    topics = value(asked, "subscribed_topic_names")
    return None if topics is None else list(topics)


def _assignment(answer: Any) -> list[tuple[str | None, int | None]] | None:
    assignment = value(answer, "assignment")
    return None if assignment is None else partitions(assignment.topic_partitions)


HEARTBEATS: Final = table(
    "heartbeats",
    "heartbeat of a member of a group",
    "exchange message response asked answer",
    CORRELATION,
    Column("group_type", "string", "share, consumer, classic", made(_group_type, "message")),
    GROUP.read(asked("group_id")),
    MEMBER.read(made(_member, "asked", "answer")),
    Column("member_epoch", "int", "epoch in the request; in a classic group the generation", made(_epoch, "asked")),
    Column("response_member_epoch", "int", "epoch in the response", answered("member_epoch")),
    Column("outcome", "string", "answered, unanswered", made(_outcome, "response")),
    Column("error_code", "smallint", "error code of the response as a whole", answered("error_code")),
    Column("interval_ms", "int", "time until the next heartbeat is due", answered("heartbeat_interval_ms")),
    Column("subscribed", "array<string>", "topic names; null: unchanged", made(_subscribed, "asked")),
    Column("assignment", PARTITIONS, "assigned partitions; null: unchanged", made(_assignment, "answer")),
)


def _operation(request: Message) -> str:
    return OPERATIONS[request.api_key]


def _batches(state: Any) -> Any:
    batches = getattr(state, "state_batches", None)
    if not batches:
        return batches
    return [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches]


SHARE_STATE: Final = table(
    "share_state",
    "partition of a request to the share coordinator (83 to 87)",
    "exchange message response asked answer topic in_request in_response state",
    CORRELATION,
    Column("operation", "string", "initialize, read, write, delete, read_summary", made(_operation, "message")),
    GROUP.read(asked("group_id")),
    TOPIC_ID.read(its("topic.topic_id")),
    PARTITION.read(its("in_request.partition")),
    Column("state_epoch", "int", "number of times that the partition was initialized", field("state", "state_epoch")),
    Column(
        "leader_epoch",
        "int",
        "epoch of the partition's leader, which sends the request",
        field("in_request", "leader_epoch"),
    ),
    Column("start_offset", "bigint", "records before it are no longer delivered", field("state", "start_offset")),
    Column(
        "delivery_complete_count",
        "int",
        "number of offsets from start_offset on that need no further delivery; -1: unknown",
        field("state", "delivery_complete_count"),
    ),
    Column(
        "batches",
        "array<struct<first_offset: bigint, last_offset: bigint, delivery_state: int, delivery_count: int>>",
        "state batches that were written or read",
        made(_batches, "state"),
    ),
    Column("error_code", "smallint", "error code of the partition in the response", field("in_response", "error_code")),
)

_heartbeat_row: Final = HEARTBEATS.row_maker()
_share_state_row: Final = SHARE_STATE.row_maker()


def add_heartbeat(
    held: PendingRows, names: Names, connection: OpenConnection, request: Message, exchange: Exchange
) -> None:
    """Add an exchange to `heartbeats`."""
    response = exchange.response
    answer = None if response is None else response.body
    held.rows["heartbeats"].append(
        _heartbeat_row(
            connection.named(request), request.packet, request.time_ns, request.packet,
            exchange, request, response, request.body, answer,
        )
    )  # fmt: skip


def add_share_state(
    held: PendingRows, names: Names, connection: OpenConnection, request: Message, exchange: Exchange
) -> None:
    """Add each partition of the request to `share_state`.

    A state that was read is in the response, every other state in the request.
    """
    response = exchange.response
    asked, answer = request.body, None if response is None else response.body
    here = (connection.named(request), request.packet, request.time_ns, request.packet)
    of_exchange = (exchange, request, response, asked, answer)
    reads = request.api_key in _READS
    results = {
        (topic.topic_id, partition.partition): partition
        for topic in getattr(answer, "results", None) or ()
        for partition in topic.partitions or ()
    }
    for topic in getattr(asked, "topics", None) or ():
        for partition in topic.partitions or ():
            result = results.get((topic.topic_id, partition.partition))
            state = result if reads else partition
            held.rows["share_state"].append(_share_state_row(*here, *of_exchange, topic, partition, result, state))
