"""Captures judged by buckets of their members: a second, small shuffle, each bucket through kshark's analysis."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter, or_
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import pyarrow as pa

from kshark.facts import Facts
from kshark.model import Finding
from kshark.parallel.judging import Judging
from kshark.parallel.sorting import numbered
from kshark.registry import Registry
from spark_analysis.plan import Plan
from spark_analysis.rows import Row, by_row
from spark_analysis.shares import Parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Findings as JSON, and with the bucket's last row the number of its sessions.
_FOUND: Final = "bucket int, finding binary, sessions bigint"
_FINDING: Final = pa.schema([("bucket", pa.int32()), ("finding", pa.binary()), ("sessions", pa.int64())])
_JSON: Final = msgspec.json.Encoder()


class Found(NamedTuple):
    """The findings of a capture, and the number of its share sessions."""

    findings: list[Finding]
    sessions: int


def judged(exchanges: DataFrame, captures: Sequence[tuple[Plan, Parts]]) -> list[Found]:
    """What is found in each capture, from all captures' exchanges."""
    from pyspark.sql import functions as F

    if not captures:
        return []
    common = {bucket: at for at, (plan, _) in enumerate(captures) for bucket in range(plan.bucket, plan.bucket + plan.buckets)}
    buckets = max(common) + 1
    exchanges = exchanges.where(F.col("bucket").isin([*common]))
    told = [_common(parts) for _, parts in captures]

    def judge(rows: Iterator[Row]) -> Iterator[Row]:
        for bucket, own in groupby(rows, itemgetter(0)):
            yield from _judge(bucket, own, told[common[bucket]])

    together = exchanges.select("bucket", "since", "data").repartitionById(buckets, F.col("bucket"))
    rows = together.sortWithinPartitions("bucket", "since").mapInArrow(by_row(_FINDING, judge), _FOUND).collect()
    found: dict[int, dict[int, Counter[bytes]]] = defaultdict(lambda: defaultdict(Counter))
    sessions = Counter[int]()
    for row in rows:
        if row.finding is None:
            sessions[common[row.bucket]] += row.sessions
        else:
            found[common[row.bucket]][row.bucket][bytes(row.finding)] += 1
    return [Found(once(found[at].values()), sessions[at]) for at in range(len(captures))]


def _common(parts: Parts) -> bytes:
    """What goes to every bucket of a capture."""
    return pickle.dumps(numbered([pickle.loads(share.common) for share in parts.shares], parts.weirds), 5)


def _judge(bucket: int, rows: Iterator[Row], common: bytes) -> Iterator[Row]:
    judging = Judging(pickle.loads(common), Registry())
    for _, since, exchanges in rows:
        yield from _findings(bucket, judging.feed(since, exchanges))
    yield from _findings(bucket, judging.close())
    yield bucket, None, judging.sessions


def _findings(bucket: int, told: Sequence[object]) -> Iterator[Row]:
    return ((bucket, _JSON.encode(finding), 0) for finding in told)


def once(buckets: Iterable[Counter[bytes]]) -> list[Finding]:
    """A capture's findings, from those of each bucket as JSON: what is about all buckets' members is found in every one and counts once."""
    findings = reduce(or_, buckets, Counter[bytes]())
    return [msgspec.json.decode(one, type=Finding) for one in findings.elements()]


def names_of(parts: Parts) -> dict[str, str]:
    """Names of topic ids, the first one told of each."""
    return {fact.key: fact.value for fact in Facts(name for share in parts.shares for name in share.names)}
