"""Administrative operations on share groups, as they are listed. The fields, in this order, are the JSON."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

#: The operations of KIP-932, "Administration". `assign`: share partitions are assigned for the first time, as far as
#: the capture shows. `alter_offsets`: includes the "reset" of tools.
OperationKind = Literal[
    "create", "assign", "list", "describe", "describe_offsets", "alter_offsets", "delete_offsets", "delete_group"
]
#: The operations that change nothing.
READS: Final = frozenset[OperationKind]({"list", "describe", "describe_offsets"})
#: Results of an operation.
#:
#: done: the request was fulfilled, as far as the capture shows. refused: the whole request failed with an error.
#: partly: some of its partitions failed with errors. unfinished: the client received no error, but a part of the
#: operation is missing. unanswered: the client received no answer. unknown: the answer is unreadable.
OperationOutcome = Literal["done", "refused", "partly", "unfinished", "unanswered", "unknown"]
#: The missing part of an unfinished operation: the answer lacks some partitions, or all; no share coordinator was asked
#: for them; a share coordinator refused; no member was assigned them.
MissingPart = Literal["not_told", "not_asked", "not_accepted", "not_assigned"]


class StateRequest(msgspec.Struct):
    """A request to a share coordinator for one share partition.

    `packet`: the packet of the request. `broker`: the address of the share coordinator. `answer_packet` and
    `error_code` are null if there is no readable answer. `state_epoch`: the epoch that an Initialize gives to the
    state, and `earlier_state_epoch` that of the one before; null if there is none in the capture.
    """

    api: str
    packet: int
    answer_packet: int | None
    broker: str
    error_code: int | None
    state_epoch: int | None = None
    earlier_state_epoch: int | None = None


class OperationPartition(msgspec.Struct):
    """A share partition of an operation, or a topic (`partition` null). Unknown fields are null.

    `start_offset`: the requested or the answered one.
    `lag`: the number of records that the group has not finished, as the answer says; -1 if the coordinator does not
    know it.
    `error_code`: the error in the client's answer.
    `share_coordinator`: the request to the share coordinator for it.
    `lacking`: the operation is unfinished because of it.
    """

    topic_id: str | None
    topic: str | None
    partition: int | None
    start_offset: int | None = None
    error_code: int | None = None
    share_coordinator: StateRequest | None = None
    lacking: bool = False
    lag: int | None = None


class StoredRecord(msgspec.Struct, gc=False):
    """A record of a coordinator's log that an operation wrote, in a Fetch response of a follower (`packet`).

    `time_ns`: when the coordinator wrote it. `log`, `log_partition`, `offset`: its place. `type`: Kafka's name, as
    ShareSnapshot. `topic_id`, `partition`, `state_epoch`: of a share partition; null for other records.
    """

    packet: int
    time_ns: int
    log: str
    log_partition: int
    offset: int
    type: str
    tombstone: bool
    topic_id: str | None
    partition: int | None
    state_epoch: int | None


class Operation(msgspec.Struct):
    """An administrative operation: a client's request to the coordinator of its group (`broker`), and its result.

    `packet`, `time_ns`: of the request.
    `latency_ns`: the time from the request to the answer's packet.
    `error_code`: the first error in the client's answer, 0 for none.
    `because`: why it is unfinished.
    `in_sight`: true if the capture shows the requests to share coordinators for it; null for operations without them.
    `records`: the records of the coordinators' logs that it wrote; null if the capture has none (`-V` decodes them).
    """

    group_id: str
    operation: OperationKind
    packet: int
    time_ns: int
    answer_packet: int | None
    latency_ns: int | None
    client_id: str | None
    client: str
    broker: str
    outcome: OperationOutcome
    error_code: int | None
    because: MissingPart | None
    in_sight: bool | None
    partitions: list[OperationPartition]
    records: list[StoredRecord] | None = None
