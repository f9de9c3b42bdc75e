"""Consumers of a running capture: each gets its packets, its pages with their findings, and its status."""

from kshark.live.consumer import Consumer, Status
from kshark.model import Lost

__all__ = ["Consumer", "Lost", "Status"]
