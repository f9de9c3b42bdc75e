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
from kshark.facts import Fact
from kshark.model import Finding
from kshark.parallel.judging import Judging
from kshark.parallel.sorting import Placed
from kshark.registry import Registry
from spark_analysis.plan import Plan
from spark_analysis.rows import Row, by_row
from spark_analysis.shares import Parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Findings as JSON; a bucket's last row has the number of its sessions, and what was made of them, pickled.
_FOUND: Final = "bucket int, finding binary, sessions bigint, made binary"
_FINDING: Final = pa.schema([("bucket", pa.int32()), ("finding", pa.binary()), ("sessions", pa.int64()), ("made", pa.binary())])
_JSON: Final = msgspec.json.Encoder()


class Lister(Protocol):
    """Who takes the share sessions and their requests, in the task of a bucket."""

    def page(self, listed: Sequence[Listed], /) -> object: ...

    def close(self) -> Any:
        """What he made of them."""


#: Makes who takes the sessions of a capture; he is told what its connections teach, and what is common to all buckets.
MakeLister = Callable[[Plan, list[Fact], list[Placed]], Lister]


class Found(NamedTuple):
    """The findings of a capture, the number of its share sessions, and what was made of them in each bucket."""

    findings: list[Finding]
    sessions: int
    made: list[Any]


class _Told(NamedTuple):
    """What the buckets of a capture are told; `common`: pickled."""

    plan: Plan
    common: bytes
    facts: list[Fact]


def judged(exchanges: DataFrame, captures: Sequence[tuple[Plan, Parts]], lister: MakeLister | None = None) -> list[Found]:
    """What is found in each capture, from all captures' exchanges."""
    from pyspark.sql import functions as F

    if not captures:
        return []
    common = {bucket: at for at, (plan, _) in enumerate(captures) for bucket in range(plan.bucket, plan.bucket + plan.buckets)}
    buckets = max(common) + 1
    exchanges = exchanges.where(F.col("bucket").isin([*common]))
    told = [_Told(plan, pickle.dumps(parts.common, 5), parts.facts) for plan, parts in captures]

    def judge(rows: Iterator[Row]) -> Iterator[Row]:
        for bucket, own in groupby(rows, itemgetter(0)):
            yield from _judge(bucket, own, told[common[bucket]], lister)

    together = exchanges.select("bucket", "since", "data").repartitionById(buckets, F.col("bucket"))
    rows = together.sortWithinPartitions("bucket", "since").mapInArrow(by_row(_FINDING, judge), _FOUND).collect()
    found: dict[int, dict[int, Counter[bytes]]] = defaultdict(lambda: defaultdict(Counter))
    sessions, made = Counter[int](), defaultdict[int, list[Any]](list)
    for row in rows:
        if row.finding is None:
            sessions[common[row.bucket]] += row.sessions
            made[common[row.bucket]].append(pickle.loads(row.made))
        else:
            found[common[row.bucket]][row.bucket][bytes(row.finding)] += 1
    return [Found(once(found[at].values()), sessions[at], made[at]) for at in range(len(captures))]


def _judge(bucket: int, rows: Iterator[Row], told: _Told, make: MakeLister | None) -> Iterator[Row]:
    common: list[Placed] = pickle.loads(told.common)
    lister = None if make is None else make(told.plan, told.facts, common)
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
