"""Whether bytes are messages of Kafka's, by their bodies: what frames are recognised by, before anything else is known of a connection."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from kshark.codec import interpret
from kshark.exchange.decoding import skip_tags
from kshark.registry import Registry
from kshark.schema import Layout

_HEAD: Final = Struct(">hhih").unpack_from


class BodyWitness:
    """Reads bodies as far as they must fit: from the header to the frame's last byte, without a fault. Record batches stay closed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def knows(self, key: int, version: int) -> bool:
        """Whether any Kafka release has this API in this version."""
        return self._registry.knows(key, version)

    def asks(self, data: bytes, start: int, end: int) -> bool:
        """Whether the frame from `start` to `end` is a request: a header, a client id that is text, and the body it announces."""
        try:
            key, version, _, size = _HEAD(data, start)
            api = self._registry.api(key)
            if api is None or not self._registry.knows(key, version):
                return False
            at = start + 10 + max(size, 0)
            data[start + 10 : at].decode()
            header = api.request_header_version(version)
            if header == 0:
                at = start + 8
            elif header == 2:
                at = skip_tags(data, at, end)
        except (IndexError, StructError, UnicodeDecodeError):
            return False
        return _fits(api.request, version, data, at, end)

    def answers(self, key: int, version: int, data: bytes, start: int, end: int) -> bool:
        """Whether the frame from `start` to `end` has the body of an answer to such a request."""
        api = self._registry.api(key)
        if api is None:
            return False
        try:
            at = skip_tags(data, start + 4, end) if api.response_header_version(version) else start + 4
        except (IndexError, StructError):
            return False
        if api.fallback is not None and _fits(api.response, api.fallback[1], data, at, end):
            return True
        return _fits(api.response, version, data, at, end)


def _fits(layout: Layout, version: int, data: bytes, at: int, end: int) -> bool:
    if at > end or end > len(data):
        return False
    return not interpret(layout, version, data, at, end).faults
