"""Decide whether bytes are Kafka messages, by their bodies.

Frames are recognized this way before anything else is known of a connection.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from kshark import limits
from kshark.codec import interpret
from kshark.exchange.decoding import skip_tags
from kshark.registry import Registry
from kshark.schema import Api, Layout

#: Fewer bytes may fit a body by chance.
TELLING_BYTES: Final = 4
_HEAD: Final = Struct(">hhih").unpack_from


class BodyWitness:
    """Check of bodies: they must fit from the header to the frame's last byte, without a fault.

    Record batches stay closed.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: True if any Kafka release has an API in a version.
        self.knows = registry.knows
        #: Results by layout, version and bytes: connections begin alike, and each is checked again with more bytes.
        self._results: dict[tuple[int, bool, int, bytes], int] = {}

    def asks(self, data: bytes, start: int, end: int) -> int:
        """Return 1 if the frame from `start` to `end` is a request to its last byte, -1 if not.

        Return 0 if its body is too short to decide.
        """
        key, version, _, size = _HEAD(data, start)
        api = self._registry.api(key)
        if api is None:
            return 0
        at = start + 10 + max(size, 0)
        header = api.request_header_version(version)
        if header == 0:
            at = start + 8
        elif header == 2:
            at = _after_tags(data, at, end)
        return self._checked(api, api.request, version, data, at, end)

    def answers(self, key: int, version: int, data: bytes, start: int, end: int) -> int:
        """Return the same for an answer to such a request.

        If the version is newer than any known version, the nearest is used.
        """
        api = self._registry.api(key)
        if api is None:
            return 0
        version = api.versions.nearest(version)
        at = _after_tags(data, start + 4, end) if api.response_header_version(version) else start + 4
        result = self._checked(api, api.response, version, data, at, end)
        if result < 0 and api.fallback is not None:
            return self._checked(api, api.response, api.fallback[1], data, at, end)
        return result

    def _checked(self, api: Api, layout: Layout, version: int, data: bytes, at: int, end: int) -> int:
        if not at <= end <= at + limits.REPEATED_BYTES:
            return _fits(layout, version, data, at, end)
        cached = api.key, layout is api.request, version, data[at:end]
        result = self._results.get(cached)
        if result is None:
            if len(self._results) >= limits.REPEATED_ANSWERS:
                self._results.clear()
            result = self._results[cached] = _fits(layout, version, data, at, end)
        return result


def _after_tags(data: bytes, at: int, end: int) -> int:
    try:
        return skip_tags(data, at, end)
    except (IndexError, StructError):
        return end + 1


def _fits(layout: Layout, version: int, data: bytes, at: int, end: int) -> int:
    if at > end or interpret(layout, version, data, at, end).faults:
        return -1
    return int(end - at >= TELLING_BYTES)
