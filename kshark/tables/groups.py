"""Heartbeats of all group types, and what partition leaders tell the share coordinator (KIP-932, KIP-848), as rows."""

from __future__ import annotations

from typing import Any, Final

from kshark.model import Message
from kshark.tables.fields import Held, Row, partitions, value

_GROUP_TYPE: Final = {12: "classic", 68: "consumer", 76: "share"}
_OPERATION: Final = {83: "initialize", 84: "read", 85: "write", 86: "delete", 87: "read_summary"}
TABLE_OF: Final = {**dict.fromkeys(_GROUP_TYPE, "heartbeats"), **dict.fromkeys(_OPERATION, "share_state")}


def add(held: Held, asked: Row, request: Message, response: Message | None) -> None:
    """Adds the heartbeat's row, or one for each partition of a share-state request; `asked` are the request's common columns."""
    key: Any = request.api_key
    here = (*asked, request.correlation_id)
    if key in _GROUP_TYPE:
        held["heartbeats"].append((*here, _GROUP_TYPE[key], *_heartbeat(request.body, response)))
    else:
        _share_state(held["share_state"], (*here, _OPERATION[key], value(request.body, "group_id")), request.body, response)


def _heartbeat(asked: Any, response: Message | None) -> Row:
    answer = response and response.body
    epoch = value(asked, "member_epoch")
    topics = value(asked, "subscribed_topic_names")
    assignment = value(answer, "assignment")
    return (
        value(asked, "group_id"),
        value(asked, "member_id") or value(answer, "member_id"),
        value(asked, "generation_id") if epoch is None else epoch,
        value(answer, "member_epoch"),
        "unanswered" if response is None else "answered",
        value(answer, "error_code"),
        value(answer, "heartbeat_interval_ms"),
        None if topics is None else list(topics),
        None if assignment is None else partitions(assignment, "topic_partitions"),
    )


def _share_state(rows: list[Row], here: Row, asked: Any, response: Message | None) -> None:
    """What was written comes from the request, what was read from the response; the error from the response."""
    answers = {
        (value(topic, "topic_id"), value(partition, "partition")): partition
        for topic in getattr(response and response.body, "results", None) or ()
        for partition in getattr(topic, "partitions", None) or ()
    }
    for topic in getattr(asked, "topics", None) or ():
        topic_id = value(topic, "topic_id")
        for partition in getattr(topic, "partitions", None) or ():
            index = value(partition, "partition")
            answer = answers.get((topic_id, index))
            batches = _told(partition, answer, "state_batches")
            state = (
                topic_id,
                index,
                _told(partition, answer, "state_epoch"),
                _told(partition, answer, "leader_epoch"),
                _told(partition, answer, "start_offset"),
                _told(partition, answer, "delivery_complete_count"),
                None if batches is None else [_batch(batch) for batch in batches],
                value(answer, "error_code"),
            )
            rows.append(here + state)


def _told(asked: Any, answer: Any, name: str) -> Any:
    sent = value(asked, name)
    return value(answer, name) if sent is None else sent


def _batch(batch: Any) -> Row:
    return tuple([value(batch, name) for name in ("first_offset", "last_offset", "delivery_state", "delivery_count")])
