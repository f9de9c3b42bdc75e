"""Messages read as steps: only what later rules ask for is kept; bodies and records are let go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET

from kshark.analysis.connections import Connection
from kshark.analysis.steps import Answer, Batch, Call, Listed, Partition, Step
from kshark.anomaly import CATALOGUE
from kshark.api_keys import SHARE_FETCH
from kshark.model import Message

#: Codes of a message whose fields cannot be relied on, and why; a body that could not be read to its end is cut.
_DOUBTS: Final = {
    **{code: "cut" for code, entry in CATALOGUE.items() if entry.group == "codec" and entry.severity == "error"},
    "RESYNC": "resync",
    "VERSION_UNKNOWN": "version_unknown",
}
#: Acknowledge types of a batch whose locks are only renewed (KIP-1222).
_RENEW: Final = [4]


def _doubt(message: Message) -> str | None:
    codes = message.weird
    if codes is UNSET:
        return None
    return next((_DOUBTS[code] for code in codes if code in _DOUBTS), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _listed(topics: Sequence[Any]) -> list[Listed]:
    """Arrays may be null, here and below."""
    return [
        Listed(
            (topic.topic_id, partition.partition_index),
            [
                Batch(batch.first_offset, batch.last_offset, batch.acknowledge_types == _RENEW)
                for batch in partition.acknowledgement_batches or ()
            ],
        )
        for topic in topics
        for partition in topic.partitions or ()
    ]


def _partitions(topics: Sequence[Any]) -> list[Partition]:
    return [(topic.topic_id, partition) for topic in topics for partition in topic.partitions or ()]


def step_of(request: Message, connection: Connection) -> Step | None:
    """A share-session request; None where its group, member or epoch could not be read."""
    body = request.body
    epoch = getattr(body, "share_session_epoch", UNSET)
    if not isinstance(epoch, int) or request.api_key is UNSET:
        return None
    doubt = None if request.weird is UNSET else _doubt(request)
    step = Step(
        connection,
        request.api_key,
        "" if request.api is UNSET else request.api,
        0 if request.version is UNSET else request.version,
        request.packet,
        request.time_ns,
        0 if request.correlation_id is UNSET else request.correlation_id,
        None if request.client_id is UNSET else request.client_id,
        body.group_id,
        body.member_id,
        epoch,
        doubt,
    )
    if doubt != "cut":
        if body.topics:
            step.listed = _listed(body.topics)
        if step.is_fetch and body.forgotten_topics_data:
            step.forgotten = _partitions(body.forgotten_topics_data)
    return step


def member_of(heartbeat: Message) -> tuple[str | None, str | None, int] | None:
    """Group, member and member epoch of a ShareGroupHeartbeat; None where they could not be read."""
    body = heartbeat.body
    epoch = getattr(body, "member_epoch", UNSET)
    return (body.group_id, body.member_id, epoch) if isinstance(epoch, int) else None


def call_of(request: Message, response: Message | None, connection: Connection, epoch: int = 0) -> Call:
    """A request with its answer, as far as they can be read."""
    return Call(
        connection,
        request.api_key if isinstance(request.api_key, int) else 0,
        request.api if isinstance(request.api, str) else "",
        request.version if isinstance(request.version, int) else 0,
        request.packet,
        request.time_ns,
        request.correlation_id if isinstance(request.correlation_id, int) else 0,
        _text(request.client_id),
        _text(getattr(request.body, "group_id", None)),
        _text(getattr(request.body, "member_id", None)),
        epoch,
        _doubt(request),
        None if response is None else answer_of(response),
        settled=True,
    )


def answer_of(response: Message) -> Answer:
    """What the response says about the session; `error` None where it could not be read."""
    body = response.body
    error = getattr(body, "error_code", UNSET)
    doubt = None if response.weird is UNSET else _doubt(response)
    if not isinstance(error, int):
        return Answer(response.packet, response.time_ns, None, doubt or "cut")
    if response.api_key != SHARE_FETCH or doubt == "cut" or not body.responses:
        return Answer(response.packet, response.time_ns, error, doubt)
    lock = getattr(body, "acquisition_lock_timeout_ms", UNSET)
    lock_ns = lock * 1_000_000 if isinstance(lock, int) and lock > 0 else 30_000_000_000
    return Answer(response.packet, response.time_ns, error, doubt, _acquired(body.responses), lock_ns)


def _acquired(topics: Sequence[Any]) -> list[tuple[Partition, int, int]]:
    return [
        ((topic.topic_id, partition.partition_index), held.first_offset, held.last_offset)
        for topic in topics
        for partition in topic.partitions or ()
        for held in partition.acquired_records or ()
    ]


def epoch_of(heartbeat: Message) -> int | None:
    """The member epoch that a heartbeat's answer gives."""
    epoch = getattr(heartbeat.body, "member_epoch", UNSET)
    return epoch if isinstance(epoch, int) else None


def assignment_of(response: Message) -> frozenset[Partition] | None:
    """The partitions that a heartbeat's answer assigns; None where it leaves them as they were."""
    assignment = getattr(response.body, "assignment", None)
    if assignment is None or assignment is UNSET or _doubt(response) == "cut":
        return None
    return frozenset(_partitions(assignment.topic_partitions or ()))
