"""A part of an export: the captures that one process or task reads, and the files that it writes.

part = PartWriter(attempt)             # kshark.output.export.Export has the attempt
capture = attempt.capture(name, files) # with the hashes of its files; None: its rows exist already
part.begin(capture); part.page(events); ...; part.end(packets)
export.commit([part.close()])
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
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
from kshark.tables.capture_summary import Ended
from kshark.tables.captures import name_of_fault

if TYPE_CHECKING:
    from kshark.conditions.filter import Filter


@dataclass(frozen=True, slots=True)
class Attempt:
    """The settings of an export for its tasks; can be pickled.

    `place`: the folder for files, on this machine or in a store. `id`: a part of their names. `there`: keys of captures
    that are not exported again; `faults`: error messages that have a row already.
    """

    place: str
    id: str
    options: dict[str, Any]
    partition_by: Sequence[str]
    there: Set[str | None] = frozenset()
    faults: Set[str] = frozenset()

    def capture(self, name: str, files: Sequence[str]) -> Capture | None:
        """Return the capture of these files, with their hashes; None if its rows exist already.

        Reads all bytes of the files.
        """
        capture = capture_of(name, files, self.options)
        return None if capture.key in self.there else capture

    def files(self) -> PartFiles:
        """Return files for blocks of rows; a caller that fills them itself reports them in a Part."""
        return PartFiles(self.place, self.id, Partitions(self.partition_by))


class Part(msgspec.Struct, frozen=True):
    """Complete files, the captures in them, and the error messages of others.

    `skipped`: captures that were skipped because they exist already. Small and plain, to be sent to the process that
    commits it.
    """

    files: list[PartFile] = []
    captures: list[Capture] = []
    faults: list[str] = []
    skipped: int = 0

    @property
    def count(self) -> int:
        """The number of captures that were tried."""
        return len(self.captures) + len(self.faults) + self.skipped


def ended(capture: Capture, packets: int, host: str | None, seconds: float) -> Ended:
    """Return what the table `captures` has about the files of a capture, and the work."""
    sizes = [file.size_bytes for file in capture.files if file.size_bytes is not None]
    return Ended(
        files=[file.file for file in capture.files],
        sha256=[file.sha256 for file in capture.files],
        size_bytes=sum(sizes) if len(sizes) == len(capture.files) else None,
        host=host,
        packets=packets,
        seconds=round(seconds, 3),
    )


class PartWriter:
    """Write events and results of the analysis, one capture after the other, to files of a part.

    `wanted`: a filter that selects the exchanges with rows.
    """

    def __init__(self, attempt: Attempt, wanted: Filter | None = None) -> None:
        pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own pools keep 30 MB more of freed memory
        self._attempt = attempt
        self._files = attempt.files()
        self._captures: list[Capture] = []
        self._faults: dict[str, str] = {}
        self._left_out: list[str] = []
        self._skipped = 0
        takes = None if wanted is None else wanted.takes
        self._rows = Rows("", records=attempt.options.get("records", False), wanted=takes)

    def begin(self, capture: Capture) -> None:
        """Start a capture; its events follow."""
        # otherwise captures share blocks, which saves a fifth of the work with many small captures
        if "cluster" in self._attempt.partition_by:
            self._files.add(self._rows.rest(), self._rows.names)
        self._captures.append(capture)
        self._current = capture
        self._begun = time.perf_counter()
        self._rows.begin(capture.name)

    def end(self, packets: int, host: str | None = None, left_out: Iterable[UnreadableInput] = ()) -> None:
        """End a capture: add its row to `captures`, and one to `faults` for each of its files that was left out.

        `host`: kshark.capture.host.host_of its files.
        """
        for error in left_out:
            self._left_out.append(str(error))
            if str(error) not in self._attempt.faults:
                self._rows.fault(name_of_fault(error), error)
        self._rows.end(ended(self._current, packets, host, time.perf_counter() - self._begun))

    def skip(self) -> None:
        """Count a capture that is skipped because its rows exist already."""
        self._skipped += 1

    def page(self, events: Iterable[Event | AnalysisResult]) -> None:
        self._files.add(self._rows.page(events), self._rows.names)

    def stored(self, log: str | None, partition: int | None, batches: Iterable[Any]) -> None:
        """Write batches of a log segment."""
        self._files.add(self._rows.stored(log, partition, batches), self._rows.names)

    def fault(self, name: str, error: UnreadableInput) -> None:
        """Drop the rows of a capture that cannot be read to its end, and add a row to `faults`, if it has none."""
        self._faults[name] = str(error)
        self._captures = [capture for capture in self._captures if capture.name != name]
        if str(error) not in self._attempt.faults:
            self._rows.fault(name, error)

    def is_full(self, captures: int | None) -> bool:
        """True if a file is full, or so many captures are in the part: commit at the end of a capture."""
        return self._files.size_bytes >= FILE_BYTES or len(self._captures) + len(self._faults) == captures

    @property
    def is_large(self) -> bool:
        """True if a file is full."""
        return self.is_full(None)

    def cut(self) -> Part:
        """Complete the files so far, in the middle of a capture; what follows gets others."""
        self._files.add(self._rows.rest(), self._rows.names)
        part = Part(self._files.close(), self._captures)
        self._files, self._captures = self._attempt.files(), []
        return part

    def close(self) -> Part:
        """Complete the files."""
        self._files.add(self._rows.rest(), self._rows.names)
        files = without(self._attempt.place, self._attempt.id, self._files.close(), self._faults)
        return Part(files, self._captures, [*self._faults.values(), *self._left_out], self._skipped)
