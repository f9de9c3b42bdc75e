"""Acquired and acknowledged ranges, from slices of the two tables (kshark_spark.slices)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kshark.analysis.states.tables.in_flight import ACCEPT
from kshark_spark.rows import Batches
from kshark_spark.screen.numbers import cells, mixed, numbers
from kshark_spark.screen.pieces import NONE, Pieces, Truths, joined, not_plain, step_of, together
from kshark_spark.slices import Slice, in_slices, read, slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables

_TABLES: Final = ("acquired", "acknowledgements")
_WHERE: Final = ("capture", "group_id", "topic_id", "partition")
_COMMON: Final = (*_WHERE, "member_id", "first_offset", "last_offset", "packet")
_ACQUIRED: Final = (*_COMMON, "misplaced", "delivery_count", "lacking", "lock_timeout_ms")
_ACKNOWLEDGED: Final = (*_COMMON, "types")
_LONGEST, _SHORTEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min

_PIECES: Final = pa.schema([(name, pa.bool_() if name == "odd" else pa.int64()) for name in Pieces._fields])
_PIECES_DDL: Final = ", ".join(f"{name} {'boolean' if name == 'odd' else 'bigint'}" for name in Pieces._fields)
_GROUPS: Final = pa.schema(
    [("group", pa.int64()), ("not_plain", pa.bool_()), ("least", pa.int64()), ("most", pa.int64())]
)
_GROUPS_DDL: Final = "group bigint, not_plain boolean, least bigint, most bigint"


def groups_with_ranges(spark: SparkSession, tables: Tables, window: int) -> DataFrame:
    """Return groups by `group`.

    `not_plain`: one of their partitions is not plain (kshark_spark.screen.pieces); `least`, `most`: their lock
    timeouts. `window`: number of offsets in flight in a partition that may delay a fetch.
    """
    from pyspark.sql import functions as F

    step = step_of(window)
    rows = ranges_in_slices(spark, tables, window, lambda pieces: joined(pieces, step))

    def screened(batches: Batches) -> Batches:
        parts = [_pieces_of(batch) for batch in batches]
        partitions, odd = not_plain(joined(together(parts), step) if parts else _NOTHING, window)
        if len(odd):
            yield pa.RecordBatch.from_arrays(
                [pa.array(cells) for cells in (partitions.group, odd, partitions.least, partitions.most)],
                schema=_GROUPS,
            )

    groups = rows.repartition("key").mapInArrow(screened, _GROUPS_DDL).groupBy("group")
    return groups.agg(F.max("not_plain").alias("not_plain"), F.min("least").alias("least"), F.max("most").alias("most"))


def ranges_in_slices(spark: SparkSession, tables: Tables, window: int, work: Callable[[Pieces], Pieces]) -> DataFrame:
    """Return the pieces that `work` makes of the ranges of each slice of the tables."""

    def made(slice_: Slice) -> Iterator[pa.RecordBatch]:
        pieces = work(_ranges(slice_, window))
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in pieces], schema=_PIECES)

    return in_slices(spark, slices_of(tables.files, _TABLES), _PIECES_DDL, made)


def _pieces_of(batch: pa.RecordBatch) -> Pieces:
    return Pieces.of(column.to_numpy(zero_copy_only=False) for column in batch.columns)


def _ranges(parts: Slice, window: int) -> Pieces:
    """Return acquired ranges with the packet of the response, and acknowledged ranges with that of the request."""
    acquired, acknowledged = (
        read("acquired", parts["acquired"], _ACQUIRED),
        read("acknowledgements", parts["acknowledgements"], _ACKNOWLEDGED),
    )
    rows = pa.concat_tables([acquired.select(_COMMON), acknowledged.select(_COMMON)]).unify_dictionaries()
    group, topic = numbers(rows["capture"], rows["group_id"]), numbers(rows["topic_id"])
    first, last, packet = (
        cells(rows["first_offset"], NONE),
        cells(rows["last_offset"], NONE),
        cells(rows["packet"], NONE),
    )
    number = len(acquired)
    lock = cells(acquired["lock_timeout_ms"], -1)
    rest = np.zeros(len(rows) - number, np.int64)
    odd = np.concatenate(
        [_odd_acquired(acquired, last[:number] - first[:number] >= window // 2), _odd_types(acknowledged["types"])]
    )
    return Pieces(
        group,
        mixed(group, topic, cells(rows["partition"], -1)),
        numbers(rows["capture"], rows["group_id"], rows["member_id"]),
        first,
        last,
        np.concatenate([packet[:number], rest + NONE]),
        np.concatenate([np.full(number, NONE), packet[number:]]),
        np.concatenate([lock, rest + _LONGEST]),
        np.concatenate([lock, rest + _SHORTEST]),
        odd | (first < 0) | (last < first),
    )


def _odd_acquired(rows: pa.Table, long: Truths) -> Truths:
    deliveries, lacking = cells(rows["delivery_count"], 1), cells(rows["lacking"], 0)
    odd: Truths = long | (cells(rows["misplaced"], 0) != 0) | (deliveries != 1) | (lacking > 0)
    return odd


def _odd_types(types: pa.ChunkedArray) -> Truths:
    """Return, for each acknowledged range, true unless all its types are ACCEPT."""
    lists = types.combine_chunks()
    ends = np.cumsum(cells(lists.value_lengths(), 0))
    others = np.cumsum(np.append(0, cells(lists.flatten(), NONE) != ACCEPT.value))
    begins = np.append(0, ends)[:-1]
    odd: Truths = (ends == begins) | (others[ends] > others[begins])
    return odd


_NOTHING: Final = Pieces.of(np.zeros(0, np.bool_ if name == "odd" else np.int64) for name in Pieces._fields)
