"""`--export`: tables of a running capture, complete up to the last minute at any time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kshark.errors import UsageError
from kshark.live.consumer import Status
from kshark.live.files.capture_files import print_note
from kshark.live.files.folder import need_writable
from kshark.model import Event, Finding, PacketBatch, Tick
from kshark.output.local_folder import local_folder
from kshark.run import Run
from kshark.units import counted, safe

if TYPE_CHECKING:
    from kshark.output.export import Export
    from kshark.output.parquet_part import PartWriter

#: Rows appear so often.
_EVERY_NS: Final = 60_000_000_000


class Tables:
    """Write tables into a folder, in addition to those of earlier captures.

    `run` judges the capture, and lists sessions and their requests (`listing`). `options`: those that decide which rows
    there are. Raises UsageError if the folder cannot be used, or without pyarrow.
    """

    def __init__(
        self, folder: str, name: str, options: dict[str, Any], run: Run, *, note: Callable[[str], object] = print_note
    ) -> None:
        _need_pyarrow()
        self._folder = local_folder(folder, "--export")
        self._name = name
        self._options = options
        self._run = run
        self._note = note
        self._export: Export | None = None
        self._part: PartWriter | None = None
        self._due_ns = 0
        self._packets = 0
        self._is_made = not self._folder.exists()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{safe(folder)}: {error.strerror}; name another folder with --export") from None

    def give_to(self, user: int, group: int) -> None:
        """Make another user the owner of the folder, if it is new."""
        if self._is_made:
            os.chown(self._folder, user, group)

    def start(self) -> None:
        """Begin, with the rights that the process has now: empty tables appear. Raises UsageError."""
        from kshark.output.export import Export
        from kshark.output.manifest import Capture, CaptureFile
        from kshark.output.parquet_part import PartWriter

        need_writable(self._folder, "--export")
        export = Export(self._folder, self._options, mode="append")
        (name,) = export.names([[self._name]])
        self._part = PartWriter(export.attempt)
        self._part.begin(Capture(name, [CaptureFile(self._name, None, None)], self._options))
        self._export = export
        self._try(self._commit)

    def packets(self, batch: PacketBatch) -> None:
        self._packets += len(batch.number)

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        events = [event for event in page if type(event) is not Tick]
        listed = self._run.listed()
        self._try(lambda part: part.page([*events, *findings, *listed]))

    def status(self, status: Status) -> None:
        if not self._due_ns:
            self._due_ns = status.now_ns + _EVERY_NS
        if status.now_ns >= self._due_ns or (self._part is not None and self._part.is_large):
            self._due_ns = status.now_ns + _EVERY_NS
            self._try(self._commit)

    def close(self, findings: Sequence[Finding]) -> None:
        self.page([], findings)
        self._try(lambda part: part.end(self._packets))
        self._try(self._commit)
        export = self._export
        if export is not None:
            self._end()
            self._note(f"wrote {counted(export.rows.total(), 'row')} of tables to {safe(str(self._folder))}")

    def _commit(self, part: PartWriter) -> None:
        assert self._export is not None
        self._export.commit([part.cut()])

    def _try(self, write: Callable[[PartWriter], None]) -> None:
        """Write rows; if that is impossible, say it and write no more."""
        if self._part is None:
            return
        try:
            write(self._part)
        except OSError as error:
            self._note(
                f"{safe(str(self._folder))}: {error.strerror or error}; no more rows are written, those of the last "
                "minute are lost, and packets are judged as before"
            )
            self._end()

    def _end(self) -> None:
        export, self._export, self._part = self._export, None, None
        if export is not None:
            export.__exit__(None, None, None)


def _need_pyarrow() -> None:
    try:
        from kshark.output.parquet import without_pandas
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'kshark[parquet]'") from None
    without_pandas()
