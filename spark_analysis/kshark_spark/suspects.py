"""Select from tables the exchanges that can have a finding, and the events common to all members, for the buckets
(kshark_spark.packing).

Exchanges of suspects are packed by bucket, all exchanges also for the bucket of incidents. They stay with the workers;
the driver receives the common events and sends them to every bucket.
"""

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
from kshark.analysis.facts.bases import RECORD_LOCKS
from kshark.analysis.facts.brokers import Broker, Brokers
from kshark.analysis.facts.settings import CONFIG_APIS, Settings
from kshark.analysis.results.error_codes import ErrorCodes, PlacedCode
from kshark.analysis.results.observed import DEFECTS
from kshark.analysis.rules import BOOK
from kshark.analysis.states.partition.window import LEAST, USUAL, usual_size
from kshark.api_keys import API_VERSIONS, METADATA
from kshark.exchange.owner import owner_of
from kshark.model import Ends, Exchange, Flow, Message, Weird
from kshark.registry import Registry
from kshark.tables import TABLES
from kshark.tables.bodies import Bodies, as_fields
from kshark.tables.events import (
    Course,
    PositionedEvent,
    RowMap,
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
from kshark.units import counted, safe
from kshark_spark.compressed import compress
from kshark_spark.packing import ASKED_FOR, Buckets, News, numbered, of_all
from kshark_spark.rows import Row, collected, in_batches
from kshark_spark.screen import UNSCREENED, Suspects
from kshark_spark.screen.numbers import Int64s, cells, coded, mixed
from kshark_spark.screen.pieces import Truths
from kshark_spark.screen.single import has_ruled_code
from kshark_spark.slices import RowGroup, Slice, in_slices, row_groups, rows_of, slices_of
from kshark_spark.steps import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables

#: Packed exchanges of a bucket, compressed; with bucket _TO_DRIVER, the pickled summary. Captures are numbered, and
#: buckets are numbered over all captures.
_EXCHANGES: Final = "capture int, bucket int, since bigint, data binary"
_SCHEMA: Final = pa.schema(
    [("capture", pa.int32()), ("bucket", pa.int32()), ("since", pa.int64()), ("data", pa.binary())]
)
_TO_DRIVER: Final = -1
#: The code of TLS that was not decrypted, counted to say why nothing could be judged.
_TLS: Final = "TLS_UNREAD"
_GROUP: Final = ("capture", "group_id")
_MEMBER: Final = (*_GROUP, "member_id")
#: Columns that select the exchanges; and those to read of all rows, without duplicates of other columns or bodies.
_SELECTING: Final = (*_MEMBER, "api_key", "outcome", "request_weird", "response_weird")
_DUPLICATES: Final = {
    "packet", "ts", "ts_ns", "exchange", "error_code", "throttle_time_ms", "group_id", "member_id"
}  # fmt: skip
_COLUMNS: Final = [column.name for column in TABLES["exchanges"].columns if column.name not in _DUPLICATES]
#: This many exchanges of one member keep a task busy for a minute.
_MANY: Final = 1_000_000
#: Full buckets are output after this many rows.
_CHECK_ROWS: Final = 256

#: Captures by name: their numbers, and the courses of their connections.
_CapturesByName = Mapping[str, tuple[int, Mapping[int, Course]]]
_Numbers = tuple[Int64s, Int64s]


@dataclass
class Connections:
    """The connections of one capture. Here, a connection's number is that of its first packet."""

    number: int
    flows: dict[int, Flow] = field(default_factory=dict)
    courses: dict[int, Course] = field(default_factory=dict)
    #: Starts, ends and gaps of connections, and signs that they were alive.
    events: list[PositionedEvent] = field(default_factory=list)
    weirds: list[Weird] = field(default_factory=list)
    #: Their statistics and gaps.
    observed: Observed = field(default_factory=Observed)

    def common(self, exchanges: Iterable[PositionedEvent]) -> bytes:
        """Return the events for every bucket, with these exchanges: see kshark_spark.judging.

        Call it once, because it renumbers the connections.
        """
        events = [*self.events, *exchanges]
        for (_, _, first, _), event in events:
            if isinstance(event, Exchange):
                event.flow = self.flows[first]
        return pickle.dumps(numbered(events, self.weirds), 5)


@dataclass
class PackedSummary:
    """Summary of packed exchanges: the events for every bucket, the bytes of each bucket, and the number of exchanges
    by group and member.
    """

    common: list[PositionedEvent] = field(default_factory=list)
    sizes: Counter[int] = field(default_factory=Counter)
    members: Counter[tuple[Any, Any]] = field(default_factory=Counter)

    def join(self, other: PackedSummary) -> None:
        self.common += other.common
        self.sizes += other.sizes
        self.members += other.members

    @property
    def giant(self) -> str | None:
        """A sentence on a member with half of many exchanges or more: one task had most of the work; else None."""
        ((group, member), own), *_ = self.members.most_common(1) or [((None, None), 0)]
        total = self.members.total()
        if own < _MANY or own < total / 2:
            return None
        owner = safe(f"{member} of group {group}")
        return (
            f"one member ({owner}) has {own:,} of {counted(total, 'exchange')} to judge: one task judged them while "
            f"others had little"
        )


def connections_of(tables: Tables, captures: Iterable[str]) -> dict[str, Connections]:
    """Return the connections of each capture."""
    from pyspark.sql import functions as F

    connections = {name: Connections(number) for number, name in enumerate(captures)}
    for row in table_of(tables["flows"], "read connections").to_pylist():
        of, first = connections[row["capture"]], row["packet"]
        flow = of.flows[first] = flow_of(first, row)
        of.courses[first] = course_of(row)
        of.observed.connection(flow)
        of.events += of_flow(row, flow, of.courses[first])
        of.events += signs_of_flow(row, flow)
    codes = {"DUPLICATE_PACKETS", "CAPTURE_DESTROYED", _TLS, *DEFECTS, *ASKED_FOR}
    kind, is_asked_for = F.col("kind"), F.col("code").isin(*sorted(codes))
    is_frame = (kind == "message") & F.col("exchange").isNull()  # other weirds of messages come with their exchanges
    asked_for = (kind == "gap") | ((kind == "event") & is_asked_for) | is_frame
    for row in table_of(tables["weirds"].where(asked_for), "read gaps and odd packets").to_pylist():
        of, first = connections[row["capture"]], first_packet_of(row["flow_id"])
        if row["kind"] == "gap":
            of.observed.gaps += 1
            of.observed.missing_bytes += max(0, row["size_bytes"]) if row["detail"] == "missing" else 0
        elif row["kind"] == "event":
            of.observed.weird(weird_of(row, None))
        if row["kind"] == "event" and row["code"] not in ASKED_FOR:
            continue  # only counted
        if first in of.flows:
            of.events.append(of_weird(row, of.flows[first], of.courses[first]))
        elif row["kind"] == "event":
            of.weirds.append(weird_of(row, None))
    return connections


def packed(
    spark: SparkSession, tables: Tables, suspects: Suspects | None, captures: Mapping[str, Connections], buckets: int
) -> DataFrame:
    """Return _EXCHANGES of the suspects, with `buckets` buckets per capture, and of all members for incidents;
    `suspects` None: all members are suspects."""
    from pyspark import StorageLevel

    connections = {name: (of.number, of.courses) for name, of in captures.items()}
    asked_for = suspects and (np.array(suspects.groups, np.int64), np.array(suspects.members, np.int64))

    def work(slice_: Slice) -> Iterator[pa.RecordBatch]:
        groups = row_groups("exchanges", slice_["exchanges"])
        rows = chain.from_iterable(_marked(group, asked_for, connections) for group in groups)
        return in_batches(_SCHEMA, _pack(rows, connections, buckets))

    return in_slices(spark, slices_of(tables.files, ["exchanges"]), _EXCHANGES, work).persist(StorageLevel.DISK_ONLY)


def summaries_of(packed: DataFrame) -> dict[int, PackedSummary]:
    """Return the summary of each capture's packed exchanges. It runs the packing."""
    summaries = defaultdict[int, PackedSummary](PackedSummary)
    for capture, data in collected(packed.where("bucket < 0").select("capture", "data"), "pack exchanges"):
        summaries[capture].join(pickle.loads(data))
    return summaries


def names_of_brokers(common: Iterable[PositionedEvent]) -> dict[str, str]:
    """Return the addresses of brokers with several addresses in Metadata, each with the one that represents the broker.

    Most captures have none.
    """
    brokers, names = Brokers(), dict[str, str]()
    for answer in _responses(common, METADATA):
        for broker, _ in brokers.metadata(answer):
            names |= dict.fromkeys(broker.addresses, min(broker.addresses))
    return names


def window_of(common: Iterable[PositionedEvent]) -> int:
    """Return the number of offsets in flight that may delay a fetch, from offered versions and settings."""
    sizes = [USUAL]
    for answer in _responses(common, API_VERSIONS):
        broker = Broker([answer.broker])
        broker.offers(answer)
        sizes.append(usual_size(broker.releases))
    settings = Settings()
    for _, event in sorted(common, key=itemgetter(0)):
        if isinstance(event, Exchange) and event.request is not None and event.request.api_key in CONFIG_APIS:
            settings.learn(event.request, event.response)
            sizes += [max(size, LEAST) for size in settings.numbers(RECORD_LOCKS)]
    return min(sizes)


def _responses(common: Iterable[PositionedEvent], api_key: int) -> Iterator[Message]:
    """Yield the responses of an API, in order."""
    for _, event in sorted(common, key=lambda placed: placed[0]):
        answer = event.response if isinstance(event, Exchange) else None
        if answer is not None and answer.api_key == api_key:
            yield msgspec.structs.replace(
                answer, body=as_fields(answer.body) if isinstance(answer.body, str) else answer.body
            )


# -- in a task


def _marked(group: RowGroup, suspects: _Numbers | None, captures: _CapturesByName) -> Iterator[tuple[bool, Row]]:
    """Return rows of _COLUMNS, each with true for the exchanges of suspects, and for those of every bucket without
    repeated reports.
    """
    rows = group.read(_SELECTING)
    api, odd = (
        cells(rows["api_key"], -1),
        has_ruled_code(rows["request_weird"]) | has_ruled_code(rows["response_weird"]),
    )
    of_rules = np.isin(api, [*APIS])
    orphan = np.asarray(pc.equal(rows["outcome"], "orphan").fill_null(False).to_numpy(zero_copy_only=False))
    wanted = of_rules
    if suspects is not None:
        groups, members = suspects
        wanted = wanted & (_among(groups, rows, _GROUP) | _among(members, rows, _MEMBER) | np.isin(api, [*UNSCREENED]))
    wanted = wanted | np.isin(api, [METADATA, API_VERSIONS, *CONFIG_APIS]) | orphan | (odd & ~of_rules)
    every = group.chosen(_COLUMNS, np.ones(len(rows), np.bool_))
    wanted = wanted & ~_repeated(every, (api == METADATA) & ~(odd | orphan), captures)
    return zip(wanted.tolist(), rows_of(every), strict=True)


def _among(numbers: Int64s, rows: pa.Table, names: Sequence[str]) -> Truths:
    """Return, for each row, true if it belongs to one of these groups or members (kshark_spark.screen.keys)."""
    codes, distinct_numbers = coded(*(rows[name] for name in names))
    among: Truths = np.isin(distinct_numbers, numbers)[codes]
    return among


def _repeated(rows: pa.Table, metadata: Truths, captures: _CapturesByName) -> Truths:
    """Return, for each row, true if it repeats an earlier response: News keeps only the first one.

    On connections whose responses were recognized late, their order is unknown here, and no row is marked.
    """
    repeated = np.zeros(len(rows), np.bool_)
    if METADATA in BOOK.apis:
        return repeated
    flows = rows_of(rows.select(["capture", "flow_id"]).filter(pa.array(metadata)))
    courses = [captures[capture][1].get(first_packet_of(flow_id)) for capture, flow_id in flows]
    at = np.flatnonzero(metadata)[[course is not None and not course.late for course in courses]]
    responses = rows.take(pa.array(at))
    bodies = responses["response_json"].combine_chunks().dictionary_encode().indices
    content = mixed(
        cells(bodies, -1), cells(responses["api_version"], -1), cells(responses["capture"].combine_chunks().indices, -1)
    )
    packet, (_, same) = cells(responses["response_packet"], -1), np.unique(content, return_inverse=True)
    first = np.full(len(at), np.iinfo(np.int64).max)
    np.minimum.at(first, same, packet)
    repeated[at] = packet > first[same]
    return repeated


def _pack(rows: Iterator[tuple[bool, Row]], captures: _CapturesByName, buckets: int) -> Iterator[Row]:
    bodies, nobody, codes = Bodies(), Ends("", ""), ErrorCodes(Registry())
    summaries = defaultdict[int, PackedSummary](PackedSummary)
    packing = defaultdict[int, Buckets](lambda: Buckets(buckets))

    def full(rest: bool = False) -> Iterator[Row]:
        for number, held in packing.items():
            for own, since, exchanges in held.rest() if rest else held.full():
                bucket, data = number * (buckets + 1) + own, compress(exchanges)
                summaries[number].sizes[bucket] += len(data)
                yield number, bucket, since, data

    for count, (is_suspect, of_columns) in enumerate(rows):
        row: dict[str, Any] = dict(zip(_COLUMNS, of_columns, strict=True))
        number, courses = captures[row["capture"]]
        first = first_packet_of(row["flow_id"])
        if first not in courses:
            continue
        flow = Flow(first, nobody, first, 0)
        events = [*of_exchange(row, messages_of(row, flow, bodies), flow, courses[first])]
        (asked, _), (place, exchange) = events[0], events[-1]
        assert isinstance(exchange, Exchange)
        request = exchange.request
        packing[number].watch(None if request is None else asked, place, exchange, _codes(row, exchange, codes))
        if count % _CHECK_ROWS == 0:
            yield from full()
        if not is_suspect:
            continue
        common = of_all(asked, place, exchange)
        if common is None:
            assert request is not None
            packing[number].add(asked, place, exchange)
            summaries[number].members[owner_of(request.body)] += 1
        else:
            summaries[number].common += (*sign_before_orphan(row, flow, courses[first]), *common)
    yield from full(rest=True)
    for number, summary in summaries.items():
        summary.common = [*filter(News().takes, sorted(summary.common, key=itemgetter(0)))]
        yield number, _TO_DRIVER, 0, pickle.dumps(summary, 5)


def _codes(row: RowMap, exchange: Exchange, codes: ErrorCodes) -> Sequence[PlacedCode]:
    """Return the error codes of an answer to a request."""
    if row["error_codes"] is None or exchange.request is None or exchange.response is None:
        return ()
    return codes.placed(exchange.response.body, row["api_key"], row["api_version"])
