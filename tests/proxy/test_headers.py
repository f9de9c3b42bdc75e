"""PROXY headers, byte by byte."""

from __future__ import annotations

import random
import struct

import pytest

from kshark.model import ProxyTlv
from kshark.proxy.headers import least_bytes, may_begin, read_header
from tests.proxy.making import (
    ALL,
    AWS,
    AZURE,
    CLIENT,
    HEADERS,
    SIGNATURE,
    SSL,
    binary,
    ipv4,
    ipv6,
    line,
    tlv,
    unix,
    with_checksum,
)


@pytest.mark.parametrize("name", [name for name in HEADERS if name != "two proxies"])
def test_a_header_names_the_client(name: str) -> None:
    make, host = HEADERS[name]
    header = read_header(make(41_000))
    assert header is not None
    assert (header.fault, header.client) == ("", None if host is None else f"{host}:41000")
    assert header.size == len(make(41_000))


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_complete_with_its_last_byte(name: str) -> None:
    data = HEADERS[name][0](41_000)
    header = read_header(data + b"\0\0\0\x10")
    assert header is not None
    assert header == read_header(data[: header.size])
    for size in range(1, header.size):
        assert may_begin(data[:size])
        assert read_header(data[:size]) is None
        assert size < least_bytes(data[:size]) <= header.size


def test_the_additions_are_read() -> None:
    header = read_header(ipv6(41_000, ALL + AWS + AZURE))
    assert header is not None
    assert header.tlvs == [
        ProxyTlv(1, "alpn", "kafka"),
        ProxyTlv(2, "authority", "broker-1.kafka.example"),
        ProxyTlv(5, "unique_id", "AQI="),
        ProxyTlv(
            0x20,
            "ssl",
            {"client": 7, "verify": 0, "version": "TLSv1.3", "cn": "client-7", "cipher": "TLS_AES_128_GCM_SHA256"},
        ),
        ProxyTlv(0x30, "netns", "blue"),
        ProxyTlv(0xE0, "gcp_psc_connection_id", 77),
        ProxyTlv(0xF1, "0xf1", "/w=="),
        ProxyTlv(0xEA, "aws_vpc_endpoint_id", "vpce-08d2bf15fac5001c9"),
        ProxyTlv(0xEE, "azure_link_id", 0x12345678),
    ]


def test_paths_are_no_client() -> None:
    header = read_header(unix())
    assert header is not None
    assert (header.source, header.destination, header.client) == ("/run/client.sock", "/run/broker.sock", None)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (line("TCP4 " + "1" * 120), "133 bytes, more than 107"),
        (line("TCP4 203.0.113.7 10.0.0.9 41000"), "its words are no addresses and ports"),
        (line("TCP4 203.0.113.7 10.0.0.9 41000 65536"), "its words are no addresses and ports"),
        (line("TCP4 2001:db8::7 10.0.0.9 41000 9092"), "its words are no addresses and ports"),
        (line("TCP5 203.0.113.7 10.0.0.9 41000 9092"), "its words are no addresses and ports"),
        (line(""), "its words are no addresses and ports"),
        (b"PROXY TCP4 " + b"1" * 1_100, "no end in 1024 bytes"),
        (binary(0x11, bytes(12), version=3), "version 3"),
        (binary(0x11, bytes(12), 2), "command 2"),
        (binary(0x41, bytes(12)), "family 0x41"),
        (binary(0x11, bytes(11)), "11 bytes for addresses, which take 12"),
        (ipv4(41_000, tlv(1, b"kafka")[:-1]), "a TLV ends outside of it"),
        (ipv4(41_000, b"\x01\x00"), "a TLV ends outside of it"),
        (ipv4(41_000, tlv(0x20, b"\x01\0\0\0\0\x21\0")), "a TLV ends outside of it"),
    ],
)  # fmt: skip
def test_a_malformed_header_has_no_client(data: bytes, fault: str) -> None:
    header = read_header(data)
    assert header is not None
    assert (header.fault, header.client) == (fault, None)
    assert 0 < header.size <= len(data)


def test_a_wrong_checksum_is_a_fault() -> None:
    right = with_checksum(lambda tlvs: ipv4(41_000, SSL + tlvs))
    wrong = right.replace(b"\xcb\x00\x71\x07", b"\xcb\x00\x71\x08")
    header = read_header(wrong)
    assert header is not None
    assert header.fault.startswith("its CRC32C is ")
    assert header.client is None


@pytest.mark.parametrize("name", [name for name in HEADERS if name != "two proxies"])
def test_a_cut_header_says_what_is_certain(name: str) -> None:
    make, host = HEADERS[name]
    data = make(41_000)
    clients = {None, None if host is None else f"{host}:41000"}
    for size in range(1, len(data)):
        header = read_header(data[:size], final=True)
        if size < 6 or (data.startswith(SIGNATURE) and size < 12):
            assert header is None
        else:
            assert header is not None
            assert header.fault == "it is cut"
            assert header.client in clients
            assert header.size == size


def test_the_port_of_a_cut_line_is_only_certain_with_what_follows() -> None:
    data = line(f"TCP4 {CLIENT} 10.0.0.9 41000 9092")
    begun = data.index(b"41000")
    cut = [read_header(data[: begun + size], final=True) for size in (4, 5, 6)]
    assert [header and header.client for header in cut] == [None, None, f"{CLIENT}:41000"]


def test_any_bytes_give_a_header_or_none() -> None:
    dice = random.Random(20261128)
    for _ in range(3_000):
        start = dice.choice((b"PROXY ", SIGNATURE, SIGNATURE + bytes((0x21, dice.choice((0x11, 0x21, 0x31, 0))))))
        data = start + struct.pack(">H", dice.randrange(80)) + dice.randbytes(dice.randrange(120))
        for final in (False, True):
            header = read_header(data, final=final)
            assert header is None or (0 < header.size <= len(data) and (header.client is None or ":" in header.client))
