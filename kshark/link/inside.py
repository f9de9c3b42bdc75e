"""Read the inside of VXLAN, Geneve and GRE for all packets of a batch at once.

kshark.link.tunnels has the sources, and reads the remaining packets one by one. Packets read here have enough captured
bytes after the tunnel's header for those of IP and TCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kshark.link.packet import ETHERNET, IPV4, IPV6
from kshark.link.rows import Rows, uint16
from kshark.link.tunnels import ERSPAN, ERSPAN_III, GENEVE_PORT, TELLING_PORTS, VXLAN_BEGINS, VXLAN_PORTS, gre_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.link.rows import Bytes
    from kshark.model import Int64s

_UDP_HEADER: Final = 8
_VXLAN_HEADER: Final = 8
#: The longest GRE header, and the longest ERSPAN header up to its last word.
_GRE_HEADERS: Final = 16 + 12
#: Bytes of IP and TCP headers, and of an Ethernet header in addition.
_ENOUGH: Final = 40
_ETHERNET_HEADER: Final = 14
#: By GRE flags: bytes of the header; 0 if it is not read here.
_GRE_SIZES: Final = np.array([0 if flags & 0x4F else gre_size(flags << 8) for flags in range(256)], np.int64)
_TELLING: Final = np.zeros(1 << 16, bool)
_TELLING[list(TELLING_PORTS)] = True
#: First words, little-endian, of WireGuard's messages and of VXLAN on any port.
_TELLING_WORDS: Final = (1, 2, 3, 4, int.from_bytes(VXLAN_BEGINS, "little"))


class Inside(NamedTuple):
    """Rows of no known tunnel; packets that continue with an Ethernet header; packets that continue as IP."""

    plain: Int64s
    ethernet: Rows
    network: Rows


def inside_udp(view: Bytes, rows: Rows) -> Inside:
    """Sort packets whose rows start at a UDP header."""
    rows = rows.where(rows.end - rows.start >= _UDP_HEADER + 4)
    source, target = uint16(view, rows.start), uint16(view, rows.start + 2)
    start = rows.start + _UDP_HEADER
    word = view[start].astype(np.int64) | (view[start + 1].astype(np.int64) | view[start + 2] | view[start + 3]) << 8
    plain = (
        ~_TELLING[source] & ~_TELLING[target] & ~np.isin(word, _TELLING_WORDS) & (uint16(view, start + 2) != ETHERNET)
    )
    room = rows.end - start >= _VXLAN_HEADER
    first = view[start]
    vxlan = np.isin(target, list(VXLAN_PORTS)) & room & (first & 8 != 0)
    content = start + _VXLAN_HEADER
    geneve = (target == GENEVE_PORT) & room & (first >> 6 == 0)
    content = np.where(geneve, content + 4 * (first & 0x3F).astype(np.int64), content)
    protocol = np.full(len(start), ETHERNET)
    protocol[geneve] = uint16(view, start[geneve] + 2)
    return Inside(rows.row[plain], *_continued(rows, vxlan | geneve, content, protocol))


def inside_gre(view: Bytes, rows: Rows) -> Inside:
    """Sort packets whose rows start at a GRE header."""
    rows = rows.where(rows.end - rows.start >= _GRE_HEADERS)
    flags, version = view[rows.start], view[rows.start + 1]
    protocol = uint16(view, rows.start + 2).astype(np.int64)
    size = _GRE_SIZES[flags]
    content = rows.start + size
    word = uint16(view, content + 10)
    third, second = protocol == ERSPAN_III, protocol == ERSPAN
    content = (
        content
        + np.where(second & (flags & 0x10 != 0), 8, 0)
        + np.where(third, 12 + 8 * (word & 1).astype(np.int64), 0)
    )
    inside = (size > 0) & (version & 7 == 0) & ~(third & (word >> 10 & 31 == 2))
    protocol[second | third] = ETHERNET
    return Inside(rows.row[:0], *_continued(rows, inside, content, protocol))


def _continued(rows: Rows, inside: NDArray[np.bool_], start: Int64s, protocol: NDArray[Any]) -> tuple[Rows, Rows]:
    """Return the packets with an Ethernet header, and those with an IP header directly."""
    inside = inside & (rows.end - start >= np.where(protocol == ETHERNET, _ETHERNET_HEADER, 0) + _ENOUGH)
    content = rows._replace(start=start, ethertype=protocol)
    return content.where(inside & (protocol == ETHERNET)), content.where(
        inside & ((protocol == IPV4) | (protocol == IPV6))
    )
