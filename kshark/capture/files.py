"""Files by their paths: this machine's as its system has them, those of stores by pyarrow.fs."""

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

#: Files of stores that are asked for at the same time.
_AT_ONCE: Final = 16

Result = TypeVar("Result")


def open_file(path: str | Path) -> RawIOBase:
    """To be read at any place; buffers nothing of a local file. Raises UnreadableInput."""
    if is_remote(path):
        file: RawIOBase = _stores().open_file(str(path))
        return file
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise unreadable(path, error) from None


def size_of(path: str | Path) -> int:
    """Bytes of a file. Raises UnreadableInput where there is none."""
    if is_remote(path):
        size: int = _stores().size_of(str(path))
        return size
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise unreadable(path, error) from None


def sizes_of(captures: Sequence[Sequence[str]]) -> list[int]:
    """Bytes of each capture's files, as far as they are there: whoever reads the others says what is wrong."""
    known = iter(of_each(_size_if_there, chain.from_iterable(captures)))
    return [sum(islice(known, len(files))) for files in captures]


def is_folder(path: str | Path) -> bool:
    return _stores().is_folder(str(path)) if is_remote(path) else Path(path).is_dir()


def is_pipe(path: str | Path) -> bool:
    """Whether it can be read only once: standard input, or what is there and no file."""
    return not is_remote(path) and not Path(path).is_file() and (str(path) == STANDARD_INPUT or Path(path).exists())


def below(folder: str | Path) -> list[str | Path]:
    """All files in a folder and its folders, in order of name, and as one of them each folder that may not be looked
    into."""
    if is_remote(folder):
        return [*_stores().below(str(folder))]
    locked: list[Path] = []
    walk = os.walk(folder, onerror=lambda error: locked.append(Path(error.filename)))
    found = [Path(parent, name) for parent, _, names in walk for name in names]
    return sorted([*locked, *(path for path in found if _may_be_a_file(path))])


def of_each(work: Callable[[str | Path], Result], paths: Iterable[str | Path]) -> list[Result]:
    """The work's result for each file, of stores many at a time, since they answer late."""
    known = [*paths]
    if not any(map(is_remote, known)):
        return [work(path) for path in known]
    from concurrent.futures import ThreadPoolExecutor  # 10 ms

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [*pool.map(work, known)]


def unreadable(path: str | Path, error: OSError | UnreadableInput) -> UnreadableInput:
    """The error as one of that file, in one sentence."""
    if isinstance(error, UnreadableInput):
        return type(error)(f"{path}: {error}")
    kind = Vanished if isinstance(error, FileNotFoundError) else UnreadableInput
    return kind(f"{path}: {(error.strerror or str(error)).lower()}")


def _may_be_a_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:  # whoever opens it says so
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
