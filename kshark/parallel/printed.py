"""What processes printed of a batch, message by message, and how it becomes one text again."""

from __future__ import annotations

from collections.abc import Mapping
from pickle import PickleBuffer
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from kshark.model import Int64s

Bytes = bytes | memoryview


class Printed(NamedTuple):
    """Messages as they are printed, one behind the other, and where each ends."""

    data: Bytes | PickleBuffer
    ends: Int64s

    @classmethod
    def lines(cls, data: bytes) -> Printed:
        """Where every line is a message."""
        return cls(PickleBuffer(data), np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1)

    @classmethod
    def ending(cls, data: bytes, ends: list[int]) -> Printed:
        return cls(PickleBuffer(data), np.array(ends, np.int64))


def in_order(owners: Int64s, printed: Mapping[int, Printed]) -> list[Bytes]:
    """The messages of rows whose `owners` printed them: pieces as long as one process goes on."""
    views = {owner: memoryview(one.data) for owner, one in printed.items()}
    if len(views) == 1:
        return list(views.values())
    begin, end = np.empty(len(owners), np.int64), np.empty(len(owners), np.int64)
    for owner, one in printed.items():
        rows = np.flatnonzero(owners == owner)
        begin[rows], end[rows] = np.concatenate(([0], one.ends[:-1])), one.ends
    head = np.concatenate(([0], np.flatnonzero(owners[1:] != owners[:-1]) + 1)) if len(owners) else owners
    tail = np.append(head[1:], len(owners)) - 1 if len(owners) else owners
    pieces = zip(owners[head].tolist(), begin[head].tolist(), end[tail].tolist(), strict=True)
    return [views[owner][a:z] for owner, a, z in pieces]
