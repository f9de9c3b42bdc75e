"""Structures inside bytes: what a message's opaque fields and records hold, shown beside them."""

from kshark.embedded.companions import Companion, companions
from kshark.embedded.stage import Embedding

__all__ = ["Companion", "Embedding", "companions"]
