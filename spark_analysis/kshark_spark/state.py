"""The state of a stream on disk: the accepted files in their order, and snapshots of the engine.

`files.jsonl` has a line that identifies the stream, then one line for each file; `snapshot-17` is the engine's state
after the first 17 files. A line is on disk before Spark learns of the file, and a snapshot is written atomically. After
a crash at any time, the same files produce the same rows again.
"""

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
#: Number of snapshots to keep: the one for the next batch, and the one before.
_KEPT: Final = 2


class State:
    """The state folder, created if missing. `of` identifies the stream: another stream's folder raises UsageError."""

    def __init__(self, folder: Path, of: Mapping[str, str]) -> None:
        self.folder = folder
        self.files: list[File] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _FILES
        lines = self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        if whole != lines:  # the writer crashed in the last line; no batch uses that file
            os.truncate(self._path, sum(map(len, whole)))
        if not whole:
            self._append([msgspec.json.encode(of)])
        elif (other := msgspec.json.decode(whole[0])) != of:
            differs = next(name for name in {**of, **other} if of.get(name) != other.get(name))
            raise UsageError(
                f"{folder}: the state of another stream ({differs} {other.get(differs)}); use one folder per stream"
            )
        self.files = [msgspec.json.decode(line, type=File) for line in whole[1:]]

    @property
    def accepted(self) -> dict[str, File]:
        """The accepted files in their last version, by path."""
        return {file.path: file for file in self.files}

    def accept(self, files: Iterable[File]) -> None:
        """Record files permanently."""
        accepted = [*files]
        if accepted:
            self._append(map(msgspec.json.encode, accepted))
            self.files += accepted

    def last_snapshot(self, count: int) -> int:
        """Return the last snapshot after at most `count` files; 0 if there is none."""
        return max((number for number in snapshots(self.folder) if number <= count), default=0)

    def forget(self, count: int) -> None:
        """Remove the snapshots that are no longer needed when all batches up to `count` files are done."""
        for number in sorted(number for number in snapshots(self.folder) if number <= count)[:-_KEPT]:
            snapshot(self.folder, number).unlink(missing_ok=True)

    def _append(self, lines: Iterable[bytes]) -> None:
        with self._path.open("ab") as out:
            out.write(b"".join(line + b"\n" for line in lines))
            out.flush()
            os.fsync(out.fileno())


def snapshot(folder: Path, count: int) -> Path:
    """Return the file of the snapshot after `count` files."""
    return folder / f"{_SNAPSHOT}{count}"


def snapshots(folder: Path) -> list[int]:
    """Return the numbers of files after which there are snapshots."""
    return [
        int(number) for path in folder.glob(f"{_SNAPSHOT}*") if (number := path.name.removeprefix(_SNAPSHOT)).isdigit()
    ]


def write(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    with partial.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
