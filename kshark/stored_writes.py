"""The states that partition leaders store, beside the changes of records that they store (KIP-932, its example).

A leader writes after an acknowledgement came and before it answers it; after a lock expired, or a session ended, at
once. Kafka: SharePartition.acknowledge, releaseAcquisitionLockOnTimeout.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from kshark import limits
from kshark.analysis import Delivery, StoredBatch, StoredWrite
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.states.tables.in_flight import STORED, UNKNOWN
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH, WRITE_SHARE_GROUP_STATE
from kshark.clusters import Clusters
from kshark.model import Exchange

#: Changes after which a leader stores nothing.
_UNSTORED: Final = frozenset({"acquired", "renewed", "leader_changed"})
#: Changes without a request that is open meanwhile.
_LOST: Final = frozenset({"lock_timeout", "session_released", "archived"})
#: Number of the cluster, group, topic id, partition.
_Partition = tuple[int, str | None, str, int]


class StoredWrites:
    """Collect the WriteShareGroupState of a capture: `feed` takes exchanges, `attach` puts each beside a change.

    At most limits.STORED_WRITES of them are kept. `apart` counts those beside no change.
    """

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._writes: list[tuple[str, str | None, str, int, StoredWrite]] = []
        #: The packet of the request, by the packet of its answer.
        self._asked: OrderedDict[int, int] = OrderedDict()
        self.apart = 0

    def feed(self, exchange: Exchange) -> None:
        request, response = exchange.request, exchange.response
        if request is None:
            return
        if request.api_key in (SHARE_FETCH, SHARE_ACKNOWLEDGE) and response is not None:
            self._asked[response.packet] = request.packet
            if len(self._asked) > limits.STORED_WRITES:
                self._asked.popitem(last=False)
        elif request.api_key == WRITE_SHARE_GROUP_STATE and is_whole(request):
            for topic_id, write in _writes(exchange):
                if len(self._writes) < limits.STORED_WRITES:
                    row = request.broker, request.body.group_id, topic_id, write.partition, write
                    self._writes.append(row)
                else:
                    self.apart += 1

    def attach(self, deliveries: Sequence[Delivery]) -> None:
        """Put each write beside the change that it stores: in its list `stored`, in the order of packets."""
        changes: defaultdict[_Partition, list[_Change]] = defaultdict(list)
        for delivery in deliveries:
            if delivery.event not in _UNSTORED:
                number = self._clusters.number_of(delivery.cluster_id)
                key = number, delivery.group_id, delivery.topic_id, delivery.partition
                changes[key].append(_Change(delivery))
        for broker, group_id, topic_id, partition, write in self._writes:
            key = self._clusters.number(broker), group_id, topic_id, partition
            change = self._change(changes[key], write) if key in changes else None
            if change is None:
                self.apart += 1
            else:
                change.stored.append(write)

    def _change(self, changes: Sequence[_Change], write: StoredWrite) -> Delivery | None:
        """Return the change that a write stores; None if there is none of its records.

        It is the change by a request that was open when it was sent, else the nearest one: a lock that expired or a
        session that ended, which only a later packet may show.
        """
        stored = [change.delivery for change in changes if change.is_in(write)]
        during = [
            change for change in stored if self._asked.get(change.packet, change.packet) <= write.packet < change.packet
        ]
        if during:  # one answer may accept and release records: beside the last of its changes
            return [change for change in during if change.packet == during[0].packet][-1]
        lost = [change for change in stored if change.event in _LOST]
        return min(lost or stored, key=lambda change: abs(change.packet - write.packet), default=None)


class _Change:
    """A change whose records are found in a write by bisection: both may have thousands of ranges."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        offsets = sorted(delivery.offsets)
        self._firsts = [first for first, _ in offsets]
        #: By the same index, the last offset of the ranges up to there.
        self._lasts = [*accumulate((last for _, last in offsets), max)]
        self._ends = {last + 1 for _, last in offsets}

    def is_in(self, write: StoredWrite) -> bool:
        """True if the write has records of the change; one without records, if its start offset is right after them."""
        if not write.batches:
            return write.start_offset in self._ends
        return any(self._touches(batch.first_offset, batch.last_offset) for batch in write.batches)

    def _touches(self, first: int, last: int) -> bool:
        before = bisect_right(self._firsts, last)
        return before > 0 and self._lasts[before - 1] >= first


def _writes(exchange: Exchange) -> Iterator[tuple[str, StoredWrite]]:
    request, response = exchange.request, exchange.response
    assert request is not None
    errors = _errors(response.body) if response is not None and is_whole(response) else {}
    for topic in request.body.topics or ():
        for partition in topic.partitions or ():
            yield (
                topic.topic_id,
                StoredWrite(
                    packet=request.packet,
                    time_ns=request.time_ns,
                    answer_packet=None if response is None else response.packet,
                    error_code=errors.get((topic.topic_id, partition.partition)),
                    leader=exchange.flow.client,
                    partition=partition.partition,
                    state_epoch=partition.state_epoch,
                    leader_epoch=partition.leader_epoch,
                    start_offset=partition.start_offset,
                    delivery_complete_count=_complete(partition),
                    batches=[
                        StoredBatch(
                            batch.first_offset,
                            batch.last_offset,
                            STORED.get(batch.delivery_state, UNKNOWN),
                            batch.delivery_count,
                        )
                        for batch in partition.state_batches or ()
                    ],
                ),
            )


def _complete(partition: Any) -> int | None:
    """Return the number of ended records above the start offset; None if the version has none, or it is unknown."""
    count = getattr(partition, "delivery_complete_count", None)
    return count if isinstance(count, int) and count >= 0 else None


def _errors(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic_id, partition.partition): partition.error_code
        for topic in answer.results or ()
        for partition in topic.partitions or ()
    }
