"""From TCP segments to bytes in order: the stage between link and framing."""

from kshark.reassembly.copies import Copies
from kshark.reassembly.runs import Hole, Item, Run, Runs
from kshark.reassembly.stage import Reassembly

__all__ = ["Copies", "Hole", "Item", "Reassembly", "Run", "Runs"]
