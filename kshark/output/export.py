"""An export into a folder: parts are written out of sight, and a commit shows them all at once.

    with Export("tables", mode="append") as export:
        parts = [...]  # tasks write them, with export.attempt (kshark.output.parquet_part)
        export.commit(parts)

DIR/manifest.json, replaced by one rename, says which files are the tables: readers see all of a commit or nothing.
Files wait in DIR/.kshark-ATTEMPT, which globs, Spark and DuckDB do not look into, and are moved to
DIR/TABLE/part-NUMBER-ATTEMPT.parquet just before the manifest names them. What a task that was tried twice wrote
besides, and what an export left that was killed, is taken away; no file that kshark did not write ever is."""

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
    Stored,
    need_columns,
    read_manifest,
)
from kshark.output.parquet_files import PartFile, empty_file
from kshark.output.parquet_part import Attempt, Part
from kshark.tables import TABLES
from kshark.tables.captures import capture_names

#: An export replaces the one before, or adds to it; resuming, it leaves out captures that are there with the same
#: options.
Mode = Literal["replace", "append", "resume"]

#: In the staging folder: the manifest that is about to be, and the one that it replaces.
_NEXT: Final = "next.json"
_REPLACED: Final = "replaced.json"


class Export:
    """One export: a context, at whose end nothing is left of what was not committed.

    `options`: those that decide which rows captures have; `partition_by`: kshark.output.parquet_partitions.BY, None as
    the folder has it. Raises kshark.UsageError for a folder that holds anything else, or that another export writes
    into."""

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
            found = read_manifest(self.folder) if (self.folder / MANIFEST).exists() else None
            for left in self.folder.glob(f"{STAGING}*"):
                _discard(self.folder, left)
            _only_ours(self.folder, found)
            by = (
                list(partition_by or ())
                if found is None or mode == "replace"
                else _same_partitions(self.folder, found, partition_by)
            )
        except BaseException:
            self._release()
            raise
        self.mode: Final = mode
        self._id = uuid4().hex[:12]
        there = found.captures if found is not None and mode == "resume" else []
        #: What tasks are told.
        self.attempt: Final = Attempt(self.folder.absolute() / f"{STAGING}{self._id}", options or {}, by, there)
        self.attempt.staging.mkdir()
        self._replaced = found if mode == "replace" else None
        self._manifest = found if mode != "replace" and found is not None else Manifest(FORMAT, __version__, by, [], {})
        self._numbers = Counter[str]()
        #: Rows of each table that were committed.
        self.rows = Counter[str]()
        #: What was said of captures that could not be read.
        self.faults: list[str] = []
        #: Captures that were left out since they are there.
        self.skipped = 0

    def names(self, captures: Sequence[Sequence[str]]) -> list[str]:
        """A name for each capture that no other in the folder has."""
        return capture_names(captures, {capture.name for capture in self._manifest.captures})

    def commit(self, parts: Iterable[Part]) -> None:
        """Shows what tasks have written; later commits of the same export add to it."""
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
        """The tables that an export has, with rows or without."""
        return [name for name in TABLES if name != "records" or self.attempt.options.get("records")]

    def _path(self, file: PartFile) -> str:
        number = self._numbers[file.table]
        self._numbers[file.table] += 1
        return f"{file.table}/{file.partition}part-{number:05}-{self._id}.parquet"

    def _following(self, captures: list[Capture], files: list[PartFile], paths: dict[str, str]) -> Manifest:
        """The manifest with these captures and files too."""
        before, rows = self._manifest, _rows(files)
        tables = {}
        for name, table in TABLES.items():
            added = [Stored(paths[file.path], file.rows, file.size_bytes) for file in files if file.table == name]
            known = before.tables.get(name)
            if added or known:
                stored = [*(known.files if known else ()), *added]
                tables[name] = Content(table.version, (known.rows if known else 0) + rows[name], stored)
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
    """Raises kshark.UsageError where a glob would take a file for a table's that is not."""
    if manifest is None:
        foreign = [path.name for path in folder.iterdir() if not path.name.startswith(".kshark")]
        why = f"and no {MANIFEST}: it is no folder of tables; name an empty folder with -o"
    else:
        held = [
            str(path.relative_to(folder)) for name in TABLES for path in (folder / name).rglob("*") if not path.is_dir()
        ]
        foreign, why = (
            [path for path in held if path not in manifest.paths],
            "which is no table of kshark's; name another folder with -o",
        )
    if foreign:
        raise UsageError(f"{folder} holds {min(foreign)}, {why}")


def _same_partitions(folder: Path, manifest: Manifest, by: Sequence[str] | None) -> list[str]:
    """The partitions of a folder that is added to. Raises kshark.UsageError for others, or where its columns were
    others."""
    if by is not None and list(by) != manifest.partition_by:
        has = f"has partitions by {','.join(manifest.partition_by)}" if manifest.partition_by else "has no partitions"
        raise UsageError(f"{folder} {has}; leave out --partition-by, or name another folder with -o")
    need_columns(folder, manifest)
    return manifest.partition_by


def _discard(folder: Path, staging: Path) -> None:
    """Takes away what an attempt left: files out of sight, and any it had moved, or replaced, that the manifest does
    not list."""
    listed = read_manifest(folder).paths if (folder / MANIFEST).exists() else set()
    for plan in (staging / _NEXT, staging / _REPLACED):
        try:
            planned = msgspec.json.decode(plan.read_bytes(), type=Manifest)
        except (FileNotFoundError, msgspec.DecodeError):  # half a plan: nothing was moved yet
            continue
        _remove(folder, planned.paths - listed)
    shutil.rmtree(staging)


def _remove(folder: Path, paths: Iterable[str]) -> None:
    """Takes away these files, and folders that are empty then."""
    for name in paths:
        path = folder / name
        path.unlink(missing_ok=True)
        for parent in [*path.parents][: len(Path(name).parents) - 1]:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
