"""Count the exchanges in a capture's tables by kind, and the error codes in their responses, from typed columns."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshark.analysis import Observed, Observer, Refusal
from kshark.analysis.results.tried import EARLY_ACCESS, SHARED
from kshark.analysis.rules.record_batches import MAGIC_2_ONLY
from kshark.analysis.rules.rule import Read
from kshark.api_keys import API_VERSIONS, FETCH, PRODUCE, SASL_HANDSHAKE, SHARE_FETCH
from kshark.endpoints import host_of
from kshark.incidents.watchers import JUDGED
from kshark.registry import Registry
from kshark_spark.rows import batch_of, collected
from kshark_spark.screen.numbers import cells, distinct
from kshark_spark.screen.pieces import Truths
from kshark_spark.slices import RowGroup, Slice, in_slices, row_groups, rows_of, slices_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kshark_spark.tables import Tables

#: Pattern of records in a message's JSON.
_RECORDS: Final = 'records":[{]"size":[1-9]'
#: Columns to read of all exchanges, and of refused ones.
_COUNTED: Final = ("capture", "api_key", "api_version", "outcome", "request_packet", "error_codes")
_REFUSED: Final = ("capture", "api_key", "api", "client_id", "client", "error_codes", "request_weird", "response_weird")
_OBSERVED: Final = "capture string, observed binary"
_SCHEMA: Final = pa.schema([("capture", pa.string()), ("observed", pa.binary())])


def exchanges_of(spark: SparkSession, tables: Tables, *, coverage: bool = False) -> dict[str, Observed]:
    """Return the statistics of exchanges and refusals by capture; `coverage`: also count what only coverage needs."""
    opened = "records" in tables

    def work(slice_: Slice) -> Iterator[pa.RecordBatch]:
        registry = Registry()
        observers = defaultdict[str, Observer](lambda: Observer(registry))
        for group in row_groups("exchanges", slice_["exchanges"]):
            _count(group, observers, coverage, opened)
        yield batch_of(
            _SCHEMA, [(capture, pickle.dumps(observer.observed, 5)) for capture, observer in observers.items()]
        )

    observed = defaultdict[str, Observed](Observed)
    counted = in_slices(spark, slices_of(tables.files, ["exchanges"]), _OBSERVED, work)
    for capture, data in collected(counted, "count exchanges and refusals"):
        observed[capture].join(pickle.loads(data))
    return observed


# -- in a task


def _count(group: RowGroup, observers: defaultdict[str, Observer], coverage: bool, opened: bool) -> None:
    rows = group.read(_COUNTED)
    of_capture, captures = distinct(rows["capture"])
    of_outcome, outcomes = distinct(rows["outcome"])
    outcome = {name: of_outcome == at for at, (name,) in enumerate(outcomes)}
    asked, answered = (
        rows["request_packet"].is_valid().to_numpy(),
        outcome.get("answered", np.zeros(len(rows), np.bool_)),
    )
    tries = _tries(group, rows, asked, answered, opened) if coverage else {}
    judged = asked & np.isin(cells(rows["api_key"], -1), [*JUDGED])
    for at, (capture,) in enumerate(captures):
        own = of_capture == at
        of_rules, kinds = _number(own & judged), Counter({name: _number(own & mask) for name, mask in outcome.items()})
        seen = Observed(
            0, _number(own), 0, of_rules, tried=Counter({read: _number(own & mask) for read, mask in tries.items()})
        )
        seen.orphans, seen.one_way, seen.unanswered = (kinds[name] for name in ("orphan", "one_way", "unanswered"))
        seen.body_cut = kinds["body_cut"]
        observers[capture].observed.join(seen)
    refused = answered & rows["error_codes"].is_valid().to_numpy()
    if refused.any():
        for capture, api_key, api, client_id, client, codes, *weirds in rows_of(group.chosen(_REFUSED, refused)):
            who = client_id or host_of(client)
            observers[capture].refusals(
                api_key, [Refusal(api, code, who) for code in codes], [code for own in weirds for code in own or ()]
            )


def _number(of: Truths) -> int:
    return int(np.count_nonzero(of))


def _tries(group: RowGroup, rows: pa.Table, asked: Truths, answered: Truths, opened: bool) -> dict[Read, Truths]:
    """Return the exchanges that kshark.analysis.results.tried counts; `opened`: records were decoded."""
    api, version = cells(rows["api_key"], -1), cells(rows["api_version"], EARLY_ACCESS)
    produced = (api == PRODUCE) & asked & _has_records(group, "request_json", api == PRODUCE)
    fetched = np.isin(api, [FETCH, SHARE_FETCH]) & answered
    batches = produced | (fetched & _has_records(group, "response_json", fetched))
    of_today = produced & (cells(rows["api_version"], -1) >= MAGIC_2_ONLY)
    return {
        "api_versions": (api == API_VERSIONS) & answered,
        "authentications": (api == SASL_HANDSHAKE) & asked,
        "share_requests": np.isin(api, [*SHARED]) & asked & (version != EARLY_ACCESS),
        "batches": batches,
        "produced": of_today,
        "counted": batches if opened else of_today,
        "opened": batches & opened,
    }


def _has_records(group: RowGroup, body: str, of: Truths) -> Truths:
    """Return, for each row, true if it is in `of` and its message has records."""
    carries = of.copy()
    if of.any():
        carries[of] = pc.match_substring_regex(group.chosen([body], of)[body], _RECORDS).fill_null(False).to_numpy()
    return carries
