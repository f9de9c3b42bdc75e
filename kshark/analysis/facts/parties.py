"""The clients of a capture, by which coverage counts: who sent a request, and which clients are brokers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from kshark import limits
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT, SHARE_STATE
from kshark.endpoints import host_of
from kshark.model import Exchange, Flow

#: The client of all requests beyond limits.STATISTICS_ROWS clients.
OTHERS: Final = "(others)"
#: APIs that only brokers and controllers call; SHARE_STATE too, except in tests of share coordinators.
_OF_BROKERS: Final = frozenset({4, 5, 6, 7, 27, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}) | SHARE_STATE
_OF_MEMBERS: Final = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE, SHARE_GROUP_HEARTBEAT})
#: Client ids of brokers: ReplicaFetcherManager, TransactionMarkerChannelManager, KafkaRaftManager, and the clients of
#: BrokerServer.
_BROKER: Final = re.compile(
    r"(broker-\d+-(fetcher-\d+|txn-marker-sender)|raft-client-\d+|"
    r"(AddPartitionsManager|NetworkPartitionMetadataClient|Persister|ShareGroupDLQManager)-client-\d+)"
)


class Party(Struct, frozen=True):
    """A client: its id, or its host if it sends none; its software, as it introduced itself."""

    client: str
    software: str | None


class Parties:
    """Find the client of a request. Events come page by page, before other readers of the page ask.

    `passes`: count only requests of which it is true for a packet, the request's or the answer's. None: count all.
    """

    def __init__(self, passes: Callable[[int], bool] | None = None) -> None:
        self.passes: Final = passes
        #: APIs that each client used.
        self.apis: Final[dict[Party, set[Any]]] = {}
        #: The last client on each open connection.
        self._of_flows: dict[int, Party] = {}
        self._over: list[int] = []

    def begin_page(self) -> None:
        """Forget connections that were over before."""
        for flow in self._over:
            self._of_flows.pop(flow, None)
        self._over.clear()

    def exchange(self, exchange: Exchange) -> Party | None:
        """Return the client of an exchange; None if it is not counted."""
        request, response = exchange.request, exchange.response
        if request is None:
            return None
        last = request.packet if response is None else response.packet
        party = self.of(exchange.flow, request.client_id, request.packet, last)
        if party is not None:
            self._of_flows[exchange.flow.id] = party
            self.apis[party].add(request.api_key)
        return party

    def of(self, flow: Flow, client_id: Any, first: int, last: int) -> Party | None:
        """Return the client that sent a request, answered in packet `last`; None if it is not counted.

        `client_id` None: of bytes without a request it is the last client on the connection.
        """
        if self.passes is not None and not (self.passes(first) or self.passes(last)):
            return None
        if not isinstance(client_id, str) and flow.id in self._of_flows:
            return self._of_flows[flow.id]
        name = client_id if isinstance(client_id, str) and client_id else host_of(flow.client)
        party = Party(name, flow.software)
        if party not in self.apis:
            if len(self.apis) >= limits.STATISTICS_ROWS:
                party = Party(OTHERS, None)
            self.apis.setdefault(party, set())
        return party

    def ended(self, flow: Flow) -> Party | None:
        """Return the client of a connection that is over; None if it has no counted request."""
        self._over.append(flow.id)
        return self._of_flows.get(flow.id)

    def clients(self) -> Iterable[Party]:
        """Return the clients that are no brokers, by name."""
        return sorted(
            (party for party, apis in self.apis.items() if not _is_broker(party, apis)),
            key=lambda party: (party.client, party.software or ""),
        )


def _is_broker(party: Party, apis: set[Any]) -> bool:
    """True for a client with an id of brokers, or with requests of brokers and none of share group members."""
    is_named = _BROKER.fullmatch(party.client) is not None
    return is_named or (not apis.isdisjoint(_OF_BROKERS) and apis.isdisjoint(_OF_MEMBERS))
