"""Exchanges in which there may be a finding, and what is common to all members, from tables to buckets (kshark.parallel.sorting).

Rows are read once: suspicious ones are packed, each exchange for its bucket, and stay with the workers; the driver is told the rest, which
every bucket is told.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from kshark.analysis import APIS, Observed
from kshark.analysis.deliveries.window import USUAL, usual_size
from kshark.analysis.rules import BOOK
from kshark.analysis.surroundings.brokers import Broker, Brokers
from kshark.api_keys import API_VERSIONS, METADATA
from kshark.link.disorder import DISORDERS
from kshark.model import Ends, Exchange, Flow, Message, Weird
from kshark.parallel.sorting import Buckets, News, numbered, of_all
from kshark.tables import TABLES
from kshark.tables.bodies import Bodies, as_fields
from kshark.tables.events import (
    Course,
    Placed,
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
from spark_analysis.compressed import compress
from spark_analysis.rows import Row, by_number, by_row, collected, frame_of
from spark_analysis.screen import Suspects
from spark_analysis.screen.keys import keys, odd

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_analysis.tables import Tables

#: Packed exchanges of a bucket, compressed; with bucket TOLD what is common, pickled. Captures are counted, buckets are over all of them.
_EXCHANGES: Final = "capture int, bucket int, since bigint, data binary"
_SCHEMA: Final = pa.schema([("capture", pa.int32()), ("bucket", pa.int32()), ("since", pa.int64()), ("data", pa.binary())])
_TOLD: Final = -1
#: By what suspects are known.
_OF: Final = {"groups": "group", "members": "member"}
_COLUMNS: Final = [column.name for column in TABLES["exchanges"].columns]
#: Rows after which full buckets are looked for.
_TOGETHER: Final = 256


@dataclass
class Connections:
    """Of one capture. A connection's number is that of its first packet here."""

    number: int
    flows: dict[int, Flow] = field(default_factory=dict)
    courses: dict[int, Course] = field(default_factory=dict)
    #: Beginnings, ends and holes, and signs that they were alive.
    events: list[Placed] = field(default_factory=list)
    weirds: list[Weird] = field(default_factory=list)
    #: What they cover, and their holes.
    observed: Observed = field(default_factory=Observed)

    def common(self, exchanges: Iterable[Placed]) -> bytes:
        """What every bucket is told, these exchanges too: see kshark.parallel.judging. Numbers connections anew: once only."""
        told = [*self.events, *exchanges]
        for (_, _, first, _), event in told:
            if isinstance(event, Exchange):
                event.flow = self.flows[first]
        return pickle.dumps(numbered([told], self.weirds), 5)


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


def packed(exchanges: DataFrame, suspects: Suspects | None, captures: Mapping[str, Connections], buckets: int) -> DataFrame:
    """_EXCHANGES, of so many buckets a capture; `suspects` None: everybody's."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    common = F.col("api_key").isin(METADATA, API_VERSIONS) | (F.col("outcome") == "orphan") | (odd() & ~F.col("api_key").isin(*APIS))
    rows = exchanges.where(common | F.col("api_key").isin(*APIS))
    if suspects is not None:
        rows = rows.withColumns(keys())
        for name, numbers in suspects._asdict().items():
            schema = pa.schema([(_OF[name], pa.int64()), (name, pa.bool_())])
            known = frame_of(exchanges.sparkSession, schema, [(number, True) for number in numbers])
            rows = rows.join(F.broadcast(known), _OF[name], "left")
        rows = rows.where(common | F.col("groups") | F.col("members"))
    connections = {name: (of.number, of.courses) for name, of in captures.items()}
    return (
        rows.select(*_COLUMNS)
        .mapInArrow(by_row(_SCHEMA, lambda found: _pack(found, connections, buckets)), _EXCHANGES)
        .persist(StorageLevel.DISK_ONLY)
    )


def common_of(packed: DataFrame) -> dict[int, list[Placed]]:
    """By capture, what is common of its exchanges."""
    found = defaultdict[int, list[Placed]](list)
    with by_number(packed.sparkSession):  # all are packed now
        for capture, data in collected(packed.where("bucket < 0").select("capture", "data")):
            found[capture] += pickle.loads(data)
    return found


def names_of_brokers(common: Iterable[Placed]) -> dict[str, str]:
    """Addresses that belong to one broker according to Metadata, each with the one that stands for all; most captures have none."""
    brokers, names = Brokers(), dict[str, str]()
    for answer in _said(common, METADATA):
        for broker, _ in brokers.metadata(answer):
            names |= dict.fromkeys(broker.addresses, min(broker.addresses))
    return names


def window_of(common: Iterable[Placed]) -> int:
    """As few offsets of a partition in flight may keep a fetch waiting, by what brokers offer."""
    sizes = [USUAL]
    for answer in _said(common, API_VERSIONS):
        broker = Broker([answer.broker])
        broker.offers(answer)
        sizes.append(usual_size(broker.releases))
    return min(sizes)


def _said(common: Iterable[Placed], api_key: int) -> Iterator[Message]:
    """What brokers answered, in its order."""
    for _, event in sorted(common, key=lambda placed: placed[0]):
        answer = event.response if isinstance(event, Exchange) else None
        if answer is not None and answer.api_key == api_key:
            yield msgspec.structs.replace(answer, body=as_fields(answer.body) if isinstance(answer.body, str) else answer.body)


# -- in a task


def _pack(rows: Iterator[Row], known: Mapping[str, tuple[int, Mapping[int, Course]]], buckets: int) -> Iterator[Row]:
    bodies, nobody = Bodies(), Ends("", "")
    common = defaultdict[int, list[Placed]](list)
    packing = defaultdict[int, Buckets](lambda: Buckets(buckets))

    def full(rest: bool = False) -> Iterator[Row]:
        for number, held in packing.items():
            for bucket, since, exchanges in held.rest() if rest else held.full():
                yield number, number * buckets + bucket, since, compress(exchanges)

    for count, cells in enumerate(rows):
        row: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=True))
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
            packing[number].add(asked, place, exchange)
        else:
            common[number] += (*sign_before_orphan(row, flow, courses[first]), *told)
        if count % _TOGETHER == 0:
            yield from full()
    yield from full(rest=True)
    for number, told in common.items():
        news = [*filter(News().takes, sorted(told, key=itemgetter(0)))]
        yield number, _TOLD, 0, pickle.dumps(news, 5)
