"""Ends of connections, in the one notation of all outputs: `address:port`, IPv6 in brackets."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from msgspec import UnsetType

Address = IPv4Address | IPv6Address
#: Number of ends whose parts are cached: the same ends repeat.
KEPT: Final = 4096


def endpoint(host: str, port: int) -> str:
    """Return a listener as Metadata and FindCoordinator name it; localhost becomes 127.0.0.1."""
    host = "127.0.0.1" if host == "localhost" else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def via(client: str, proxy: str | UnsetType | None) -> str:
    """Return a client, and the proxy in front of it: `203.0.113.7:41000 via proxy 10.0.0.5:50000`."""
    return f"{client} via proxy {proxy}" if proxy and proxy != client else client


def host_of(end: str) -> str:
    """Return an end without its port; IPv6 keeps its brackets."""
    return end.rpartition(":")[0]


@lru_cache(KEPT)
def port_of(end: str) -> int:
    """Return the port of an end."""
    return int(end.rpartition(":")[2])


@lru_cache(KEPT)
def address_of(end: str) -> Address | None:
    """Return the address of an end; None if the end has a name instead."""
    try:
        return ip_address(host_of(end).strip("[]"))
    except ValueError:
        return None
