"""A source that may fail: what was read before comes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from kshark.errors import Error

T = TypeVar("T")


class UntilFailure(Generic[T]):
    """Iterates over a source as far as it goes; `end` then raises the Error or OSError that ended it, if one did."""

    def __init__(self, source: Iterable[T]) -> None:
        self._source = source
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[T]:
        try:
            yield from self._source
        except (Error, OSError) as error:
            self._failure = error

    def end(self) -> None:
        if self._failure is not None:
            raise self._failure
