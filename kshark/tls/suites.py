"""Cipher suites by their number: the protection of records, and the hash of the key derivation. Key exchange is
irrelevant.

Source: IANA's registry "TLS Cipher Suites"; RFC 5246 (CBC), 5288 and 5289 (GCM), 6655 and 7251 (CCM), 7905 (ChaCha20),
8446 (TLS 1.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

Kind = Literal["gcm", "ccm", "ccm8", "chacha20", "cbc"]


class Suite(NamedTuple):
    """The cipher and its key size in bytes, the hash of the key schedule (PRF, HKDF), and for CBC the hash of
    the MAC.
    """

    kind: Kind
    key_bytes: int
    hash: str
    mac: str = ""


_CHACHA20: Final = Suite("chacha20", 32, "sha256")


def _pairs(suites: tuple[Suite, Suite], *first: int, apart: int = 1) -> Iterator[tuple[int, Suite]]:
    """Yield suites with keys of 128 and 256 bits, whose numbers differ by `apart`."""
    for number in first:
        yield number, suites[0]
        yield number + apart, suites[1]


def _rows() -> Iterable[tuple[int, Suite]]:
    gcm = Suite("gcm", 16, "sha256"), Suite("gcm", 32, "sha384")
    sha1 = Suite("cbc", 16, "sha256", "sha1"), Suite("cbc", 32, "sha256", "sha1")
    sha256 = Suite("cbc", 16, "sha256", "sha256"), Suite("cbc", 32, "sha256", "sha256")
    sha384 = Suite("cbc", 16, "sha256", "sha256"), Suite("cbc", 32, "sha384", "sha384")
    ccm = Suite("ccm", 16, "sha256"), Suite("ccm", 32, "sha256")
    ccm8 = Suite("ccm8", 16, "sha256"), Suite("ccm8", 32, "sha256")
    yield from _pairs(
        gcm, 0x009C, 0x009E, 0x00A0, 0x00A2, 0x00A4, 0x00A6, 0x00A8, 0x00AA, 0x00AC, 0xC02B, 0xC02D, 0xC02F, 0xC031
    )
    yield from _pairs(sha1, 0x002F, 0x0030, 0x0031, 0x0032, 0x0033, 0x0034, apart=6)
    yield from _pairs(sha1, 0xC004, 0xC009, 0xC00E, 0xC013, 0xC018)
    yield from _pairs(sha256, 0x003C)
    yield from _pairs(sha256, 0x003E, 0x003F, 0x0040, apart=0x2A)
    yield from _pairs(sha256, 0x0067, apart=4)
    yield from _pairs(sha256, 0x006C)
    yield from _pairs(sha384, 0xC023, 0xC025, 0xC027, 0xC029)
    yield from _pairs(ccm, 0xC09C, 0xC09E, 0xC0A4, 0xC0A6, 0xC0AC)
    yield from _pairs(ccm8, 0xC0A0, 0xC0A2, 0xC0A8, 0xC0AA, 0xC0AE)
    yield from ((number, _CHACHA20) for number in range(0xCCA8, 0xCCAF))


#: The suites of TLS 1.2.
SUITES_12: Final[dict[int, Suite]] = dict(_rows())
#: The suites of TLS 1.3.
SUITES_13: Final[dict[int, Suite]] = {
    0x1301: Suite("gcm", 16, "sha256"),
    0x1302: Suite("gcm", 32, "sha384"),
    0x1303: _CHACHA20,
    0x1304: Suite("ccm", 16, "sha256"),
    0x1305: Suite("ccm8", 16, "sha256"),
}
