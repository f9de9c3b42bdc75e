"""Judge captures by buckets of their members: one small shuffle, then kshark's analysis for each bucket.

One more bucket of each capture recognises its incidents, from the exchanges of all members and APIs.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter, or_
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import pyarrow as pa

from kshark.analysis import MemberKey, Observed, Outcomes, in_packet_order, joined_outcomes
from kshark.incidents import Explanations
from kshark.model import Finding
from kshark.registry import Registry
from kshark_spark.compressed import compress, decompress
from kshark_spark.judging import Judging, Watching
from kshark_spark.rows import Row, by_row, collected, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Findings as JSON. The last row of a bucket is a pickled _Summary.
_FINDINGS: Final = "bucket int, finding binary, summary binary"
_FINDING: Final = pa.schema([("bucket", pa.int32()), ("finding", pa.binary()), ("summary", pa.binary())])
_EXCHANGE: Final = pa.schema([("bucket", pa.int32()), ("since", pa.int64()), ("data", pa.binary())])
#: An empty list of exchanges, packed.
_EMPTY: Final = b"\x90"
_JSON: Final = msgspec.json.Encoder()


class Bucketed(NamedTuple):
    """A capture's buckets, numbered over all captures, and its common events, pickled.

    The bucket for incidents follows the `buckets` others. `common`: see kshark_spark.packing.numbered. `sizes`: bytes
    of packed exchanges by bucket.
    """

    bucket: int
    buckets: int
    common: bytes
    sizes: Mapping[int, int]

    @property
    def watching(self) -> int:
        """The bucket for incidents."""
        return self.bucket + self.buckets


class JudgedCapture(NamedTuple):
    """The findings of a capture in packet order, its statistics from judging, and how its members fared."""

    findings: list[Finding]
    observed: Observed
    outcomes: dict[MemberKey, Outcomes]


class _Summary(NamedTuple):
    """The last row of a bucket; `explanations` of the bucket for incidents."""

    observed: Observed
    outcomes: dict[MemberKey, Outcomes]
    explanations: Explanations | None = None


def judged(exchanges: DataFrame, captures: Sequence[Bucketed], *, coverage: bool = False) -> list[JudgedCapture]:
    """Return the results of each capture from the exchanges of all captures; `coverage`: count the coverage of rules.

    The largest buckets begin first, so that small ones run beside them.
    """
    from pyspark.sql import functions as F

    if not captures:
        return []
    capture = {bucket: at for at, own in enumerate(captures) for bucket in range(own.bucket, own.watching + 1)}
    order = sorted(capture, key=lambda bucket: -captures[capture[bucket]].sizes.get(bucket, 0))
    # judge the common events even if a capture has no other exchanges
    empty = frame_of(
        exchanges.sparkSession,
        _EXCHANGE,
        [(bucket, 0, compress(_EMPTY)) for own in captures for bucket in (own.bucket, own.watching)],
    )

    def judge(rows: Iterator[Row]) -> Iterator[Row]:
        for bucket, exchanges in groupby(rows, itemgetter(0)):
            own = captures[capture[bucket]]
            if bucket == own.watching:
                yield from _watch(bucket, exchanges, own)
            else:
                yield from _judge(bucket, exchanges, own, coverage)

    together = (
        exchanges.where("bucket >= 0")
        .select("bucket", "since", "data")
        .unionByName(empty)
        .repartitionById(len(order), F.array_position(F.lit(order), F.col("bucket")).cast("int") - 1)
    )
    rows = together.sortWithinPartitions("bucket", "since").mapInArrow(by_row(_FINDING, judge), _FINDINGS)
    findings: dict[int, dict[int, Counter[bytes]]] = defaultdict(lambda: defaultdict(Counter))
    summaries = defaultdict[int, list[_Summary]](list)
    for bucket, finding, summary in collected(rows, "judge members and find incidents"):
        if finding is None:
            summaries[capture[bucket]].append(pickle.loads(summary))
        else:
            findings[capture[bucket]][bucket][finding] += 1
    return [_joined(once(findings[at].values()), summaries[at]) for at in range(len(captures))]


def _joined(findings: list[Finding], summaries: Sequence[_Summary]) -> JudgedCapture:
    observed, explanations = Observed(), Explanations()
    for summary in summaries:
        observed.join(summary.observed)
        explanations = summary.explanations or explanations
    return JudgedCapture(
        [explanations.explained(finding) for finding in in_packet_order(findings)],
        observed,
        joined_outcomes(summary.outcomes for summary in summaries),
    )


def _judge(bucket: int, rows: Iterator[Row], capture: Bucketed, coverage: bool) -> Iterator[Row]:
    first = bucket == capture.bucket
    judging = Judging(pickle.loads(capture.common), Registry(), first=first, coverage=coverage)
    yield from _findings(bucket, rows, judging)
    yield bucket, None, pickle.dumps(_Summary(judging.observed, judging.outcomes), 5)


def _watch(bucket: int, rows: Iterator[Row], capture: Bucketed) -> Iterator[Row]:
    """Recognise the incidents of a capture."""
    watching = Watching(pickle.loads(capture.common), Registry())
    yield from _findings(bucket, rows, watching)
    yield bucket, None, pickle.dumps(_Summary(watching.observed, {}, watching.explanations), 5)


def _findings(bucket: int, rows: Iterator[Row], by: Judging | Watching) -> Iterator[Row]:
    for _, since, exchanges in rows:
        yield from ((bucket, _JSON.encode(finding), None) for finding in by.feed(since, decompress(exchanges)))
    yield from ((bucket, _JSON.encode(finding), None) for finding in by.close())


def once(buckets: Iterable[Counter[bytes]]) -> list[Finding]:
    """Merge the findings of a capture's buckets, given as JSON.

    A finding about the members of all buckets occurs in each of them and counts once.
    """
    findings = reduce(or_, buckets, Counter[bytes]())
    return [msgspec.json.decode(finding, type=Finding) for finding in findings.elements()]
