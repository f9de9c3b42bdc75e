"""An export into a folder: tasks write parts, and a commit publishes all of them at once.

    with Export("tables", mode="append") as export:
        parts = [...]  # written by tasks with export.attempt (kshark.output.parquet_part)
        export.commit(parts)

DIR/manifest.json lists the files of the tables and is replaced as a whole: its readers see a whole commit or nothing.
On this machine files wait in DIR/.kshark-ID, which globs, Spark and DuckDB ignore, and move to DIR/TABLE just before
the manifest lists them; in a store they are written in their place (kshark.output.table_folder).
DIR/.kshark-ID.json names an export that runs or was killed, with the files that it replaces: the next export removes
what it left. Files that kshark did not write are never removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal
from uuid import uuid4

import msgspec

from kshark import __version__
from kshark.errors import UsageError
from kshark.output.manifest import (
    FORMAT,
    MANIFEST,
    Capture,
    Content,
    Manifest,
    StoredFile,
    manifest_if_there,
)
from kshark.output.parquet_files import PartFile, empty_file
from kshark.output.parquet_part import Attempt, Part
from kshark.output.table_folder import HIDDEN, TableFolder, mark, table_folder
from kshark.output.table_logs import TableFormat, TableLog, format_of, is_log, log_of
from kshark.tables import OF_RECORDS, TABLES
from kshark.tables.captures import capture_names

#: An export replaces an earlier one, or adds to it; `resume` also skips captures already exported with the same
#: options.
Mode = Literal["replace", "append", "resume"]


class Export:
    """One export, as a context; its end removes everything that was not committed.

    `folder`: on this machine or in a store. `options`: options that decide which rows captures have. `partition_by`:
    values of kshark.output.parquet_partitions.BY, None for those of the folder. `table_format`: None for the folder's.
    Raises kshark.UsageError for a folder with other content, or if another export writes into it.
    """

    def __init__(
        self,
        folder: str | Path,
        options: dict[str, Any] | None = None,
        *,
        mode: Mode = "replace",
        partition_by: Sequence[str] | None = None,
        table_format: TableFormat | None = None,
    ) -> None:
        self._folder: Final = table_folder(folder)
        self.folder: Final = self._folder.name
        self._id: Final = uuid4().hex[:12]
        self._folder.begin(self._id)
        try:
            manifest = manifest_if_there(self._folder)
            kind = format_of(self.folder, manifest, mode, table_format)
            by = _partitions(self.folder, manifest, mode, partition_by)
            self._log: TableLog = log_of(kind, self.folder, by)
            if manifest is not None and manifest.table_format == kind:
                self._log.follow(manifest)
            self._begin(manifest)
        except BaseException:
            self._folder.end(self._id)
            raise
        self.mode: Final = mode
        there = manifest if mode == "resume" else None
        #: The settings for tasks.
        self.attempt: Final = Attempt(
            self._folder.place(self._id),
            self._id,
            options or {},
            by,
            frozenset() if there is None else frozenset(capture.key for capture in there.captures) - {None},
            frozenset() if there is None else frozenset(there.faults),
        )
        fresh = Manifest(FORMAT, __version__, by, [], {}, kind, 0 if manifest is None else manifest.commits)
        self._replaced = manifest if mode == "replace" else None
        self._manifest = manifest if mode != "replace" and manifest is not None else fresh
        self._numbers = Counter[str]()
        #: False if the log of Delta or Iceberg lacks the last commit, and needs the files that it replaces.
        self._log_follows = True
        #: Committed rows of each table.
        self.rows = Counter[str]()
        #: Error messages of captures that could not be read.
        self.faults: list[str] = []
        #: Number of captures that were skipped because they exist already.
        self.skipped = 0

    @property
    def replaces(self) -> bool:
        """True until the first commit of an export that replaces another one: it must have all captures."""
        return self._replaced is not None

    @property
    def manifest(self) -> Manifest:
        """The last commit."""
        return self._manifest

    def names(self, captures: Sequence[Sequence[str]]) -> list[str]:
        """Return a name for each capture; no other capture in the folder has the same."""
        return capture_names(captures, {capture.name for capture in self._manifest.captures})

    def commit(self, parts: Iterable[Part]) -> None:
        """Publish the files that tasks have written; later commits of the same export add to them."""
        parts = list(parts)
        files = [file for part in parts for file in part.files]
        absent = {*self._wanted} - {*self._manifest.tables} - {file.table for file in files}
        files += [
            empty_file(self.attempt.place, self._id, TABLES[name], self.attempt.partition_by)
            for name in TABLES
            if name in absent
        ]
        captures = [capture for part in parts for capture in part.captures]
        if files or captures or self._replaced is not None:
            faults = dict.fromkeys([*self._manifest.faults, *(fault for part in parts for fault in part.faults)])
            before = msgspec.structs.replace(self._manifest, faults=[*faults])
            self._publish(before, captures, files, {} if self._replaced is None else _paths(self._replaced))
        self._replaced = None
        self.rows.update(dict.fromkeys(self._wanted, 0))
        for file in files:
            self.rows[file.table] += file.rows
        self.faults += [fault for part in parts for fault in part.faults]
        self.skipped += sum(part.skipped for part in parts)

    def rewrite(self, files: Sequence[PartFile], replaced: Mapping[str, Sequence[str]]) -> None:
        """Publish files with the rows of others, by table, which are removed."""
        gone = {path for paths in replaced.values() for path in paths}
        tables = {
            name: Content(
                content.version, content.rows, [file for file in content.versioned() if file.path not in gone]
            )
            for name, content in self._manifest.tables.items()
        }
        self._publish(msgspec.structs.replace(self._manifest, tables=tables), [], files, replaced, rearranged=True)

    @property
    def _wanted(self) -> list[str]:
        """The tables that an export has, with or without rows."""
        return [name for name in TABLES if name not in OF_RECORDS or self.attempt.options.get("records")]

    def _publish(
        self,
        before: Manifest,
        captures: Sequence[Capture],
        files: Sequence[PartFile],
        replaced: Mapping[str, Sequence[str]],
        *,
        rearranged: bool = False,
    ) -> None:
        """Write the manifest that follows `before`: with these captures and files, instead of the `replaced` files."""
        old = [path for paths in replaced.values() for path in paths]
        if old:
            self._folder.write(mark(self._id), msgspec.json.encode(old))
        number = before.commits + 1
        added: dict[str, list[StoredFile]] = {name: [] for name in TABLES}
        for file in files:
            path = self._folder.move(self._id, file.path, self._path(file))
            added[file.table].append(StoredFile(path, file.rows, file.size_bytes, file.version, number))
        tables = {
            name: Content.of([*(before.tables[name].versioned() if name in before.tables else ()), *added[name]])
            for name in TABLES
            if added[name] or name in before.tables
        }
        following = msgspec.structs.replace(
            before,
            kshark=__version__,
            captures=[*before.captures, *captures],
            tables=tables,
            table_format=self._log.format,
            commits=number,
            removed={name: [*paths] for name, paths in replaced.items()},
            rearranged=rearranged,
        )
        self._folder.check(self._id)
        self._log_follows = False
        self._folder.write(MANIFEST, following.written())
        self._manifest = following
        self._log.follow(following)
        self._log_follows = True
        self._folder.remove(old)

    def _path(self, file: PartFile) -> str:
        number = self._numbers[file.table]
        self._numbers[file.table] += 1
        return f"{file.table}/{file.partition}part-{number:05}-{self._id}.parquet"

    def __enter__(self) -> Export:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._log_follows:
            _tidy(self._folder, [self._id])
        self._folder.end(self._id)

    def _begin(self, manifest: Manifest | None) -> None:
        """Remove what killed exports left, and leave a mark. Raises kshark.UsageError if a glob would read a file that
        belongs to no table.
        """
        _tidy(self._folder, self._folder.others(self._id))
        foreign, why = _foreign(self._folder, manifest)
        if foreign:
            raise UsageError(f"{self.folder} holds {min(foreign)}, {why}")
        self._folder.write(mark(self._id), b"[]")


def _paths(manifest: Manifest) -> dict[str, list[str]]:
    return {name: [file.path for file in content.files] for name, content in manifest.tables.items()}


def _tidy(folder: TableFolder, ids: Sequence[str]) -> None:
    """Remove unlisted files of these exports, unlisted ones that they replaced, and the marks of the exports."""
    if not ids:
        return
    manifest = manifest_if_there(folder)
    listed = set[str]() if manifest is None else manifest.paths
    ends = tuple(f"-{id}.parquet" for id in ids)
    left = {path for path in folder.files() if path.endswith(ends)}
    for id in ids:
        left.update(msgspec.json.decode(folder.read(mark(id)) or b"[]", type=list[str]))
    folder.remove(sorted(path for path in left - listed if not path.startswith(HIDDEN)))
    folder.discard(ids)


def _foreign(folder: TableFolder, manifest: Manifest | None) -> tuple[list[str], str]:
    """Return files that a glob would read though they belong to no table, and why they are refused."""
    if manifest is None:
        foreign = [path.partition("/")[0] for path in folder.files() if not path.startswith(HIDDEN)]
        return foreign, f"but no {MANIFEST}: it is not a folder of tables; name an empty folder with -o"
    present = (path for path in folder.files() if path.partition("/")[0] in TABLES and not is_log(path))
    return (
        [path for path in present if "/" in path and path not in manifest.paths],
        "which is not a file of kshark's tables; name another folder with -o",
    )


def _partitions(folder: str, manifest: Manifest | None, mode: Mode, by: Sequence[str] | None) -> list[str]:
    """Return the partitions of the tables. Raises kshark.UsageError for others than those of a folder that is added
    to, or of its log.
    """
    if manifest is None or (mode == "replace" and manifest.table_format == "parquet"):
        return [*(by or ())]
    if by is not None and list(by) != manifest.partition_by:
        partitions = (
            f"has partitions by {','.join(manifest.partition_by)}" if manifest.partition_by else "has no partitions"
        )
        raise UsageError(f"{folder} {partitions}; leave out --partition-by, or name another folder with -o")
    return manifest.partition_by
