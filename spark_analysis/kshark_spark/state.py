"""What a stream keeps on disk: the files that it took, in their order, and the engine's state behind some of them.

`files.jsonl` has a line that says whose state it is, then one for each file; `snapshot-17` is the state behind the
first 17. A line is on the disk before Spark knows of the file, and a snapshot appears whole: whatever dies in between,
the same files give the same rows again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from kshark.errors import UsageError
from kshark_spark.rotation import File

_FILES: Final = "files.jsonl"
_SNAPSHOT: Final = "snapshot-"
#: Snapshots that are kept: the one that the next batch begins with, and the one before.
_KEPT: Final = 2


class State:
    """The folder, made where it is missing. `of` tells the stream: another one's folder is refused with UsageError."""

    def __init__(self, folder: Path, of: Mapping[str, str]) -> None:
        self.folder = folder
        self.files: list[File] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _FILES
        lines = self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        if whole != lines:  # who wrote the last one died; nobody knows of that file
            os.truncate(self._path, sum(map(len, whole)))
        if not whole:
            self._append([msgspec.json.encode(of)])
        elif (other := msgspec.json.decode(whole[0])) != of:
            differs = next(name for name in {**of, **other} if of.get(name) != other.get(name))
            raise UsageError(
                f"{folder}: the state of another stream ({differs} {other.get(differs)}); give each a folder of its own"
            )
        self.files = [msgspec.json.decode(line, type=File) for line in whole[1:]]

    @property
    def known(self) -> dict[str, File]:
        """The files as they were taken last, by path."""
        return {file.path: file for file in self.files}

    def take(self, files: Iterable[File]) -> None:
        """Notes files, for good."""
        taken = [*files]
        if taken:
            self._append(map(msgspec.json.encode, taken))
            self.files += taken

    def last_snapshot(self, count: int) -> int:
        """The last snapshot behind no more than so many files; 0 where there is none."""
        return max((number for number in snapshots(self.folder) if number <= count), default=0)

    def forget(self, count: int) -> None:
        """All batches up to so many files are done: removes the snapshots that nobody goes back to."""
        for number in sorted(number for number in snapshots(self.folder) if number <= count)[:-_KEPT]:
            snapshot(self.folder, number).unlink(missing_ok=True)

    def _append(self, lines: Iterable[bytes]) -> None:
        with self._path.open("ab") as out:
            out.write(b"".join(line + b"\n" for line in lines))
            out.flush()
            os.fsync(out.fileno())


def snapshot(folder: Path, count: int) -> Path:
    """The file of the state behind so many files."""
    return folder / f"{_SNAPSHOT}{count}"


def snapshots(folder: Path) -> list[int]:
    """Behind how many files there are snapshots."""
    return [
        int(number) for path in folder.glob(f"{_SNAPSHOT}*") if (number := path.name.removeprefix(_SNAPSHOT)).isdigit()
    ]


def write(path: Path, data: bytes) -> None:
    """Writes a file that appears whole or not at all."""
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    with partial.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
