"""Captures judged by buckets of their members: a second, small shuffle, each bucket through kshark's analysis."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter, or_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from kshark.analysis import AnalysisResult, Listed, Observed
from kshark.model import Finding
from kshark.parallel.judging import Judging
from kshark.registry import Registry
from kshark.tables.events import PositionedEvent
from kshark_spark.compressed import compress, decompress
from kshark_spark.rows import Row, by_row, collected, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Findings as JSON; a bucket's last row has what else is told of it, and what was made of its sessions, pickled.
_FOUND: Final = "bucket int, finding binary, told binary"
_FINDING: Final = pa.schema([("bucket", pa.int32()), ("finding", pa.binary()), ("told", pa.binary())])
_EXCHANGE: Final = pa.schema([("bucket", pa.int32()), ("since", pa.int64()), ("data", pa.binary())])
#: A list of no exchanges, packed.
_NONE: Final = b"\x90"
_JSON: Final = msgspec.json.Encoder()


class Lister(Protocol):
    """Who takes the share sessions and their requests, in the task of a bucket."""

    def page(self, listed: Sequence[Listed], /) -> object: ...

    def close(self) -> Any:
        """What he made of them."""


class Bucketed(NamedTuple):
    """A capture's buckets, numbered over all captures, and what each of them is told
    (kshark.parallel.sorting.numbered), pickled.

    `lister` makes who takes the capture's sessions, and is told the same.
    """

    bucket: int
    buckets: int
    common: bytes
    lister: Callable[[list[PositionedEvent]], Lister] | None = None


class Found(NamedTuple):
    """The findings of a capture, its share sessions, explained refusals and coverage, and what was made of the sessions
    in each bucket."""

    findings: list[Finding]
    observed: Observed
    made: list[Any]


def judged(
    exchanges: DataFrame,
    captures: Sequence[Bucketed],
    given: Mapping[int, int] | None = None,
    *,
    coverage: bool = False,
) -> list[Found]:
    """What is found in each capture, from all captures' exchanges; `coverage`: whether that is counted.

    `given`: bytes of each bucket, where they are known. The largest come first: others go beside them.
    """
    from pyspark.sql import functions as F

    if not captures:
        return []
    capture = {bucket: at for at, one in enumerate(captures) for bucket in range(one.bucket, one.bucket + one.buckets)}
    weight = given or {}
    order = sorted(capture, key=lambda bucket: -weight.get(bucket, 0))
    exchanges = exchanges.where(F.col("bucket").isin([*capture])).select("bucket", "since", "data")
    # what is common is judged even where nobody has exchanges
    nobody = frame_of(exchanges.sparkSession, _EXCHANGE, [(one.bucket, 0, compress(_NONE)) for one in captures])

    def judge(rows: Iterator[Row]) -> Iterator[Row]:
        for bucket, own in groupby(rows, itemgetter(0)):
            yield from _judge(bucket, own, captures[capture[bucket]], coverage)

    together = exchanges.unionByName(nobody).repartitionById(
        len(order), F.array_position(F.lit(order), F.col("bucket")).cast("int") - 1
    )
    rows = together.sortWithinPartitions("bucket", "since").mapInArrow(by_row(_FINDING, judge), _FOUND)
    found: dict[int, dict[int, Counter[bytes]]] = defaultdict(lambda: defaultdict(Counter))
    observed, made = defaultdict[int, Observed](Observed), defaultdict[int, list[Any]](list)
    for bucket, finding, told in collected(rows):
        if finding is None:
            seen, listed = pickle.loads(told)
            observed[capture[bucket]].join(seen)
            made[capture[bucket]].append(listed)
        else:
            found[capture[bucket]][bucket][finding] += 1
    return [Found(once(found[at].values()), observed[at], made[at]) for at in range(len(captures))]


def _judge(bucket: int, rows: Iterator[Row], told: Bucketed, coverage: bool) -> Iterator[Row]:
    common: list[PositionedEvent] = pickle.loads(told.common)
    lister = None if told.lister is None else told.lister(common)
    judging = Judging(common, Registry(), first=bucket == told.bucket, listed=lister is not None, coverage=coverage)

    def findings(told: Sequence[AnalysisResult]) -> Iterator[Row]:
        if lister is not None:
            lister.page([one for one in told if not isinstance(one, Finding)])
        return ((bucket, _JSON.encode(one), None) for one in told if isinstance(one, Finding))

    for _, since, exchanges in rows:
        yield from findings(judging.feed(since, decompress(exchanges)))
    yield from findings(judging.close())
    yield bucket, None, pickle.dumps((judging.observed, None if lister is None else lister.close()), 5)


def once(buckets: Iterable[Counter[bytes]]) -> list[Finding]:
    """A capture's findings, from those of each bucket as JSON: what is about all buckets' members is found in every one
    and counts once."""
    findings = reduce(or_, buckets, Counter[bytes]())
    return [msgspec.json.decode(one, type=Finding) for one in findings.elements()]
