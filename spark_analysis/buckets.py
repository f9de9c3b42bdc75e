"""Captures judged by buckets of their members: a second, small shuffle, each bucket through kshark's analysis."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter, or_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from kshark.analysis import Listed, Told
from kshark.model import Finding
from kshark.parallel.judging import Judging
from kshark.registry import Registry
from kshark.tables.events import Placed
from spark_analysis.rows import Row, by_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Findings as JSON; a bucket's last row has the number of its sessions, and what was made of them, pickled.
_FOUND: Final = "bucket int, finding binary, sessions bigint, made binary"
_FINDING: Final = pa.schema([("bucket", pa.int32()), ("finding", pa.binary()), ("sessions", pa.int64()), ("made", pa.binary())])
#: A list of no exchanges, packed.
_NONE: Final = b"\x90"
_JSON: Final = msgspec.json.Encoder()


class Lister(Protocol):
    """Who takes the share sessions and their requests, in the task of a bucket."""

    def page(self, listed: Sequence[Listed], /) -> object: ...

    def close(self) -> Any:
        """What he made of them."""


class Bucketed(NamedTuple):
    """A capture's buckets, numbered over all captures, and what each of them is told (kshark.parallel.sorting.numbered), pickled.

    `lister` makes who takes the capture's sessions, and is told the same.
    """

    bucket: int
    buckets: int
    common: bytes
    lister: Callable[[list[Placed]], Lister] | None = None


class Found(NamedTuple):
    """The findings of a capture, the number of its share sessions, and what was made of them in each bucket."""

    findings: list[Finding]
    sessions: int
    made: list[Any]


def judged(exchanges: DataFrame, captures: Sequence[Bucketed]) -> list[Found]:
    """What is found in each capture, from all captures' exchanges."""
    from pyspark.sql import functions as F

    if not captures:
        return []
    capture = {bucket: at for at, one in enumerate(captures) for bucket in range(one.bucket, one.bucket + one.buckets)}
    buckets = max(capture) + 1
    exchanges = exchanges.where(F.col("bucket").isin([*capture])).select("bucket", "since", "data")
    # what is common is judged even where nobody has exchanges
    nobody = exchanges.sparkSession.createDataFrame([(one.bucket, 0, _NONE) for one in captures], exchanges.schema)

    def judge(rows: Iterator[Row]) -> Iterator[Row]:
        for bucket, own in groupby(rows, itemgetter(0)):
            yield from _judge(bucket, own, captures[capture[bucket]])

    together = exchanges.unionByName(nobody).repartitionById(buckets, F.col("bucket"))
    rows = together.sortWithinPartitions("bucket", "since").mapInArrow(by_row(_FINDING, judge), _FOUND).collect()
    found: dict[int, dict[int, Counter[bytes]]] = defaultdict(lambda: defaultdict(Counter))
    sessions, made = Counter[int](), defaultdict[int, list[Any]](list)
    for row in rows:
        if row.finding is None:
            sessions[capture[row.bucket]] += row.sessions
            made[capture[row.bucket]].append(pickle.loads(row.made))
        else:
            found[capture[row.bucket]][row.bucket][bytes(row.finding)] += 1
    return [Found(once(found[at].values()), sessions[at], made[at]) for at in range(len(captures))]


def _judge(bucket: int, rows: Iterator[Row], told: Bucketed) -> Iterator[Row]:
    common: list[Placed] = pickle.loads(told.common)
    lister = None if told.lister is None else told.lister(common)
    judging = Judging(common, Registry(), listed=lister is not None)

    def findings(told: Sequence[Told]) -> Iterator[Row]:
        if lister is not None:
            lister.page([one for one in told if not isinstance(one, Finding)])
        return ((bucket, _JSON.encode(one), 0, None) for one in told if isinstance(one, Finding))

    for _, since, exchanges in rows:
        yield from findings(judging.feed(since, exchanges))
    yield from findings(judging.close())
    yield bucket, None, judging.sessions, pickle.dumps(None if lister is None else lister.close(), 5)


def once(buckets: Iterable[Counter[bytes]]) -> list[Finding]:
    """A capture's findings, from those of each bucket as JSON: what is about all buckets' members is found in every one and counts once."""
    findings = reduce(or_, buckets, Counter[bytes]())
    return [msgspec.json.decode(one, type=Finding) for one in findings.elements()]
