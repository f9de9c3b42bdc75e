"""Read messages as steps. A step keeps only the fields that later rules need; bodies and records are dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from msgspec import UNSET

from kshark.analysis.facts.calls import (
    AcknowledgementBatch,
    Acquired,
    Answer,
    Call,
    Leader,
    Listed,
    Partition,
    ShareStep,
    Span,
)
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.anomaly import CATALOGUE
from kshark.api_keys import (
    FIND_COORDINATOR,
    OFFSET_COMMIT,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_STATE,
    TXN_OFFSET_COMMIT,
)
from kshark.endpoints import endpoint
from kshark.model import UNKNOWN_PACKET, Message
from kshark.records import RecordsField, TransactionBatch, spans_of, transactions_in
from kshark_dissectors.enums import ShareAcquireMode

AnyCall = TypeVar("AnyCall", bound=Call)

#: Codes of a message with unreliable fields, and the reason; an incomplete body counts as cut.
_DOUBTS: Final = {
    **{code: "cut" for code, entry in CATALOGUE.items() if entry.group == "codec" and entry.severity == "error"},
    "BODY_CUT": "cut",
    "BODY_NOT_KEPT": "cut",
    "RESYNC": "resync",
    "VERSION_UNKNOWN": "version_unknown",
    "UNKNOWN_API": "version_unknown",
}
_RECORD_LIMIT: Final = ShareAcquireMode.RECORD_LIMIT.value
#: The requests of share sessions.
SESSION_APIS: Final = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})
#: Errors of a partition that come with its leader: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH.
_LED_ELSEWHERE: Final = frozenset({6, 74})
#: Answers with an error code for each requested item, and no top-level one.
_ERRORS_INSIDE: Final = SHARE_STATE | {FIND_COORDINATOR, SHARE_GROUP_DESCRIBE, OFFSET_COMMIT, TXN_OFFSET_COMMIT}


def doubt_of(message: Message) -> str | None:
    """Return why the fields of a message are unreliable: cut, resync, version_unknown; None if they are reliable."""
    if message.weird is UNSET:
        return None
    # For an unknown version, only the detail names what does not fit the nearest known version.
    misfits = (
        message.detail.replace(":", " ").split()
        if message.detail is not UNSET and "VERSION_UNKNOWN" in message.weird
        else []
    )
    return doubt_by([*message.weird, *misfits])


def is_whole(message: Message | None) -> bool:
    """True if the body of a message was read to its end, and is reliable."""
    return (
        message is not None
        and message.body is not None
        and message.body is not UNSET
        and (message.weird is UNSET or doubt_of(message) is None)
    )


def doubt_by(codes: Iterable[str]) -> str | None:
    """Return why a message with these codes is unreliable. "cut" comes first, because a cut message lacks fields."""
    doubts = [_DOUBTS[code] for code in codes if code in _DOUBTS]
    return "cut" if "cut" in doubts else next(iter(doubts), None)


def knows_of(message: Message) -> int:
    """Return the last packet of the other side that the sender had certainly received.

    UNKNOWN_PACKET on a load balancer's connection: what that has acknowledged may not have reached the client.
    """
    return UNKNOWN_PACKET if message.knows is UNSET or message.proxy is not UNSET else message.knows


def _listed(topics: Sequence[Any]) -> list[Listed]:
    """Read the partitions of a request. Arrays may be null, here and below."""
    return [
        Listed(
            (topic.topic_id, partition.partition_index),
            [
                AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types or ())
                for batch in partition.acknowledgement_batches or ()
            ],
        )
        for topic in topics
        for partition in topic.partitions or ()
    ]


def partitions_of(topics: Sequence[Any]) -> list[Partition]:
    """Return the partitions of structs that have a topic id and partition numbers."""
    return [(topic.topic_id, partition) for topic in topics for partition in topic.partitions or ()]


def step_of(request: Message, connection: ConnectionFacts) -> ShareStep | None:
    """Read a share-session request; None if its group, member or epoch is unreadable."""
    body = request.body
    epoch = getattr(body, "share_session_epoch", UNSET)
    if not isinstance(epoch, int) or request.api_key is UNSET:
        return None
    doubt = None if request.weird is UNSET else doubt_of(request)
    step = ShareStep(
        connection,
        request.api_key,
        request.api or "",
        request.version or 0,
        request.packet,
        request.time_ns,
        request.correlation_id or 0,
        None if request.client_id is UNSET else request.client_id,
        body.group_id,
        body.member_id,
        epoch,
        doubt,
        knows=knows_of(request),
    )
    if doubt != "cut":
        if body.topics:
            step.listed = _listed(body.topics)
            for listed in step.listed:
                if listed.acknowledged:
                    step.acknowledges = True
                    break
        if getattr(body, "is_renew_ack", False) is True:
            step.is_renewal = True
        if step.is_fetch:
            if body.forgotten_topics_data:
                step.forgotten = partitions_of(body.forgotten_topics_data)
            _read_limits(step, body)
    return step


def _read_limits(step: ShareStep, body: Any) -> None:
    """Read the limits on the number of records."""
    step.max_records = getattr(body, "max_records", None)
    if getattr(body, "share_acquire_mode", UNSET) == _RECORD_LIMIT:
        step.most_records = step.max_records
    step.wants_no_batch = getattr(body, "batch_size", 1) < 1


def call_of(request: Message, response: Message | None, connection: ConnectionFacts) -> Call:
    """Read a request and its answer as a Call."""
    return read_as(Call, request, response, connection, 0)


def read_as(
    made: Callable[..., AnyCall], request: Message, response: Message | None, connection: ConnectionFacts, epoch: int
) -> AnyCall:
    """Read a request and its answer as a given class."""
    return made(
        connection,
        request.api_key or 0,
        request.api or "",
        request.version or 0,
        request.packet,
        request.time_ns,
        request.correlation_id or 0,
        None if request.client_id is UNSET else request.client_id,
        group_id if isinstance(group_id := getattr(request.body, "group_id", None), str) else None,
        member_id if isinstance(member_id := getattr(request.body, "member_id", None), str) else None,
        epoch,
        None if request.weird is UNSET else doubt_of(request),
        None if response is None else answer_of(response),
        settled=True,
        knows=knows_of(request),
    )


def answer_of(response: Message) -> Answer:
    """Read an answer. `error` is None if it is unreadable, or if only the items inside have error codes."""
    body = response.body
    error = getattr(body, "error_code", UNSET)
    doubt = None if response.weird is UNSET else doubt_of(response)
    if not isinstance(error, int):
        doubt = doubt or (None if response.api_key in _ERRORS_INSIDE else "cut")
        return Answer(response.packet, response.time_ns, None, doubt, knows=knows_of(response))
    answer = Answer(response.packet, response.time_ns, error, doubt, knows=knows_of(response))
    if doubt == "cut" or response.api_key not in SESSION_APIS:
        return answer
    if responses := body.responses:
        _read_partitions(answer, responses, response.api_key == SHARE_FETCH)
        if answer.failed:
            answer.leaders = dict(_leaders(body))
    elif body.throttle_time_ms:
        answer.throttled = True
    lock = getattr(body, "acquisition_lock_timeout_ms", UNSET)
    if isinstance(lock, int) and lock > 0:
        answer.lock_ns = lock * 1_000_000
    return answer


def _read_partitions(answer: Answer, responses: Sequence[Any], is_fetch: bool) -> None:
    """Read the partitions of an answer."""
    acquired: list[Acquired] = []
    acknowledged: dict[Partition, int] = {}
    failed: dict[Partition, int] = {}
    spans: dict[Partition, Sequence[Span]] = {}
    answer.acquired, answer.acknowledged, answer.failed, answer.spans = acquired, acknowledged, failed, spans
    for topic in responses:
        topic_id = topic.topic_id
        for partition in topic.partitions or ():
            key = topic_id, partition.partition_index
            if not is_fetch:
                acknowledged[key] = partition.error_code
                continue
            acknowledged[key] = partition.acknowledge_error_code
            if partition.error_code:
                failed[key] = partition.error_code
            if ranges := partition.acquired_records:
                for held in ranges:
                    acquired.append((key, held.first_offset, held.last_offset, held.delivery_count))
                if record_offsets := record_spans(partition.records):
                    spans[key] = record_offsets
                    if getattr(partition.records, "transactions", UNSET) is not UNSET:
                        answer.transactions = {**answer.transactions, key: partition.records.transactions}


def topic_key(topic: Any) -> str:
    """Return the id or the name of a topic in a body."""
    key = getattr(topic, "topic_id", UNSET)
    if key is UNSET:
        key = getattr(topic, "name", UNSET)
    return str(topic.topic if key is UNSET else key)


def transaction_batches(records: Any) -> Sequence[TransactionBatch]:
    """Return the batches of transactions in a records field, with their markers, also in one from tables."""
    if type(records) is RecordsField:
        return transactions_in(records)
    batches = records.get("transactions") if type(records) is dict else None
    return [(first, last, producer_id, epoch, type_) for first, last, producer_id, epoch, type_ in batches or ()]


def record_spans(records: Any) -> Any:
    """Return the offsets that have a record in a records field, also in one from tables; None if they are unknown."""
    spans = getattr(records, "spans", None)
    if spans:
        return spans
    if type(records) is RecordsField:
        return spans_of(records)
    return records.get("spans") if type(records) is dict else None


def _leaders(body: Any) -> Iterator[tuple[Partition, Leader]]:
    """Yield the partitions that another broker leads, where the answer has the leader and its address."""
    nodes = {node.node_id: node for node in body.node_endpoints or () if node.host is not None}
    for topic in body.responses:
        for partition in topic.partitions or ():
            if (
                partition.error_code in _LED_ELSEWHERE
                and (node := nodes.get(partition.current_leader.leader_id)) is not None
            ):
                leader = Leader(node.node_id, endpoint(node.host, node.port), partition.current_leader.leader_epoch)
                yield (topic.topic_id, partition.partition_index), leader
