"""Replay `__share_group_state` by the records that followers fetch: the coordinator's log, seen in a capture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kshark.embedded.decoded import decoded_name, fetched_batches
from kshark.model import Message, Weird
from kshark.segments.reading import weirds_of
from kshark.segments.replay import SHARE_STATE_TOPIC, ShareReplay, ShareState
from kshark.segments.stored import SegmentBatch

_KEYS = ("ShareSnapshotKey", "ShareUpdateKey")


class FetchedLog:
    """The states of share partitions by the batches in Fetch responses, each once, however many fetch it.

    Records must be decoded. `batches`: the number of replayed batches.
    """

    def __init__(self) -> None:
        self.batches = 0
        self._replay = ShareReplay()
        #: By partition of the log, the offset after the last replayed batch.
        self._next: dict[int, int] = {}

    def feed(self, response: Message) -> Iterator[Weird]:
        """Take a response; yield what contradicts the records before it."""
        for partition, batch in fetched_batches(response):
            if not _holds_states(batch) or batch.base_offset < self._next.get(partition, 0):
                continue
            self._next[partition] = batch.base_offset + getattr(batch, "last_offset_delta", 0) + 1
            stored = SegmentBatch(f"packet {response.packet}", 0, SHARE_STATE_TOPIC, partition, batch)
            self._replay.feed(stored)
            self.batches += 1
            yield from weirds_of([stored])

    def states(self) -> list[ShareState]:
        """Return the state of each share partition."""
        return [*self._replay.states()]


def _holds_states(batch: Any) -> bool:
    """True if the batch has records of `__share_group_state`: topics are known by their ids only, which may be new."""
    return any(decoded_name(record, "key") in _KEYS for record in batch.records)
