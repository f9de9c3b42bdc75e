"""An export into a folder: parts are written to a hidden folder, and a commit publishes all of them at once.

    with Export("tables", mode="append") as export:
        parts = [...]  # written by tasks with export.attempt (kshark.output.parquet_part)
        export.commit(parts)

DIR/manifest.json lists the files of the tables and is replaced by one rename: readers see a whole commit or nothing.
Files wait in DIR/.kshark-ATTEMPT, which globs, Spark and DuckDB ignore. They move to
DIR/TABLE/part-NUMBER-ATTEMPT.parquet just before the manifest lists them. Extra files of a retried task or of a killed
export are removed; files that kshark did not write are never removed.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal
from uuid import uuid4

import msgspec

from kshark import __version__
from kshark.errors import UsageError
from kshark.output.folder_lock import FolderLock
from kshark.output.local_folder import local_folder
from kshark.output.manifest import (
    FORMAT,
    MANIFEST,
    STAGING,
    Capture,
    Content,
    Manifest,
    StoredFile,
    need_columns,
    read_manifest,
)
from kshark.output.parquet_files import PartFile, empty_file
from kshark.output.parquet_part import Attempt, Part
from kshark.tables import TABLES
from kshark.tables.captures import capture_names

#: An export replaces an earlier one, or adds to it; `resume` also skips captures already exported with the same
#: options.
Mode = Literal["replace", "append", "resume"]

#: In the staging folder: the next manifest, and the one that it replaces.
_NEXT: Final = "next.json"
_REPLACED: Final = "replaced.json"


class Export:
    """One export, as a context; its end removes everything that was not committed.

    `options`: options that decide which rows captures have. `partition_by`: values of
    kshark.output.parquet_partitions.BY, None for those of the folder. Raises kshark.UsageError for a folder with other
    content, or if another export writes into it.
    """

    def __init__(
        self,
        folder: str | Path,
        options: dict[str, Any] | None = None,
        *,
        mode: Mode = "replace",
        partition_by: Sequence[str] | None = None,
    ) -> None:
        self.folder: Final = local_folder(folder)
        self._made = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.folder)
        try:
            manifest = read_manifest(self.folder) if (self.folder / MANIFEST).exists() else None
            for attempt in self.folder.glob(f"{STAGING}*"):
                _discard(self.folder, attempt)
            _only_ours(self.folder, manifest)
            by = (
                list(partition_by or ())
                if manifest is None or mode == "replace"
                else _same_partitions(self.folder, manifest, partition_by)
            )
        except BaseException:
            self._release()
            raise
        self.mode: Final = mode
        self._id = uuid4().hex[:12]
        existing = manifest.captures if manifest is not None and mode == "resume" else []
        #: The settings for tasks.
        self.attempt: Final = Attempt(self.folder.absolute() / f"{STAGING}{self._id}", options or {}, by, existing)
        self.attempt.staging.mkdir()
        self._replaced = manifest if mode == "replace" else None
        self._manifest = (
            manifest if mode != "replace" and manifest is not None else Manifest(FORMAT, __version__, by, [], {})
        )
        self._numbers = Counter[str]()
        #: Committed rows of each table.
        self.rows = Counter[str]()
        #: Error messages of captures that could not be read.
        self.faults: list[str] = []
        #: Number of captures that were skipped because they exist already.
        self.skipped = 0

    def names(self, captures: Sequence[Sequence[str]]) -> list[str]:
        """Return a name for each capture; no other capture in the folder has the same."""
        return capture_names(captures, {capture.name for capture in self._manifest.captures})

    def commit(self, parts: Iterable[Part]) -> None:
        """Publish the files that tasks have written; later commits of the same export add to them."""
        parts = list(parts)
        files = [file for part in parts for file in part.files]
        absent = {*self._wanted} - {*self._manifest.tables} - {file.table for file in files}
        files += [
            empty_file(self.attempt.staging, TABLES[name], self.attempt.partition_by)
            for name in TABLES
            if name in absent
        ]
        moves = {file.path: self._path(file) for file in files}
        following = self._following([capture for part in parts for capture in part.captures], files, moves)
        staging, replaced = self.attempt.staging, self._replaced
        (staging / _NEXT).write_bytes(following.written())
        if replaced is not None:
            (staging / _REPLACED).write_bytes(replaced.written())
        for waiting, path in moves.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            os.rename(staging / waiting, self.folder / path)
        os.replace(staging / _NEXT, self.folder / MANIFEST)
        if replaced is not None:
            _remove(self.folder, replaced.paths)
        self._manifest, self._replaced = following, None
        self.rows.update(dict.fromkeys(self._wanted, 0))
        self.rows.update(_rows(files))
        self.faults += [fault for part in parts for fault in part.faults]
        self.skipped += sum(part.skipped for part in parts)

    @property
    def _wanted(self) -> list[str]:
        """The tables that an export has, with or without rows."""
        return [name for name in TABLES if name != "records" or self.attempt.options.get("records")]

    def _path(self, file: PartFile) -> str:
        number = self._numbers[file.table]
        self._numbers[file.table] += 1
        return f"{file.table}/{file.partition}part-{number:05}-{self._id}.parquet"

    def _following(self, captures: list[Capture], files: list[PartFile], paths: dict[str, str]) -> Manifest:
        """Return the next manifest, with these captures and files added."""
        before, rows = self._manifest, _rows(files)
        tables = {}
        for name, table in TABLES.items():
            added = [StoredFile(paths[file.path], file.rows, file.size_bytes) for file in files if file.table == name]
            content = before.tables.get(name)
            if added or content:
                stored = [*(content.files if content else ()), *added]
                tables[name] = Content(table.version, (content.rows if content else 0) + rows[name], stored)
        return Manifest(FORMAT, __version__, before.partition_by, [*before.captures, *captures], tables)

    def __enter__(self) -> Export:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _discard(self.folder, self.attempt.staging)
        self._release()

    def _release(self) -> None:
        self._lock.release()
        if self._made and not any(self.folder.iterdir()):
            self.folder.rmdir()


def _rows(files: Iterable[PartFile]) -> Counter[str]:
    rows = Counter[str]()
    for file in files:
        rows[file.table] += file.rows
    return rows


def _only_ours(folder: Path, manifest: Manifest | None) -> None:
    """Raise kshark.UsageError if a glob would read a file that belongs to no table."""
    if manifest is None:
        foreign = [path.name for path in folder.iterdir() if not path.name.startswith(".kshark")]
        why = f"but no {MANIFEST}: it is not a folder of tables; name an empty folder with -o"
    else:
        present = [
            str(path.relative_to(folder)) for name in TABLES for path in (folder / name).rglob("*") if not path.is_dir()
        ]
        foreign, why = (
            [path for path in present if path not in manifest.paths],
            "which is not a file of kshark's tables; name another folder with -o",
        )
    if foreign:
        raise UsageError(f"{folder} holds {min(foreign)}, {why}")


def _same_partitions(folder: Path, manifest: Manifest, by: Sequence[str] | None) -> list[str]:
    """Return the partitions of a folder that is added to.

    Raises kshark.UsageError for other partitions, or if the folder's tables have other columns.
    """
    if by is not None and list(by) != manifest.partition_by:
        partitions = (
            f"has partitions by {','.join(manifest.partition_by)}" if manifest.partition_by else "has no partitions"
        )
        raise UsageError(f"{folder} {partitions}; leave out --partition-by, or name another folder with -o")
    need_columns(folder, manifest)
    return manifest.partition_by


def _discard(folder: Path, staging: Path) -> None:
    """Remove the rest of an attempt: hidden files, and moved or replaced files that the manifest does not list."""
    listed = read_manifest(folder).paths if (folder / MANIFEST).exists() else set()
    for plan in (staging / _NEXT, staging / _REPLACED):
        try:
            planned = msgspec.json.decode(plan.read_bytes(), type=Manifest)
        except (FileNotFoundError, msgspec.DecodeError):  # an incomplete plan: nothing was moved yet
            continue
        _remove(folder, planned.paths - listed)
    shutil.rmtree(staging)


def _remove(folder: Path, paths: Iterable[str]) -> None:
    """Remove these files, and their folders that are empty afterwards."""
    for name in paths:
        path = folder / name
        path.unlink(missing_ok=True)
        for parent in [*path.parents][: len(Path(name).parents) - 1]:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
