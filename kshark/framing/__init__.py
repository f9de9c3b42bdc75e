"""From bytes to Kafka's frames: recognised by content, cut by length, in one time line. The stage between reassembly
and exchange."""

from kshark.framing.stage import Framing
from kshark.framing.timeline import apart, joined

__all__ = ["Framing", "apart", "joined"]
