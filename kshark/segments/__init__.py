"""Read log segments of Kafka's brokers: a topic's records as the broker stores them, without any packets.

`cutting` cuts a file's bytes into batches, `reading` opens files and their records, `replay` makes state of them.
"""

from kshark.segments.fetched import FetchedLog
from kshark.segments.files import are_segments, segment_files
from kshark.segments.reading import Segment, read_segments, weirds_of
from kshark.segments.replay import ShareReplay, ShareState
from kshark.segments.stored import SegmentBatch, SegmentFault

__all__ = [
    "FetchedLog",
    "Segment",
    "SegmentBatch",
    "SegmentFault",
    "ShareReplay",
    "ShareState",
    "are_segments",
    "read_segments",
    "segment_files",
    "weirds_of",
]
