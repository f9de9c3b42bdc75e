"""The time line in, the connections of a capture out, with a verdict on the network between them."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kshark.analysis.results.statistics import LONG_POLLS, Percentiles
from kshark.flows.ledger import Account, Ledger
from kshark.flows.listed import ListedFlow, listed_flow
from kshark.flows.verdict import Network, network
from kshark.model import Closed, Event, Exchange
from kshark.transport import Transport


class FlowCounting:
    """Count connections. `batch` takes the time line before decoding, `exchange` its exchanges; then call `close`."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._closed: list[tuple[Closed, tuple[Account, Account], Transport]] = []
        self._latency = Percentiles()
        self._others = 0

    def batch(self, events: Iterable[Event]) -> None:
        for closed, accounts in self._ledger.feed(events):
            if closed.flow.transport is None:
                self._others += 1
            else:
                self._closed.append((closed, accounts, closed.flow.transport))

    def exchange(self, exchange: Exchange) -> None:
        """Count the latency of an answer; that of a long poll does not show the network."""
        response = exchange.response
        if (
            response is not None
            and isinstance(response.latency_ns, int)
            and response.api_key not in LONG_POLLS
            and response.latency_ns >= 0
        ):
            self._latency.add(response.latency_ns)

    def close(self, since_ns: int, chosen: Container[int] | None = None) -> tuple[list[ListedFlow], Network]:
        """Return the connections that were open at `since_ns` or later, the worst first. `chosen`: only these."""
        flows = [
            listed_flow(closed, accounts, transport)
            for closed, accounts, transport in self._closed
            if closed.flow.last_time_ns >= since_ns and (chosen is None or closed.flow.id in chosen)
        ]
        flows.sort(key=_trouble)
        return flows, network(flows, self._latency, self._others if chosen is None else 0)


def _trouble(flow: ListedFlow) -> tuple[int, ...]:
    """Return the sort key of a connection: the worst first, then the largest."""
    stalled = sum(side.zero_windows for side in flow.sides)
    missing = sum(side.gap_bytes for side in flow.sides)
    late = sum(side.out_of_order for side in flow.sides)
    return -flow.again, -stalled, -missing, -late, -sum(side.bytes for side in flow.sides), flow.flow
