"""Usage: the topics and partitions that clients fetch, by connection, and that members were assigned."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis.facts.reading import is_whole
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, FETCH, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.model import Exchange, Flow, Message

_PARTITION: Final = attrgetter("partition")
_PARTITION_INDEX: Final = attrgetter("partition_index")


class Client:
    """The partitions that a client fetches on one connection. Source: KIP-227, KIP-932.

    `fetched`: partitions of its session, by topic: the id, or the name where requests have names. `last_ns`: the time
    of its last fetch. `has_session`: the broker holds a session of it, and thus what it fetches.
    """

    __slots__ = ("client_id", "fetched", "flow", "has_session", "last_ns")

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.client_id: object = None
        self.has_session = False
        self.fetched: dict[str, set[int]] = {}
        self.last_ns = 0

    def fetch(self, request: Message, epoch: int) -> None:
        """Take a Fetch or ShareFetch."""
        body: Any = request.body
        self.last_ns, self.client_id = request.time_ns, request.client_id
        if epoch <= 0:
            # A new session, or none.
            self.fetched, self.has_session = {}, epoch == 0
        is_fetch = request.api_key == FETCH
        if body.topics and (is_fetch or epoch >= 0):
            fetched, number = self.fetched, _PARTITION if is_fetch else _PARTITION_INDEX
            for topic in body.topics:
                key = _key(topic) if is_fetch else topic.topic_id
                known = fetched.get(key)
                if known is None:
                    if len(fetched) >= limits.TOPICS_OF_CONNECTION:
                        continue
                    known = fetched[key] = set()
                if len(known) < limits.SESSION_PARTITIONS:
                    known.update(map(number, topic.partitions or ()))
        for topic in getattr(body, "forgotten_topics_data", None) or ():
            self._forget(_key(topic), topic.partitions)

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
        """Return the client of a connection, if it fetches."""
        return self._clients.get(flow)

    def users(self, keys: set[str]) -> Iterator[Client]:
        """Yield the clients that fetch a topic of that id or name."""
        return (client for client in self._clients.values() if not keys.isdisjoint(client.fetched))

    def feed(self, request: Message, flow: Flow) -> None:
        """Take a request of FETCHES."""
        body: Any = request.body
        client = self._clients.get(flow.id)
        if request.weird is not UNSET and not is_whole(request):
            return
        epoch = body.share_session_epoch if request.api_key == SHARE_FETCH else getattr(body, "session_epoch", -1)
        if client is not None and epoch > 0 and not body.topics and not body.forgotten_topics_data:
            client.last_ns = request.time_ns
            return
        if client is None:
            if request.api_key == FETCH and _is_replica(body):
                return
            client = self._clients[flow.id] = Client(flow)
        client.fetch(request, epoch)

    def heartbeat(self, exchange: Exchange) -> Member | None:
        """Take a heartbeat of HEARTBEATS with its answer. Return the member; None if it is not in the group."""
        request, response = exchange.request, exchange.response
        if request is None or response is None or not is_whole(request) or not is_whole(response):
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
FETCHES: Final = frozenset({FETCH, SHARE_FETCH})
#: The heartbeats that it takes.
HEARTBEATS: Final = frozenset({SHARE_GROUP_HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})


def _is_replica(body: Any) -> bool:
    """True if a broker fetches, to replicate."""
    state = getattr(body, "replica_state", None)
    replica_id = getattr(state, "replica_id", None) if state else getattr(body, "replica_id", None)
    return isinstance(replica_id, int) and replica_id >= 0


def _key(topic: Any) -> str:
    """Return the id of a topic in a Fetch, or its name if the request has none."""
    key = getattr(topic, "topic_id", None)
    return key if isinstance(key, str) else str(getattr(topic, "topic", ""))
