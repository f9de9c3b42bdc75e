"""Heartbeats of all group types, and what partition leaders tell the share coordinator (KIP-932, KIP-848), as rows."""

from __future__ import annotations

from typing import Any, Final

from kshark.model import Exchange, Message
from kshark.tables.blocks import Where
from kshark.tables.fields import partitions, value
from kshark.tables.held import Held
from kshark.tables.names import Names

#: Type of the group, and what is done with the state, by API key.
HEARTBEATS: Final[dict[Any, str]] = {12: "classic", 68: "consumer", 76: "share"}
SHARE_STATE: Final[dict[Any, str]] = {83: "initialize", 84: "read", 85: "write", 86: "delete", 87: "read_summary"}


def add_heartbeat(held: Held, names: Names, where: Where, request: Message, exchange: Exchange) -> None:
    """Adds an exchange to `heartbeats`."""
    response = exchange.response
    asked, answer = request.body, None if response is None else response.body
    epoch = getattr(asked, "member_epoch", None)
    topics = value(asked, "subscribed_topic_names")
    assignment = value(answer, "assignment")
    row = (
        where,
        request.packet,
        request.time_ns,
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


def add_share_state(held: Held, names: Names, where: Where, request: Message, exchange: Exchange) -> None:
    """Adds each partition of the request to `share_state`: what was written comes from the request, what was read from the response."""
    response = exchange.response
    asked, operation = request.body, SHARE_STATE[request.api_key]
    here = (where, request.packet, request.time_ns, request.correlation_id, operation, getattr(asked, "group_id", None))
    answers = {
        (topic.topic_id, partition.partition): partition
        for topic in getattr(response and response.body, "results", None) or ()
        for partition in topic.partitions or ()
    }
    for topic in getattr(asked, "topics", None) or ():
        for partition in topic.partitions or ():
            place = (topic.topic_id, partition.partition)
            answer = answers.get(place)
            batches = _told(partition, answer, "state_batches")
            state = (
                _told(partition, answer, "state_epoch"),
                _told(partition, answer, "leader_epoch"),
                _told(partition, answer, "start_offset"),
                _told(partition, answer, "delivery_complete_count"),
                None if batches is None else [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches],
                getattr(answer, "error_code", None),
            )
            held.rows["share_state"].append(here + place + state)


def _told(asked: Any, answer: Any, name: str) -> Any:
    """As the request says it, else as the response does."""
    sent = value(asked, name)
    return value(answer, name) if sent is None else sent
