"""Find log segments among the files that a user names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from kshark.capture.compressed import COMPRESSIONS, Decompressed, Input
from kshark.capture.files import is_pipe, open_file
from kshark.capture.formats import FORMATS, MAGIC
from kshark.capture.source import HEAD_READ, Plain
from kshark.errors import UnreadableInput
from kshark.records.recognition import begins_segment

#: A segment's name is its base offset; brokers and people add endings.
_NAME: Final = re.compile(r"\d{20}(-\d{10})?\.(log|checkpoint)(\.\w+)*")


def are_segments(files: Sequence[str]) -> bool:
    """True if the first of these files is a log segment. Pipes are not read."""
    if not files or is_pipe(files[0]):
        return False
    try:
        head = open_segment(files[0])[1]
    except (UnreadableInput, OSError):
        return False
    return is_segment(head, files[0])


def is_segment(head: bytes, name: str) -> bool:
    """True for a file that begins with a record batch, or that has a segment's name and is no capture."""
    if head[:4] in FORMATS or head[:4] == MAGIC:
        return False
    return begins_segment(head) or _NAME.fullmatch(PurePath(name).name) is not None


def open_segment(path: str) -> tuple[Input, bytes]:
    """Open a file, decompressed if it is gzip or zstd; return it and its first bytes. Raises UnreadableInput."""
    file: Input = Plain(open_file(path))
    head = file.read(HEAD_READ)
    for magic, (_, make) in COMPRESSIONS.items():
        if head.startswith(magic):
            file = Decompressed(file, head, make)
            return file, file.read(HEAD_READ)
    return file, head


def segment_files(files: Sequence[str]) -> list[str]:
    """Return segments in the order of the log: by folder, then by name, which begins with the base offset."""
    return sorted(files, key=lambda path: (str(PurePath(path).parent), PurePath(path).name))
