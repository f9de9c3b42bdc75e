"""A capture that cannot be read: all that is known of it."""

from __future__ import annotations

from kshark.errors import Vanished
from tests.tables.story import CAPTURE, Chapter, Story

CHAPTER = Chapter(
    Story,
    {"faults": [{"capture": CAPTURE, "code": "vanished", "stage": "read", "detail": "a.pcap: no such file"}]},
    fault=Vanished("a.pcap: no such file"),
)
