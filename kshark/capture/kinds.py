"""Kinds of files that are not captures: one row for each, with the next step.

Sources: the formats' own descriptions, and Wireshark's wiretap for traces of other programs. `editcap`, part of
Wireshark, converts those that it reads.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from msgspec import Struct

from kshark.capture.formats import FORMATS, MAGIC, begins_pcap, begins_pcapng
from kshark.records.recognition import begins_segment

#: Bytes of its beginning that show if it is text.
_TEXT: Final = 512


class Kind(Struct, frozen=True):
    """A kind of file: the bytes that it has at `at`, and what it is."""

    magic: bytes
    name: str
    at: int = 0


_UNPACK: Final = "unpack it first"
_DECOMPRESS: Final = "decompress it first"
_CONVERT: Final = "convert it first (editcap -F pcapng)"
_CONVERT_ETHERNET: Final = "convert it first (editcap -T ether -F pcapng)"
_RECORD: Final = "record with tcpdump -w FILE"

KINDS: Final = (
    # compressed files and archives; gzip and zstd are read (kshark.capture.compressed)
    Kind(b"BZh", f"a bzip2 file; {_DECOMPRESS}"),
    Kind(b"\xfd7zX", f"an xz file; {_DECOMPRESS}"),
    Kind(b"\x04\x22\x4d\x18", f"an lz4 file; {_DECOMPRESS}"),
    Kind(b"\x1f\x9d", f"a compress (.Z) file; {_DECOMPRESS}"),
    Kind(b"\x89LZO", f"an lzop file; {_DECOMPRESS}"),
    Kind(b"\xff\x06\0\0sNaPpY", f"a snappy file; {_DECOMPRESS}"),
    Kind(b"LZIP", f"an lzip file; {_DECOMPRESS}"),
    Kind(b"PK\x03\x04", f"a zip archive; {_UNPACK}"),
    Kind(b"PK\x05\x06", "an empty zip archive"),
    Kind(b"7z\xbc\xaf\x27\x1c", f"a 7z archive; {_UNPACK}"),
    Kind(b"Rar!\x1a\x07", f"a rar archive; {_UNPACK}"),
    Kind(b"MSCF", f"a Windows cabinet archive; {_UNPACK}; a netsh trace in it is converted by etl2pcapng"),
    Kind(b"ustar", f"a tar archive; {_UNPACK}", 257),
    Kind(b"!<arch>\n", f"an ar archive; {_UNPACK}"),
    # traces of other programs; snoop's version 2 is read (kshark.capture.snoop)
    Kind(b"snoop\0", f"a snoop capture; {_CONVERT}"),
    Kind(b"GMBU", f"a Network Monitor capture; {_CONVERT}"),
    Kind(b"RTSS", f"a Network Monitor 1 capture; {_CONVERT}"),
    Kind(b"iptrace 1.0", f"an AIX iptrace; {_CONVERT}"),
    Kind(b"iptrace 2.0", f"an AIX iptrace; {_CONVERT}"),
    Kind(b"TR\0\x64\0", f"an HP-UX nettl trace; {_CONVERT_ETHERNET}"),
    Kind(b"TRSNIFF data    \x1a", f"a Sniffer capture; {_CONVERT}"),
    Kind(b"XCP\0", f"a NetXray or Sniffer capture; {_CONVERT}"),
    Kind(b"\xaa\xaa\xaa\xaa", f"a 5View capture; {_CONVERT}"),
    Kind(b"\x01\x10\x4c\0\x01\x05Trace Disp", f"a LANalyzer capture; {_CONVERT}"),
    Kind(b"\x05VNF", f"a Visual Networks capture; {_CONVERT}"),
    Kind(b"ObserverPktBuffe", f"an Observer capture; {_CONVERT}"),
    Kind(b"\x7fver", f"an OmniPeek capture; {_CONVERT}"),
    Kind(b"+---------+----", f"a K12 text capture; {_CONVERT_ETHERNET}"),
    Kind(b"\x1c\x00\x01\xac", f"an Ixia capture; {_CONVERT}"),
    Kind(b"\xac\x01\x00\x1c", f"an Ixia capture; {_CONVERT}"),
    Kind(b"\x1c\x00\x01\xab", f"an Ixia capture; {_CONVERT}"),
    Kind(b"\xab\x01\x00\x1c", f"an Ixia capture; {_CONVERT}"),
    Kind(b"btsnoop\0", "a Bluetooth capture, which has no TCP"),
    Kind(b"Nettrace", "a trace of a .NET program, which has no packets"),
    Kind(b"ElfFile\0", "a Windows event log, which has no packets"),
    # variants of pcap (libpcap: sf-pcap.c)
    *(
        Kind(number.to_bytes(4, order), f"a pcap file in the form of {name}; {_CONVERT}")
        for number, name in ((0xA12B3C4D, "Navtel's tcpdump"), (0xA1E2CB12, "Mesquita's tcpdump"))
        for order in ("little", "big")
    ),
    Kind(b"\xcb\xc3\xb2\xa1", "a compiled filter, which has no packets"),
    Kind(b"\xa1\xb2\xc3\xcb", "a compiled filter, which has no packets"),
    # anything else that people have at hand
    Kind(b"PAR1", "a Parquet file"),
    Kind(b"\x7fELF", "a program"),
    Kind(b"MZ\x90\0", "a program"),
    Kind(b"SQLite format 3\0", "an SQLite database"),
    Kind(b"%PDF-", "a PDF document"),
    Kind(b"\x89PNG", "a picture"),
    Kind(b"\xff\xd8\xff", "a picture"),
)


class TextKind(Struct, frozen=True):
    """A kind of text: the pattern of its beginning, in any case, and what it is.

    Patterns are compiled when they are needed: every command imports them, and few read a file that is no capture.
    """

    pattern: str
    name: str


_FETCH: Final = "fetch the file again"
#: Messages of tcpdump before its first packet.
_PREAMBLE: Final = r"((tcpdump: |reading from file|listening on|dropped privs).*\n)*"
TEXTS: Final = (
    TextKind(r"\s*<(!doctype html|html|head)\b", f"an HTML page: perhaps the error of a download; {_FETCH}"),
    TextKind(r"\s*(<[?!][^>]*>\s*)*<(pdml|psml)\b", f"text (PDML) that tshark printed; {_RECORD}, or tshark -w"),
    TextKind(r"\s*<(\?xml|error)\b", f"an XML document: perhaps the error of a store; {_FETCH}"),
    TextKind(r"\s*\[?\s*\{\s*\"(_index|timestamp)\"", f"JSON that tshark printed; {_RECORD}, or tshark -w"),
    TextKind(r"\s*\{\"packet\": ?\d", "JSON lines that kshark printed; name the capture itself"),
    TextKind(r".{0,4096}?\{.{0,256}\"requestHeader\"", "a request log, which has no packets; kshark check reads it"),
    TextKind(r"\s*[\[{]\s*[\"{\]}]", "JSON text"),
    TextKind(r"version https://git-lfs", "a Git LFS pointer; fetch the file itself (git lfs pull)"),
    TextKind(r"(.*\n)*?\s+0x0000: ", f"a hex dump that tcpdump printed; {_RECORD}"),
    TextKind(rf"{_PREAMBLE}([\d-]+ )?(\d\d:\d\d:\d\d|\d{{10}})\.\d+ ", f"text that tcpdump printed; {_RECORD}"),
    TextKind(r"tcpdump: ", f"messages of tcpdump; {_RECORD}"),
    TextKind(r"\s*\d+\s+\d+\.\d+\s+\S+ (→|->) \S+", f"text that tshark printed; {_RECORD}, or tshark -w"),
    TextKind(r"begin(-base64)? [0-7]{3,4} ", "a uuencoded file; decode it first (uudecode)"),
)
#: Lines of a hex dump: xxd, hexdump -C, od, text2pcap's input.
_HEX_LINE: Final = r"\s*(?:(?:0x)?[0-9a-f]{4,8}:?\s+)?((?:[0-9a-f]{2,4}\s+){4,16})"


def archive_of(head: bytes) -> str | None:
    """Return the kind of a file with one of KINDS' magics; None for all others. A capture may stand in it as it is."""
    return next((kind.name for kind in KINDS if head.startswith(kind.magic, kind.at)), None)


def kind_of(head: bytes, name: str = "") -> str:
    """Return what a file with these first bytes and that name is, and the next step."""
    if not head:
        return "an empty file"
    for form, shows in _FORMS:
        if shows(head):
            return form
    if name.lower().endswith(".etl"):
        return _ETL
    text = _as_text(head)
    return f"bytes that begin with {head[:4].hex(' ')}" if text is None else _kind_of_text(text)


def capture_inside(head: bytes) -> int | None:
    """Return the position after other bytes, text for example, where a capture begins; None without one."""
    positions = (match.start() for match in _MAGIC.finditer(head, 1))
    return next((at for at in positions if begins_pcap(head, at) or begins_pcapng(head, at)), None)


_MAGIC: Final = re.compile(b"|".join(map(re.escape, (*FORMATS, MAGIC))))


def _as_text(head: bytes) -> str | None:
    """Return the first characters of a text file; None if it is not one."""
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = head[:_TEXT].decode(encoding, errors="strict" if len(head) <= _TEXT else "ignore")
    except UnicodeDecodeError:
        return None
    return text if all(letter.isprintable() or letter.isspace() or letter == "\x1b" for letter in text) else None


def _kind_of_text(text: str) -> str:
    packed = _packed(text)
    if packed is not None:
        return packed
    return next((kind.name for kind in TEXTS if re.match(kind.pattern, text, re.IGNORECASE)), "text")


def _packed(text: str) -> str | None:
    """Return the kind of text that is a capture in base64, or in hexadecimal digits."""
    line = re.match(_HEX_LINE, text, re.IGNORECASE)
    for digits in (line and line[1], text[:64]):
        raw = _from_hex(digits or "")
        if raw is not None and _holds_capture(raw):
            return "a hex dump of a capture; turn it into bytes first (xxd -r)"
    letters = "".join(text.split())[:64]
    if re.fullmatch(r"[A-Za-z0-9+/_-]{16,}={0,2}", letters):
        raw = base64.b64decode(letters[: len(letters.rstrip("=")) & ~3].translate(_URL_SAFE))
        if _holds_capture(raw):
            return "a capture in base64; decode it first (base64 -d)"
    return None


_URL_SAFE: Final = str.maketrans("-_", "+/")


def _from_hex(text: str) -> bytes | None:
    digits = "".join(text.split())
    try:
        return bytes.fromhex(digits[: len(digits) & ~1])
    except ValueError:
        return None


def _holds_capture(raw: bytes) -> bool:
    return raw[:4] in FORMATS or raw.startswith(MAGIC) or raw.startswith((b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"))


def _is_etl(head: bytes) -> bool:
    """True for a Windows event trace (netsh trace, pktmon): its first buffer begins with a system trace header.

    WMI_BUFFER_HEADER has 72 bytes and begins with the buffer's size; the header after it has version 2, type 1 or 2
    (32 or 64 bit) and the flag 0xC0.
    """
    size = int.from_bytes(head[:4], "little")
    return 1 << 10 <= size <= 1 << 24 and not size & 1023 and head[72:76] in (b"\x02\0\x01\xc0", b"\x02\0\x02\xc0")


def _is_erf(head: bytes) -> bool:
    """True for Endace's extensible record format: records with rising times, whose lengths lead to each other."""
    at = count = time = 0
    while at + 16 <= len(head) and count < 8:
        stamp = int.from_bytes(head[at : at + 8], "little")
        kind, size = head[at + 8] & 0x7F, int.from_bytes(head[at + 10 : at + 12], "big")
        if not 1 <= kind <= 48 or size < 16 or stamp < time:
            return False
        at, count, time = at + size, count + 1, stamp
    return count > 2 or (count > 0 and at == len(head))


def _is_netscaler(head: bytes) -> bool:
    return b"etScaler " in head[:160] or b"etscaler " in head[:160]


_ETL: Final = "a Windows event trace (ETL of pktmon or netsh trace); convert it first (pktmon etl2pcap, or etl2pcapng)"
_FORMS: Final = (
    (
        "a log segment of a Kafka broker, which has no packets; kshark read, deliveries and export read it by its name",
        begins_segment,
    ),
    (_ETL, _is_etl),
    (f"an Endace ERF capture; {_CONVERT}", _is_erf),
    (f"a NetScaler trace; {_CONVERT}", _is_netscaler),
)
