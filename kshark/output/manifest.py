"""DIR/manifest.json: which files are a folder's tables, and which captures they hold. A file that it does not list is
no part of them."""

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
#: Beginning of the names of folders in which an export's files wait for the manifest.
STAGING: Final = ".kshark-"


class CaptureFile(msgspec.Struct, frozen=True):
    """A file that was read: name, size and SHA-256; standard input has neither size nor hash."""

    file: str
    size_bytes: int | None
    sha256: str | None


class Capture(msgspec.Struct, frozen=True):
    """A capture by its name in the tables; `options` are those of the export that decide which rows it has."""

    name: str
    files: list[CaptureFile]
    options: dict[str, Any]

    def is_same(self, other: Capture) -> bool:
        """Whether the other one would have the same rows, but for its name."""
        hashes, others = ([file.sha256 for file in capture.files] for capture in (self, other))
        return None not in hashes and hashes == others and self.options == other.options


class Stored(msgspec.Struct, frozen=True):
    """A Parquet file, by its path in the folder."""

    path: str
    rows: int
    size_bytes: int


class Content(msgspec.Struct, frozen=True):
    """A table: its version (kshark.tables.Table), the rows of all its files, and the files."""

    version: int
    rows: int
    files: list[Stored]


class Manifest(msgspec.Struct, frozen=True):
    """A folder of tables: who wrote it, from which captures, and all its files."""

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
    """What every version of the manifest has."""

    format: int
    kshark: str


def is_tables(folder: Path) -> bool:
    """Whether a path is a folder of tables, whole or not."""
    return (folder / MANIFEST).is_file() or (folder / "exchanges").is_dir() or any(folder.glob(f"{STAGING}*"))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder of tables. Raises kshark.UsageError where there is none, or another version of kshark
    wrote it."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"{folder} holds no {MANIFEST}: it is no folder of tables, or its export was not finished")
    try:
        text = path.read_bytes()
        written = msgspec.json.decode(text, type=_Format)
        manifest = msgspec.json.decode(text, type=Manifest) if written.format == FORMAT else None
    except msgspec.MsgspecError:
        raise UsageError(f"{path} is no manifest of kshark") from None
    if written.format < FORMAT:
        raise UsageError(
            f"{path} was written by an earlier kshark ({written.kshark}); export the captures again, into another "
            f"folder"
        )
    if manifest is None or any(
        name not in TABLES or table.version > TABLES[name].version for name, table in manifest.tables.items()
    ):
        raise UsageError(
            f"{path} was written by kshark {written.kshark}, whose tables this version does not know; upgrade kshark"
        )
    return manifest


def whole_captures(folder: Path) -> Manifest:
    """The same, of a folder by which a check can judge. Raises kshark.UsageError where only some exchanges have rows,
    or columns lack."""
    manifest = read_manifest(folder)
    need_columns(folder, manifest)
    for capture in manifest.captures:
        if "filter" in capture.options:
            raise UsageError(
                f"{folder} holds only what passed -Y '{capture.options['filter']}', by which nobody can be judged; "
                f"export it without -Y"
            )
    return manifest


def need_columns(folder: Path, manifest: Manifest) -> None:
    """Raises kshark.UsageError where an earlier version's tables had other columns."""
    if any(table.version != TABLES[name].version for name, table in manifest.tables.items()):
        raise UsageError(
            f"{folder} was written by kshark {manifest.kshark}, whose tables had other columns; export its captures "
            f"again"
        )


def capture_of(name: str, files: Sequence[str], options: dict[str, Any]) -> Capture:
    """The capture of these files, all bytes of which are read for their hashes: do it where the packets are read.

    Raises UnreadableInput.
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
