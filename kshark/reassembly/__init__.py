"""From TCP segments to bytes in order: the stage between link and framing."""

from kshark.reassembly.connections import Item, Run
from kshark.reassembly.stage import Reassembly

__all__ = ["Item", "Reassembly", "Run"]
