"""Compact a folder of tables: small files are merged, each merge by one task, and one commit replaces them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kshark.capture.paths import absolute
from kshark.errors import UsageError
from kshark.output.manifest import read_manifest
from kshark.output.parquet_merge import merged, merges_of
from kshark_spark.rows import read_all, results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kshark.output.export import Export


def has_small_files(folder: str) -> bool:
    """True if there is something to merge. Raises kshark.UsageError for a path that is not a folder of tables."""
    return bool(merges_of(read_manifest(folder)))


def run(spark: SparkSession, export: Export) -> tuple[int, int]:
    """Merge the small files of an export's folder, and return the number of files before and after."""
    before = export.manifest
    merges = merges_of(before)
    work = partial(merged, folder=absolute(export.folder), attempt=export.attempt)
    files = read_all(results(spark, merges, work, len(merges), "merge files"))
    for merge, file in zip(merges, files, strict=True):
        if file.rows != merge.rows:
            raise UsageError(
                f"{export.folder}: {merge.paths[0]} and {len(merge.paths) - 1} others have {file.rows:,} rows, and the "
                f"manifest lists {merge.rows:,}: files are damaged, nothing was changed"
            )
    replaced: dict[str, list[str]] = {}
    for merge in merges:
        replaced.setdefault(merge.table, []).extend(merge.paths)
    export.rewrite(files, replaced)
    return len(before.paths), len(export.manifest.paths)
