"""Find groups and members with a suspicious exchange, from slices of `exchanges` (kshark_spark.slices)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kshark.analysis import APIS
from kshark.analysis.rules import BOOK
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark_spark.screen.lives import SHARE
from kshark_spark.screen.numbers import cells, distinct, xxhash64
from kshark_spark.screen.pieces import Truths
from kshark_spark.screen.single import broken, has_ruled_code
from kshark_spark.slices import Slice, in_slices, read, slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables

_SCREENED: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE, SHARE_GROUP_HEARTBEAT)
#: Fields of all requests, with their columns.
_ASKED: Final = {"group_id": "group_id", "member_id": "member_id"}
_WHO: Final = ("capture", "group_id", "member_id")
_COLUMNS: Final = (*_WHO, "api_key", "api_version", "error_code", "request_weird", "response_weird")
_SCHEMA: Final = pa.schema(
    [("capture", pa.string()), ("group", pa.int64()), ("member", pa.int64()), ("of_group", pa.bool_())]
)
_DDL: Final = "capture string, group bigint, member bigint, of_group boolean"


def suspects_of_exchanges(spark: SparkSession, tables: Tables) -> DataFrame:
    """Return groups and members by `capture`, `group` and `member`, with duplicates; `of_group`: the whole group is
    suspicious.
    """
    return in_slices(spark, slices_of(tables.files, ["exchanges"]), _DDL, _suspects)


def _suspects(slice_: Slice) -> Iterator[pa.RecordBatch]:
    rows = read("exchanges", slice_["exchanges"], _COLUMNS).unify_dictionaries()
    for of_group, suspicious in ((True, _of_groups(rows)), (False, _of_members(rows))):
        _, who = distinct(*rows.filter(pa.array(suspicious)).select(_WHO).columns)
        suspects = [(words[0], xxhash64(*words[:2]), xxhash64(*words), of_group) for words in who]
        yield pa.RecordBatch.from_pylist(
            [dict(zip(_SCHEMA.names, suspect, strict=True)) for suspect in suspects], _SCHEMA
        )


def _of_groups(rows: pa.Table) -> Truths:
    """Return rows that make their group suspicious.

    They read or write the state of records, have an odd message, or do not name their member.
    """
    api_key = cells(rows["api_key"], -1)
    others = [api for api in BOOK.visited if api not in _SCREENED]
    codes, members = distinct(rows["member_id"])
    nameless = np.array([not member for (member,) in members], np.bool_)[codes]
    weird = (rows["request_weird"].is_valid().to_numpy()) | (rows["response_weird"].is_valid().to_numpy())
    suspicious: Truths = (
        np.isin(api_key, others)
        | ((api_key == SHARE_GROUP_HEARTBEAT) & nameless)
        | (np.isin(api_key, _SCREENED) & weird)
    )
    return suspicious


def _of_members(rows: pa.Table) -> Truths:
    """Return rows that make their member suspicious.

    Their request has a code that rules use, or may break a rule by itself. Requests of share sessions are checked in
    .lives.
    """
    api_key = cells(rows["api_key"], -1)
    api_key = np.where(np.isin(api_key, [*APIS]), api_key, -1)
    ruled = frozenset(api for rule in BOOK.of_exchanges for api in rule.apis if api not in SHARE)
    odd = has_ruled_code(rows["request_weird"]) | has_ruled_code(rows["response_weird"])
    return broken(rows, api_key, ruled, _ASKED, {}) | ((api_key >= 0) & odd)
