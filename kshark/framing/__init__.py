"""From bytes to Kafka's frames: recognised by content, cut by length, in one time line. The stage between reassembly
and exchange."""

from kshark.framing.stage import Framing

__all__ = ["Framing"]
