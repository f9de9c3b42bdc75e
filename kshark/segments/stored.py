"""The batches of a log segment, in the shape of the JSON lines, and its faults."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from kshark.model import Kind
from kshark.records.batch import AnyBatch


class SegmentBatch(msgspec.Struct, gc=False):
    """A batch of a log segment; its fields, in this order, are the JSON line (`kshark read SEGMENT -T json`).

    `position`: its first byte in the file, decompressed if the file is. `topic` and `partition`: those of the log, None
    if neither the folder's name nor the records show them. `weird` and `detail`: as in Message.
    """

    file: str
    position: int
    topic: str | None
    partition: int | None
    batch: AnyBatch
    weird: list[str] | UnsetType = UNSET
    detail: str | UnsetType = UNSET

    @property
    def kind(self) -> Kind:
        """Stored batches are judged like those that a broker sends: compaction may have removed records."""
        return "response"


class SegmentFault(msgspec.Struct, gc=False):
    """A fault of a log segment; `code` is from the catalogue, `position` and `size` are bytes of the file."""

    file: str
    position: int
    code: str
    size: int
    detail: str = ""
