"""Partitions: a table's rows in folders by day and by cluster, as Hive names them
(`date=2026-11-22/cluster=5L6g3nShT-eMCtK--X86sw/`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kshark.errors import UsageError
from kshark.tables.names import Names

#: What rows can be parted by.
BY: Final = ("date", "cluster")
#: What Hive, Spark and DuckDB take for null.
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_DAY_NS: Final = 86_400 * 1_000_000_000


def partitions_by(text: str | None) -> list[str]:
    """What `--partition-by` names, in BY's order. Raises UsageError for anything else."""
    named = [] if text is None else [name.strip() for name in text.split(",")]
    wrong = [name for name in named if name not in BY]
    if wrong:
        raise UsageError(
            f'tables have no partitions by "{wrong[0]}"; write --partition-by {",".join(BY)}, or one of them'
        )
    return [name for name in BY if name in named]


class Partitions:
    """Shares out rows: `date` is the day of a row's time (UTC), `cluster` the id of its broker's cluster; null where
    nobody told it."""

    def __init__(self, by: Sequence[str]) -> None:
        self._by = by
        #: Whether names are asked for.
        self.by_cluster = "cluster" in by

    def split(self, rows: pa.RecordBatch, names: Names | None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Each partition's folder (`date=2026-11-22/`) with its rows, in their order."""
        if not self._by:
            yield "", rows
            return
        keys = [_days(rows) if name == "date" else _clusters(rows, names) for name in self._by]
        codes, labels = zip(*keys, strict=True)
        found, of_rows = np.unique(np.stack(codes), axis=1, return_inverse=True)
        for number, key in enumerate(found.T):
            folder = "".join(f"{name}={known[code]}/" for name, known, code in zip(self._by, labels, key, strict=True))
            yield folder, rows if found.shape[1] == 1 else rows.filter(pa.array(of_rows.ravel() == number))


def _days(rows: pa.RecordBatch) -> tuple[NDArray[np.int64], list[str]]:
    """For each row the number of its day among those that occur, and the days."""
    days, codes = np.unique(rows.column("ts_ns").fill_null(-1).to_numpy() // _DAY_NS, return_inverse=True)
    return codes.astype(np.int64), [NULL if day < 0 else str(day.astype("datetime64[D]")) for day in days]


def _clusters(rows: pa.RecordBatch, names: Names | None) -> tuple[NDArray[np.int64], list[str]]:
    """The same for clusters; the broker's column has a dictionary, so that each broker is looked up once."""
    brokers = rows.column("broker")
    told = [names and names.cluster(broker) for broker in (*brokers.dictionary.to_pylist(), None)]
    labels = [*dict.fromkeys(quote(cluster, safe="") if cluster else NULL for cluster in told)]
    numbers = np.array([labels.index(quote(cluster, safe="") if cluster else NULL) for cluster in told], np.int64)
    return numbers[brokers.indices.fill_null(len(told) - 1).to_numpy()], labels
