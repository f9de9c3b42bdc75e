"""Captures decoded by shares of their connections: ranges of packets to segments, one shuffle, each share through
kshark's engine.

A range's task links its packets and packs their segments, a row a share and batch. A share's task takes its segments in
their order; it gives its exchanges, each in the bucket where it is judged, and tells the driver the rest: what all
buckets need, and what its connections teach others (kshark.facts). Shares to which others teach something are decoded
again."""

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
from kshark.link.ranges import together
from kshark.model import Flow, Opened, Weird
from kshark.output.notes import Notes
from kshark.parallel.decoding import Beside, Decoded, Decoding
from kshark.parallel.segments import Piece, shared_out
from kshark.parallel.sorting import Packed, numbered
from kshark.pipeline import Options
from kshark.reassembly import Copies
from kshark.tables.events import PositionedEvent
from kshark_spark.compressed import compress, decompress
from kshark_spark.plan import Plan, tasks_for
from kshark_spark.rows import Row, by_row, collected, fault_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows of segments, compressed. `segments` below zero: no segments, but what a range's task SAID, pickled, in
#: `columns`.
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
_SAID: Final = -1
#: The same for secrets of TLS that a range's packets bring: every share has to know them.
_SECRETS: Final = -2
#: Exchanges of a bucket (kshark.parallel.sorting.Packed), compressed, or with bucket TOLD what the driver is told,
#: pickled.
_EXCHANGES: Final = "share int, bucket int, since bigint, data binary"
_EXCHANGE: Final = pa.schema(
    [("share", pa.int32()), ("bucket", pa.int32()), ("since", pa.int64()), ("data", pa.binary())]
)
_TOLD: Final = -1
#: Places of a range's rows.
_ROWS_OF_RANGE: Final = 1 << 32
#: Facts that are new to somebody come to an end: each round some are known that were not.
_ROUNDS: Final = 20


class Said(NamedTuple):
    """What reading and linking a range had to say."""

    range: int
    read: list[Weird]
    linked: list[Weird]


class Share(NamedTuple):
    """What a share's task tells, and how many bytes of exchanges it gave each bucket."""

    decoded: Decoded
    given: Counter[int]


@dataclass(frozen=True)
class Parts:
    """A capture decoded by shares. `weirds`: what belongs to no connection; `given`: bytes of exchanges by bucket."""

    shares: list[Decoded]
    weirds: list[Weird]
    given: Counter[int]

    @cached_property
    def common(self) -> list[PositionedEvent]:
        """What goes to every bucket."""
        return numbered([pickle.loads(share.common) for share in self.shares], self.weirds)

    @property
    def observed(self) -> Observed:
        """What it holds, but for what judging tells."""
        observed = Observed()
        for share in self.shares:
            observed.join(share.observed)
        for weird in self.weirds:
            observed.weird(weird)
        return observed

    @property
    def largest(self) -> tuple[Flow, int] | None:
        """The connection with most bytes, and the bytes of all."""
        flows = [event.flow for _, event in self.common if isinstance(event, Opened)]
        total = sum(sum(flow.stream_bytes) for flow in flows)
        return (max(flows, key=lambda flow: sum(flow.stream_bytes)), total) if flows else None

    @property
    def facts(self) -> list[Fact]:
        """What its connections teach each other."""
        return [*Facts(fact for share in self.shares for fact in share.taught)]

    @property
    def names(self) -> dict[str, str]:
        """Names of topic ids, the first one told of each."""
        return {fact.key: fact.value for fact in Facts(name for share in self.shares for name in share.names)}

    @property
    def notes(self) -> Notes:
        """What was odd about it."""
        notes = Notes()
        notes.add(self.weirds)
        for share in self.shares:
            notes.join(share.notes)
        return notes


#: Makes, in the task of a share of that capture, who else takes its pages, and is told these facts.
MakeBeside = Callable[[Plan, list[Fact]], Beside]


def decoded(
    spark: SparkSession, plans: Sequence[Plan], options: Options, cores: int, beside: MakeBeside | None = None
) -> tuple[DataFrame, list[Parts | UnreadableInput]]:
    """The exchanges of all captures (_EXCHANGES), and by capture what was told."""
    pieces = _pieces(spark, plans, cores)
    shares: dict[int, Share] = {}
    said: dict[int, list[Said | UnreadableInput]] = {plan.share: [] for plan in plans}
    facts = [Facts([])] * len(plans)
    frames: list[DataFrame] = []
    todo = [number for plan in plans for number in numbers_of(plan)]
    for _ in range(_ROUNDS):
        frame = _shares(
            pieces, plans, partial(_read, options=options, beside=beside), [[*each] for each in facts], todo
        )
        if frames:
            frames = [before.where(~before.share.isin(todo)) for before in frames]
        frames.append(frame)
        for share, data in collected(frame.where("bucket < 0").select("share", "data")):
            told = pickle.loads(data)
            if isinstance(told, Share):
                shares[share] = told
            elif len(frames) == 1:
                said[share].append(told)
        facts = [Facts(fact for part in _of(plan, shares) for fact in part.decoded.taught) for plan in plans]
        todo = [
            number
            for plan, known in zip(plans, facts, strict=True)
            for number in numbers_of(plan)
            if number in shares and any(map(known.changed, shares[number].decoded.asked))
        ]
        if not todo:
            break
    exchanges = reduce(lambda one, two: one.unionByName(two), frames).where("bucket >= 0")
    return exchanges, [_joined(plan, _of(plan, shares), said[plan.share]) for plan in plans]


def numbers_of(plan: Plan) -> range:
    """Of its shares."""
    return range(plan.share, plan.share + plan.shares)


def _of(plan: Plan, shares: dict[int, Share]) -> list[Share]:
    return [shares[number] for number in numbers_of(plan) if number in shares]


def _joined(plan: Plan, shares: list[Share], said: list[Said | UnreadableInput]) -> Parts | UnreadableInput:
    faults = [one for one in said if isinstance(one, UnreadableInput)]
    if faults:
        return faults[0]
    ranges = sorted(one for one in said if isinstance(one, Said))
    weirds = [weird for one in ranges for weird in one.read]
    weirds += together(one.linked for one in ranges)
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
    """The segments of a range. What it says goes with the capture's first share."""
    range_ = plan.ranges[number]
    link, said, place = Link(begin=range_.begin), Said(number, [], []), number * _ROWS_OF_RANGE
    try:
        for item in read_range(range_):
            if isinstance(item, Weird):
                said.read.append(item)
                continue
            if item.secrets:
                yield from ((plan.share + share, place, _SECRETS, item.secrets, b"") for share in range(plan.shares))
                place += 1
            segments, weirds = link.feed(item)
            said.linked.extend(weirds)
            if segments is not None:
                for share, piece in shared_out(segments, link.ends, plan.shares):
                    yield plan.share + share, place, piece.segments, compress(piece.columns), compress(piece.payload)
            place += 1
        said.linked.extend(link.held())
        after = plan.ranges[number + 1].begin if number + 1 < len(plan.ranges) else plan.end
        is_same = link.end == after
        told: Said | UnreadableInput = said if is_same else Changed(f"{range_.files[0]}: it changed while it was read")
    except (Error, OSError) as error:
        told = fault_of(error)
    yield plan.share, place, _SAID, pickle.dumps(told, 5), b""


# -- reduce


def _shares(
    pieces: DataFrame,
    plans: Sequence[Plan],
    read: Callable[..., Iterator[Row]],
    facts: list[list[Fact]],
    todo: list[int],
) -> DataFrame:
    """The shares in `todo`, each a task: hashing would put several into one."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    known = {number: (plan, told) for plan, told in zip(plans, facts, strict=True) for number in numbers_of(plan)}
    task = F.col("share")
    if len(todo) < len(known):
        task = F.array_position(F.lit(todo), task).cast("int") - 1
        pieces = pieces.where(F.col("share").isin(todo))

    def each(rows: Iterator[Row]) -> Iterator[Row]:
        for share, own in groupby(rows, itemgetter(0)):
            yield from read(share, own, *known[share])

    together = pieces.repartitionById(len(todo), task).sortWithinPartitions("share", "place")
    return together.mapInArrow(by_row(_EXCHANGE, each), _EXCHANGES).persist(StorageLevel.DISK_ONLY)


def _read(
    share: int, rows: Iterator[Row], plan: Plan, told: list[Fact], options: Options, beside: MakeBeside | None
) -> Iterator[Row]:
    """One share."""
    decoding = Decoding(options, told, plan.buckets, None if beside is None else beside(plan, told))
    given = Counter[int]()

    def packed(found: Iterable[Packed]) -> Iterator[Row]:
        for bucket, since, exchanges in found:
            given[plan.bucket + bucket] += len(exchanges)
            yield share, plan.bucket + bucket, since, compress(exchanges)

    for _, _, segments, columns, payload in rows:
        if segments == _SAID:
            yield share, _TOLD, 0, columns
        elif segments == _SECRETS:
            yield from packed(decoding.learn(columns))
        else:
            yield from packed(decoding.feed(Piece(segments, decompress(columns), decompress(payload))))
    yield from packed(decoding.close(plan.end))
    yield share, _TOLD, 0, pickle.dumps(Share(decoding.decoded, given), 5)
