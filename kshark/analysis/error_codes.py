"""The error codes of answers, at any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import UNSET

from kshark.codec.paths import paths
from kshark.codec.reach import Reach
from kshark.codec.shapes import shape_of
from kshark.registry import Registry

#: Rows of a body's fields.
_Read = Callable[[Any], Sequence[tuple[Any, ...]]]


class ErrorCodes:
    """Reads them by the schema; how is found out once for each API, version and shape of body."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[tuple[int, int, type], list[_Read]] = {}

    def of(self, body: Any, key: int, version: int) -> Iterator[int]:
        """Every code that is not zero; none of a body that was not read."""
        if body is None or body is UNSET:
            return
        kind = (key, version, type(body))
        readers = self._known.get(kind)
        if readers is None:
            readers = self._known[kind] = self._readers(*kind)
        for rows in readers:
            for row in rows(body):
                for code in row:
                    if code and code is not UNSET:
                        yield code

    def _readers(self, key: int, version: int, body: type) -> list[_Read]:
        """Those of the error codes that stand side by side: rows in which one is not zero."""
        api = self._registry.api(key)
        if api is None:
            return []
        known = api.response.versions.nearest(version)
        reach = Reach(api.response.root, known, exact=body is shape_of(api.response, known).make)
        return reach.beside(path for path in paths(api.response.root, known) if path.names[-1].endswith("error_code"))
