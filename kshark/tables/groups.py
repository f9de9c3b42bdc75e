"""Heartbeats of all group types, and requests of partition leaders to the share coordinator (KIP-932, KIP-848), as
rows."""

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
from kshark.tables.connections import Connection
from kshark.tables.fields import partitions, value
from kshark.tables.held import Held
from kshark.tables.names import Names

#: By API key: the type of the group; what is done with the share state.
HEARTBEATS: Final[dict[Any, str]] = {
    HEARTBEAT: "classic",
    CONSUMER_GROUP_HEARTBEAT: "consumer",
    SHARE_GROUP_HEARTBEAT: "share",
}
SHARE_STATE: Final[dict[Any, str]] = {
    INITIALIZE_SHARE_GROUP_STATE: "initialize",
    READ_SHARE_GROUP_STATE: "read",
    WRITE_SHARE_GROUP_STATE: "write",
    DELETE_SHARE_GROUP_STATE: "delete",
    READ_SHARE_GROUP_STATE_SUMMARY: "read_summary",
}

_READS: Final = (READ_SHARE_GROUP_STATE, READ_SHARE_GROUP_STATE_SUMMARY)


def add_heartbeat(held: Held, names: Names, connection: Connection, request: Message, exchange: Exchange) -> None:
    """Adds an exchange to `heartbeats`."""
    response = exchange.response
    asked, answer = request.body, None if response is None else response.body
    epoch = getattr(asked, "member_epoch", None)
    topics = value(asked, "subscribed_topic_names")
    assignment = value(answer, "assignment")
    row = (
        connection.named(request),
        request.packet,
        request.time_ns,
        request.packet,
        request.correlation_id,
        HEARTBEATS[request.api_key],
        getattr(asked, "group_id", None),
        getattr(asked, "member_id", None) or getattr(answer, "member_id", None),
        getattr(asked, "generation_id", None) if epoch is None else epoch,
        getattr(answer, "member_epoch", None),
        "unanswered" if response is None else "answered",
        getattr(answer, "error_code", None),
        getattr(answer, "heartbeat_interval_ms", None),
        None if topics is None else list(topics),
        None if assignment is None else partitions(assignment.topic_partitions),
    )
    held.rows["heartbeats"].append(row)


def add_share_state(held: Held, names: Names, connection: Connection, request: Message, exchange: Exchange) -> None:
    """Adds each partition of the request to `share_state`: a state that was read is in the response, all else in the
    request."""
    response = exchange.response
    asked, answer = request.body, None if response is None else response.body
    here = (connection.named(request), request.packet, request.time_ns, request.packet, request.correlation_id)
    of_group = (SHARE_STATE[request.api_key], getattr(asked, "group_id", None))
    reads = request.api_key in _READS
    results = {
        (topic.topic_id, partition.partition): partition
        for topic in getattr(answer, "results", None) or ()
        for partition in topic.partitions or ()
    }
    for topic in getattr(asked, "topics", None) or ():
        for partition in topic.partitions or ():
            place = (topic.topic_id, partition.partition)
            result = results.get(place)
            state = result if reads else partition
            batches = getattr(state, "state_batches", None)
            told = (
                getattr(state, "state_epoch", None),
                getattr(partition, "leader_epoch", None),
                getattr(state, "start_offset", None),
                getattr(state, "delivery_complete_count", None),
                [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches]
                if batches
                else batches,
                getattr(result, "error_code", None),
            )
            held.rows["share_state"].append(here + of_group + place + told)
