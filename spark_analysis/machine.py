"""kshark's own analysis over one bucket after another: rows in order in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from kshark.analysis import Analyzer
from kshark.model import Event, Finding
from kshark.tables.events import Timeline
from spark_analysis.rows import batch_of
from spark_analysis.tables import NEEDED

#: The result of a bucket: findings as JSON, in the order in which they were proved, and the number of sessions.
FOUND: Final = "capture string, bucket int, finding binary, sessions bigint"
_SCHEMA: Final = pa.schema([("capture", pa.string()), ("bucket", pa.int32()), ("finding", pa.binary()), ("sessions", pa.int64())])
_JSON: Final = msgspec.json.Encoder()


class Bucket:
    """One bucket's analysis; connections are numbered as they come, as the engine does."""

    def __init__(self, capture: str, bucket: int) -> None:
        self.capture, self.bucket = capture, bucket
        self._timeline = Timeline(signs=True)
        self._analyzer = Analyzer()
        self._clean = 0

    def feed(self, row: dict[str, Any]) -> Iterator[Finding]:
        if row["clean"]:
            self._clean += 1
            return
        for name in NEEDED:
            if row[name] is not None:
                yield from self._analyze(self._timeline.feed(name, row[name]))

    def close(self) -> Iterator[Finding]:
        yield from self._analyze(self._timeline.close())
        yield from self._analyzer.close()

    @property
    def sessions(self) -> int:
        return self._clean + int(self._analyzer.summary()["sessions"])

    def _analyze(self, events: Iterator[Event]) -> Iterator[Finding]:
        yield from self._analyzer.page(events)


def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: rows sorted by bucket and time."""
    current: Bucket | None = None
    for batch in batches:
        found: list[tuple[Any, ...]] = []
        for row in batch.to_pylist():
            if current is None or (row["capture"], row["bucket"]) != (current.capture, current.bucket):
                found += _closed(current)
                current = Bucket(row["capture"], row["bucket"])
            found += _rows(current, current.feed(row))
        yield batch_of(_SCHEMA, found)
    yield batch_of(_SCHEMA, _closed(current))


def _closed(bucket: Bucket | None) -> list[tuple[Any, ...]]:
    if bucket is None:
        return []
    return [*_rows(bucket, bucket.close()), (bucket.capture, bucket.bucket, None, bucket.sessions)]


def _rows(bucket: Bucket, findings: Iterator[Finding]) -> list[tuple[Any, ...]]:
    return [(bucket.capture, bucket.bucket, _JSON.encode(finding), None) for finding in findings]
