"""Formats of tables: plain Parquet, or with the log of Delta or Iceberg beside the same files.

The manifest is the commit, and the log follows it: each of its tables notes the number of the commit that it has. A log
that an export did not finish, since it was killed, follows when the next export begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, get_args

from kshark.errors import UsageError

if TYPE_CHECKING:
    from kshark.output.manifest import Content, Manifest, StoredFile

TableFormat = Literal["parquet", "delta", "iceberg"]
FORMATS: Final[tuple[TableFormat, ...]] = get_args(TableFormat)

#: Folders of logs, in the folder of a table.
_FOLDERS: Final = ("_delta_log", "metadata")
#: The package for a format.
_PACKAGES: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}


class TableLog(Protocol):
    """The log of a folder's tables."""

    format: str

    def follow(self, manifest: Manifest) -> None:
        """Add and remove the files that the manifest has added and removed since the last call.

        Raises kshark.UsageError.
        """


class Changes(NamedTuple):
    """The files that a log must add, and the paths of those that it must remove."""

    added: Sequence[StoredFile]
    removed: Sequence[str]

    @classmethod
    def of(cls, manifest: Manifest, name: str, content: Content, since: int) -> Changes:
        """Return the changes of a table since that commit; none of them may have removed files but the last one."""
        removed = manifest.removed.get(name, []) if 0 < since < manifest.commits else []
        return cls([file for file in content.files if file.commit > since or not since], removed)


class NoLog:
    """Plain Parquet."""

    format = "parquet"

    def follow(self, manifest: Manifest) -> None:
        pass


def log_of(table_format: str, folder: str, partition_by: Sequence[str]) -> TableLog:
    """Return the log of a folder's tables. Raises kshark.UsageError if its package is not installed."""
    if table_format == "parquet":
        return NoLog()
    try:
        module = import_module(f"kshark.output.{table_format}")
    except ImportError as error:
        raise UsageError(
            f"--format {table_format} needs {_PACKAGES[table_format]} ({error}): pip install 'kshark[{table_format}]'"
        ) from None
    log: TableLog = module.Log(folder, partition_by)
    return log


def format_of(folder: str, manifest: Manifest | None, mode: str, asked: TableFormat | None) -> str:
    """Return the format of the tables. Raises kshark.UsageError for another one than that of a folder's log."""
    if manifest is None or (manifest.table_format == "parquet" and (asked is not None or mode == "replace")):
        return asked or "parquet"
    if asked not in (None, manifest.table_format):
        raise UsageError(
            f"{folder} has tables of {manifest.table_format}; leave out --format, or name another folder with -o"
        )
    return manifest.table_format


def is_log(path: str) -> bool:
    """True for a path, relative to the folder of tables, of a log."""
    return path.split("/")[1:2] in ([name] for name in _FOLDERS)
