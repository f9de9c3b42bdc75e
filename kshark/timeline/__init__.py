"""The timeline of a capture: what happened and what changed, in the order of time (`kshark events`)."""

from __future__ import annotations

from kshark.timeline.entry import KINDS, Entry, Kind
from kshark.timeline.stage import Timeline

__all__ = ["KINDS", "Entry", "Kind", "Timeline"]
