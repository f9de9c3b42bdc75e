"""An end of a connection and its parts."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from kshark.endpoints import address_of, endpoint, host_of, port_of


@pytest.mark.parametrize(
    ("end", "host", "address", "port"),
    [
        (endpoint("10.0.0.1", 9092), "10.0.0.1", "10.0.0.1", 9092),
        (endpoint("localhost", 1), "127.0.0.1", "127.0.0.1", 1),
        (endpoint("fe80::1", 65_535), "[fe80::1]", "fe80::1", 65_535),
        (endpoint("::ffff:10.0.0.1", 9092), "[::ffff:10.0.0.1]", "::ffff:10.0.0.1", 9092),
        (endpoint("broker-1.example", 9092), "broker-1.example", None, 9092),
    ],
)
def test_parts_of_an_end(end: str, host: str, address: str | None, port: int) -> None:
    assert (host_of(end), port_of(end)) == (host, port)
    assert address_of(end) == (None if address is None else ip_address(address))
