"""Derive keys from logged secrets.

Source: RFC 5246, sections 5 and 6.3 (TLS 1.2); RFC 8446, sections 7.1 to 7.3 (TLS 1.3).
"""

from __future__ import annotations

import hmac
from typing import NamedTuple

from kshark.tls.suites import Suite


class Keys(NamedTuple):
    """The keys of one side; `mac` is empty except for CBC, `iv` is empty for CBC."""

    key: bytes
    iv: bytes
    mac: bytes = b""


def prf(hash_name: str, secret: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """The pseudorandom function of TLS 1.2 (P_hash)."""
    seed = label + seed
    a, out = seed, b""
    while len(out) < size:
        a = hmac.digest(secret, a, hash_name)
        out += hmac.digest(secret, a + seed, hash_name)
    return out[:size]


def key_block(suite: Suite, master_secret: bytes, client_random: bytes, server_random: bytes) -> tuple[Keys, Keys]:
    """Return the keys of client and server of a TLS 1.2 connection."""
    mac = {"": 0, "sha1": 20, "sha256": 32, "sha384": 48}[suite.mac]
    iv = {"cbc": 0, "chacha20": 12}.get(suite.kind, 4)
    sizes = (mac, mac, suite.key_bytes, suite.key_bytes, iv, iv)
    block = prf(suite.hash, master_secret, b"key expansion", server_random + client_random, sum(sizes))
    parts = []
    for size in sizes:
        parts.append(block[:size])
        block = block[size:]
    client_mac, server_mac, client_key, server_key, client_iv, server_iv = parts
    return Keys(client_key, client_iv, client_mac), Keys(server_key, server_iv, server_mac)


def expand_label(hash_name: str, secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label of TLS 1.3 with an empty context."""
    label = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(label),)) + label + b"\0"
    block, out = b"", b""
    for number in range(1, 256):
        block = hmac.digest(secret, block + info + bytes((number,)), hash_name)
        out += block
        if len(out) >= size:
            break
    return out[:size]


def traffic_keys(suite: Suite, secret: bytes) -> Keys:
    """Return the keys of a traffic secret of TLS 1.3."""
    return Keys(expand_label(suite.hash, secret, b"key", suite.key_bytes), expand_label(suite.hash, secret, b"iv", 12))


def next_secret(suite: Suite, secret: bytes) -> bytes:
    """Return the application traffic secret after a KeyUpdate."""
    return expand_label(suite.hash, secret, b"traffic upd", len(secret))
