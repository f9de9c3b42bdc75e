"""How long a broker may wait before it answers a request, and how long it usually takes."""

from __future__ import annotations

from typing import Any, Final

from kshark import limits
from kshark.api_keys import PRODUCE, SYNC_GROUP
from kshark.model import Message

_MS: Final = 1_000_000
#: Fields with the time in ms that a request allows its broker. Produce: only with acks=all.
_FIELDS: Final = ("max_wait_ms", "timeout_ms", "rebalance_timeout_ms")
#: APIs whose answer waits until replicas have the change, and LeaveGroup. Kafka: offsets.commit.timeout.ms and the
#: like, 5 s.
_REPLICATED: Final = frozenset({8, 13, 22, 24, 25, 26, 27, 28, 47, 79, 83, 85, 86, 90, 91, 92})
_REPLICATED_MS: Final = 5_000
#: SyncGroup waits for the leader of the group. Kafka: max.poll.interval.ms of consumers, 5 min.
_SYNC_MS: Final = 300_000
#: Heartbeats: ConsumerGroupHeartbeat, ShareGroupHeartbeat, StreamsGroupHeartbeat. One that joins or leaves is stored.
_HEARTBEATS: Final = frozenset({68, 76, 88})
#: Buckets of service times: powers of two, in units of about a millisecond (1 << SHIFT ns).
_BUCKETS: Final = 48
SHIFT: Final = 20


def field_wait_ns(request: Message) -> int:
    """Return the time that the request itself allows the broker to wait; 0 if its API has none."""
    body: Any = request.body
    if request.api_key == PRODUCE and getattr(body, "acks", -1) != -1:
        return 0
    for name in _FIELDS:
        wait = getattr(body, name, None)
        if isinstance(wait, int) and wait > 0:
            return wait * _MS
    return 0


def rightful_wait_ns(request: Message) -> int:
    """Return the time that an answer may wait by right: the request's own wait, or that of its API."""
    wait_ns, api_key = field_wait_ns(request), request.api_key
    if api_key == SYNC_GROUP:
        return _SYNC_MS * _MS
    epoch = getattr(request.body, "member_epoch", 0) if api_key in _HEARTBEATS else None
    if api_key in _REPLICATED or (isinstance(epoch, int) and epoch <= 0):
        return max(wait_ns, _REPLICATED_MS * _MS)
    return wait_ns


class ServiceTimes:
    """The times that a broker took for its answers, without their own waits.

    `counts`: the answers by the number of bits of their time, in units of 1 << SHIFT ns.
    """

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS

    def usual_ns(self, percent: int) -> int:
        """Return a time that so many of the answers did not exceed."""
        left = sum(self.counts) * (100 - percent) // 100
        for bucket in range(_BUCKETS - 1, -1, -1):
            left -= self.counts[bucket]
            if left < 0:
                return 1 << bucket + SHIFT
        return 0


def overdue_ns(request: Message, usual_ns: int) -> int:
    """Return after what time an answer is far overdue: factors of the request's own wait and of the usual time."""
    wait_ns = field_wait_ns(request)
    if not wait_ns:
        wait_ns = rightful_wait_ns(request)
        return wait_ns + max(limits.OVERDUE_NS, limits.USUAL_TIMES * usual_ns)
    return wait_ns + max(limits.OVERDUE_WAITING_NS, 2 * wait_ns, limits.USUAL_TIMES * usual_ns)
