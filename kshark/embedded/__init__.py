"""Decode structures inside bytes: the contents of a message's bytes fields and records, shown next to them."""

from kshark.embedded.companions import Companion, companions
from kshark.embedded.stage import Embedding

__all__ = ["Companion", "Embedding", "companions"]
