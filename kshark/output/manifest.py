"""DIR/manifest.json: the files of a folder's tables, and the captures in them. Unlisted files do not count."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from kshark.capture.files import is_pipe, open_file, size_of, unreadable
from kshark.capture.paths import parted
from kshark.errors import UnreadableInput, UsageError
from kshark.tables import TABLES

MANIFEST: Final = "manifest.json"
#: Version of the manifest's format.
FORMAT: Final = 2
#: Prefix of the folders in which an export's files wait for the manifest.
STAGING: Final = ".kshark-"


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
        hashes, others = ([file.sha256 for file in capture.files] for capture in (self, other))
        return None not in hashes and hashes == others and self.options == other.options


class StoredFile(msgspec.Struct, frozen=True):
    """A Parquet file, by its path in the folder."""

    path: str
    rows: int
    size_bytes: int


class Content(msgspec.Struct, frozen=True):
    """A table: its version (kshark.tables.Table), the rows of all its files, and the files."""

    version: int
    rows: int
    files: list[StoredFile]


class Manifest(msgspec.Struct, frozen=True):
    """A folder of tables: the version of kshark that wrote it, its captures, and all its files."""

    format: int
    kshark: str
    partition_by: list[str]
    captures: list[Capture]
    tables: dict[str, Content]

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


def is_tables(folder: Path) -> bool:
    """True if a path is a folder of tables, complete or not."""
    return (folder / MANIFEST).is_file() or (folder / "exchanges").is_dir() or any(folder.glob(f"{STAGING}*"))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder of tables.

    Raises kshark.UsageError if there is none, or if another version of kshark wrote it.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"{folder} has no {MANIFEST}: it is not a folder of tables, or its export did not finish")
    try:
        text = path.read_bytes()
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


def whole_captures(folder: Path) -> Manifest:
    """Read the manifest of a folder that can be checked.

    Raises kshark.UsageError if only some exchanges have rows, or if columns are missing.
    """
    manifest = read_manifest(folder)
    need_columns(folder, manifest)
    for capture in manifest.captures:
        if "filter" in capture.options:
            raise UsageError(
                f"{folder} contains only messages that passed -Y '{capture.options['filter']}', too few for a check; "
                f"export it without -Y"
            )
    return manifest


def need_columns(folder: Path, manifest: Manifest) -> None:
    """Raise kshark.UsageError if the tables of an earlier version have other columns."""
    if any(table.version != TABLES[name].version for name, table in manifest.tables.items()):
        raise UsageError(
            f"{folder} was written by kshark {manifest.kshark}, whose tables had other columns; export its captures "
            f"again"
        )


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
