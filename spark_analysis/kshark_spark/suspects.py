"""Exchanges in which there may be a finding, and what is common to all members, from tables to buckets
(kshark.parallel.sorting).

Tasks read who it is and what it is about of all rows, and the bodies of those only that are asked for
(kshark_spark.slices). Suspicious ones are packed, each exchange for its bucket, and stay with the workers; the driver
is told the rest, which every bucket is told."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshark.analysis import APIS, Observed
from kshark.analysis.facts.brokers import Broker, Brokers
from kshark.analysis.rules import BOOK
from kshark.analysis.states.partition.window import USUAL, usual_size
from kshark.api_keys import API_VERSIONS, METADATA
from kshark.exchange.owner import owner_of
from kshark.link.disorder import DISORDERS
from kshark.model import Ends, Exchange, Flow, Message, Weird
from kshark.output.units import counted, safe
from kshark.parallel.sorting import Buckets, News, numbered, of_all
from kshark.tables import TABLES
from kshark.tables.bodies import Bodies, as_fields
from kshark.tables.events import (
    Course,
    PositionedEvent,
    course_of,
    first_packet_of,
    flow_of,
    messages_of,
    of_exchange,
    of_flow,
    of_weird,
    sign_before_orphan,
    signs_of_flow,
    weird_of,
)
from kshark_spark.compressed import compress
from kshark_spark.rows import Row, collected, in_batches
from kshark_spark.screen import Suspects
from kshark_spark.screen.numbers import Int64s, cells, coded, mixed
from kshark_spark.screen.pieces import Truths
from kshark_spark.screen.single import has_ruled_code
from kshark_spark.slices import RowGroup, Slice, in_slices, row_groups, rows_of, slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables

#: Packed exchanges of a bucket, compressed; with bucket TOLD what is common, pickled. Captures are counted, buckets are
#: over all of them.
_EXCHANGES: Final = "capture int, bucket int, since bigint, data binary"
_SCHEMA: Final = pa.schema(
    [("capture", pa.int32()), ("bucket", pa.int32()), ("since", pa.int64()), ("data", pa.binary())]
)
_TOLD: Final = -1
_GROUP: Final = ("capture", "group_id")
_MEMBER: Final = (*_GROUP, "member_id")
#: What tells which exchanges are asked for; and of those all but what stands in other columns or in the bodies, too.
_TOLD_APART: Final = (*_MEMBER, "api_key", "outcome", "request_weird", "response_weird")
_TWICE: Final = {
    "packet", "ts", "ts_ns", "exchange", "error_code", "error_codes", "throttle_time_ms", "group_id", "member_id"
}  # fmt: skip
_COLUMNS: Final = [column.name for column in TABLES["exchanges"].columns if column.name not in _TWICE]
#: So many exchanges of one member keep a task busy for a minute.
_MANY: Final = 1_000_000
#: Rows after which full buckets are looked for.
_TOGETHER: Final = 256

#: Captures by name: their numbers, and where the events of their connections stand.
_Known = Mapping[str, tuple[int, Mapping[int, Course]]]
_Numbers = tuple[Int64s, Int64s]


@dataclass
class Connections:
    """Of one capture. A connection's number is that of its first packet here."""

    number: int
    flows: dict[int, Flow] = field(default_factory=dict)
    courses: dict[int, Course] = field(default_factory=dict)
    #: Beginnings, ends and holes, and signs that they were alive.
    events: list[PositionedEvent] = field(default_factory=list)
    weirds: list[Weird] = field(default_factory=list)
    #: What they cover, and their holes.
    observed: Observed = field(default_factory=Observed)

    def common(self, exchanges: Iterable[PositionedEvent]) -> bytes:
        """What every bucket is told, these exchanges too: see kshark.parallel.judging. Numbers connections anew: once
        only."""
        told = [*self.events, *exchanges]
        for (_, _, first, _), event in told:
            if isinstance(event, Exchange):
                event.flow = self.flows[first]
        return pickle.dumps(numbered([told], self.weirds), 5)


@dataclass
class Said:
    """Of exchanges that were packed: what is common of them, and of each member, by group and id, how many are
    judged."""

    common: list[PositionedEvent] = field(default_factory=list)
    members: Counter[tuple[Any, Any]] = field(default_factory=Counter)

    def join(self, other: Said) -> None:
        self.common += other.common
        self.members += other.members

    @property
    def giant(self) -> str | None:
        """A member who has more than half of many exchanges, so that one task has most of the work, as a sentence."""
        ((group, member), own), *_ = self.members.most_common(1) or [((None, None), 0)]
        total = self.members.total()
        if own < _MANY or own <= total / 2:
            return None
        whose = safe(f"{member} of group {group}")
        return (
            f"one member ({whose}) has {own:,} of {counted(total, 'exchange')} to judge: one task judged them while "
            f"others had little"
        )


def connections_of(tables: Tables, captures: Iterable[str]) -> dict[str, Connections]:
    """The connections of each capture."""
    from pyspark.sql import functions as F

    found = {name: Connections(number) for number, name in enumerate(captures)}
    for row in tables["flows"].toArrow().to_pylist():
        of, first = found[row["capture"]], row["packet"]
        flow = of.flows[first] = flow_of(first, row)
        of.courses[first] = course_of(row)
        of.observed.connection(flow)
        of.events += of_flow(row, flow, of.courses[first])
        of.events += signs_of_flow(row, flow)
    kind, is_asked_for = F.col("kind"), F.col("code").isin("DUPLICATE_PACKETS", *DISORDERS, *BOOK.weirds)
    alone = (kind == "event") | F.col("exchange").isNull()  # others are with their exchanges
    for row in tables["weirds"].where((kind == "gap") | (alone & is_asked_for)).toArrow().to_pylist():
        of, first = found[row["capture"]], first_packet_of(row["flow_id"])
        if row["kind"] == "gap":
            of.observed.gaps += 1
        elif row["kind"] == "event":
            of.observed.weird(weird_of(row, None))
        if first in of.flows:
            of.events.append(of_weird(row, of.flows[first], of.courses[first]))
        elif row["kind"] != "gap":
            of.weirds.append(weird_of(row, None))
    return found


def packed(
    spark: SparkSession, tables: Tables, suspects: Suspects | None, captures: Mapping[str, Connections], buckets: int
) -> DataFrame:
    """_EXCHANGES, of so many buckets a capture; `suspects` None: everybody's."""
    from pyspark import StorageLevel

    connections = {name: (of.number, of.courses) for name, of in captures.items()}
    asked_for = suspects and (np.array(suspects.groups, np.int64), np.array(suspects.members, np.int64))

    def work(slice_: Slice) -> Iterator[pa.RecordBatch]:
        groups = row_groups("exchanges", slice_["exchanges"])
        rows = chain.from_iterable(_asked_for(group, asked_for, connections) for group in groups)
        return in_batches(_SCHEMA, _pack(rows, connections, buckets))

    return in_slices(spark, slices_of(tables.files, ["exchanges"]), _EXCHANGES, work).persist(StorageLevel.DISK_ONLY)


def told_of(packed: DataFrame) -> dict[int, Said]:
    """By capture, what was said of its exchanges."""
    found = defaultdict[int, Said](Said)
    for capture, data in collected(packed.where("bucket < 0").select("capture", "data")):  # all are packed now
        found[capture].join(pickle.loads(data))
    return found


def names_of_brokers(common: Iterable[PositionedEvent]) -> dict[str, str]:
    """Addresses that belong to one broker according to Metadata, each with the one that stands for all; most captures
    have none."""
    brokers, names = Brokers(), dict[str, str]()
    for answer in _said(common, METADATA):
        for broker, _ in brokers.metadata(answer):
            names |= dict.fromkeys(broker.addresses, min(broker.addresses))
    return names


def window_of(common: Iterable[PositionedEvent]) -> int:
    """As few offsets of a partition in flight may keep a fetch waiting, by what brokers offer."""
    sizes = [USUAL]
    for answer in _said(common, API_VERSIONS):
        broker = Broker([answer.broker])
        broker.offers(answer)
        sizes.append(usual_size(broker.releases))
    return min(sizes)


def _said(common: Iterable[PositionedEvent], api_key: int) -> Iterator[Message]:
    """What brokers answered, in its order."""
    for _, event in sorted(common, key=lambda placed: placed[0]):
        answer = event.response if isinstance(event, Exchange) else None
        if answer is not None and answer.api_key == api_key:
            yield msgspec.structs.replace(
                answer, body=as_fields(answer.body) if isinstance(answer.body, str) else answer.body
            )


# -- in a task


def _asked_for(group: RowGroup, suspects: _Numbers | None, known: _Known) -> Iterator[Row]:
    """Rows of _COLUMNS: the exchanges of suspects, and those that every bucket is told of; what brokers say again is
    there once."""
    rows = group.read(_TOLD_APART)
    api, odd = (
        cells(rows["api_key"], -1),
        has_ruled_code(rows["request_weird"]) | has_ruled_code(rows["response_weird"]),
    )
    of_rules = np.isin(api, [*APIS])
    orphan = np.asarray(pc.equal(rows["outcome"], "orphan").fill_null(False).to_numpy(zero_copy_only=False))
    wanted = of_rules
    if suspects is not None:
        groups, members = suspects
        wanted = wanted & (_among(groups, rows, _GROUP) | _among(members, rows, _MEMBER))
    wanted = wanted | np.isin(api, [METADATA, API_VERSIONS]) | orphan | (odd & ~of_rules)
    if not wanted.any():
        return iter(())
    found = group.chosen(_COLUMNS, wanted)
    return rows_of(found.filter(pa.array(~_again(found, (api == METADATA)[wanted] & ~(odd | orphan)[wanted], known))))


def _among(numbers: Int64s, rows: pa.Table, names: Sequence[str]) -> Truths:
    """Which rows are of one of these groups, or members (kshark_spark.screen.keys)."""
    codes, known = coded(*(rows[name] for name in names))
    among: Truths = np.isin(known, numbers)[codes]
    return among


def _again(rows: pa.Table, metadata: Truths, known: _Known) -> Truths:
    """Which of these say what an earlier one said: News keeps the first alone. Where a connection's answers were known
    late, nobody knows here which of them is earlier."""
    again = np.zeros(len(rows), np.bool_)
    if METADATA in BOOK.apis:
        return again
    flows = rows_of(rows.select(["capture", "flow_id"]).filter(pa.array(metadata)))
    courses = [known[capture][1].get(first_packet_of(flow_id)) for capture, flow_id in flows]
    at = np.flatnonzero(metadata)[[course is not None and not course.late for course in courses]]
    said = rows.take(pa.array(at))
    bodies = said["response_json"].combine_chunks().dictionary_encode().indices
    about = mixed(
        cells(bodies, -1), cells(said["api_version"], -1), cells(said["capture"].combine_chunks().indices, -1)
    )
    packet, (_, same) = cells(said["response_packet"], -1), np.unique(about, return_inverse=True)
    first = np.full(len(at), np.iinfo(np.int64).max)
    np.minimum.at(first, same, packet)
    again[at] = packet > first[same]
    return again


def _pack(rows: Iterator[Row], known: _Known, buckets: int) -> Iterator[Row]:
    bodies, nobody = Bodies(), Ends("", "")
    said = defaultdict[int, Said](Said)
    packing = defaultdict[int, Buckets](lambda: Buckets(buckets))

    def full(rest: bool = False) -> Iterator[Row]:
        for number, held in packing.items():
            for bucket, since, exchanges in held.rest() if rest else held.full():
                yield number, number * buckets + bucket, since, compress(exchanges)

    for count, of_columns in enumerate(rows):
        row: dict[str, Any] = dict(zip(_COLUMNS, of_columns, strict=True))
        number, courses = known[row["capture"]]
        first = first_packet_of(row["flow_id"])
        if first not in courses:
            continue
        flow = Flow(first, nobody, first, 0)
        events = [*of_exchange(row, messages_of(row, flow, bodies), flow, courses[first])]
        (asked, _), (place, exchange) = events[0], events[-1]
        assert isinstance(exchange, Exchange)
        told = of_all(asked, place, exchange)
        if told is None:
            assert exchange.request is not None
            packing[number].add(asked, place, exchange)
            said[number].members[owner_of(exchange.request.body)] += 1
        else:
            said[number].common += (*sign_before_orphan(row, flow, courses[first]), *told)
        if count % _TOGETHER == 0:
            yield from full()
    yield from full(rest=True)
    for number, one in said.items():
        one.common = [*filter(News().takes, sorted(one.common, key=itemgetter(0)))]
        yield number, _TOLD, 0, pickle.dumps(one, 5)
