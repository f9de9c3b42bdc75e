"""Wireshark display filters for the packets of a finding."""

from __future__ import annotations

from collections.abc import Iterable

from kshark.endpoints import host_of, port_of


def of_frames(frames: Iterable[int]) -> str:
    """Return a filter for exactly these packets of a file."""
    numbers = list(frames)
    return (
        f"frame.number == {numbers[0]}" if len(numbers) == 1 else f"frame.number in {{{', '.join(map(str, numbers))}}}"
    )


def of_connection(client: str, broker: str) -> str:
    """Return a filter for all packets between two ends (kshark.endpoints)."""
    host = host_of(client)
    field = "ipv6.addr" if host.startswith("[") else "ip.addr"
    return f"{field} == {host.strip('[]')} && tcp.port == {port_of(client)} && tcp.port == {port_of(broker)}"
