"""Summarize the requests of members by connection, from slices of `share_requests` (kshark_spark.slices)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.conditions import Condition
from kshark.conditions import F as Field
from kshark.tables.share import ONLY_LISTS
from kshark_spark.screen.numbers import cells, distinct, xxhash64
from kshark_spark.screen.pieces import Int64s, Truths
from kshark_spark.screen.single import broken
from kshark_spark.slices import Slice, in_slices, read, slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables

#: The APIs of share sessions.
SHARE: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE)
#: Fields of a share request, with the columns of its row.
_ASKED: Final = {
    "share_session_epoch": "epoch", "group_id": "group_id", "member_id": "member_id", "max_wait_ms": "max_wait_ms",
    "max_records": "max_records", "is_renew_ack": "renew", "only_lists": "only_lists",
}  # fmt: skip
#: Conditions that columns answer.
_BY_COLUMNS: Final[dict[Condition, Condition]] = {ONLY_LISTS: Field("only_lists").is_true()}
_WHOSE: Final = ("capture", "group_id", "member_id", "flow_id")
_COLUMNS: Final = (
    *_WHOSE, "packet", "api", "api_version", "epoch", "previous_epoch", "outcome", "error_code", "max_wait_ms",
    "max_records", "renew",
    "only_lists", "repeats", "forgotten", "acknowledges_new",
)  # fmt: skip
#: Boolean and numeric columns of a summary.
_TRUE: Final = ("odd", "opened", "closed", "forgotten", "repeats", "acknowledges_new")
_NUMBERS: Final = ("firsts", "unanswered", "last", "waiting", "latest")
_SCHEMA: Final = pa.schema(
    [("flow_id", pa.string()), ("group", pa.int64()), ("member", pa.int64())]
    + [(name, pa.bool_()) for name in _TRUE]
    + [(name, pa.int64()) for name in _NUMBERS]
)
_DDL: Final = "flow_id string, group bigint, member bigint" + "".join(
    f", {name} {'boolean' if name in _TRUE else 'bigint'}" for name in (*_TRUE, *_NUMBERS)
)
#: Stands for a missing epoch or packet.
_NONE: Final = -(1 << 62)


def lives_of(spark: SparkSession, tables: Tables) -> DataFrame:
    """Return a row for each member, connection and slice.

    `odd`: a request that a plain session does not have; `firsts`: number of requests without a previous one; `opened`,
    `closed`: an epoch was 0, or -1; `last`: the highest epoch; `waiting`: the highest epoch without a response;
    `latest`: the packet of the last request that did not close.
    """
    return in_slices(spark, slices_of(tables.files, ["share_requests"]), _DDL, _lives)


def _lives(slice_: Slice) -> Iterator[pa.RecordBatch]:
    rows = read("share_requests", slice_["share_requests"], _COLUMNS).unify_dictionaries()
    rows = rows.filter(rows["epoch"].is_valid())
    of, whose = distinct(*(rows[name] for name in _WHOSE))
    epoch, unanswered = cells(rows["epoch"], _NONE), _is(rows["outcome"], "unanswered")
    api_key = np.where(_is(rows["api"], "ShareFetch"), SHARE_FETCH, SHARE_ACKNOWLEDGE)
    flags = {
        "odd": _odd(rows, epoch, unanswered, api_key) | broken(rows, api_key, SHARE, _ASKED, _BY_COLUMNS),
        "opened": epoch == 0,
        "closed": epoch == -1,
        "forgotten": cells(rows["forgotten"].combine_chunks().value_lengths(), 0) > 0,
        "repeats": cells(rows["repeats"], 0) > 0,
        "acknowledges_new": cells(rows["acknowledges_new"], 0) > 0,
    }
    least = np.full(len(rows), _NONE)
    numbers = {
        "firsts": _times(of, rows["previous_epoch"].is_null().to_numpy(), len(whose)),
        "unanswered": _times(of, unanswered, len(whose)),
        "last": _most(of, epoch, len(whose)),
        "waiting": _most(of, np.where(unanswered, epoch, least), len(whose)),
        "latest": _most(of, np.where(epoch >= 0, cells(rows["packet"], _NONE), least), len(whose)),
    }
    who = [
        pa.array([flow_id for *_, flow_id in whose], pa.string()),
        pa.array([xxhash64(*words[:2]) for words in whose], pa.int64()),
        pa.array([xxhash64(*words[:3]) for words in whose], pa.int64()),
    ]
    truths = [pa.array(_times(of, flags[name], len(whose)) > 0) for name in _TRUE]
    yield pa.RecordBatch.from_arrays([*who, *truths, *(pa.array(numbers[name]) for name in _NUMBERS)], schema=_SCHEMA)


def _odd(rows: pa.Table, epoch: Int64s, unanswered: Truths, api_key: Int64s) -> Truths:
    """Return requests that were not accepted, or whose epoch does not follow the previous one."""
    previous, error = cells(rows["previous_epoch"], _NONE), cells(rows["error_code"], _NONE)
    has_previous = previous != _NONE
    odd: Truths = np.logical_or.reduce(
        (
            epoch < -1,
            (error != 0) & ~((error == _NONE) & unanswered),
            (epoch == 0) & (has_previous | (api_key != SHARE_FETCH)),
            (epoch > 0) & has_previous & (epoch != previous + 1),
            has_previous & (previous < 0),
            (epoch == -1) & unanswered,
        )
    )
    return odd


def _is(names: pa.ChunkedArray, name: str) -> Truths:
    codes, values = distinct(names)
    equal: Truths = np.array([value == name for (value,) in values], np.bool_)[codes]
    return equal


def _times(of: Int64s, truths: Truths, number: int) -> Int64s:
    """Count the true rows of each group."""
    return np.bincount(of[truths], minlength=number).astype(np.int64)


def _most(of: Int64s, numbers: Int64s, number: int) -> Int64s:
    highest = np.full(number, _NONE)
    np.maximum.at(highest, of, numbers)
    return highest
