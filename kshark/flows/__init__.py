"""Connections in figures: what became of their bytes, what their packets say of the network, and whether it is to blame.

ledger = Ledger()
for batch in front.batches(items): ledger.feed(batch)  # the time line before anything is decoded
"""

from __future__ import annotations

from kshark.flows.ledger import Account, Ledger

__all__ = ["Account", "Ledger"]
