"""A part of an export: what one process or task reads and writes of it, wherever it runs.

part = PartWriter(attempt)             # kshark.output.export.Export gives the attempt
capture = attempt.capture(name, files) # with the hashes of its files; None: its rows are there already
part.begin(capture); part.page(events); ...
export.commit([part.close()])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from kshark.analysis import AnalysisResult
from kshark.errors import UnreadableInput
from kshark.model import Event
from kshark.output.manifest import Capture, capture_of
from kshark.output.parquet_files import FILE_BYTES, PartFile, PartFiles, without
from kshark.output.parquet_partitions import Partitions
from kshark.tables import Rows
from kshark.tables.names import Names

if TYPE_CHECKING:
    from kshark.conditions.filter import Filter


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a task is told of the export that it works for; can be pickled. `there`: captures that are not exported
    again."""

    staging: Path
    options: dict[str, Any]
    partition_by: Sequence[str]
    there: Sequence[Capture] = ()

    def capture(self, name: str, files: Sequence[str]) -> Capture | None:
        """The capture of these files, which are read for their hashes; None: its rows are there already."""
        capture = capture_of(name, files, self.options)
        return None if any(map(capture.is_same, self.there)) else capture

    def files(self) -> PartFiles:
        """Files for blocks of rows; whoever makes them himself says what became of them in a Part."""
        return PartFiles(self.staging, Partitions(self.partition_by))


class Part(msgspec.Struct, frozen=True):
    """Complete files, the captures that were read, and what was said of others; how many were left out since they are
    there. Small and plain, to be sent to whoever commits it."""

    files: list[PartFile] = []
    captures: list[Capture] = []
    faults: list[str] = []
    skipped: int = 0


class PartWriter:
    """Events and what the analysis tells, of one capture after the other, into files of a part.

    `wanted`: a filter by which exchanges have rows. `asking`: only some of a capture's connections come here; see
    `names`."""

    def __init__(self, attempt: Attempt, wanted: Filter | None = None, *, asking: bool = False) -> None:
        pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own pools keep 30 MB more of what was freed
        self._attempt = attempt
        self._files = attempt.files()
        self._captures: list[Capture] = []
        self._faults: dict[str, str] = {}
        self._skipped = 0
        takes = None if wanted is None else wanted.takes
        self._rows = Rows("", records=attempt.options.get("records", False), wanted=takes, asking=asking)

    def begin(self, capture: Capture) -> None:
        """That capture's events follow."""
        if (
            "cluster" in self._attempt.partition_by
        ):  # else captures share blocks, which makes a fifth less work of many small ones
            self._files.add(self._rows.rest(), self._rows.names)
        self._captures.append(capture)
        self._rows.begin(capture.name)

    def skip(self) -> None:
        """A capture is left out: its rows are there already."""
        self._skipped += 1

    def page(self, events: Iterable[Event | AnalysisResult]) -> None:
        self._files.add(self._rows.page(events), self._rows.names)

    def fault(self, name: str, error: UnreadableInput) -> None:
        """That capture cannot be read, or not to its end: what has come of it is left out, and a row in `faults` says
        so."""
        self._faults[name] = str(error)
        self._captures = [capture for capture in self._captures if capture.name != name]
        self._rows.fault(name, error)

    @property
    def names(self) -> Names:
        """Of the capture that was begun last: to be told what its other connections taught."""
        return self._rows.names

    @property
    def is_large(self) -> bool:
        """Whether a file's worth was written: a good moment to commit, at a capture's end."""
        return self._files.size_bytes >= FILE_BYTES

    def close(self) -> Part:
        """Ends the files."""
        self._files.add(self._rows.rest(), self._rows.names)
        files = without(self._attempt.staging, self._files.close(), self._faults)
        return Part(files, self._captures, [*self._faults.values()], self._skipped)
