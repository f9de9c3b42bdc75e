"""How many exchanges a capture's tables hold, and the error codes in their answers: only answers with one are read."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis import Observed, Observer
from kshark.analysis.rules import BOOK
from kshark.model import Ends, Flow
from kshark.registry import Registry
from kshark.tables import TABLES
from kshark.tables.bodies import Bodies
from kshark.tables.events import messages_of
from spark_analysis.rows import Row, by_row, collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: An error code in an answer's JSON that is not 0.
_AN_ERROR: Final = 'error_code":-?[1-9]'
_COLUMNS: Final = [column.name for column in TABLES["exchanges"].columns]
_TOLD: Final = "capture string, told binary"
_SCHEMA: Final = pa.schema([("capture", pa.string()), ("told", pa.binary())])


def exchanges_of(exchanges: DataFrame) -> dict[str, Observed]:
    """By capture, its exchanges and what they were refused with."""
    found = defaultdict[str, Observed](Observed)
    judged = F.col("request_packet").isNotNull() & F.col("api_key").isin(*BOOK.apis)
    outcomes = [F.count_if(F.col("outcome") == outcome) for outcome in ("orphan", "one_way", "unanswered")]
    counts = exchanges.groupBy("capture").agg(F.count("*"), F.count_if(judged), *outcomes)
    for capture, number, of_rules, orphans, one_way, unanswered in collected(counts):
        found[capture].join(Observed(exchanges=number, judged=of_rules, orphans=orphans, one_way=one_way, unanswered=unanswered))
    answered = exchanges.where((F.col("outcome") == "answered") & F.col("response_json").rlike(_AN_ERROR))
    for capture, told in collected(answered.select(*_COLUMNS).mapInArrow(by_row(_SCHEMA, _refused), _TOLD)):
        found[capture].join(pickle.loads(told))
    return found


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
