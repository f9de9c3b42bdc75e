"""Blocks of packets as the kernel writes them (TPACKET_V3), as packet batches.

Sources: linux/if_packet.h (tpacket_block_desc, tpacket3_hdr, sockaddr_ll), packet_mmap.rst, LINKTYPE_LINUX_SLL.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kshark.model import PacketBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Hardware types of linux/if_arp.h.
ARPHRD_ETHER: Final = 1
ARPHRD_LOOPBACK: Final = 772
ARPHRD_NONE: Final = 65534
ETHERNET: Final = 1
COOKED: Final = 113
RAW_IP: Final = 101
LINK_TYPES: Final = {ARPHRD_ETHER: ETHERNET, ARPHRD_LOOPBACK: ETHERNET, ARPHRD_NONE: RAW_IP}

OUTGOING: Final = 4
VLAN_VALID: Final = 1 << 4
VLAN_TYPE_VALID: Final = 1 << 6
VLAN_TAG: Final = 0x8100
#: Bytes of the addresses of an Ethernet header, before the tag.
VLAN_AT: Final = 12
VLAN_BYTES: Final = 4
COOKED_BYTES: Final = 16

#: Number of packets and offset of the first one, in the header of a block.
_COUNT: Final = struct.Struct("=II").unpack_from
_COUNT_AT: Final = 12
BLOCK_HEADER_BYTES: Final = 48
_NEXT: Final = struct.Struct("=I").unpack_from
#: The header of a packet, and the address after it.
_PACKET: Final = np.dtype(
    {
        "names": [
            *("seconds", "nanoseconds", "length", "wire", "status", "at", "vlan", "vlan_type"),
            *("ethertype", "hardware", "direction", "address_bytes", "address"),
        ],
        "formats": ["=u4", "=u4", "=u4", "=u4", "=u4", "=u2", "=u4", "=u2", "V2", "=u2", "u1", "u1", "8u1"],
        "offsets": [4, 8, 12, 16, 20, 24, 32, 36, 50, 56, 58, 59, 60],
        "itemsize": 68,
    }
)
#: LINKTYPE_LINUX_SLL: direction, hardware, bytes of the address, address, ethertype.
_COOKED: Final = np.dtype(
    [("direction", ">u2"), ("hardware", ">u2"), ("bytes", ">u2"), ("address", "8u1"), ("type", "V2")]
)


def packets_of(block: bytes) -> int:
    """Return the number of packets of a block."""
    return int(_COUNT(block, _COUNT_AT)[0])


def batch_of(block: bytes, link_type: int, number: int, origin: int = 0) -> PacketBatch | None:
    """Return the packets of a block, numbered from `number`; None if there are none.

    A VLAN tag that the network card removed is put back; with COOKED each packet gets its cooked header. Of loopback,
    where every packet is seen outgoing and incoming, only the incoming ones are returned.
    """
    count, at = _COUNT(block, _COUNT_AT)
    places = [0] * count
    for packet in range(count):
        places[packet] = at
        at += _NEXT(block, at)[0]
    begins = np.array(places, np.int64)
    headers = _headers(block, begins)
    seen = (headers["direction"] != OUTGOING) | (headers["hardware"] != ARPHRD_LOOPBACK)
    if not seen.all():
        begins, headers = begins[seen], headers[seen]
    if not len(begins):
        return None
    offset = begins + headers["at"]
    length = headers["length"].astype(np.int64)
    wire_length = headers["wire"].astype(np.int64)
    buffer = block
    if link_type == COOKED:
        buffer = _cooked(block, offset - COOKED_BYTES, headers)
        added = np.full(len(begins), COOKED_BYTES, np.int64)
    else:
        tagged = (headers["status"] & VLAN_VALID != 0) & (length >= VLAN_AT) & (link_type == ETHERNET)
        added = np.where(tagged, VLAN_BYTES, 0)
        if tagged.any():
            buffer = _tagged(block, offset[tagged], headers[tagged])
    return PacketBatch(
        buffer,
        np.arange(number, number + len(begins), dtype=np.int64),
        headers["seconds"].astype(np.int64) * 1_000_000_000 + headers["nanoseconds"],
        np.full(len(begins), link_type, np.int64),
        offset - added,
        length + added,
        np.maximum(length, wire_length) + added,
        origin=np.full(len(begins), origin, np.int64),
    )


def _headers(block: bytes, begins: NDArray[np.int64]) -> NDArray[Any]:
    """Return the headers of the packets at these places."""
    every = np.lib.stride_tricks.sliding_window_view(np.frombuffer(block, np.uint8), _PACKET.itemsize)
    return np.ascontiguousarray(every[begins]).view(_PACKET)[:, 0]


def _cooked(block: bytes, offset: NDArray[np.int64], headers: NDArray[Any]) -> bytes:
    """Write the cooked headers into the room that the kernel leaves before each packet."""
    cooked = np.zeros(len(offset), _COOKED)
    cooked["direction"], cooked["hardware"] = headers["direction"], headers["hardware"]
    cooked["bytes"], cooked["type"] = headers["address_bytes"], headers["ethertype"]
    cooked["address"] = np.where(np.arange(8) < headers["address_bytes"][:, None], headers["address"], 0)
    buffer = np.frombuffer(bytearray(block), np.uint8)
    buffer[offset[:, None] + np.arange(COOKED_BYTES)] = cooked.view(np.uint8).reshape(-1, COOKED_BYTES)
    return buffer.tobytes()


def _tagged(block: bytes, offset: NDArray[np.int64], headers: NDArray[Any]) -> bytes:
    """Move the addresses of these packets, and write the tag after them."""
    tags = np.zeros(len(offset), [("type", ">u2"), ("tag", ">u2")])
    tags["type"] = np.where(headers["status"] & VLAN_TYPE_VALID != 0, headers["vlan_type"], VLAN_TAG)
    tags["tag"] = headers["vlan"]
    buffer = np.frombuffer(bytearray(block), np.uint8)
    begin = (offset - VLAN_BYTES)[:, None]
    addresses = np.arange(VLAN_AT)
    buffer[begin + addresses] = buffer[offset[:, None] + addresses]
    buffer[begin + VLAN_AT + np.arange(VLAN_BYTES)] = tags.view(np.uint8).reshape(-1, VLAN_BYTES)
    return buffer.tobytes()
