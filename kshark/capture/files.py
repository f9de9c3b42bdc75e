"""Files by their paths: local files from the system, those of stores by pyarrow.fs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from io import RawIOBase
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from kshark.capture.paths import STANDARD_INPUT, is_remote
from kshark.errors import UnreadableInput, UsageError, Vanished

#: Files of stores that are requested at the same time.
_AT_ONCE: Final = 16

Result = TypeVar("Result")


def open_file(path: str | Path) -> RawIOBase:
    """Open a file for reading at any position; a local file is not buffered. Raises UnreadableInput."""
    if is_remote(path):
        file: RawIOBase = _stores().open_file(str(path))
        return file
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise unreadable(path, error) from None


def size_of(path: str | Path) -> int:
    """Return the bytes of a file. Raises UnreadableInput if it does not exist."""
    if is_remote(path):
        size: int = _stores().size_of(str(path))
        return size
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise unreadable(path, error) from None


def sizes_of(captures: Sequence[Sequence[str]]) -> list[int]:
    """Return the bytes of each capture's files; a missing file counts 0, since the reader reports it."""
    sizes = iter(of_each(_size_if_there, chain.from_iterable(captures)))
    return [sum(islice(sizes, len(files))) for files in captures]


def is_folder(path: str | Path) -> bool:
    return _stores().is_folder(str(path)) if is_remote(path) else Path(path).is_dir()


def is_pipe(path: str | Path) -> bool:
    """True if it can be read only once: standard input, or an existing path that is not a file."""
    return not is_remote(path) and not Path(path).is_file() and (str(path) == STANDARD_INPUT or Path(path).exists())


def below(folder: str | Path) -> list[str | Path]:
    """Return all files in a folder and its subfolders, in order of name; a folder without permission stands for
    itself.
    """
    if is_remote(folder):
        return [*_stores().below(str(folder))]
    locked: list[Path] = []
    walk = os.walk(folder, onerror=lambda error: locked.append(Path(error.filename)))
    paths = [Path(parent, name) for parent, _, names in walk for name in names]
    return sorted([*locked, *(path for path in paths if _may_be_a_file(path))])


def of_each(work: Callable[[str | Path], Result], paths: Iterable[str | Path]) -> list[Result]:
    """Return the work's result for each file; files of stores are processed many at a time, since stores answer
    slowly.
    """
    files = [*paths]
    if not any(map(is_remote, files)):
        return [work(path) for path in files]
    from concurrent.futures import ThreadPoolExecutor  # 10 ms

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [*pool.map(work, files)]


def unreadable(path: str | Path, error: OSError | UnreadableInput) -> UnreadableInput:
    """Return the error as one of that file, in one sentence."""
    if isinstance(error, UnreadableInput):
        return type(error)(f"{path}: {error}")
    kind = Vanished if isinstance(error, FileNotFoundError) else UnreadableInput
    return kind(f"{path}: {(error.strerror or str(error)).lower()}")


def _may_be_a_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:  # opening it raises the error
        return True


def _size_if_there(path: str | Path) -> int:
    try:
        return size_of(path)
    except UnreadableInput:
        return 0


def _stores() -> ModuleType:
    try:
        from kshark.capture import stores
    except ImportError:
        raise UsageError(
            "s3:// and the like are read by pyarrow, which is not installed; pip install 'kshark[parquet]'"
        ) from None
    return stores
