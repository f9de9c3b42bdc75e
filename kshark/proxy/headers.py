"""The PROXY protocol: a header at the beginning of a connection names the client whose bytes follow.

Version 1 is a line of text, version 2 a binary header with TLVs. Source: HAProxy, doc/proxy-protocol.txt (2020/03/05).
The types that vendors added: AWS, "Proxy protocol" of Network Load Balancers; Azure, "Private Link service"; Google
Cloud, "Private Service Connect".
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Any, Final

from kshark.endpoints import endpoint
from kshark.model import PROXY_HEADER_CUT, ProxyHeader, ProxyTlv
from kshark.records.crc import crc32c

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_WORD: Final = b"PROXY "
#: The first bytes of the two versions. No Kafka frame begins with one: it would be longer than any.
FIRST_BYTES: Final = frozenset({SIGNATURE[0], _WORD[0]})
#: The longest line of version 1, with its CRLF; and how far the end of a longer one is searched.
_LINE_BYTES: Final = 107
_LONG_LINE_BYTES: Final = 1024
#: Signature, version and command, family, length of the rest.
_FIXED_BYTES: Final = 16
_LENGTH: Final = Struct(">H").unpack_from
_PORTS: Final = Struct(">HH").unpack_from

_LINE_FAMILIES: Final[dict[bytes, tuple[str, type[IPv4Address | IPv6Address]]]] = {
    b"TCP4": ("tcp4", IPv4Address),
    b"TCP6": ("tcp6", IPv6Address),
}
#: By the byte after version and command.
_FAMILIES: Final = {
    0x00: "unspec", 0x11: "tcp4", 0x12: "udp4", 0x21: "tcp6", 0x22: "udp6", 0x31: "unix_stream", 0x32: "unix_datagram",
}  # fmt: skip
_COMMANDS: Final = {0: "local", 1: "proxy"}
#: Bytes of an address, by the upper half of the same byte; two of them have ports.
_ADDRESS_BYTES: Final = {0: 0, 1: 4, 2: 16, 3: 108}
_WITH_PORTS: Final = (1, 2)
_UNIX: Final = 3

#: Type and length of a TLV; flags and verification of an SSL TLV.
_TLV_BYTES: Final = 3
_SSL_BYTES: Final = 5
_CRC32C: Final = 0x03
_NOOP: Final = 0x04
_UNIQUE_ID: Final = 0x05
_SSL: Final = 0x20
_GOOGLE: Final = 0xE0
_AWS: Final = 0xEA
_AZURE: Final = 0xEE
_TEXTS: Final = {0x01: "alpn", 0x02: "authority", 0x30: "netns"}
_SSL_TEXTS: Final = {
    0x21: "version", 0x22: "cn", 0x23: "cipher", 0x24: "sig_alg", 0x25: "key_alg", 0x26: "group", 0x27: "sig_scheme",
}  # fmt: skip


def may_begin(data: bytes) -> bool:
    """True if a header may begin with these bytes, which may be fewer than its signature."""
    return SIGNATURE.startswith(data[: len(SIGNATURE)]) or _WORD.startswith(data[: len(_WORD)])


def least_bytes(data: bytes) -> int:
    """Return the least length at which an unfinished header may be complete."""
    is_binary = len(data) >= _FIXED_BYTES and data.startswith(SIGNATURE)
    return _FIXED_BYTES + int(_LENGTH(data, 14)[0]) if is_binary else len(data) + 1


def read_header(data: bytes, *, final: bool = False) -> ProxyHeader | None:
    """Read the header at the beginning of `data`; None if more bytes are needed, or if these are no header.

    `final`: no more bytes follow without a gap. Then the header has what is certain, and `fault` tells that it is cut.
    """
    if data.startswith(SIGNATURE):
        return _binary(data, final)
    return _line(data, final) if data.startswith(_WORD) else None


def _line(data: bytes, final: bool) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, _LONG_LINE_BYTES)
    if end < 0 and not final and len(data) < _LONG_LINE_BYTES:
        return None
    size = end + 2 if end >= 0 else len(data) if final else _LINE_BYTES
    # without its end, only words with a space after them are whole
    words = data[:end].split(b" ") if end >= 0 else data[:size].split(b" ")[:-1]
    header = ProxyHeader(version=1, command="proxy", family="unknown", size=size)
    if end < 0:
        header.fault = PROXY_HEADER_CUT if final else f"no end in {_LONG_LINE_BYTES} bytes"
    elif size > _LINE_BYTES:
        header.fault = f"{size} bytes, more than {_LINE_BYTES}"
    _line_ends(words[1:], header)
    return header


def _line_ends(words: list[bytes], header: ProxyHeader) -> None:
    """Read family, addresses and ports; `words` lacks some if the line is cut."""
    if words[:1] == [b"UNKNOWN"] or not words:
        return  # the rest of such a line has no meaning
    try:
        header.family, make = _LINE_FAMILIES[words[0]]
        addresses = [make(word.decode("ascii")) for word in words[1:3]]
        ports = [_port(word) for word in words[3:5]]
        if not header.fault and len(words) != 5:
            raise ValueError
    except (KeyError, ValueError):
        header.fault = header.fault or "its words are no addresses and ports"
        return
    ends = [endpoint(str(address), port) for address, port in zip(addresses, ports, strict=False)]
    header.source = ends[0] if ends else None
    header.destination = ends[1] if len(ends) > 1 else None


def _port(word: bytes) -> int:
    if not word.isdigit() or len(word) > 5 or int(word) > 65_535:
        raise ValueError
    return int(word)


def _binary(data: bytes, final: bool) -> ProxyHeader | None:
    size = _FIXED_BYTES + (_LENGTH(data, 14)[0] if len(data) >= _FIXED_BYTES else 0)
    if len(data) < size and not final:
        return None
    data = data[:size]
    if len(data) < _FIXED_BYTES:
        return ProxyHeader(2, "unknown", "unknown", len(data), fault=PROXY_HEADER_CUT)
    version, number, kind = data[12] >> 4, data[12] & 15, data[13]
    header = ProxyHeader(2, _COMMANDS.get(number, "unknown"), _FAMILIES.get(kind, "unknown"), len(data))
    if version != 2:
        header.fault = f"version {version}"
    elif number not in _COMMANDS:
        header.fault = f"command {number}"
    elif number and kind not in _FAMILIES:
        header.fault = f"family {kind:#04x}"
    elif number:  # after LOCAL, the rest has no meaning
        _binary_ends(data, kind >> 4, header)
    if len(data) < size:
        header.fault = PROXY_HEADER_CUT
    return header


def _binary_ends(data: bytes, family: int, header: ProxyHeader) -> None:
    """Read addresses, ports and TLVs."""
    width = _ADDRESS_BYTES[family]
    begin = _FIXED_BYTES + 2 * width + (4 if family in _WITH_PORTS else 0)
    if len(data) < begin:
        header.fault = f"{len(data) - _FIXED_BYTES} bytes for addresses, which take {begin - _FIXED_BYTES}"
        return
    first, second = (data[at : at + width] for at in (_FIXED_BYTES, _FIXED_BYTES + width))
    if family == _UNIX:
        header.source, header.destination = (_text(path.split(b"\0")[0]) for path in (first, second))
    elif family:
        make = IPv4Address if width == 4 else IPv6Address
        from_port, to_port = _PORTS(data, begin - 4)
        header.source, header.destination = endpoint(str(make(first)), from_port), endpoint(str(make(second)), to_port)
    try:
        for kind, start, end in _tlvs(data, begin):
            value = data[start:end]
            if kind == _CRC32C and not _fits(data, start, value):
                header.fault = f"its CRC32C is {value.hex()}, its bytes have {_crc32c(data, start):08x}"
            if kind != _NOOP:
                header.tlvs.append(_tlv(kind, value))
    except ValueError:
        header.fault = header.fault or "a TLV ends outside of it"


def _tlvs(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Return type, start and end of each value; raise ValueError if one ends outside."""
    while at < len(data):
        start = at + _TLV_BYTES
        end = start + _LENGTH(data, at + 1)[0] if start <= len(data) else start
        if end > len(data):
            raise ValueError
        yield data[at], start, end
        at = end


def _crc32c(data: bytes, start: int) -> int:
    """Return the CRC32C of a header, with zeros in the place of its own checksum."""
    return crc32c()(memoryview(data[:start] + bytes(4) + data[start + 4 :]))


def _fits(data: bytes, start: int, value: bytes) -> bool:
    return len(value) == 4 and _crc32c(data, start) == int.from_bytes(value, "big")


def _tlv(kind: int, value: bytes) -> ProxyTlv:
    """Return a TLV with its value as text, number or structure; bytes as base64 if its type has no known layout."""
    if kind == _SSL and len(value) >= _SSL_BYTES:
        return ProxyTlv(kind, "ssl", _ssl(value))
    if kind == _CRC32C and len(value) == 4:
        return ProxyTlv(kind, "crc32c", int.from_bytes(value, "big"))
    if kind == _AWS and value[:1] == b"\x01":
        return ProxyTlv(kind, "aws_vpc_endpoint_id", _text(value[1:]))
    if kind == _AZURE and value[:1] == b"\x01" and len(value) == 5:
        return ProxyTlv(kind, "azure_link_id", int.from_bytes(value[1:], "little"))
    if kind == _GOOGLE and len(value) == 8:
        return ProxyTlv(kind, "gcp_psc_connection_id", int.from_bytes(value, "big"))
    if kind in _TEXTS:
        return ProxyTlv(kind, _TEXTS[kind], _text(value))
    return ProxyTlv(kind, "unique_id" if kind == _UNIQUE_ID else f"{kind:#04x}", base64.b64encode(value).decode())


def _ssl(value: bytes) -> dict[str, Any]:
    """Return the proxy's TLS connection to the client: flags, result of the verification (0: a certificate was shown
    and is valid), then its TLVs.
    """
    ssl: dict[str, Any] = {"client": value[0], "verify": int.from_bytes(value[1:_SSL_BYTES], "big")}
    for kind, start, end in _tlvs(value, _SSL_BYTES):
        ssl[_SSL_TEXTS.get(kind, f"{kind:#04x}")] = _text(value[start:end])
    return ssl


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
