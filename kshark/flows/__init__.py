"""Figures of connections: the use of their bytes, and the signs of network trouble in their packets.

counting = FlowCounting() for batch in front.batches(items):  # the time line before anything is decoded, of an engine
with Options(transport=True)
    counting.batch(batch)
flows, network = counting.close(since_ns)
"""

from __future__ import annotations

from kshark.flows.counting import FlowCounting
from kshark.flows.ledger import Account, Ledger
from kshark.flows.listed import ListedFlow, ListedSide, ListedTimes
from kshark.flows.verdict import Network

__all__ = ["Account", "FlowCounting", "Ledger", "ListedFlow", "ListedSide", "ListedTimes", "Network"]
