"""Turn bytes into Kafka frames: recognise by content, cut by length, order in one time line.

This stage stands between reassembly (with tls) and exchange.
"""

from kshark.framing.stage import Framing

__all__ = ["Framing"]
