"""Partitions: a table's rows in folders by day and by cluster, with Hive's names.

For example `date=2026-11-22/cluster=5L6g3nShT-eMCtK--X86sw/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kshark.errors import UsageError
from kshark.tables.names import Names

#: The possible partition keys, with their types in Spark.
TYPES: Final = {"date": "date", "cluster": "string"}
BY: Final = tuple(TYPES)
#: The name of the null partition in Hive, Spark and DuckDB.
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_DAY_NS: Final = 86_400 * 1_000_000_000


def partitions_by(text: str | None) -> list[str]:
    """Parse `--partition-by`; the result is in BY's order. Raises UsageError for an unknown key."""
    named = [] if text is None else [name.strip() for name in text.split(",")]
    wrong = [name for name in named if name not in BY]
    if wrong:
        raise UsageError(f'"{wrong[0]}" is not a partition key; write --partition-by {",".join(BY)}, or one of them')
    return [name for name in BY if name in named]


def values_of(path: str) -> dict[str, str | None]:
    """Return the partition of a file by the folders in its path."""
    pairs = [part.split("=", 1) for part in path.split("/")[:-1] if "=" in part]
    return {key: None if value == NULL else unquote(value) for key, value in pairs}


class Partitions:
    """Distribute rows: `date` is the day of a row's time (UTC), `cluster` the id of its broker's cluster.

    The cluster is null if the capture does not contain its id.
    """

    def __init__(self, by: Sequence[str]) -> None:
        self._by = by
        #: True if `split` needs names.
        self.by_cluster = "cluster" in by

    def split(self, rows: pa.RecordBatch, names: Names | None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Return each partition's folder (`date=2026-11-22/`) with its rows, in their order."""
        if not self._by:
            yield "", rows
            return
        keys = [_days(rows) if name == "date" else _clusters(rows, names) for name in self._by]
        codes, labels = zip(*keys, strict=True)
        keys_found, of_rows = np.unique(np.stack(codes), axis=1, return_inverse=True)
        for number, key in enumerate(keys_found.T):
            folder = "".join(
                f"{name}={key_labels[code]}/" for name, key_labels, code in zip(self._by, labels, key, strict=True)
            )
            yield folder, rows if keys_found.shape[1] == 1 else rows.filter(pa.array(of_rows.ravel() == number))


def _days(rows: pa.RecordBatch) -> tuple[NDArray[np.int64], list[str]]:
    """Return the index of each row's day, and the days."""
    days, codes = np.unique(rows.column("ts_ns").fill_null(-1).to_numpy() // _DAY_NS, return_inverse=True)
    return codes.astype(np.int64), [NULL if day < 0 else str(day.astype("datetime64[D]")) for day in days]


def _clusters(rows: pa.RecordBatch, names: Names | None) -> tuple[NDArray[np.int64], list[str]]:
    """Return the index of each row's cluster, and the clusters.

    The broker column has a dictionary, so each broker is looked up once.
    """
    brokers = rows.column("broker")
    cluster_ids = [names and names.cluster(broker) for broker in (*brokers.dictionary.to_pylist(), None)]
    labels = [*dict.fromkeys(quote(cluster, safe="") if cluster else NULL for cluster in cluster_ids)]
    numbers = np.array(
        [labels.index(quote(cluster, safe="") if cluster else NULL) for cluster in cluster_ids], np.int64
    )
    return numbers[brokers.indices.fill_null(len(cluster_ids) - 1).to_numpy()], labels
