"""Administrative operations on share groups, as they are listed; the fields, in this order, are the JSON."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

#: The operations of KIP-932, "Administration". `assign`: share partitions are assigned for the first time, as far as
#: the capture shows;
#: `alter_offsets` also is what tools call a reset.
Kind = Literal[
    "create", "assign", "list", "describe", "describe_offsets", "alter_offsets", "delete_offsets", "delete_group"
]
#: Those that change nothing.
READS: Final = frozenset[Kind]({"list", "describe", "describe_offsets"})
#: How an operation ended. done: what was asked came about, as far as the capture shows; refused: with an error, in
#: whole; partly: with errors for some of its partitions; unfinished: its client was told of no error, and a part of it
#: is missing; unanswered: nobody was told how it ended; unknown: the answer cannot be read.
Outcome = Literal["done", "refused", "partly", "unfinished", "unanswered", "unknown"]
#: What an unfinished operation lacks: the answer says nothing of some partitions, or of all; no share coordinator was
#: asked for them, or it did not accept that; no member was assigned them.
Lack = Literal["not_told", "not_asked", "not_accepted", "not_assigned"]


class StateRequest(msgspec.Struct):
    """What a share coordinator was asked for one share partition: `packet` is the request's, `broker` the share
    coordinator's address.

    `answer_packet` and `error_code` are null where there is no answer that can be read.
    """

    api: str
    packet: int
    answer_packet: int | None
    broker: str
    error_code: int | None


class OperationPartition(msgspec.Struct):
    """A share partition, or a topic (`partition` null), that an operation is about. What is not known is null.

    `start_offset` is the one that was asked for, or told; `error_code` is what the client was told; `share_coordinator`
    is what was asked of it on the way. `lacking`: the operation is unfinished because of it."""

    topic_id: str | None
    topic: str | None
    partition: int | None
    start_offset: int | None = None
    error_code: int | None = None
    share_coordinator: StateRequest | None = None
    lacking: bool = False


class Operation(msgspec.Struct):
    """An administrative operation: what a client asked the coordinator of its group (`broker`), and what came of it.

    `packet` and `time_ns` are the request's, `latency_ns` is the time to the answer's packet. `error_code` is the first
    error that the client was told, 0 for none. `because`: why it is unfinished. `in_sight`: whether the capture shows
    what share coordinators were asked for it; null where they have no part in it."""

    group_id: str
    operation: Kind
    packet: int
    time_ns: int
    answer_packet: int | None
    latency_ns: int | None
    client_id: str | None
    client: str
    broker: str
    outcome: Outcome
    error_code: int | None
    because: Lack | None
    in_sight: bool | None
    partitions: list[OperationPartition]
