"""What a kind of input is, and how a case fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import msgspec

C = TypeVar("C", bound=msgspec.Struct)
T = TypeVar("T")


class Broken(AssertionError):
    """Something that must be so of every input is not: `what`, the same words for every case in which it is broken, and
    the details."""

    def __init__(self, what: str, details: object = "") -> None:
        super().__init__(f"{what}: {details}" if details else what)
        self.what = what


class Seen(NamedTuple):
    """What was in a case: so many items of its kind, their bytes, and the codes that were told of them."""

    items: int
    size: int
    codes: Mapping[str, int] = MappingProxyType({})


class Kind(ABC, Generic[C]):
    """A kind of input. A case is a msgspec.Struct, so that it can be written to a file and read again."""

    #: What cases are made of, in the plural: "frames".
    name: str
    case: type[C]
    #: CPU time that one case may take, in seconds.
    most_s: float = 10
    #: Its part of the lane's time, beside the other kinds'.
    share: float = 1

    @abstractmethod
    def make(self, random: Random) -> C:
        """A case, the same for the same random numbers."""

    @abstractmethod
    def check(self, case: C) -> Seen:
        """Raises Broken for what must not be, and lets through whatever kshark raises."""

    @abstractmethod
    def smaller(self, case: C) -> Iterator[C]:
        """Cases with something left out, those with least left first."""


def shorter(items: Sequence[T]) -> Iterator[list[T]]:
    """The items without a half of them, without a quarter, and so on down to all but one."""
    size = len(items)
    while size > 1:
        size = -(-size // 2)
        for at in range(0, len(items), size):
            yield [*items[:at], *items[at + size :]]
        if size == 1:
            return


def shorter_bytes(data: bytes) -> Iterator[bytes]:
    """The same for bytes; the ends of long ones only, since each try takes time."""
    if len(data) <= 256:
        yield from map(bytes, shorter(data))
        return
    for size in (len(data) // 2, len(data) // 4, len(data) // 8, 16, 1):
        yield data[:-size]
        yield data[size:]


def difference(one: Sequence[object], other: Sequence[object]) -> str:
    """The first items in which two lists differ."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"item {at} is {left!r:.900} and {right!r:.900}"
    return f"{len(one)} and {len(other)} items; the first more: {[*one[len(other) :], *other[len(one) :]][:1]!r:.900}"
