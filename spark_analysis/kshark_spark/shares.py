"""Decode captures by shares of their connections: ranges of packets to segments, one shuffle, then kshark's engine for
each share.

The task of a range links its packets and packs their segments, one row per share and batch. The task of a share decodes
its segments in order. It outputs its exchanges, each for its bucket, and sends the rest to the driver: the events for
all buckets, and the facts that its connections teach others (kshark.facts). Shares are decoded again if others teach
them something.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kshark.analysis import Observed
from kshark.capture.ranges import read_range
from kshark.errors import Changed, Error, UnreadableInput
from kshark.facts import Fact, Facts
from kshark.link import Link
from kshark.link.clock import ClockPart
from kshark.link.ranges import together
from kshark.model import Flow, Opened, Weird
from kshark.output.notes import Notes
from kshark.parallel.decoding import Decoded, Decoding, PageReader
from kshark.parallel.segments import Piece, split_into_shares
from kshark.parallel.sorting import Packed, numbered
from kshark.pipeline import Options
from kshark.reassembly import Copies
from kshark.tables.events import PositionedEvent
from kshark_spark.compressed import compress, decompress
from kshark_spark.plan import Plan, tasks_for
from kshark_spark.rows import Row, by_row, collected, fault_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows of segments, compressed. `segments` is negative for other rows: with _REPORT, `columns` is the pickled report of
#: a range's task.
_PIECES: Final = "share int, place bigint, segments int, columns binary, payload binary"
_PIECE: Final = pa.schema(
    [
        ("share", pa.int32()),
        ("place", pa.int64()),
        ("segments", pa.int32()),
        ("columns", pa.binary()),
        ("payload", pa.binary()),
    ]
)
_REPORT: Final = -1
#: `columns` are TLS secrets from a range's packets, which every share needs.
_SECRETS: Final = -2
#: Exchanges of a bucket (kshark.parallel.sorting.Packed), compressed; with bucket _TO_DRIVER, a pickled report.
_EXCHANGES: Final = "share int, bucket int, since bigint, data binary"
_EXCHANGE: Final = pa.schema(
    [("share", pa.int32()), ("bucket", pa.int32()), ("since", pa.int64()), ("data", pa.binary())]
)
_TO_DRIVER: Final = -1
#: Number of places for the rows of a range.
_ROWS_OF_RANGE: Final = 1 << 32
#: Limit of decoding rounds. Each round spreads new facts, so that the rounds end.
_ROUNDS: Final = 20


class RangeReport(NamedTuple):
    """The weirds from reading and linking a range, and the facts of its clock."""

    range: int
    read: list[Weird]
    linked: list[Weird | ClockPart]


class ShareResult(NamedTuple):
    """The results of a share's task, and the bytes of exchanges for each bucket."""

    decoded: Decoded
    given: Counter[int]


@dataclass(frozen=True)
class Parts:
    """A capture decoded by shares. `weirds`: those outside connections; `given`: bytes of exchanges by bucket."""

    shares: list[Decoded]
    weirds: list[Weird]
    given: Counter[int]

    @cached_property
    def common(self) -> list[PositionedEvent]:
        """The events for every bucket."""
        return numbered([pickle.loads(share.common) for share in self.shares], self.weirds)

    @property
    def observed(self) -> Observed:
        """The statistics of the capture, without those of judging."""
        observed = Observed()
        for share in self.shares:
            observed.join(share.observed)
        for weird in self.weirds:
            observed.weird(weird)
        return observed

    @property
    def largest(self) -> tuple[Flow, int] | None:
        """The connection with the most bytes, and the bytes of all connections."""
        flows = [event.flow for _, event in self.common if isinstance(event, Opened)]
        total = sum(sum(flow.stream_bytes) for flow in flows)
        return (max(flows, key=lambda flow: sum(flow.stream_bytes)), total) if flows else None

    @property
    def facts(self) -> list[Fact]:
        """The facts that its connections teach each other."""
        return [*Facts(fact for share in self.shares for fact in share.taught)]

    @property
    def names(self) -> dict[str, str]:
        """Names of topic ids; the first name of each id counts."""
        return {fact.key: fact.value for fact in Facts(name for share in self.shares for name in share.names)}

    @property
    def notes(self) -> Notes:
        """The notes on the capture."""
        notes = Notes()
        notes.add(self.weirds)
        for share in self.shares:
            notes.join(share.notes)
        return notes


#: Makes another reader of the pages in the task of a share, from the plan of its capture and the known facts.
MakePageReader = Callable[[Plan, list[Fact]], PageReader]


def decoded(
    spark: SparkSession, plans: Sequence[Plan], options: Options, cores: int, beside: MakePageReader | None = None
) -> tuple[DataFrame, list[Parts | UnreadableInput]]:
    """Return the exchanges of all captures (_EXCHANGES), and the parts of each capture or why it cannot be read."""
    pieces = _pieces(spark, plans, cores)
    shares: dict[int, ShareResult] = {}
    reports: dict[int, list[RangeReport | UnreadableInput]] = {plan.share: [] for plan in plans}
    facts = [Facts([])] * len(plans)
    frames: list[DataFrame] = []
    todo = [number for plan in plans for number in numbers_of(plan)]
    for _ in range(_ROUNDS):
        frame = _shares(pieces, plans, partial(_read, options=options, beside=beside), [[*own] for own in facts], todo)
        if frames:
            frames = [before.where(~before.share.isin(todo)) for before in frames]
        frames.append(frame)
        for share, data in collected(frame.where("bucket < 0").select("share", "data")):
            report = pickle.loads(data)
            if isinstance(report, ShareResult):
                shares[share] = report
            elif len(frames) == 1:
                reports[share].append(report)
        facts = [Facts(fact for part in _of(plan, shares) for fact in part.decoded.taught) for plan in plans]
        todo = [
            number
            for plan, own in zip(plans, facts, strict=True)
            for number in numbers_of(plan)
            if number in shares and any(map(own.changed, shares[number].decoded.asked))
        ]
        if not todo:
            break
    exchanges = reduce(lambda frame, other: frame.unionByName(other), frames).where("bucket >= 0")
    return exchanges, [_joined(plan, _of(plan, shares), reports[plan.share]) for plan in plans]


def numbers_of(plan: Plan) -> range:
    """Return the numbers of the plan's shares."""
    return range(plan.share, plan.share + plan.shares)


def _of(plan: Plan, shares: dict[int, ShareResult]) -> list[ShareResult]:
    return [shares[number] for number in numbers_of(plan) if number in shares]


def _joined(
    plan: Plan, shares: list[ShareResult], reports: list[RangeReport | UnreadableInput]
) -> Parts | UnreadableInput:
    faults = [report for report in reports if isinstance(report, UnreadableInput)]
    if faults:
        return faults[0]
    ranges = sorted(report for report in reports if isinstance(report, RangeReport))
    weirds = [weird for report in ranges for weird in report.read]
    weirds += together(report.linked for report in ranges)
    weirds += sum((share.decoded.copies for share in shares), Copies()).weirds(plan.end)
    given = sum((share.given for share in shares), Counter[int]())
    return Parts([share.decoded for share in shares], weirds, given)


# -- map


def _pieces(spark: SparkSession, plans: Sequence[Plan], cores: int) -> DataFrame:
    work = [(plan, number) for plan in plans for number in range(len(plan.ranges))]
    files = [file for plan in plans for file in plan.files]

    def linked(rows: Iterator[Row]) -> Iterator[Row]:
        for (at,) in rows:
            plan, number = work[at]
            yield from _linked(plan, number)

    tasks = tasks_for(files, len(work), cores)
    return spark.range(0, len(work), 1, tasks).mapInArrow(by_row(_PIECE, linked), _PIECES)


def _linked(plan: Plan, number: int) -> Iterator[Row]:
    """Yield the segments of a range. Its report goes with the capture's first share."""
    range_ = plan.ranges[number]
    link, weirds_of, position = (
        Link(begin=range_.begin, is_part=True),
        RangeReport(number, [], []),
        number * _ROWS_OF_RANGE,
    )
    try:
        for item in read_range(range_):
            if isinstance(item, Weird):
                weirds_of.read.append(item)
                continue
            if item.secrets:
                yield from ((plan.share + share, position, _SECRETS, item.secrets, b"") for share in range(plan.shares))
                position += 1
            segments, weirds = link.feed(item)
            weirds_of.linked.extend(weirds)
            if segments is not None:
                for share, piece in split_into_shares(segments, link.ends, plan.shares):
                    yield plan.share + share, position, piece.segments, compress(piece.columns), compress(piece.payload)
            position += 1
        weirds_of.linked.extend(link.held())
        after = plan.ranges[number + 1].begin if number + 1 < len(plan.ranges) else plan.end
        is_same = link.end == after
        report: RangeReport | UnreadableInput = (
            weirds_of if is_same else Changed(f"{range_.files[0]}: it changed while it was read")
        )
    except (Error, OSError) as error:
        report = fault_of(error)
    yield plan.share, position, _REPORT, pickle.dumps(report, 5), b""


# -- reduce


def _shares(
    pieces: DataFrame,
    plans: Sequence[Plan],
    read: Callable[..., Iterator[Row]],
    facts: list[list[Fact]],
    todo: list[int],
) -> DataFrame:
    """Decode the shares in `todo`, one per task; a hash partitioner would put several into one task."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    inputs = {number: (plan, own) for plan, own in zip(plans, facts, strict=True) for number in numbers_of(plan)}
    task = F.col("share")
    if len(todo) < len(inputs):
        task = F.array_position(F.lit(todo), task).cast("int") - 1
        pieces = pieces.where(F.col("share").isin(todo))

    def each(rows: Iterator[Row]) -> Iterator[Row]:
        for share, own in groupby(rows, itemgetter(0)):
            yield from read(share, own, *inputs[share])

    together = pieces.repartitionById(len(todo), task).sortWithinPartitions("share", "place")
    return together.mapInArrow(by_row(_EXCHANGE, each), _EXCHANGES).persist(StorageLevel.DISK_ONLY)


def _read(
    share: int, rows: Iterator[Row], plan: Plan, facts: list[Fact], options: Options, beside: MakePageReader | None
) -> Iterator[Row]:
    """Decode one share."""
    decoding = Decoding(options, facts, plan.buckets, None if beside is None else beside(plan, facts))
    given = Counter[int]()

    def packed(batches: Iterable[Packed]) -> Iterator[Row]:
        for bucket, since, exchanges in batches:
            given[plan.bucket + bucket] += len(exchanges)
            yield share, plan.bucket + bucket, since, compress(exchanges)

    for _, _, segments, columns, payload in rows:
        if segments == _REPORT:
            yield share, _TO_DRIVER, 0, columns
        elif segments == _SECRETS:
            yield from packed(decoding.learn(columns))
        else:
            yield from packed(decoding.feed(Piece(segments, decompress(columns), decompress(payload))))
    yield from packed(decoding.close(plan.end))
    yield share, _TO_DRIVER, 0, pickle.dumps(ShareResult(decoding.decoded, given), 5)
