"""Whether bytes are messages of Kafka's, by their bodies: what frames are recognised by, before anything else is known
of a connection."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from kshark import limits
from kshark.codec import interpret
from kshark.exchange.decoding import skip_tags
from kshark.registry import Registry
from kshark.schema import Api, Layout

#: Fewer bytes fit a body by chance.
TELLING_BYTES: Final = 4
_HEAD: Final = Struct(">hhih").unpack_from


class BodyWitness:
    """Reads bodies as far as they must fit: from the header to the frame's last byte, without a fault. Record batches
    stay closed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: Whether any Kafka release has an API in a version.
        self.knows = registry.knows
        #: What bodies told: connections begin alike, and each is looked at again when more of it comes. By layout,
        #: version and bytes.
        self._known: dict[tuple[int, bool, int, bytes], int] = {}

    def asks(self, data: bytes, start: int, end: int) -> int:
        """1 if the frame from `start` to `end` is a request to its last byte, -1 if not, 0 if its body is too short to
        tell."""
        key, version, _, size = _HEAD(data, start)
        api = self._registry.api(key)
        if api is None:
            return 0
        at = start + 10 + max(size, 0)
        header = api.request_header_version(version)
        if header == 0:
            at = start + 8
        elif header == 2:
            at = _behind_tags(data, at, end)
        return self._told(api, api.request, version, data, at, end)

    def answers(self, key: int, version: int, data: bytes, start: int, end: int) -> int:
        """The same of an answer to such a request; where that version is newer than any known, of the nearest."""
        api = self._registry.api(key)
        if api is None:
            return 0
        version = api.versions.nearest(version)
        at = _behind_tags(data, start + 4, end) if api.response_header_version(version) else start + 4
        told = self._told(api, api.response, version, data, at, end)
        if told < 0 and api.fallback is not None:
            return self._told(api, api.response, api.fallback[1], data, at, end)
        return told

    def _told(self, api: Api, layout: Layout, version: int, data: bytes, at: int, end: int) -> int:
        if not at <= end <= at + limits.REPEATED_BYTES:
            return _fits(layout, version, data, at, end)
        place = api.key, layout is api.request, version, data[at:end]
        told = self._known.get(place)
        if told is None:
            if len(self._known) >= limits.REPEATED_ANSWERS:
                self._known.clear()
            told = self._known[place] = _fits(layout, version, data, at, end)
        return told


def _behind_tags(data: bytes, at: int, end: int) -> int:
    try:
        return skip_tags(data, at, end)
    except (IndexError, StructError):
        return end + 1


def _fits(layout: Layout, version: int, data: bytes, at: int, end: int) -> int:
    if at > end or interpret(layout, version, data, at, end).faults:
        return -1
    return int(end - at >= TELLING_BYTES)
