"""Rebalances of groups: who caused each of them, how long it took, and for whom it waited."""

from __future__ import annotations

from kshark.groups.rebalances.listing import Party, Rebalance, Trigger, Wait, Waiting

__all__ = ["Party", "Rebalance", "Trigger", "Wait", "Waiting"]
