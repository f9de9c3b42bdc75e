"""Parse the two handshake messages that are needed: ClientHello and ServerHello.

Source: RFC 8446, section 4.1; RFC 6066, section 3 (SNI).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

TLS_12: Final = 0x0303
TLS_13: Final = 0x0304
#: A ServerHello with this random requests another ClientHello (HelloRetryRequest).
_RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

_SERVER_NAME: Final = 0
_ENCRYPT_THEN_MAC: Final = 22
_EARLY_DATA: Final = 42
_SUPPORTED_VERSIONS: Final = 43


class ClientHello(NamedTuple):
    """The client's first message; `early_data`: data may follow at once (0-RTT)."""

    random: bytes
    server_name: str | None
    early_data: bool


class ServerHello(NamedTuple):
    """The server's choices; `retry`: it requests another ClientHello first."""

    random: bytes
    version: int
    suite: int
    compressed: bool
    mac_last: bool
    retry: bool


def client_hello(body: bytes) -> ClientHello | None:
    """Parse a ClientHello without the handshake header; None if it is malformed."""
    try:
        at = 35 + body[34]
        at += 2 + _uint16(body, at)
        at += 1 + body[at]
        extensions = dict(_extensions(body, at))
        return ClientHello(_random(body), _server_name(extensions.get(_SERVER_NAME, b"")), _EARLY_DATA in extensions)
    except (IndexError, ValueError):
        return None


def server_hello(body: bytes) -> ServerHello | None:
    """Parse a ServerHello without the handshake header; None if it is malformed."""
    try:
        at = 35 + body[34]
        suite, compressed = _uint16(body, at), body[at + 2] != 0
        extensions = dict(_extensions(body, at + 3))
        version = _uint16(extensions.get(_SUPPORTED_VERSIONS, body[:2]), 0)
        random = _random(body)
        return ServerHello(random, version, suite, compressed, _ENCRYPT_THEN_MAC in extensions, random == _RETRY)
    except (IndexError, ValueError):
        return None


def _random(body: bytes) -> bytes:
    return _part(body, 2, 32)


def _part(body: bytes, at: int, size: int) -> bytes:
    if at + size > len(body):
        raise ValueError
    return body[at : at + size]


def _uint16(body: bytes, at: int) -> int:
    return int.from_bytes(_part(body, at, 2), "big")


def _extensions(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    if at == len(body):
        return
    end = at + 2 + _uint16(body, at)
    at += 2
    while at < end:
        size = _uint16(body, at + 2)
        yield _uint16(body, at), _part(body, at + 4, size)
        at += 4 + size


def _server_name(extension: bytes) -> str | None:
    """Return the first name of the list, with unprintable characters escaped."""
    if len(extension) < 5:
        return None
    name = _part(extension, 5, _uint16(extension, 3)).decode("ascii", "backslashreplace")
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in name) or None
