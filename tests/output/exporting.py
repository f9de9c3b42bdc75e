"""Events into a folder of tables, as `kshark export` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kshark.analysis import AnalysisResult
from kshark.errors import UnreadableInput
from kshark.model import Event
from kshark.output.export import Export, Mode
from kshark.output.manifest import Capture
from kshark.output.parquet_part import Part, PartWriter


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
    folder: Path,
    captures: dict[str, Iterable[Event | AnalysisResult]],
    fault: UnreadableInput | None = None,
    *,
    mode: Mode = "replace",
    partition_by: Sequence[str] | None = None,
    **options: Any,
) -> Path:
    """The folder, with the events of each capture in it."""
    with Export(folder, options, mode=mode, partition_by=partition_by) as export:
        export.commit([written(export, captures, fault)])
    return folder
