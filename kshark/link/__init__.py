"""From packets to TCP segments: the stage between capture and reassembly."""

from kshark.link.stage import Link

__all__ = ["Link"]
