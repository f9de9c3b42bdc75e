"""Rewrite the frames of a connection: headers and bodies of requests and responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from kshark.anonymous.bodies import anonymous_body
from kshark.anonymous.pseudonyms import Pseudonyms
from kshark.api_keys import FIND_COORDINATOR
from kshark.codec import compile_writer, interpret, plain
from kshark.errors import Error
from kshark.registry import Registry
from kshark.schema import Api

#: Api key, version and correlation id of a request.
_REQUEST: Final = Struct(">hhi")
_CORRELATION: Final = Struct(">i")
#: SaslHandshake version 0: tokens without a header follow (KIP-43).
_TOKENS_FOLLOW: Final = (17, 0)
#: Bytes that may be text, and are no padding.
_TEXT: Final = re.compile(rb"(?!\xff{4})[\x20-\x7e\x80-\xff]{4,}")


class ConnectionFrames:
    """The frames of one connection, in the order in which they were complete. A response has its request's layout.

    A frame that cannot be read to its end keeps its shape, without what may be text.
    """

    def __init__(self, registry: Registry, names: Pseudonyms) -> None:
        self._registry = registry
        self._names = names
        #: Api and version of requests without a response, by correlation id.
        self._asked: dict[int, list[tuple[Api, int, int | None]]] = {}
        #: True after SaslHandshake version 0: frames that are no messages are tokens, with credentials.
        self.has_tokens = False

    def request(self, frame: bytes) -> bytes:
        """Return a request, without length prefix."""
        if len(frame) < _REQUEST.size:
            return masked(frame)
        key, version, correlation_id = _REQUEST.unpack_from(frame)
        api = self._registry.api(key)
        if self.has_tokens and (api is None or version not in api.versions):
            return bytes(len(frame))
        self.has_tokens = self.has_tokens or (key, version) == _TOKENS_FOLLOW
        if api is None:
            return frame[: _REQUEST.size] + masked(frame[_REQUEST.size :])
        version = api.versions.nearest(version)
        layout, header_version = self._registry.request_header, api.request_header_version(version)
        head = interpret(layout, header_version, frame, 0, len(frame))
        key_type = self._key_type(api, version, frame[head.position :])
        self._asked.setdefault(correlation_id, []).append((api, version, key_type))
        if any(fault.code != "TRAILING_BYTES" for fault in head.faults):
            return frame[: _REQUEST.size] + masked(frame[_REQUEST.size :])
        fields: dict[str, Any] = plain(head.body)
        if fields.get("client_id"):
            fields["client_id"] = self._names.of("client", fields["client_id"])
        begin = compile_writer(layout, header_version)(fields)
        return begin + self._body(api, "request", version, frame[head.position :])

    def response(self, frame: bytes) -> bytes:
        """Return a response, without length prefix."""
        if len(frame) < _CORRELATION.size:
            return masked(frame)
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        asked = self._asked.get(correlation_id)
        if not asked and self.has_tokens:
            return bytes(len(frame))
        if not asked:
            return frame[: _CORRELATION.size] + masked(frame[_CORRELATION.size :])
        api, version, key_type = asked.pop(0)
        size = _CORRELATION.size + (api.response_header_version(version) > 0)
        return frame[:size] + self._body(api, "response", version, frame[size:], key_type)

    def _key_type(self, api: Api, version: int, data: bytes) -> int | None:
        """Return what a FindCoordinator asks for; its answer does not say it."""
        if api.key != FIND_COORDINATOR:
            return None
        layout, version = api.layout("request", version, data)
        key_type = getattr(interpret(layout, version, data, 0, len(data)).body, "key_type", None)
        return key_type if isinstance(key_type, int) else None

    def _body(self, api: Api, kind: str, version: int, data: bytes, key_type: int | None = None) -> bytes:
        layout, version = api.layout(kind, version, data)
        reading = interpret(layout, version, data, 0, len(data))
        codes = {fault.code for fault in reading.faults if fault.fatal} - {"TRAILING_BYTES"}
        if codes:
            return masked(data)
        values: Mapping[str, Any] = plain(reading.body)
        try:
            written = compile_writer(layout, version)(anonymous_body(layout, values, self._names, key_type))
        except Error:
            return masked(data)
        return written + bytes(len(data) - reading.position)


def masked(data: bytes) -> bytes:
    """Return bytes without runs that may be text."""
    return _TEXT.sub(lambda found: b"x" * len(found[0]), data)
