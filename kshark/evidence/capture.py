"""The capture from which parts are copied, and how copies of it are read."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kshark.capture import Captures, open_captures
from kshark.capture.captures import renumbered
from kshark.capture.copying import NO_COMMENTS, Clip, Comments, Copy, copy
from kshark.capture.merge import LeftOut
from kshark.capture.selection import Selection
from kshark.model import Event, PacketBatch, Weird
from kshark.pipeline import Engine, Options
from kshark.registry import Registry


@dataclass(frozen=True, slots=True)
class Copied:
    """The capture that is read: its files, the options and APIs of the first reading, and the restrictions of it.

    `keys`: secrets of TLS that copies get, besides those that stand in the capture.
    """

    files: Sequence[str]
    options: Options
    registry: Registry
    clip: Clip | None = None
    left_out: LeftOut | None = None
    keys: bytes = b""
    #: The number of its first packet.
    first: int = 1
    #: True if the files are parts of one capture, whatever their times are.
    chained: bool = False
    #: What the packets come from, if not from these files; for people.
    names: Sequence[str] = ()

    def write(self, parts: Sequence[tuple[Path, Selection | None]], most: int | None = None) -> list[array[int] | None]:
        """Write a file of each selection in one reading. Return the numbers of the packets of each.

        `most`: bytes of packets in each; None stands for a file that would have more.
        """
        files = [path.open("wb") for path, _ in parts]
        try:
            copies = [
                Copy(file.write, selection, keys=self.keys, most=most)
                for file, (_, selection) in zip(files, parts, strict=True)
            ]
            copy(self.files, copies, clip=self.cut, left_out=self.left_out, chained=self.chained)
        finally:
            for file in files:
                file.close()
        for (path, _), done in zip(parts, copies, strict=True):
            if done.has_secrets:
                rewrite(path, randoms=done.randoms)
        return [None if done.is_too_long else done.numbers for done in copies]

    def again(self, options: Options) -> Iterator[list[Event]]:
        """Yield the pages of the capture itself, read with other options."""
        clipped = (
            renumbered(item, self.first - 1) if isinstance(item, Weird) else self.cut(item)
            for item in Captures(self.files, self.left_out, chained=self.chained)
        )
        return Engine(options, self.registry).pages(item for item in clipped if item is not None)

    def cut(self, batch: PacketBatch) -> PacketBatch | None:
        """Return the packets of a batch that belong to the capture, with their numbers."""
        clipped = batch if self.clip is None else self.clip(batch)
        if clipped is not None and self.first > 1:
            clipped.number = clipped.number + (self.first - 1)
        return clipped

    def pages(self, path: Path, options: Options | None = None) -> Iterator[list[Event]]:
        """Yield the pages of a copy, read as the capture was, or with other options."""
        return Engine(options or self.options, self.registry).pages(open_captures([path]))


def rewrite(path: Path, comments: Comments = NO_COMMENTS, randoms: set[str] | None = None) -> None:
    """Write a copy again, with more comments, or only with the secrets of some TLS connections."""
    unfinished = path.with_name(f".{path.name}.rewritten")
    with unfinished.open("wb") as file:
        copy([path], [Copy(file.write, comments=comments, randoms=randoms)])
    os.replace(unfinished, path)
