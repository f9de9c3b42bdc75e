"""Put TCP segments into ordered bytes: the stage between link and tls."""

from kshark.reassembly.copies import Copies
from kshark.reassembly.runs import Chunks, Hole, Item, Run, Runs
from kshark.reassembly.stage import Reassembly

__all__ = ["Chunks", "Copies", "Hole", "Item", "Reassembly", "Run", "Runs"]
