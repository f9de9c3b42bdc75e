"""Chains of administrative operations: the client's request and the requests to share coordinators.

A group coordinator answers its client after the share coordinators have answered. All parts of a chain lie between the
client's request and its answer. Source: KIP-932, "Administration".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from kshark import limits
from kshark.analysis.facts.calls import Partition
from kshark.analysis.facts.holes import Hole, Holes
from kshark.analysis.facts.reading import partitions_of
from kshark.analysis.states.operations.listing import (
    MissingPart,
    Operation,
    OperationKind,
    OperationPartition,
    StateRequest,
)
from kshark.analysis.states.operations.requests import ADMIN_REQUESTS, body_of, operation_of
from kshark.analysis.states.operations.topics import TOPIC_APIS, Topics
from kshark.api_keys import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    SHARE_GROUP_HEARTBEAT,
)
from kshark.model import Closed, Event, Exchange, Gap

#: Packets from several hosts may be this far apart, because their clocks differ.
_APART_NS: Final = 1_000_000_000
#: The highest member epoch of the first member of a new group: 1 before 4.3, 2 since then.
_FIRST_EPOCH: Final = 2
#: The request to share coordinators that belongs to an operation.
_ON_THE_WAY: Final[dict[OperationKind, int]] = {
    "describe_offsets": READ_SHARE_GROUP_STATE_SUMMARY,
    "alter_offsets": INITIALIZE_SHARE_GROUP_STATE,
    "delete_offsets": DELETE_SHARE_GROUP_STATE,
    "delete_group": DELETE_SHARE_GROUP_STATE,
}
#: Operations whose success shows that the group is a share group.
_PROVES_SHARE_GROUP: Final = frozenset[OperationKind]({"list", "describe", "alter_offsets", "delete_offsets"})
_STATE_REQUESTS: Final = frozenset(_ON_THE_WAY.values())
#: APIs whose bodies this stage reads.
ADMINISTRATION_APIS: Final = _STATE_REQUESTS | TOPIC_APIS | {SHARE_GROUP_HEARTBEAT, *ADMIN_REQUESTS}


class _Sight(Struct):
    """The seen part of a connection: the packets of its first and last request, and its holes."""

    first: int
    last: int
    holes: Holes = field(default_factory=Holes)

    def shows(self, operation: Operation) -> bool:
        """True if all requests on the connection during an operation would be seen."""
        first, last = operation.packet, operation.answer_packet or operation.packet
        return self.first < first and self.last > last and self.holes.between(first, last) is None


class _Asked(Struct):
    """A request to a share coordinator for one share partition; `is_used`: it is part of an operation."""

    request: StateRequest
    time_ns: int
    sight: _Sight
    is_used: bool = False

    def fits(self, operation: Operation) -> bool:
        """True if it lies between the client's request and its answer."""
        since, until = operation.time_ns - _APART_NS, operation.time_ns + (operation.latency_ns or 0) + _APART_NS
        return not self.is_used and since <= self.time_ns and (operation.answer_packet is None or self.time_ns <= until)


class _SharePartition(Struct):
    """The last requests for a share partition by API; `assigned`: it was assigned to a member."""

    asked: dict[int, _Asked] = field(default_factory=dict)
    assigned: bool = False

    @property
    def initialized(self) -> _Asked | None:
        return self.asked.get(INITIALIZE_SHARE_GROUP_STATE)

    def is_deleted_by(self, operation: Operation, topic_is_gone: bool) -> bool:
        """True if a stored state exists that the operation deletes, or if a deletion belongs to the operation."""
        made, deleted = self.initialized, self.asked.get(DELETE_SHARE_GROUP_STATE)
        if deleted is not None and deleted.fits(operation):
            return True
        return (
            made is not None
            and not topic_is_gone
            and made.request.error_code == 0
            and (deleted is None or deleted.request.packet < made.request.packet)
        )


class _Group(Struct):
    """A share group.

    `is_whole`: the capture has its creation.
    `joined`: its first member waits for partitions.
    `heard`: connections with heartbeats after that; `beat`: the packet of the last one.
    """

    partitions: dict[Partition, _SharePartition] = field(default_factory=dict)
    is_whole: bool = False
    joined: Operation | None = None
    heard: list[_Sight] = field(default_factory=list)
    beat: int = 0

    @property
    def is_in_sight(self) -> bool | None:
        """True if the capture shows requests to share coordinators for it; None if the whole group had no partition."""
        if self.is_whole and not self.partitions:
            return None
        return any(partition.asked for partition in self.partitions.values())


class _Late(NamedTuple):
    """An operation with missing parts: its partitions, each with the connections on which these parts would be."""

    operation: Operation
    lacking: list[tuple[OperationPartition, list[_Sight]]]


class Administration:
    """Collect the operations of a capture.

    `feed` accepts events in the order of the time line and returns the operations that are over; `close` returns the
    rest.

    A missing part may come late, or a hole may explain it: such an operation waits for the end. Above
    limits.SHARE_PARTITIONS, the groups that were unused for longest are forgotten; then the earlier requests to share
    coordinators for them are unknown.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._count = 0
        self._sights: dict[int, _Sight] = {}
        self._late: list[_Late] = []
        self._topics = Topics()

    def feed(self, event: Event) -> list[Operation]:
        if isinstance(event, Gap):
            self._lose(event.flow.id, Hole(event.first_packet, event.last_packet, "gap"))
        elif isinstance(event, Closed):
            self._sights.pop(event.flow.id, None)
        elif isinstance(event, Exchange):
            return [*self._exchange(event)]
        return []

    def close(self) -> list[Operation]:
        """End the input: all parts that are missing now stay missing."""
        over = [self._concluded(late) for late in self._late]
        over += [operation for group in self._groups.values() if (operation := _unassigned(group)) is not None]
        self._groups.clear()
        self._late.clear()
        return over

    def _exchange(self, event: Exchange) -> Iterator[Operation]:
        request, flow = event.request, event.flow.id
        if request is None:
            self._lose(flow, Hole(0, event.packet, "gap"))
            return
        if (sight := self._sights.get(flow)) is not None:
            sight.last = max(sight.last, request.packet)
        if request.api_key not in ADMINISTRATION_APIS:
            return
        if request.api_key in TOPIC_APIS:
            self._topics.feed(event)
            return
        asked, answer = body_of(request), body_of(event.response)
        if request.api_key in ADMIN_REQUESTS:
            for operation in ADMIN_REQUESTS[request.api_key](event, asked, answer) if asked is not None else ():
                yield from self._answered(operation)
            return
        sight = sight or self._sights.setdefault(flow, _Sight(request.packet, request.packet))
        if asked is None or (answer is None and event.response is not None):
            self._lose(flow, Hole(request.packet - 1, event.packet + 1, "cut"))
        elif request.api_key == SHARE_GROUP_HEARTBEAT:
            yield from self._beat(event, asked, answer, sight)
        else:
            self._asked(event, asked, answer, sight)
        self._forget()

    def _lose(self, flow: int, hole: Hole) -> None:
        if flow in self._sights:
            self._sights[flow].holes.add(hole)

    # -- members

    def _beat(self, event: Exchange, asked: Any, answer: Any, sight: _Sight) -> Iterator[Operation]:
        """Yield the operations that a heartbeat shows: the first one creates its group, others bring assignments."""
        if answer is None or answer.error_code:
            return
        group_id, is_new = asked.group_id, asked.group_id not in self._groups
        group = self._of(group_id)
        if asked.member_epoch == 0:
            if is_new and answer.member_epoch <= _FIRST_EPOCH:
                group.is_whole = True
                yield operation_of(event, "create", group_id, 0)
            if (
                asked.subscribed_topic_names
                and group.joined is None
                and not any(partition.assigned for partition in group.partitions.values())
            ):
                group.joined = operation_of(event, "assign", group_id, 0)
        if group.joined is not None:
            group.heard += [sight] if sight not in group.heard else []
            group.beat = sight.last
        rows = []
        for key in (
            sorted(partitions_of(answer.assignment.topic_partitions or ())) if answer.assignment is not None else ()
        ):
            partition = self._in(group, key)
            if not partition.assigned:
                partition.assigned = True
                rows.append(_initialized(key, partition, error=0))
        if rows:
            group.joined, group.heard = None, []
            operation = operation_of(event, "assign", group_id, 0, rows)
            operation.in_sight = any(row.share_coordinator is not None for row in rows)
            yield operation

    # -- share coordinators

    def _asked(self, event: Exchange, asked: Any, answer: Any, sight: _Sight) -> None:
        """Note a request to a share coordinator. It may be the missing part of an operation."""
        request, response = event.request, event.response
        assert request is not None
        assert isinstance(request.api_key, int)
        results = getattr(answer, "results", None) or ()
        errors = {
            (topic.topic_id, asked_partition.partition): asked_partition.error_code
            for topic in results
            for asked_partition in topic.partitions or ()
        }
        group = self._of(asked.group_id)
        for topic in asked.topics or ():
            for asked_partition in topic.partitions or ():
                key, packet = (topic.topic_id, asked_partition.partition), None if response is None else response.packet
                last = self._in(group, key).asked
                epoch, before = getattr(asked_partition, "state_epoch", None), last.get(INITIALIZE_SHARE_GROUP_STATE)
                state_request = StateRequest(
                    str(request.api),
                    request.packet,
                    packet,
                    event.flow.broker,
                    errors.get(key),
                    epoch if isinstance(epoch, int) else None,
                    None
                    if before is None or request.api_key != INITIALIZE_SHARE_GROUP_STATE
                    else before.request.state_epoch,
                )
                if errors.get(key) == 0:
                    self._topics.see(topic.topic_id, request.packet)
                if request.api_key not in last or last[request.api_key].request.packet < state_request.packet:
                    last[request.api_key] = _Asked(state_request, request.time_ns, sight)
        for operation, lacking in self._late:
            if operation.group_id == asked.group_id:
                lacking[:] = [(row, sights) for row, sights in lacking if not _find_request(group, operation, row)]

    # -- administrators

    def _answered(self, operation: Operation) -> Iterator[Operation]:
        """Yield the operation if it is over. Called for answered and unanswered requests."""
        kind, is_done = operation.operation, operation.outcome == "done"
        group = (
            self._of(operation.group_id)
            if is_done and kind in _PROVES_SHARE_GROUP
            else self._groups.get(operation.group_id)
        )
        if group is None:
            if kind != "delete_group":  # a group of unknown type
                yield operation
            return
        late = _Late(operation, [])
        if kind in _ON_THE_WAY and operation.outcome != "refused":
            late.lacking.extend(self._chain(group, operation))
        if late.lacking:
            self._late.append(late)
        else:
            yield self._concluded(late)
        if kind == "delete_group" and is_done:
            self._drop(operation.group_id)
        if len(self._late) > limits.UNFINISHED_OPERATIONS:
            yield self._concluded(self._late.pop(0))

    # -- parts of an operation

    def _chain(self, group: _Group, operation: Operation) -> Iterator[tuple[OperationPartition, list[_Sight]]]:
        """Find the requests to share coordinators for an operation.

        Yield the partitions without one, each with the connections on which it would be.
        """
        if _ON_THE_WAY[operation.operation] == DELETE_SHARE_GROUP_STATE:
            operation.partitions = [*self._spread(group, operation)]
        operation.in_sight = group.is_in_sight
        for row in operation.partitions:
            if row.error_code or row.lacking or _find_request(group, operation, row):
                continue
            partition = group.partitions.get(_key(row))
            sights = [] if partition is None else [asked.sight for asked in partition.asked.values()]
            operation.in_sight = operation.in_sight and bool(sights)
            if sights and operation.operation != "describe_offsets":
                yield row, sights

    def _spread(self, group: _Group, operation: Operation) -> Iterator[OperationPartition]:
        """Yield the share partitions of a deletion, which names topics or a group."""
        topics = {row.topic_id: row for row in operation.partitions}
        whole = OperationPartition(None, None, None, error_code=operation.error_code)
        for (topic_id, partition), share_partition in sorted(group.partitions.items()):
            row = topics.get(topic_id) if topics else whole
            if row is not None and share_partition.is_deleted_by(operation, self._is_gone(topic_id, operation)):
                share_partition.assigned = False
                yield OperationPartition(topic_id, row.topic, partition, error_code=row.error_code)
        spread = {topic_id for topic_id, _ in group.partitions}
        yield from (row for topic_id, row in topics.items() if topic_id not in spread)

    def _concluded(self, late: _Late) -> Operation:
        """Finish an operation."""
        operation, lacking = late
        gone = {row.topic_id for row in operation.partitions if self._is_gone(row.topic_id, operation)}
        lacking = [(row, sights) for row, sights in lacking if row.topic_id not in gone]
        if operation.operation == "delete_group":
            operation.partitions = [
                row for row in operation.partitions if row.topic_id not in gone or row.share_coordinator is not None
            ]
        if operation.outcome == "done" and operation.operation != "describe_offsets":
            asked = ((row, row.share_coordinator) for row in operation.partitions if row.topic_id not in gone)
            _lack(
                operation,
                "not_accepted",
                (row for row, state_request in asked if state_request is not None and state_request.error_code),
            )
            shown = [row for row, sights in lacking if any(sight.shows(operation) for sight in sights)]
            _lack(operation, "not_asked", [row for row in shown if self._existed(row.topic_id, operation)])
        operation.in_sight = (
            None if operation.in_sight is None else operation.in_sight and all(row.lacking for row, _ in lacking)
        )
        return operation

    def _is_gone(self, topic_id: str | None, operation: Operation) -> bool:
        """True if the topic's deletion may have come before the operation: it needs no request for the topic."""
        return self._topics.is_gone(topic_id, operation.time_ns + (operation.latency_ns or 0) + _APART_NS)

    def _existed(self, topic_id: str | None, operation: Operation) -> bool:
        """True if the capture shows that the topic still existed; its deletion may be missing.

        The answer to the deletion of offsets names the topics that exist.
        """
        return (
            operation.operation != "delete_group"
            or self._topics.outlived(topic_id, operation)
            or any(row.topic_id == topic_id and row.share_coordinator is not None for row in operation.partitions)
        )

    # -- groups

    def _of(self, group_id: str) -> _Group:
        group = self._groups.setdefault(group_id, _Group())
        self._groups.move_to_end(group_id)
        return group

    def _in(self, group: _Group, partition: Partition) -> _SharePartition:
        share_partition = group.partitions.get(partition)
        if share_partition is None:
            share_partition = group.partitions[partition] = _SharePartition()
            self._count += 1
        return share_partition

    def _forget(self) -> None:
        while len(self._groups) > 1 and max(len(self._groups), self._count) > limits.SHARE_PARTITIONS:
            self._drop(next(iter(self._groups)))

    def _drop(self, group_id: str) -> None:
        self._count -= len(self._groups.pop(group_id).partitions)


def _find_request(group: _Group, operation: Operation, row: OperationPartition) -> bool:
    """True if a share coordinator was asked for that partition of the operation."""
    partition = group.partitions.get(_key(row))
    asked = None if partition is None else partition.asked.get(_ON_THE_WAY[operation.operation])
    if asked is None or not asked.fits(operation):
        return False
    row.share_coordinator, asked.is_used = asked.request, True
    return True


def _key(row: OperationPartition) -> Partition:
    return row.topic_id or "", -1 if row.partition is None else row.partition


def _initialized(key: Partition, partition: _SharePartition, error: int | None = None) -> OperationPartition:
    """Return a partition with its initialize request, unless another operation has this request."""
    row, made = OperationPartition(key[0], None, key[1], error_code=error), partition.initialized
    if made is not None and not made.is_used:
        row.share_coordinator, made.is_used = made.request, True
    return row


def _unassigned(group: _Group) -> Operation | None:
    """Return the assignment that the first member waited for in vain, if a later heartbeat shows this."""
    operation = group.joined
    if operation is None or any(sight.holes.between(operation.packet, sight.last) for sight in group.heard):
        return None
    if group.beat <= max(
        [
            operation.packet,
            *(made.request.packet for partition in group.partitions.values() if (made := partition.initialized)),
        ]
    ):
        return None
    operation.partitions = [
        _initialized(key, partition) for key, partition in sorted(group.partitions.items()) if partition.asked
    ]
    operation.in_sight = bool(operation.partitions)
    operation.outcome, operation.because = "unfinished", "not_assigned"
    _lack(operation, "not_assigned", operation.partitions)
    return operation


def _lack(operation: Operation, what: MissingPart, rows: Iterable[OperationPartition]) -> None:
    for row in rows:
        row.lacking = True
        operation.outcome, operation.because = "unfinished", what
