"""Events into a folder of tables, as `kshark export` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kshark.analysis import AnalysisResult
from kshark.errors import UnreadableInput
from kshark.model import Event
from kshark.output.export import Export, Mode
from kshark.output.manifest import MANIFEST, Capture
from kshark.output.parquet_part import Part, PartWriter
from kshark.tables import TABLES

F = TypeVar("F", Path, str)


def written(
    export: Export, captures: dict[str, Iterable[Event | AnalysisResult]], fault: UnreadableInput | None = None
) -> Part:
    """The part with the events of each capture, by its file, which need not be there; with `fault` the last one cannot
    be read on."""
    part = PartWriter(export.attempt)
    for file, events in captures.items():
        (name,) = export.names([[file]])
        capture = export.attempt.capture(name, [file]) if Path(file).exists() else Capture(name, [], {})
        if capture is not None:
            part.begin(capture)
            part.page(events)
    if fault is not None:
        part.fault(name, fault)
    return part.close()


def exported(
    folder: F,
    captures: dict[str, Iterable[Event | AnalysisResult]],
    fault: UnreadableInput | None = None,
    *,
    mode: Mode = "replace",
    partition_by: Sequence[str] | None = None,
    **options: Any,
) -> F:
    """The folder, with the events of each capture in it."""
    with Export(folder, options, mode=mode, partition_by=partition_by) as export:
        export.commit([written(export, captures, fault)])
    return folder


def made_earlier(folder: Path, versions: dict[str, int]) -> Path:
    """Give tables of a folder an earlier version: their files lose the columns that were added since."""
    import pyarrow.parquet as pq

    manifest = json.loads((folder / MANIFEST).read_text())
    for name, version in versions.items():
        table = TABLES[name].of_version(version)
        for file in manifest["tables"][name]["files"]:
            read = pq.read_table(folder / file["path"], partitioning=None)
            rest = read.select([column.name for column in table.columns])
            metadata = {**read.schema.metadata, b"kshark.table_version": str(version).encode()}
            pq.write_table(rest.replace_schema_metadata(metadata), folder / file["path"])
            file["size_bytes"] = (folder / file["path"]).stat().st_size
        manifest["tables"][name]["version"] = version
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder
