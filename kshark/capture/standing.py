"""Where the reading of a capture file stands between two of its records, so that somebody else can read on from
there."""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar

Known = TypeVar("Known")


class Standing(NamedTuple, Generic[Known]):
    """Bytes and packets before that place, and the time of the last packet.

    `known`: what the file has said that the records behind it are understood by; None before it has said anything.
    """

    position: int = 0
    packets: int = 0
    time_ns: int = 0
    known: Known | None = None


#: Where every file begins.
START: Final[Standing[Any]] = Standing()
