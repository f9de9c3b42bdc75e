"""Read a network interface as packet batches: all packets since the last read are one batch, even a single packet.

The socket is scapy's; packets are copied from it as columns, without scapy's dissection. Linux: AF_PACKET, see
packet(7).
"""

from __future__ import annotations

import logging
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from kshark.capture.in_order import TimeOrder
from kshark.errors import UnreadableInput, UsageError
from kshark.limits import BATCH_BYTES
from kshark.model import PacketBatch, Weird

#: The name that stands for all interfaces.
ANY: Final = "any"
ETHERNET: Final = 1
COOKED: Final = 113
RAW_IP: Final = 101

#: Hardware types of linux/if_arp.h.
ARPHRD_ETHER: Final = 1
ARPHRD_LOOPBACK: Final = 772
ARPHRD_NONE: Final = 65534
LINK_TYPES: Final = {ARPHRD_ETHER: ETHERNET, ARPHRD_LOOPBACK: ETHERNET, ARPHRD_NONE: RAW_IP}

#: From linux/if_packet.h and asm/socket.h; Python's socket module has no names for them.
SOL_PACKET: Final = 263
PACKET_STATISTICS: Final = 6
PACKET_AUXDATA: Final = 8
PACKET_OUTGOING: Final = 4
SO_RCVBUFFORCE: Final = 33
SO_TIMESTAMPNS: Final = 35
SO_ATTACH_FILTER: Final = 26
#: From linux/filter.h: return a constant, the number of bytes of the packet to keep.
BPF_RETURN: Final = 0x06
ETH_P_ALL: Final = 3
TP_STATUS_VLAN_VALID: Final = 1 << 4
TP_STATUS_VLAN_TPID_VALID: Final = 1 << 6
VLAN_TAG: Final = 0x8100

#: status, length on the wire, captured length, two offsets, VLAN tag and its type.
AUXDATA: Final = struct.Struct("=IIIHHHH")
TIMESPEC: Final = struct.Struct("=qq")
ANCILLARY_BYTES: Final = socket.CMSG_SPACE(AUXDATA.size) + socket.CMSG_SPACE(TIMESPEC.size)
#: packet type, hardware type, address length, address, ethertype. LINKTYPE_LINUX_SLL.
COOKED_HEADER: Final = struct.Struct(">HHH8sH")
VLAN_AT: Final = 12
VLAN_BYTES: Final = 4
#: pcap's name for packets that begin with an IP header, for which filters of `any` are compiled.
DLT_RAW: Final = 12

#: Packets wait no longer for earlier ones; queues of one network card are less apart.
HOLD_MS: Final = 20
#: Bytes that the kernel buffers while kshark is busy.
KERNEL_BUFFER_BYTES: Final = 32 << 20
DRAIN_SECONDS: Final = 0.2
SNAP_LENGTH: Final = 262_144


class CapturedPacket(NamedTuple):
    """One packet in the buffer: its time, its position, its captured length and its length on the wire."""

    time_ns: int
    offset: int
    length: int
    wire_length: int


class LiveCapture:
    """An interface, read until `stop`: iterating waits for packets and yields PacketBatches, numbered from 1, and
    Weirds.

    `bpf` is a capture filter as tcpdump takes it, `snap_length` the number of bytes kept of a packet; `any` stands for
    all interfaces. `dropped` counts packets for which the kernel had no room. On loopback, where every packet is seen
    outgoing and incoming, only the incoming one is returned. Raises UnreadableInput without the rights or the
    interface, UsageError for a wrong filter.
    """

    def __init__(
        self, interface: str, *, bpf: str | None = None, snap_length: int = SNAP_LENGTH, promiscuous: bool = True
    ) -> None:
        self.name = interface
        self.dropped = 0
        self._snap_length = snap_length
        self._owner, self._socket = _open(interface, bpf, snap_length, promiscuous)
        hardware = self._socket.getsockname()[3]
        self.link_type = COOKED if interface == ANY else LINK_TYPES.get(hardware, -1)
        if self.link_type < 0:
            self._owner.close()
            raise UnreadableInput(
                f"{interface}: hardware type {hardware} cannot be captured on its own; capture on {ANY}"
            )
        self._wake_read, self._wake_write = os.pipe()
        self._buffer = memoryview(bytearray(BATCH_BYTES + COOKED_HEADER.size + snap_length + VLAN_BYTES))
        self._stopped_ns: int | None = None
        self._number = 0
        self._time_ns = 0
        self._in_order = TimeOrder()

    def __iter__(self) -> Iterator[PacketBatch | Weird]:
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        waiting.register(self._wake_read, select.POLLIN)
        try:
            while self._stopped_ns is None or self._time_ns < self._stopped_ns:
                if self._stopped_ns is None and not waiting.poll(HOLD_MS if self._in_order.holds else None):
                    yield from self._in_order.flush()
                    continue
                batch = self._take()
                if batch is not None:
                    yield from self._in_order.feed(batch)
                elif self._stopped_ns is not None:
                    break
                yield from self._count_drops()
            yield from self._in_order.flush()
        except OSError as error:
            raise UnreadableInput(f"{self.name}: {error.strerror or error}") from None
        finally:
            self.close()

    def stop(self) -> None:
        """End the iteration after all packets received until now; from any thread or signal handler."""
        if self._stopped_ns is None and self._socket.fileno() >= 0:
            self._stopped_ns = time.time_ns()
            os.write(self._wake_write, b"\0")

    def backlog(self, now_ns: int) -> tuple[int, int]:
        """Return the bytes that wait to be judged, and the age of the oldest packet among them: unknown here."""
        return 0, 0

    def close(self) -> None:
        """Close the socket; iterating does this at its end."""
        if self._socket.fileno() >= 0:
            self._owner.close()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _take(self) -> PacketBatch | None:
        """Return all received packets, up to the size of a batch; None without any."""
        packets: list[CapturedPacket] = []
        end = 0
        while end < BATCH_BYTES:
            try:
                packet, end = self._receive(end)
            except BlockingIOError:
                break
            if packet is not None:
                packets.append(packet)
        if not packets:
            return None
        columns = np.array(packets, np.int64)
        number = np.arange(self._number + 1, self._number + 1 + len(packets), dtype=np.int64)
        self._number += len(packets)
        self._time_ns = packets[-1].time_ns
        link_type = np.full(len(packets), self.link_type, np.int64)
        return PacketBatch(
            bytes(self._buffer[:end]), number, columns[:, 0], link_type, columns[:, 1], columns[:, 2], columns[:, 3]
        )

    def _receive(self, start: int) -> tuple[CapturedPacket | None, int]:
        """Receive one packet into the buffer at `start`; return it and the position for the next one.

        The packet is None for loopback's outgoing copy.
        """
        header = COOKED_HEADER.size if self.link_type == COOKED else 0
        room = self._buffer[start + header : start + header + self._snap_length]
        size, ancillary, _, address = self._socket.recvmsg_into([room], ANCILLARY_BYTES, socket.MSG_DONTWAIT)
        _, ethertype, direction, hardware, sender = address
        if direction == PACKET_OUTGOING and hardware == ARPHRD_LOOPBACK:
            return None, start
        if header:
            fields = direction, hardware, len(sender), sender[:8].ljust(8, b"\0"), ethertype
            COOKED_HEADER.pack_into(self._buffer, start, *fields)
        time_ns, wire_size, tag = _ancillary_facts(ancillary, size)
        if tag is not None and self.link_type == ETHERNET and size >= VLAN_AT:
            self._buffer[start + VLAN_AT + VLAN_BYTES : start + size + VLAN_BYTES] = bytes(
                self._buffer[start + VLAN_AT : start + size]
            )
            self._buffer[start + VLAN_AT : start + VLAN_AT + VLAN_BYTES] = tag
            header = VLAN_BYTES
        return CapturedPacket(time_ns, start, header + size, header + wire_size), start + header + size

    def _count_drops(self) -> Iterator[Weird]:
        """Add the kernel's counter, which restarts at 0 after each read."""
        _, drops = struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        if drops:
            self.dropped += drops
            detail = f"{drops} packets dropped by the kernel, {self.dropped} since the start"
            yield Weird("PACKETS_DROPPED", "capture", self._number, self._time_ns, detail, times=drops)


def _ancillary_facts(ancillary: list[tuple[int, int, bytes]], size: int) -> tuple[int, int, bytes | None]:
    """Return time, length on the wire and the VLAN tag removed by the network card, from a packet's ancillary data."""
    time_ns, wire_size, tag = None, size, None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) == TIMESPEC.size:
            seconds, rest = TIMESPEC.unpack(data)
            time_ns = seconds * 1_000_000_000 + rest
        elif level == SOL_PACKET and kind == PACKET_AUXDATA and len(data) >= AUXDATA.size:
            status, wire_size, _, _, _, vlan, vlan_type = AUXDATA.unpack_from(data)
            if status & TP_STATUS_VLAN_VALID:
                tag = struct.pack(">HH", vlan_type if status & TP_STATUS_VLAN_TPID_VALID else VLAN_TAG, vlan)
    return time.time_ns() if time_ns is None else time_ns, max(size, wire_size), tag


def _open(interface: str, bpf: str | None, snap_length: int, promiscuous: bool) -> tuple[Any, socket.socket]:
    """Return the owner of the packet socket, and the socket: scapy's for one interface, our own for all of them."""
    logging.getLogger("scapy").setLevel(logging.ERROR)
    try:
        from scapy.arch.linux import L2ListenSocket
        from scapy.error import Scapy_Exception
    except ImportError:
        raise UsageError("live capture needs scapy, on Linux: pip install 'kshark[live]'") from None
    names = [name for _, name in socket.if_nameindex()]
    if interface not in (ANY, *names):
        raise UnreadableInput(f"no interface {interface}; there are {', '.join(names)}, and {ANY}")
    try:
        if interface == ANY:
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
            owner: Any = opened
        else:
            owner = L2ListenSocket(iface=interface, filter=bpf, promisc=promiscuous)
            opened = owner.ins
        _set_up(opened, interface, bpf, snap_length)
    except PermissionError:
        raise UnreadableInput(f"{interface}: capturing needs root, or the capability CAP_NET_RAW") from None
    except (Scapy_Exception, ImportError) as error:
        raise UsageError(f"the capture filter cannot be used (libpcap compiles it): {error}") from None
    except OSError as error:
        raise UnreadableInput(f"{interface}: {error.strerror or error}") from None
    return owner, opened


def _set_up(opened: socket.socket, interface: str, bpf: str | None, snap_length: int) -> None:
    opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    try:
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, KERNEL_BUFFER_BYTES)
    except PermissionError:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BUFFER_BYTES)
    if bpf is not None:
        _attach(opened, interface, bpf, snap_length)
    _drain(opened)


def _attach(opened: socket.socket, interface: str, bpf: str, snap_length: int) -> None:
    """Attach the filter, changed to keep `snap_length` bytes: scapy's keeps 65535, and offloaded packets are longer."""
    from scapy.arch.common import compile_filter, free_filter
    from scapy.libs.structures import sock_fprog

    program = compile_filter(bpf, linktype=DLT_RAW) if interface == ANY else compile_filter(bpf, interface)
    for at in range(program.bf_len):
        instruction = program.bf_insns[at]
        if instruction.code == BPF_RETURN and instruction.k:
            instruction.k = snap_length
    opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, sock_fprog(program.bf_len, program.bf_insns))
    free_filter(program)


def _drain(opened: socket.socket) -> None:
    """Drop packets received before the filter was in place; at most as many as the kernel buffers."""
    until = time.monotonic() + DRAIN_SECONDS
    with suppress(BlockingIOError):
        while time.monotonic() < until:
            opened.recv(1, socket.MSG_DONTWAIT)
