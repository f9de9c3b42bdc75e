"""Usage: the topics and partitions that clients fetch and produce to, by connection, and that members were assigned."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis.facts.reading import doubt_of
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, FETCH, PRODUCE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.model import Exchange, Flow, Message

#: Epochs of a fetch request that begin with no partitions: a new session, and the final request or one without a
#: session. Source: KIP-227, KIP-932.
_ANEW: Final = (0, -1)


def is_readable(message: Message | None) -> bool:
    """True if the fields of a message are there, and reliable."""
    return (
        message is not None
        and message.body is not None
        and message.body is not UNSET
        and (message.weird is UNSET or doubt_of(message) is None)
    )


class Client:
    """What a client does on one connection.

    `fetched`: partitions of its session, by topic: the id, or the name where requests have names. `produced`: the time
    of the last Produce to a topic. `last_ns`: the time of its last fetch. `has_session`: the broker holds a session of
    it, and thus what it fetches.
    """

    __slots__ = ("client_id", "fetched", "flow", "has_session", "last_ns", "produced")

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.client_id: object = None
        self.has_session = False
        self.fetched: dict[str, set[int]] = {}
        self.produced: dict[str, int] = {}
        self.last_ns = 0

    def fetch(self, request: Message, epoch: int) -> None:
        """Take a Fetch or ShareFetch."""
        body: Any = request.body
        self.last_ns, self.has_session = request.time_ns, epoch != -1
        if epoch in _ANEW:
            self.fetched = {}
        if body.topics and not (request.api_key == SHARE_FETCH and epoch == -1):
            self.client_id = request.client_id
            for topic in body.topics:
                self._add(_key(topic), topic.partitions)
        for topic in getattr(body, "forgotten_topics_data", None) or ():
            self._forget(_key(topic), topic.partitions)

    def produce(self, request: Message) -> None:
        """Take a Produce."""
        self.client_id = request.client_id
        for topic in request.body.topic_data or ():
            key = _key(topic)
            if len(self.produced) < limits.TOPICS_OF_CONNECTION or key in self.produced:
                self.produced[key] = request.time_ns

    def _add(self, key: str, partitions: Any) -> None:
        known = self.fetched.get(key)
        if known is None:
            if len(self.fetched) >= limits.TOPICS_OF_CONNECTION:
                return
            known = self.fetched[key] = set()
        for partition in partitions or ():
            if len(known) < limits.SESSION_PARTITIONS:
                known.add(partition.partition_index if hasattr(partition, "partition_index") else partition.partition)

    def _forget(self, key: str, partitions: Any) -> None:
        known = self.fetched.get(key)
        if known is not None:
            known.difference_update(partitions or ())
            if not known:
                del self.fetched[key]


class Member:
    """A member of a group with an assignment by its coordinator (KIP-848, KIP-932).

    `assigned`: partitions by topic id, as the last answer that had them. `flow`: the connection of its heartbeats.
    `heard_ns`: the time of the last answer to one.
    """

    __slots__ = ("assigned", "client_id", "flow", "group_id", "heard_ns", "member_id")

    def __init__(self, group_id: str, member_id: str, flow: Flow) -> None:
        self.group_id, self.member_id = group_id, member_id
        self.flow = flow
        self.client_id: object = None
        self.assigned: dict[str, frozenset[int]] = {}
        self.heard_ns = 0


class Usage:
    """The clients of all open connections, and the members of groups. Replicas of brokers are left out."""

    def __init__(self) -> None:
        self._clients: dict[int, Client] = {}
        self.members: OrderedDict[tuple[str, str], Member] = OrderedDict()

    def of(self, flow: int) -> Client | None:
        """Return the client of a connection, if it fetches or produces."""
        return self._clients.get(flow)

    def users(self, keys: set[str]) -> Iterator[Client]:
        """Yield the clients that fetch, or produced to, a topic of that id or name."""
        for client in self._clients.values():
            if not (keys.isdisjoint(client.fetched) and keys.isdisjoint(client.produced)):
                yield client

    def feed(self, request: Message, flow: Flow) -> None:
        """Take a request of USED_BY."""
        body: Any = request.body
        client = self._clients.get(flow.id)
        if client is not None and request.api_key == SHARE_FETCH and request.weird is UNSET:
            if not body.topics and body.share_session_epoch > 0 and not body.forgotten_topics_data:
                client.last_ns = request.time_ns
                return
        elif not is_readable(request):
            return
        if client is None:
            if request.api_key == FETCH and _is_replica(body):
                return
            client = self._clients[flow.id] = Client(flow)
        if request.api_key == PRODUCE:
            client.produce(request)
        elif request.api_key == SHARE_FETCH:
            client.fetch(request, body.share_session_epoch)
        else:
            epoch = getattr(body, "session_epoch", -1)
            client.fetch(request, epoch if isinstance(epoch, int) else -1)

    def heartbeat(self, exchange: Exchange) -> Member | None:
        """Take a heartbeat of HEARTBEATS with its answer. Return the member; None if it is not in the group."""
        request, response = exchange.request, exchange.response
        if request is None or response is None or not is_readable(request) or not is_readable(response):
            return None
        asked: Any = request.body
        answer: Any = response.body
        member_id = asked.member_id or answer.member_id
        if not isinstance(asked.group_id, str) or not isinstance(member_id, str):
            return None
        key = asked.group_id, member_id
        if answer.error_code or asked.member_epoch < 0:
            self.members.pop(key, None)
            return None
        member = self.members.get(key)
        if member is None:
            member = self.members[key] = Member(*key, exchange.flow)
            if len(self.members) > limits.GROUP_MEMBERS:
                self.members.popitem(last=False)
        member.flow, member.client_id, member.heard_ns = exchange.flow, request.client_id, response.time_ns
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions or ()
            member.assigned = {topic.topic_id: frozenset(topic.partitions or ()) for topic in topics}
        return member

    def close(self, flow: int) -> Client | None:
        """Forget a connection, and return its client."""
        return self._clients.pop(flow, None)


#: The requests that Usage takes.
USED_BY: Final = frozenset({PRODUCE, FETCH, SHARE_FETCH})
#: The heartbeats that it takes.
HEARTBEATS: Final = frozenset({SHARE_GROUP_HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})


def _is_replica(body: Any) -> bool:
    """True if a broker fetches, to replicate."""
    state = getattr(body, "replica_state", None)
    replica_id = getattr(state, "replica_id", None) if state else getattr(body, "replica_id", None)
    return isinstance(replica_id, int) and replica_id >= 0


def _key(topic: Any) -> str:
    """Return the id of a topic, or its name if the request has none."""
    for field in ("topic_id", "topic", "name"):
        key = getattr(topic, field, None)
        if isinstance(key, str):
            return key
    return ""
