"""Events into a folder of tables, as `kshark export` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kshark.analysis import Told
from kshark.model import Event
from kshark.output.export import Export, Mode
from kshark.output.parquet_part import Part, PartWriter


def written(export: Export, captures: dict[str, Iterable[Event | Told]]) -> Part:
    """The part with the events of each capture, by its file."""
    part = PartWriter(export.attempt)
    for file, events in captures.items():
        capture = export.attempt.capture(export.names([[file]])[0], [file])
        if capture is not None:
            part.begin(capture)
            part.page(events)
    return part.close()


def exported(
    folder: Path,
    captures: dict[str, Iterable[Event | Told]],
    *,
    mode: Mode = "replace",
    partition_by: Sequence[str] | None = None,
    **options: Any,
) -> Path:
    """The folder, with the events of each capture in it."""
    with Export(folder, options, mode=mode, partition_by=partition_by) as export:
        export.commit([written(export, captures)])
    return folder
