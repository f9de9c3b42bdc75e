"""Heartbeats of all group types, and what partition leaders tell the share coordinator (KIP-932, KIP-848), as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kshark.model import Message
from kshark.tables.fields import each, partitions, value

_GROUP_TYPE: Final = {12: "classic", 68: "consumer", 76: "share"}
_OPERATION: Final = {83: "initialize", 84: "read", 85: "write", 86: "delete", 87: "read_summary"}
TABLE_OF: Final = {**dict.fromkeys(_GROUP_TYPE, "heartbeats"), **dict.fromkeys(_OPERATION, "share_state")}

Common = Callable[[Message], tuple[Any, ...]]


def rows(common: Common, request: Message, response: Message | None) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The heartbeat's row, or one for each partition of a share-state request."""
    key: Any = request.api_key
    if key in _GROUP_TYPE:
        yield "heartbeats", (*common(request), request.correlation_id, _GROUP_TYPE[key], *_heartbeat(request.body, response))
        return
    for row in _share_state(request.body, response):
        yield "share_state", (*common(request), request.correlation_id, _OPERATION[key], value(request.body, "group_id"), *row)


def _heartbeat(asked: Any, response: Message | None) -> tuple[Any, ...]:
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


def _share_state(asked: Any, response: Message | None) -> Iterator[tuple[Any, ...]]:
    """What was written comes from the request, what was read from the response; the error from the response."""
    answers = {
        (value(topic, "topic_id"), value(partition, "partition")): partition
        for topic in each(response and response.body, "results")
        for partition in each(topic, "partitions")
    }
    for topic in each(asked, "topics"):
        topic_id = value(topic, "topic_id")
        for partition in each(topic, "partitions"):
            index = value(partition, "partition")
            answer = answers.get((topic_id, index))

            def told(name: str, partition: Any = partition, answer: Any = answer) -> Any:
                sent = value(partition, name)
                return value(answer, name) if sent is None else sent

            batches = told("state_batches")
            yield (
                topic_id,
                index,
                told("state_epoch"),
                told("leader_epoch"),
                told("start_offset"),
                told("delivery_complete_count"),
                None if batches is None else [_batch(batch) for batch in batches],
                value(answer, "error_code"),
            )


def _batch(batch: Any) -> tuple[Any, ...]:
    return tuple(value(batch, name) for name in ("first_offset", "last_offset", "delivery_state", "delivery_count"))
