"""Files that are not captures, or were: each is named, with the next step."""

from __future__ import annotations

import base64
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from kshark.capture.captures import open_captures
from kshark.capture.source import open_capture, read_bytes
from kshark.errors import Destroyed, Empty, NoCapture
from kshark.model import PacketBatch, Weird
from tests.capture.files import Pcapng, read, read_in_pieces
from tests.packets import Tcp, Wire, pcap
from tests.shared import CAPTURES

EPOCHS = CAPTURES / "adv-epochs.pcap"
CONVERT = "convert it first (editcap -F pcapng)"


def talk(count: int = 12) -> bytes:
    """A capture whose packets hold every byte."""
    wire = Wire()
    connection = Tcp(wire).open()
    for n in range(count):
        connection.client(bytes(range(256))[n:])
        connection.broker(bytes(range(255, -1, -1))[n:])
    return pcap(wire.packets)


def etl(pointer: int) -> bytes:
    """The first buffer of a Windows event trace: its header of 72 bytes, then the system trace header."""
    header = struct.pack("<IIII", 0x10000, 0x10000, 0x10000, 0) + bytes(56)
    return header + struct.pack("<HBBHH", 2, pointer, 0xC0, 0x118, 0) + bytes(400)


def erf(count: int) -> bytes:
    """Records of an Ethernet card (type 2), a second apart: time, type, flags, length, losses, length on the wire."""
    body = bytes(2) + bytes(60)
    return b"".join(
        struct.pack("<Q", 1_795_231_172 + n << 32) + struct.pack(">BBHHH", 2, 4, 16 + len(body), 0, 60) + body
        for n in range(count)
    )


KINDS = {
    "erf": (erf(5), f"an Endace ERF capture; {CONVERT}"),
    "erf, one record": (erf(1), f"an Endace ERF capture; {CONVERT}"),
    "zip": (b"PK\3\4" + bytes(30), "a zip archive; unpack it first"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(30), "a 7z archive; unpack it first"),
    "rar": (b"Rar!\x1a\x07\1\0", "a rar archive; unpack it first"),
    "tar": (b"trace.pcap".ljust(257, b"\0") + b"ustar\0" + bytes(249) + talk(), "a tar archive; unpack it first"),
    "bzip2": (b"BZh91AY&SY" + bytes(30), "a bzip2 file; decompress it first"),
    "xz": (b"\xfd7zXZ\0" + bytes(30), "an xz file; decompress it first"),
    "lz4": (b"\x04\x22\x4d\x18" + bytes(30), "an lz4 file; decompress it first"),
    "netmon": (b"GMBU\0\2" + bytes(30), f"a Network Monitor capture; {CONVERT}"),
    "iptrace": (b"iptrace 2.0" + bytes(30), f"an AIX iptrace; {CONVERT}"),
    "etl of 32 bit": (etl(1), "a Windows event trace"),
    "etl of 64 bit": (etl(2), "a Windows event trace"),
    "half an etl": (etl(2)[:80], "(pktmon etl2pcap, or etl2pcapng)"),
    "pcap of Navtel": (b"\x4d\x3c\x2b\xa1" + bytes(30), f"a pcap file in the form of Navtel's tcpdump; {CONVERT}"),
    "html": (b"<!DOCTYPE html>\n<html><head><title>Sign in</title>", "an HTML page"),
    "xml": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "an XML document"),
    "pdml": (b'<?xml version="1.0"?>\n<?xml-stylesheet href="x"?>\n<!-- You -->\n<pdml version="0">', "(PDML)"),
    "tshark's JSON": (b'[\n  {\n    "_index": "packets-2026-11-28",\n', "JSON that tshark printed"),
    "JSON": (b'{"message": "not found"}', "JSON text"),
    "tcpdump's text": (b"12:01:02.123456 IP 10.0.0.1.5000 > 10.0.0.2.9092: Flags [S]\n", "text that tcpdump printed"),
    "tcpdump's text with its messages": (
        b"tcpdump: verbose output suppressed\nlistening on eth0\n12:01:02.123456 IP 10.0.0.1 > 10.0.0.2: ICMP\n",
        "text that tcpdump printed; record with tcpdump -w FILE",
    ),
    "tcpdump's hex dump": (
        b"12:01:02.123456 IP 10.0.0.1.5 > 10.0.0.2.9: Flags [S]\n\t0x0000:  4500 003c e7aa 4000 4006 550f 7f00 0001\n",
        "a hex dump that tcpdump printed",
    ),
    "only tcpdump's messages": (b"tcpdump: eth9: No such device exists\n", "messages of tcpdump"),
    "tshark's text": ("    1 0.000000000 127.0.0.1 \u2192 127.0.0.1 TCP 74\n".encode(), "text that tshark printed"),
    "base64": (base64.encodebytes(talk()), "a capture in base64; decode it first (base64 -d)"),
    "xxd": (b"00000000: d4c3 b2a1 0200 0400 0000 0000 0000 0000  ....\n", "a hex dump of a capture"),
    "hexdump -C": (b"00000000  d4 c3 b2 a1 02 00 04 00  00 00 00 00 00 00 00 00  |....|\n", "a hex dump of a capture"),
    "hex digits": (talk().hex().encode(), "a hex dump of a capture"),
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
    "UTF-16 text": ("Dear diary".encode("utf-16"), "text"),
    "text": (b"Dear diary", "text"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_named(kind: str) -> None:
    content, name = KINDS[kind]
    with pytest.raises(NoCapture) as raised:
        read_bytes(content, "thing")
    assert name in str(raised.value)
    assert str(raised.value).startswith("thing: no capture (pcap or pcapng), but ")


def test_an_etl_is_known_by_its_name_too() -> None:
    with pytest.raises(NoCapture, match="a Windows event trace"):
        read_bytes(b"\1\2\3\4\xff" * 50, "trace.ETL")


def test_an_empty_file_is_empty() -> None:
    with pytest.raises(Empty, match="an empty file"):
        read_bytes(b"")


FORMATS = {
    "5views": "5View",
    "lanalyzer": "LANalyzer",
    "netmon1": "Network Monitor",
    "netmon2": "Network Monitor",
    "nettl": "nettl",
    "ngsniffer": "Sniffer",
    "ngwsniffer_1_1": "Sniffer",
    "ngwsniffer_2_0": "Sniffer",
    "visual": "Visual Networks",
    "k12text": "K12",
}


@pytest.mark.skipif(shutil.which("editcap") is None, reason="needs editcap of Wireshark")
@pytest.mark.parametrize("form", FORMATS)
def test_what_wireshark_writes_is_named_and_converted_as_told(form: str, tmp_path: Path) -> None:
    foreign, converted = tmp_path / "foreign", tmp_path / "converted"
    subprocess.run(["editcap", "-F", form, EPOCHS, foreign], check=True, capture_output=True)
    with pytest.raises(NoCapture) as raised:
        open_capture(foreign)
    text = str(raised.value)
    assert FORMATS[form] in text
    step = text[text.index("(editcap ") + 1 : -1].split()
    subprocess.run([*step, foreign, converted], check=True, capture_output=True)
    assert [length for _, length in packets(converted)] == [length for _, length in packets(EPOCHS)]


@pytest.mark.skipif(shutil.which("editcap") is None, reason="needs editcap of Wireshark")
@pytest.mark.parametrize("form", ["snoop", "nsecpcap", "modpcap", "pcapng"])
def test_what_is_read_has_the_same_packets(form: str, tmp_path: Path) -> None:
    subprocess.run(["editcap", "-F", form, EPOCHS, tmp_path / form], check=True, capture_output=True)
    assert packets(tmp_path / form) == packets(EPOCHS)


def packets(path: Path) -> list[tuple[int, int]]:
    """Time in microseconds and length."""
    batches = [item for item in open_captures([path]) if isinstance(item, PacketBatch)]
    return [
        (time_ns // 1000, length)
        for batch in batches
        for time_ns, length in zip(batch.time_ns.tolist(), batch.length.tolist(), strict=True)
    ]


# -- destroyed captures


def pcapng() -> bytes:
    return bytes(Pcapng().section().interface().enhanced(bytes(range(256)), 1))


def utf16(data: bytes, page: str) -> bytes:
    """As PowerShell writes the bytes of a program."""
    return data.decode(page, "replace").encode("utf-16")


DESTROYED = {
    "terminal": (talk().replace(b"\n", b"\r\n"), "without -t"),
    "terminal, one packet": (talk(0).replace(b"\n", b"\r\n") + talk(1)[24:].replace(b"\n", b"\r\n"), "without -t"),
    "terminal, pcapng": (pcapng().replace(b"\n", b"\r\n"), "without -t"),
    "text mode, pcapng": (pcapng().replace(b"\r\n", b"\n"), "binary mode"),
    "without CR, pcapng": (pcapng().replace(b"\r", b""), "binary mode"),
    "UTF-8": (talk().decode("utf-8", "replace").encode(), "binary mode"),
    "UTF-8 of Latin-1": (talk().decode("latin-1").encode(), "binary mode"),
    "PowerShell": (utf16(talk(), "cp437"), "PowerShell"),
    "PowerShell in the west": (utf16(talk(), "cp1252"), "PowerShell"),
    "PowerShell, pcapng": (utf16(pcapng(), "cp437"), "PowerShell"),
}


#: Still with the first bytes of a pcap file: reported, and nothing is read.
READABLE = ("terminal", "terminal, one packet")


@pytest.mark.parametrize("way", DESTROYED)
def test_a_destroyed_capture_is_not_read(way: str) -> None:
    content, step = DESTROYED[way]
    if way in READABLE:
        [weird] = read_bytes(content)
        assert isinstance(weird, Weird)
        assert (weird.code, weird.size) == ("CAPTURE_DESTROYED", len(content))
        assert step in weird.detail
        return
    with pytest.raises(Destroyed, match=r"destroyed|lost its CR") as raised:
        read(content)
    assert step in str(raised.value)


def test_a_terminal_is_recognised_however_slowly_the_bytes_come() -> None:
    content = talk().replace(b"\n", b"\r\n")
    _, weirds = read_in_pieces(content, [24, 100, 1])
    assert [code for code, *_ in weirds] == ["CAPTURE_DESTROYED"]


def test_the_damage_of_a_terminal_can_be_undone_as_told() -> None:
    assert read(talk().replace(b"\n", b"\r\n").replace(b"\r\n", b"\n")) == read(talk())


@pytest.mark.parametrize("payload", [b"", b"GET / HTTP/1.1\r\n" * 20, b"\r\n"])
def test_a_sound_capture_of_text_with_line_ends_is_read(payload: bytes) -> None:
    """Addresses and ports without the byte 10: only the payload has line ends, all of them with CR."""
    wire = Wire()
    tcp = Tcp(wire).open()
    for _ in range(4):
        tcp.client(payload)
    _, weirds = read(pcap(wire.packets))
    assert weirds == []
