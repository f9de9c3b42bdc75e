"""A folder of tables: on this machine, or in a store (`s3://bucket/tables`), with the same few operations.

On this machine an export writes into a hidden folder, and its files appear by renaming. A store has no renaming: files
are written where they stay, under names that no other export uses, and count only once the manifest lists them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

from kshark.capture.files import of_each
from kshark.capture.paths import inside, is_remote, named, parted
from kshark.errors import UsageError
from kshark.output.folder_lock import FolderLock
from kshark.output.local_folder import local_folder

#: Prefix of hidden files and folders of exports that run, or were killed.
HIDDEN: Final = ".kshark"


def mark(id: str) -> str:
    """Return the file that names an export, while it runs or if it was killed."""
    return f"{HIDDEN}-{id}.json"


class TableFolder(Protocol):
    """Paths are relative to the folder. `begin` and `end` enclose an export, which has an `id`."""

    @property
    def name(self) -> str: ...

    def place(self, id: str) -> str:
        """Return the folder, with its full path, into which tasks of an export write."""

    def begin(self, id: str) -> None:
        """Begin an export. Raises kshark.UsageError if another one runs."""

    def check(self, id: str) -> None:
        """Raise kshark.UsageError if another export has begun since `begin`."""

    def others(self, id: str) -> list[str]:
        """Return the ids of other exports, which were killed."""

    def discard(self, ids: Iterable[str]) -> None:
        """Remove the marks of exports, and what waits in their places."""

    def end(self, id: str) -> None:
        """End the export."""

    def read(self, path: str) -> bytes | None:
        """Return a file; None if there is none."""

    def write(self, path: str, data: bytes) -> None:
        """Replace a file as a whole."""

    def move(self, id: str, waiting: str, path: str) -> str:
        """Publish a file that tasks have written, under this path or the returned one."""

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, and folders that are empty afterwards."""

    def files(self) -> list[str]:
        """Return all files."""


def table_folder(folder: str | Path) -> TableFolder:
    """Return the folder, which may not exist yet. Raises kshark.UsageError for a path that cannot be one."""
    return StoreFolder(str(folder)) if is_store(folder) else LocalFolder(local_folder(named(folder)))


def is_store(folder: str | Path) -> bool:
    """True for a path of a store. Raises kshark.UsageError for the scheme of an unknown one."""
    return is_remote(named(folder))


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.name: Final = str(path)
        self._lock: FolderLock | None = None
        self._made = False

    def place(self, id: str) -> str:
        return str(self.path.absolute() / f"{HIDDEN}-{id}")

    def begin(self, id: str) -> None:
        self._made = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.path)
        Path(self.place(id)).mkdir()

    def check(self, id: str) -> None:
        pass  # the lock holds

    def others(self, id: str) -> list[str]:
        marks = {path.name.removesuffix(".json") for path in self.path.glob(f"{HIDDEN}-*")}
        return sorted({name.removeprefix(f"{HIDDEN}-") for name in marks} - {id})

    def discard(self, ids: Iterable[str]) -> None:
        for id in ids:
            shutil.rmtree(self.place(id), ignore_errors=True)
            (self.path / mark(id)).unlink(missing_ok=True)

    def end(self, id: str) -> None:
        shutil.rmtree(self.place(id), ignore_errors=True)
        if self._lock is not None:
            self._lock.release()
        if self._made and not any(self.path.iterdir()):
            self.path.rmdir()

    def read(self, path: str) -> bytes | None:
        try:
            return (self.path / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, data: bytes) -> None:
        waiting = self.path / f"{HIDDEN}.next"
        waiting.write_bytes(data)
        os.replace(waiting, self.path / path)

    def move(self, id: str, waiting: str, path: str) -> str:
        (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        os.rename(Path(self.place(id)) / waiting, self.path / path)
        return path

    def remove(self, paths: Iterable[str]) -> None:
        for name in paths:
            path = self.path / name
            path.unlink(missing_ok=True)
            for parent in [*path.parents][: len(Path(name).parents) - 1]:
                if parent.is_dir() and not any(parent.iterdir()):
                    parent.rmdir()

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*") if not path.is_dir())


class StoreFolder:
    """A folder of a store, which has no locks: the export that began last may commit."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._turn = f"{HIDDEN}.lock"

    def place(self, id: str) -> str:
        return self.name

    def begin(self, id: str) -> None:
        self.write(self._turn, id.encode())

    def check(self, id: str) -> None:
        if self.read(self._turn) != id.encode():
            raise UsageError(
                f"another export into {parted(self.name)[0]} began while this one ran; what this one has committed is "
                "there, and --resume adds the rest: run one at a time"
            )

    def others(self, id: str) -> list[str]:
        marks = [path for path in self.files() if path.startswith(f"{HIDDEN}-") and path.endswith(".json")]
        return [path.removeprefix(f"{HIDDEN}-").removesuffix(".json") for path in marks if path != mark(id)]

    def discard(self, ids: Iterable[str]) -> None:
        self.remove(map(mark, ids))

    def end(self, id: str) -> None:
        if self.read(self._turn) == id.encode():
            self.remove([self._turn])

    def read(self, path: str) -> bytes | None:
        data: bytes | None = _stores().read(inside(self.name, path))
        return data

    def write(self, path: str, data: bytes) -> None:
        _stores().write(inside(self.name, path), data)

    def move(self, id: str, waiting: str, path: str) -> str:
        return waiting

    def remove(self, paths: Iterable[str]) -> None:
        of_each(_stores().remove, [inside(self.name, path) for path in paths])

    def files(self) -> list[str]:
        root = len(inside(parted(self.name)[0], ""))
        return [parted(path)[0][root:] for path in _stores().below(self.name)]


def _stores() -> ModuleType:
    from kshark.capture import stores  # pyarrow.fs

    return stores
