"""The position of a reader between two records of a capture file, so that another reader can continue there."""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar

FileFacts = TypeVar("FileFacts")


class ResumePoint(NamedTuple, Generic[FileFacts]):
    """Bytes and packets before that position, and the time of the last packet.

    `facts`: the file's facts that later records need; None before any.
    """

    position: int = 0
    packets: int = 0
    time_ns: int = 0
    facts: FileFacts | None = None


#: The position at which every file begins.
START: Final[ResumePoint[Any]] = ResumePoint()
