"""How many exchanges a capture's tables hold, of which kinds, and the error codes in their answers: only answers with one are read."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis import Observed, Observer
from kshark.analysis.observed.tried import EARLY_ACCESS, SHARED
from kshark.analysis.rules import BOOK
from kshark.analysis.rules.record_batches import MAGIC_2_ONLY
from kshark.analysis.rules.rule import Read
from kshark.api_keys import API_VERSIONS, FETCH, PRODUCE, SASL_HANDSHAKE, SHARE_FETCH
from kshark.model import Ends, Flow
from kshark.registry import Registry
from kshark.tables import TABLES
from kshark.tables.bodies import Bodies
from kshark.tables.events import messages_of
from spark_analysis.rows import Row, by_row, collected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: An error code in an answer's JSON that is not 0.
_AN_ERROR: Final = 'error_code":-?[1-9]'
#: Records in a message's JSON.
_RECORDS: Final = 'records":[{]"size":[1-9]'
_COLUMNS: Final = [column.name for column in TABLES["exchanges"].columns]
_TOLD: Final = "capture string, told binary"
_SCHEMA: Final = pa.schema([("capture", pa.string()), ("told", pa.binary())])


def exchanges_of(exchanges: DataFrame, *, coverage: bool = False, opened: bool = False) -> dict[str, Observed]:
    """By capture, its exchanges and what they were refused with; `coverage`: what only that asks for is counted, too, of records that
    were `opened` or not.
    """
    found = defaultdict[str, Observed](Observed)
    judged = F.col("request_packet").isNotNull() & F.col("api_key").isin(*BOOK.apis)
    outcomes = [F.count_if(F.col("outcome") == outcome) for outcome in ("orphan", "one_way", "unanswered")]
    tries = _tries(opened) if coverage else {}
    counts = exchanges.groupBy("capture").agg(F.count("*"), F.count_if(judged), *outcomes, *map(F.count_if, tries.values()))
    for capture, number, of_rules, orphans, one_way, unanswered, *tried in collected(counts):
        read = Counter(dict(zip(tries, tried, strict=True)))
        found[capture].join(Observed(0, number, 0, of_rules, orphans=orphans, one_way=one_way, unanswered=unanswered, tried=read))
    answered = exchanges.where((F.col("outcome") == "answered") & F.col("response_json").rlike(_AN_ERROR))
    for capture, told in collected(answered.select(*_COLUMNS).mapInArrow(by_row(_SCHEMA, _refused), _TOLD)):
        found[capture].join(pickle.loads(told))
    return found


def _tries(opened: bool) -> dict[Read, Column]:
    """What kshark.analysis.observed.tried counts of exchanges, as conditions."""
    api, version = F.col("api_key"), F.col("api_version")
    asked, answered = F.col("request_packet").isNotNull(), F.col("outcome") == "answered"
    produced = (api == PRODUCE) & asked & F.col("request_json").rlike(_RECORDS)
    batches = produced | (api.isin(FETCH, SHARE_FETCH) & answered & F.col("response_json").rlike(_RECORDS))
    of_today = produced & (version >= MAGIC_2_ONLY)
    return {
        "api_versions": (api == API_VERSIONS) & answered,
        "authentications": (api == SASL_HANDSHAKE) & asked,
        "share_requests": api.isin(*SHARED) & asked & (version != EARLY_ACCESS),
        "batches": batches,
        "produced": of_today,
        "counted": batches if opened else of_today,
        "opened": batches & F.lit(opened),
    }


def _refused(rows: Iterator[Row]) -> Iterator[Row]:
    bodies, registry = Bodies(), Registry()
    observers = defaultdict[str, Observer](lambda: Observer(registry))
    for cells in rows:
        row: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=True))
        flow = Flow(0, Ends(row["client"], row["broker"]), 0, 0)
        request, response = messages_of(row, flow, bodies)
        if request is not None and response is not None:
            observers[row["capture"]].answer(request, response)
    for capture, observer in observers.items():
        yield capture, pickle.dumps(observer.observed, 5)
