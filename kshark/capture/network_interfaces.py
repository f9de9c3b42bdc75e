"""The network interfaces of this computer, in the order of libpcap, which tcpdump -D and tshark -D number. Linux: see
netdevice(7).
"""

from __future__ import annotations

import array
import ipaddress
import socket
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

from kshark.errors import UnreadableInput, UsageError

#: The name that stands for all interfaces.
ANY: Final = "any"
#: From linux/sockios.h and linux/if.h.
_SIOCGIFCONF: Final = 0x8912
_SIOCGIFFLAGS: Final = 0x8913
_UP: Final = 0x1
_LOOPBACK: Final = 0x8
_RUNNING: Final = 0x40
#: struct ifreq: a name, and 24 bytes for an address; struct ifconf: a length and a pointer.
_IFREQ: Final = struct.Struct("16s24s")
_IFCONF: Final = struct.Struct("iP")
_MOST_ADDRESSES: Final = 4_096
_IPV6: Final = Path("/proc/net/if_inet6")


class NetworkInterface(NamedTuple):
    """An interface. `state`: `up`, `no link` or `down`."""

    name: str
    state: str
    is_loopback: bool
    addresses: tuple[str, ...]


def interfaces() -> list[NetworkInterface]:
    """Return all interfaces: those with a link first, `any` after them, then loopback, then those without a link.

    Raises UnreadableInput on systems other than Linux.
    """
    try:
        from fcntl import ioctl
    except ImportError:
        raise UnreadableInput("interfaces can be listed on Linux only") from None
    found = [NetworkInterface(ANY, "up", False, ())]
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            addresses = _addresses(asked, ioctl)
            for _, name in socket.if_nameindex():
                answer = ioctl(asked, _SIOCGIFFLAGS, _IFREQ.pack(name.encode(), b""))
                (flags,) = struct.unpack_from("H", answer, 16)
                state = "down" if not flags & _UP else "up" if flags & _RUNNING else "no link"
                found.append(NetworkInterface(name, state, bool(flags & _LOOPBACK), tuple(addresses.get(name, ()))))
    except OSError as error:
        raise UnreadableInput(f"interfaces cannot be listed: {error.strerror or error}") from None
    return sorted(found, key=_rank)


def name_of(interface: str) -> str:
    """Return the name of an interface that is given by name, or by its number in `interfaces`. Raises UsageError for a
    number that none has.
    """
    if not interface.isdecimal() or interface in (name for _, name in socket.if_nameindex()):
        return interface
    known = interfaces()
    if not 1 <= int(interface) <= len(known):
        raise UsageError(f"no interface has the number {interface} (kshark live -D lists them)")
    return known[int(interface) - 1].name


def _rank(interface: NetworkInterface) -> tuple[int, bool, bool]:
    """Return the order of libpcap (pcap.c, get_figure_of_merit)."""
    return ("up", "no link", "down").index(interface.state), interface.is_loopback, interface.name == ANY


def _addresses(asked: socket.socket, ioctl: Any) -> dict[str, list[str]]:
    """Return the IPv4 and IPv6 addresses by interface."""
    buffer = array.array("B", bytes(_IFREQ.size * _MOST_ADDRESSES))
    size, _ = _IFCONF.unpack(ioctl(asked, _SIOCGIFCONF, _IFCONF.pack(len(buffer), buffer.buffer_info()[0])))
    addresses: dict[str, list[str]] = {}
    for label, address in _IFREQ.iter_unpack(bytes(buffer[:size])):
        name = label.rstrip(b"\0").decode(errors="replace").partition(":")[0]
        addresses.setdefault(name, []).append(socket.inet_ntoa(address[4:8]))
    for line in _IPV6.read_text().splitlines() if _IPV6.exists() else ():
        digits, _, _, _, _, name = line.split()
        addresses.setdefault(name, []).append(str(ipaddress.IPv6Address(bytes.fromhex(digits))))
    return addresses
