"""How many exchanges a capture's tables hold, of which kinds, and the error codes in their answers: told by typed columns."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis import Observed, Observer, Refusal
from kshark.analysis.observed.tried import EARLY_ACCESS, SHARED
from kshark.analysis.rules import BOOK
from kshark.analysis.rules.record_batches import MAGIC_2_ONLY
from kshark.analysis.rules.rule import Read
from kshark.api_keys import API_VERSIONS, FETCH, PRODUCE, SASL_HANDSHAKE, SHARE_FETCH
from kshark.registry import Registry
from spark_analysis.rows import Row, by_row, collected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Records in a message's JSON.
_RECORDS: Final = 'records":[{]"size":[1-9]'
#: What is asked of a refused exchange.
_COLUMNS: Final = ("capture", "api_key", "api", "client_id", "client", "error_codes", "request_weird", "response_weird")
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
    refused = exchanges.where((F.col("outcome") == "answered") & F.col("error_codes").isNotNull())
    for capture, told in collected(refused.select(*_COLUMNS).mapInArrow(by_row(_SCHEMA, _refused), _TOLD)):
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
    registry = Registry()
    observers = defaultdict[str, Observer](lambda: Observer(registry))
    for capture, api_key, api, client_id, client, codes, asked, answered in rows:
        who = client_id or client.rpartition(":")[0]
        observers[capture].refusals(api_key, [Refusal(api, code, who) for code in codes], [*(asked or ()), *(answered or ())])
    for capture, observer in observers.items():
        yield capture, pickle.dumps(observer.observed, 5)
