"""Decrypt protected records. A record that opens proves its key, its sequence number and every byte of it.

Source: RFC 8446, section 5.2 (TLS 1.3); RFC 5246, section 6.2.3 (CBC), RFC 5288 and 6655 (GCM, CCM), RFC 7366
(encrypt-then-MAC), RFC 7905 (ChaCha20-Poly1305) for TLS 1.2. The ciphers themselves are from the package cryptography.
"""

from __future__ import annotations

import hmac
from typing import Any, Final, Protocol

from kshark.tls.schedule import Keys, next_secret, traffic_keys
from kshark.tls.suites import Suite

#: Content type and content.
Opened = tuple[int, bytes]

_TAG: Final = 16
_BLOCK: Final = 16
_EXPLICIT_NONCE: Final = 8


class Protection(Protocol):
    """The protection of one side, with one key."""

    def open(self, sequence: int, header: bytes, body: bytes) -> Opened | None:
        """Return the content of a record with that sequence number; None if the number or the key is wrong."""

    def following(self) -> Protection | None:
        """Return the protection with the side's next key; None if there is none."""


def is_installed() -> bool:
    """True if the package with the ciphers can be imported."""
    from importlib.util import find_spec

    return find_spec("cryptography") is not None


def _aead(suite: Suite, key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import aead  # 30 ms, for connections that are decrypted

    match suite.kind:
        case "gcm":
            return aead.AESGCM(key)
        case "chacha20":
            return aead.ChaCha20Poly1305(key)
    return aead.AESCCM(key, 8 if suite.kind == "ccm8" else _TAG)


class Tls13:
    """The protection of TLS 1.3 from one traffic secret.

    The last key of a handshake is followed by the first of the application (`then`), that one by the keys of
    KeyUpdates.
    """

    def __init__(self, suite: Suite, secret: bytes, then: bytes | None = None, *, updated: bool = False) -> None:
        self._arguments = suite, secret, then, updated
        keys = traffic_keys(suite, secret)
        self._iv = int.from_bytes(keys.iv, "big")
        self._aead = _aead(suite, keys.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _tls13, self._arguments

    def open(self, sequence: int, header: bytes, body: bytes) -> Opened | None:
        from cryptography.exceptions import InvalidTag

        try:
            inner: bytes = self._aead.decrypt((self._iv ^ sequence).to_bytes(12, "big"), body, header)
        except (InvalidTag, ValueError):
            return None
        inner = inner.rstrip(b"\0")
        return (inner[-1], inner[:-1]) if inner else None

    def following(self) -> Protection | None:
        suite, secret, then, updated = self._arguments
        if then is not None:
            return Tls13(suite, then, updated=True)
        return Tls13(suite, next_secret(suite, secret), updated=True) if updated else None


def _tls13(suite: Suite, secret: bytes, then: bytes | None, updated: bool) -> Tls13:
    return Tls13(suite, secret, then, updated=updated)


class Aead12:
    """GCM, CCM and ChaCha20-Poly1305 in TLS 1.2."""

    def __init__(self, suite: Suite, keys: Keys) -> None:
        self._arguments = suite, keys
        self._nonce = 0 if suite.kind == "chacha20" else _EXPLICIT_NONCE
        self._around = self._nonce + (8 if suite.kind == "ccm8" else _TAG)
        self._iv = keys.iv
        self._aead = _aead(suite, keys.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Aead12, self._arguments

    def open(self, sequence: int, header: bytes, body: bytes) -> Opened | None:
        from cryptography.exceptions import InvalidTag

        size = len(body) - self._around
        if size < 0:
            return None
        number = sequence.to_bytes(8, "big")
        if self._nonce:
            nonce = self._iv + body[:_EXPLICIT_NONCE]
        else:
            nonce = (int.from_bytes(self._iv, "big") ^ sequence).to_bytes(12, "big")
        try:
            return header[0], self._aead.decrypt(
                nonce, body[self._nonce :], number + header[:3] + size.to_bytes(2, "big")
            )
        except (InvalidTag, ValueError):
            return None

    def following(self) -> Protection | None:
        return None


class Cbc12:
    """CBC with an HMAC in TLS 1.2: over the content, or over the ciphertext (`mac_last`: encrypt-then-MAC)."""

    def __init__(self, suite: Suite, keys: Keys, mac_last: bool) -> None:
        from cryptography.hazmat.primitives.ciphers.algorithms import AES

        self._arguments = suite, keys, mac_last
        self._aes = AES(keys.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Cbc12, self._arguments

    def open(self, sequence: int, header: bytes, body: bytes) -> Opened | None:
        suite, keys, mac_last = self._arguments
        size = len(keys.mac)
        number = sequence.to_bytes(8, "big")
        if mac_last:
            body, mac = body[:-size], body[-size:]
            if not _is_mac(suite.mac, keys.mac, number, header, body, mac):
                return None
        if len(body) < 2 * _BLOCK or len(body) % _BLOCK:
            return None
        content = self._decrypted(body)
        padding = content[-1] + 1
        if padding > len(content) or content[-padding:] != bytes((padding - 1,)) * padding:
            return None
        content = content[:-padding]
        if not mac_last:
            content, mac = content[:-size], content[-size:]
            if not _is_mac(suite.mac, keys.mac, number, header, content, mac):
                return None
        return header[0], content

    def following(self) -> Protection | None:
        return None

    def _decrypted(self, body: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.modes import CBC

        decryptor = Cipher(self._aes, CBC(body[:_BLOCK])).decryptor()
        content: bytes = decryptor.update(body[_BLOCK:]) + decryptor.finalize()
        return content


def _is_mac(hash_name: str, key: bytes, number: bytes, header: bytes, covered: bytes, mac: bytes) -> bool:
    expected = hmac.digest(key, number + header[:3] + len(covered).to_bytes(2, "big") + covered, hash_name)
    return hmac.compare_digest(expected, mac)


def tls12(suite: Suite, keys: Keys, *, mac_last: bool) -> Protection:
    """Return the protection of one side in TLS 1.2."""
    return Cbc12(suite, keys, mac_last) if suite.kind == "cbc" else Aead12(suite, keys)
