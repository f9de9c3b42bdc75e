"""Read log segments: batches with their records, and the structures in records of internal topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET

from kshark.api_keys import FETCH
from kshark.capture.files import unreadable
from kshark.capture.paths import printable
from kshark.embedded.companions import companions
from kshark.errors import NoCapture, UnreadableInput
from kshark.model import Weird
from kshark.records import make_reader
from kshark.records.faults import BatchFault, attach
from kshark.records.reader import Opening
from kshark.registry import Registry
from kshark.segments.cutting import Cutter
from kshark.segments.files import is_segment, open_segment
from kshark.segments.stored import SegmentBatch, SegmentFault
from kshark.segments.topics import as_fetched, topic_in, topic_of

#: Bytes that are read at a time; their batches are one page.
_PIECE: Final = 1 << 20

Item = SegmentBatch | SegmentFault


class Segment:
    """One log segment: iterate once for pages of its batches and faults, in order.

    `records` and `payload` as in kshark.pipeline.Options; `secrets`: show credentials. Raises UnreadableInput if the
    file is no log segment, or cannot be read.
    """

    def __init__(
        self, path: str, registry: Registry, *, records: bool = True, payload: bool = True, secrets: bool = False
    ) -> None:
        opened: Opening = records or "headers"
        self.name = printable(path)
        self.topic, self.partition = topic_of(path)
        self._registry = registry
        self._input, self._head = open_segment(path)
        self._reader = make_reader(opened, payload)
        self._opens = records and payload
        self._secrets = secrets
        self._is_topic_known = self.topic in registry.own_topics
        if not is_segment(self._head, path):
            self._input.close()
            raise NoCapture(f"{self.name}: no log segment; name log segments and captures in separate commands")

    def __iter__(self) -> Iterator[list[Item]]:
        cutter, data = Cutter(self.name), self._head
        try:
            while data:
                yield self._page(cutter.feed(data))
                data = self._input.read(_PIECE)
            yield self._page(cutter.close())
            if self._input.fault is not None:
                code, detail = self._input.fault
                yield [SegmentFault(self.name, self._input.bytes_read, code, 0, detail)]
        except (OSError, UnreadableInput) as error:
            raise unreadable(self.name, error) from None
        finally:
            self._input.close()

    def _page(self, cuts: Iterator[tuple[int, bytes] | SegmentFault]) -> list[Item]:
        page: list[Item] = []
        for cut in cuts:
            if isinstance(cut, SegmentFault):
                page.append(cut)
                continue
            position, data = cut
            field = self._reader(data, 0, len(data))
            if field.batches is UNSET or not field.batches:
                page.append(SegmentFault(self.name, position, "SEGMENT_INVALID", len(data)))
                self._reader.discard()
                continue
            stored = SegmentBatch(self.name, position, self.topic, self.partition, field.batches[0])
            self._reader.claim(stored)
            page.append(stored)
        self._reader.fill()
        batches = [item for item in page if isinstance(item, SegmentBatch)]
        if self._opens and batches:
            self._open(batches)
        return page

    def _open(self, batches: Sequence[SegmentBatch]) -> None:
        """Decode the structures in records of internal topics, and learn the topic from the first records."""
        if not self._is_topic_known and any(stored.batch.records for stored in batches):
            topic = topic_in([stored.batch for stored in batches], self._registry)
            self._is_topic_known = True
            if topic is not None:
                self.topic, self.partition = topic, None
        places = self._registry.places(FETCH, "response")
        for stored in batches:
            stored.topic, stored.partition = self.topic, self.partition
            body = as_fetched(self.topic, [stored.batch])
            for companion in companions(places, body, registry=self._registry, secrets=self._secrets):
                companion.attach()
                if companion.code is not None:
                    attach(BatchFault(companion.code, companion.detail), stored)


def weirds_of(page: Sequence[Item]) -> Iterator[Weird]:
    """Yield what is odd in a page, with its place in the file."""
    for item in page:
        where = f"{item.file}, byte {item.position}"
        if isinstance(item, SegmentFault):
            yield Weird(item.code, "records", 0, 0, f"{where}: {item.detail}" if item.detail else where, size=item.size)
        elif isinstance(item.weird, list):
            detail = f"{where}: {str(item.detail).removeprefix(f'{item.weird[0]}: ')}"
            for code in item.weird:
                yield Weird(code, "records", 0, 0, detail, size=item.batch.size)


def read_segments(
    files: Sequence[str], registry: Registry, *, records: bool = True, payload: bool = True, secrets: bool = False
) -> Iterator[list[Item]]:
    """Yield the pages of several segments, one after the other."""
    for path in files:
        yield from Segment(path, registry, records=records, payload=payload, secrets=secrets)
