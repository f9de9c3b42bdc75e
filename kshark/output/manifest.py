"""DIR/manifest.json: the files of a folder's tables, and the captures in them. Unlisted files do not count."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from kshark.capture.files import is_folder, is_pipe, open_file, size_of, unreadable
from kshark.capture.paths import inside, named, parted
from kshark.errors import UnreadableInput, UsageError
from kshark.output.table_folder import HIDDEN, TableFolder, is_store, table_folder
from kshark.tables import TABLES, Column

MANIFEST: Final = "manifest.json"
#: Version of the manifest's format.
FORMAT: Final = 2
#: Prefix of what an export leaves if it is killed.
STAGING: Final = f"{HIDDEN}-"


class CaptureFile(msgspec.Struct, frozen=True):
    """An input file: name, size and SHA-256; standard input has neither size nor hash."""

    file: str
    size_bytes: int | None
    sha256: str | None


class Capture(msgspec.Struct, frozen=True):
    """A capture by its name in the tables; `options`: the export's options that decide which rows it has."""

    name: str
    files: list[CaptureFile]
    options: dict[str, Any]

    def is_same(self, other: Capture) -> bool:
        """True if the other capture would have the same rows, except for its name."""
        return self.key is not None and self.key == other.key

    @property
    def key(self) -> str | None:
        """A text that captures with the same rows have, except for their names; None if bytes are unknown."""
        hashes = [file.sha256 for file in self.files]
        return None if None in hashes else msgspec.json.encode([hashes, self.options], order="sorted").decode()


class StoredFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Parquet file, by its path in the folder.

    `version`: that of its columns; None: that of the table. `commit`: the commit that added it.
    """

    path: str
    rows: int
    size_bytes: int
    version: int | None = None
    commit: int = 0


class Content(msgspec.Struct, frozen=True):
    """A table: its version (kshark.tables.Table), the rows of all its files, and the files."""

    version: int
    rows: int
    files: list[StoredFile]

    def version_of(self, file: StoredFile) -> int:
        """Return the version of a file's columns."""
        return self.version if file.version is None else file.version

    def versioned(self) -> list[StoredFile]:
        """Return the files, each with its own version."""
        return [msgspec.structs.replace(file, version=self.version_of(file)) for file in self.files]

    @classmethod
    def of(cls, files: Sequence[StoredFile]) -> Content:
        """Return a table with these files, each with its own version."""
        version = max(file.version or 0 for file in files)
        plain = [
            msgspec.structs.replace(file, version=None if file.version == version else file.version) for file in files
        ]
        return cls(version, sum(file.rows for file in files), plain)


class Manifest(msgspec.Struct, frozen=True):
    """A folder of tables: the version of kshark that wrote it, its captures, and all its files.

    `table_format`: parquet, delta or iceberg. `commits`: number of commits so far. `removed`: by table, the files that
    the last commit removed; `rearranged`: it changed no rows. A log of Delta or Iceberg follows the manifest by these.
    `faults`: the error messages in the table of that name.
    """

    format: int
    kshark: str
    partition_by: list[str]
    captures: list[Capture]
    tables: dict[str, Content]
    table_format: str = "parquet"
    commits: int = 0
    removed: dict[str, list[str]] = {}
    rearranged: bool = False
    faults: list[str] = []

    @property
    def paths(self) -> set[str]:
        """The paths of all files."""
        return {file.path for table in self.tables.values() for file in table.files}

    def written(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


class _Format(msgspec.Struct):
    """The fields of every version of the manifest."""

    format: int
    kshark: str


def is_tables(folder: str | Path) -> bool:
    """True if a path is a folder of tables, complete or not."""
    if is_store(folder):
        return is_folder(folder) and (
            table_folder(folder).read(MANIFEST) is not None or is_folder(inside(str(folder), "exchanges"))
        )
    path = Path(named(folder))
    return (path / MANIFEST).is_file() or (path / "exchanges").is_dir() or any(path.glob(f"{STAGING}*"))


def read_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of a folder of tables.

    Raises kshark.UsageError if there is none, or if a later version of kshark wrote it.
    """
    manifest = manifest_if_there(table_folder(folder))
    if manifest is None:
        raise UsageError(f"{folder} has no {MANIFEST}: it is not a folder of tables, or its export did not finish")
    return manifest


def manifest_if_there(folder: TableFolder) -> Manifest | None:
    """Read the manifest in the same way; None if there is none."""
    text, path = folder.read(MANIFEST), inside(folder.name, MANIFEST)
    if text is None:
        return None
    try:
        written = msgspec.json.decode(text, type=_Format)
        manifest = msgspec.json.decode(text, type=Manifest) if written.format == FORMAT else None
    except msgspec.MsgspecError:
        raise UsageError(f"{path} is not a manifest of kshark") from None
    if written.format < FORMAT:
        raise UsageError(
            f"{path} was written by an earlier kshark ({written.kshark}); export the captures again, into another "
            f"folder"
        )
    if manifest is None or any(
        name not in TABLES or table.version > TABLES[name].version for name, table in manifest.tables.items()
    ):
        raise UsageError(
            f"{path} was written by kshark {written.kshark}, whose tables are unknown to this version; upgrade kshark"
        )
    return manifest


def whole_captures(folder: str | Path) -> Manifest:
    """Read the manifest of a folder that can be checked.

    Raises kshark.UsageError if only some exchanges have rows, or if a column is missing without which no verdict can be
    trusted.
    """
    manifest = read_manifest(folder)
    for capture in manifest.captures:
        if "filter" in capture.options:
            raise UsageError(
                f"{folder} contains only messages that passed -Y '{capture.options['filter']}', too few for a check; "
                f"export it without -Y"
            )
    for name, column in _absent(manifest):
        if column.needed:
            raise UsageError(
                f"{folder} was written by an earlier kshark, whose table {name} has no column {column.name}, which a "
                f"check needs; export its captures again"
            )
    return manifest


def absent_columns(manifest: Manifest) -> list[str]:
    """Return the columns that some files lack, as `table.column`: their rows have null there."""
    return [f"{name}.{column.name}" for name, column in _absent(manifest)]


def _absent(manifest: Manifest) -> Iterator[tuple[str, Column]]:
    for name, content in manifest.tables.items():
        version = min(map(content.version_of, content.files), default=content.version)
        yield from ((name, column) for column in TABLES[name].columns if column.since > version)


def capture_of(name: str, files: Sequence[str], options: dict[str, Any]) -> Capture:
    """Return the capture of these files, with their hashes.

    Reads all bytes: call it where the packets are read. Raises UnreadableInput.
    """
    try:
        return Capture(name, [_file(file) for file in files], options)
    except UnreadableInput as error:
        error.when = "hash"
        raise


def _file(file: str) -> CaptureFile:
    if is_pipe(file):
        return CaptureFile(file, None, None)
    try:
        with open_file(file) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(file, error) from None
    return CaptureFile(PurePath(parted(file)[0]).name, size_of(file), digest)
