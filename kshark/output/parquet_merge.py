"""Merge the small files of tables: engines work best with files of 128 to 512 MB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from kshark.capture.paths import inside
from kshark.output.manifest import Manifest, StoredFile
from kshark.output.parquet_files import FILE_BYTES, GROUP_BYTES, GROUP_ROWS, OpenFile, PartFile, columns_of
from kshark.output.parquet_part import Attempt
from kshark.tables import TABLES

#: Files of at least so many bytes stay as they are.
LARGE: Final = FILE_BYTES // 2


class Merge(NamedTuple):
    """Files of one table, partition and version that become one file, by their paths in the folder."""

    table: str
    version: int
    partition: str
    paths: list[str]
    rows: int


def merges_of(manifest: Manifest) -> list[Merge]:
    """Return the merges of a folder's small files, each with at least two files, in their order."""
    merges = []
    for name, content in manifest.tables.items():
        alike: dict[tuple[int, str], list[StoredFile]] = {}
        for file in content.files:
            if file.size_bytes < LARGE:
                partition = file.path.removeprefix(f"{name}/").rpartition("/")[0]
                alike.setdefault((content.version_of(file), partition), []).append(file)
        merges += [
            Merge(name, version, f"{partition}/" if partition else "", [file.path for file in files], _rows(files))
            for (version, partition), small in alike.items()
            for files in _filled(small)
            if len(files) > 1
        ]
    return merges


def _filled(files: list[StoredFile]) -> Iterator[list[StoredFile]]:
    """Yield files that fill one together."""
    held, size = list[StoredFile](), 0
    for file in files:
        held.append(file)
        size += file.size_bytes
        if size >= FILE_BYTES:
            yield held
            held, size = [], 0
    yield held


def _rows(files: list[StoredFile]) -> int:
    return sum(file.rows for file in files)


def merged(merge: Merge, folder: str, attempt: Attempt) -> PartFile:
    """Write the one file of a merge: the rows of all, in their order, in row groups as of a new export."""
    table = TABLES[merge.table].of_version(merge.version)
    file = OpenFile(attempt.place, attempt.id, table, merge.partition)
    held, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in _batches(merge, folder, file.schema):
        if held and (rows + len(batch) > GROUP_ROWS or size + batch.nbytes > GROUP_BYTES):
            file.write(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
    if held:
        file.write(held)
    return file.close()


def _batches(merge: Merge, folder: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    coded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    for path in merge.paths:
        with columns_of(inside(folder, path), coded) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, schema.names, use_threads=False)
                yield from rows.select(schema.names).cast(schema).combine_chunks().to_batches()
