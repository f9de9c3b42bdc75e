"""The capture process: blocks of packets from the kernel, unchanged, into a spool.

A program of its own, started by path with `python -I -S`: it imports little, so that it starts fast and stays small.
Everything else is done by the process that started it (kshark.capture.live.capture), which may be late.
Its argument is the file descriptor of a socket to that process; messages are described in `kshark.capture.live.spool`.

Sources: packet(7), packet_mmap.rst (TPACKET_V3), linux/if_packet.h, capabilities(7).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 263, 1, 5, 6, 10
TPACKET_V3 = 2
PACKET_MR_PROMISC = 1
SO_ATTACH_FILTER = 26
ETH_P_ALL = 3
SIOCGIFFLAGS = 0x8913
IFF_UP = 0x1
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
CAPABILITY_VERSION_3 = 0x20080522

#: The kernel gives a block to us when it is full, or after RETIRE_MS. All blocks together last 12.8 s if few packets
#: come, and 2.5 s for 100,000 packets of 100 bytes a second.
BLOCK_BYTES = 256 << 10
BLOCKS = 256
LEAST_BLOCKS = 16
FRAME_BYTES = 2048
RETIRE_MS = 50
#: Bits of a block's status: ours to read; packets were dropped before it.
STATUS_USER, STATUS_LOSING = 1, 4
#: In a block: status, number of packets, offset of the first, length.
BLOCK = struct.Struct("=IIII")
STATUS_AT = 8
#: Header of a record in the spool: kind, number of the interface, bytes after the header, time in nanoseconds.
RECORD = struct.Struct("=HHIq")
BLOCK_RECORD, DROPS_RECORD, TICK_RECORD, DOWN_RECORD, UP_RECORD, NEXT_RECORD = range(1, 7)

TICK_MS = 250
#: No packet is older than this when it reaches the spool, while the kernel has no full block: its timer may be late.
LATE_MS = 10 * RETIRE_MS
NS_PER_MS = 1_000_000
FULL_WAIT_S = 0.1


class CannotChange(OSError):
    """This process may not become another user."""


class Ring:
    """The packet socket of one interface and its ring of blocks. `any` stands for all interfaces."""

    def __init__(self, number: int, name: str, bpf: bytes, promiscuous: bool) -> None:
        self.number = number
        self.name = name
        self.is_any = name == "any"
        self.promiscuous = promiscuous
        self.packets = 0
        self.is_down = False
        kind = socket.SOCK_DGRAM if self.is_any else socket.SOCK_RAW
        # protocol 0: no packets before the filter is attached and the socket bound
        self.socket = socket.socket(socket.AF_PACKET, kind, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        if bpf:
            self._filter(bpf)
        self.blocks = self._make_ring()
        self.map = mmap.mmap(self.socket.fileno(), BLOCK_BYTES * self.blocks)
        self.view = memoryview(self.map)
        self._at = 0
        self._index = 0
        self._bind()

    @property
    def hardware(self) -> int:
        """The type of the interface, as in linux/if_arp.h."""
        return int(self.socket.getsockname()[3])

    def ready(self) -> memoryview | None:
        """Return the next block that the kernel has filled, without its unused end."""
        begin = self._at * BLOCK_BYTES
        status, _, _, length = BLOCK.unpack_from(self.map, begin + STATUS_AT)
        if not status & STATUS_USER:
            return None
        return self.view[begin : begin + length]

    @property
    def is_losing(self) -> bool:
        """True if packets were dropped before the ready block."""
        (status,) = struct.unpack_from("=I", self.map, self._at * BLOCK_BYTES + STATUS_AT)
        return bool(status & STATUS_LOSING)

    def give_back(self) -> None:
        """Let the kernel fill the ready block again."""
        _, packets, _, _ = BLOCK.unpack_from(self.map, self._at * BLOCK_BYTES + STATUS_AT)
        self.packets += packets
        struct.pack_into("=I", self.map, self._at * BLOCK_BYTES + STATUS_AT, 0)
        self._at = (self._at + 1) % self.blocks

    def drops(self) -> int:
        """Return how many packets were dropped since the last call: the kernel's counter restarts when it is read."""
        _, drops, _ = struct.unpack("=III", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))
        return int(drops)

    def changed(self) -> bool:
        """Bind to the interface again if it was deleted and exists again; return whether it went down or up."""
        if self.is_any:
            return False
        was, self.is_down = self.is_down, not self._is_up()
        return was != self.is_down

    def end(self) -> None:
        """Take no more packets: the filter rejects all."""
        self._filter(struct.pack("=HBBI", 0x06, 0, 0, 0))

    def _make_ring(self) -> int:
        """Ask for fewer blocks until the memory suffices; return their number."""
        blocks = BLOCKS
        while True:
            frames = BLOCK_BYTES // FRAME_BYTES * blocks
            asked = struct.pack("=7I", BLOCK_BYTES, blocks, FRAME_BYTES, frames, RETIRE_MS, 0, 0)
            try:
                self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, asked)
            except OSError as error:
                if error.errno != errno.ENOMEM or blocks <= LEAST_BLOCKS:
                    raise
                blocks //= 2
            else:
                return blocks

    def _filter(self, bpf: bytes) -> None:
        """Attach a classic BPF program."""
        code = ctypes.create_string_buffer(bpf)
        program = struct.pack("HL", len(bpf) // 8, ctypes.addressof(code))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)

    def _bind(self) -> None:
        self._index = 0 if self.is_any else socket.if_nametoindex(self.name)
        # socket.bind takes no index, and 0 stands for all interfaces
        address = struct.pack("=HHiHBB8s", socket.AF_PACKET, socket.htons(ETH_P_ALL), self._index, 0, 0, 0, b"")
        if ctypes.CDLL(None, use_errno=True).bind(self.socket.fileno(), address, len(address)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if self._index and self.promiscuous:
            asked = struct.pack("=iHH8s", self._index, PACKET_MR_PROMISC, 0, b"")
            self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, asked)

    def _is_up(self) -> bool:
        try:
            request = struct.pack("16sH14x", self.name.encode(), 0)
            answer = fcntl.ioctl(self.socket.fileno(), SIOCGIFFLAGS, request)
            if socket.if_nametoindex(self.name) != self._index:
                self._bind()
            self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # poll reports an old error again and again
        except OSError:
            return False
        return bool(struct.unpack_from("16xH", answer)[0] & IFF_UP)


class Spool:
    """Files without a name, each filled up to a size and passed to the other process, which closes those it has read.

    At most so many are open at once: then blocks stay in the ring, and the kernel drops packets when it is full.
    """

    def __init__(self, control: socket.socket, folder: str, segment_bytes: int, segments: int) -> None:
        self._control = control
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments = segments
        self._open = self._size = 0
        self._file = -1
        self._next()

    @property
    def has_room(self) -> bool:
        """True if another block may be written."""
        return self._size < self._segment_bytes or self._open < self._segments

    def release(self) -> None:
        """Count a file that the other process has read and closed."""
        self._open -= 1

    def write(self, kind: int, number: int, time_ns: int, data: memoryview | bytes = b"") -> Iterator[OSError]:
        """Write a record; yields as long as the disk is full."""
        if self._size >= self._segment_bytes:
            yield from self._write(RECORD.pack(NEXT_RECORD, 0, 0, 0), b"")
            self._next()
        yield from self._write(RECORD.pack(kind, number, len(data), time_ns), data)

    def _write(self, header: bytes, data: memoryview | bytes) -> Iterator[OSError]:
        rest: list[memoryview] = [memoryview(header), memoryview(data)]
        while rest:
            try:
                written = os.writev(self._file, rest)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                yield error
                continue
            self._size += written
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if rest:
                rest[0] = rest[0][written:]

    def _next(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        with tempfile.TemporaryFile(buffering=0, dir=self._folder) as opened:
            self._file = os.dup(opened.fileno())
        self._open += 1
        self._size = 0
        socket.send_fds(self._control, [b"S"], [self._file])


class Capture:
    """The loop: from the rings into the spool, until the other process asks for the end or has ended."""

    def __init__(self, control: socket.socket, asked: dict[str, Any]) -> None:
        self._control = control
        bpf = [bytes.fromhex(program) for program in asked["bpf"]]
        self._rings = [
            Ring(number, name, program, asked["promiscuous"])
            for number, (name, program) in enumerate(zip(asked["interfaces"], bpf, strict=True))
        ]
        give_up_rights(asked["user"])
        self._spool = Spool(control, asked["folder"], asked["segment_bytes"], asked["segments"])
        self._news = asked["news"]
        self._tick_ms = 0
        self._ends_ms: int | None = None
        self._is_full = False
        self._send("ready", hardware=[ring.hardware for ring in self._rings])

    def run(self) -> None:
        waiting = select.poll()
        waiting.register(self._control, select.POLLIN)
        for ring in self._rings:
            waiting.register(ring.socket, select.POLLIN)
        while True:
            moved = self._move() if self._spool.has_room else False
            now_ms = time.monotonic_ns() // NS_PER_MS
            if now_ms - self._tick_ms >= TICK_MS and not moved:
                self._tick_ms = now_ms
                self._tick()
            if self._ends_ms is not None and now_ms >= self._ends_ms and not moved:
                break
            if not moved:
                # a ring without room in the spool, or without a link, would wake us again and again
                busy = not self._spool.has_room or any(ring.is_down for ring in self._rings)
                if busy:
                    time.sleep(RETIRE_MS / 1000)
                elif any(events & select.POLLERR for _, events in waiting.poll(self._patience_ms(now_ms))):
                    self._tick_ms = 0
            self._hear()
        self._count_drops()
        self._send("ended", unwritten=0)

    def _end_unwritten(self) -> None:
        """End while the disk is full: count the packets for which it had no room."""
        unwritten = 0
        for ring in self._rings:
            unwritten += ring.drops()
            before = ring.packets
            while ring.ready() is not None:
                ring.give_back()
            unwritten += ring.packets - before
        self._send("ended", unwritten=unwritten)
        sys.exit(0)

    def _patience_ms(self, now_ms: int) -> int:
        until_ms = self._tick_ms + TICK_MS if self._ends_ms is None else min(self._ends_ms, self._tick_ms + TICK_MS)
        return max(1, until_ms - now_ms)

    def _move(self) -> bool:
        """Write one block of each ring; return whether there was one."""
        moved = False
        for ring in self._rings:
            block = ring.ready()
            if block is None:
                continue
            if ring.is_losing:
                self._count_drops_of(ring)
            self._write(BLOCK_RECORD, ring.number, 0, block)
            ring.give_back()
            moved = True
        if moved:
            self._notify()
        return moved

    def _tick(self) -> None:
        """Write the time up to which all packets are in the spool, and what happened to the interfaces."""
        self._count_drops()
        now_ns = time.time_ns()
        for ring in self._rings:
            if ring.changed():
                self._write(DOWN_RECORD if ring.is_down else UP_RECORD, ring.number, now_ns)
        if self._spool.has_room and all(ring.ready() is None for ring in self._rings):
            self._write(TICK_RECORD, 0, now_ns - LATE_MS * NS_PER_MS)
        self._notify()

    def _count_drops(self) -> None:
        for ring in self._rings:
            if ring.ready() is None:  # else the block says where they were dropped
                self._count_drops_of(ring)

    def _count_drops_of(self, ring: Ring) -> None:
        drops = ring.drops()
        if drops:
            self._write(DROPS_RECORD, ring.number, time.time_ns(), struct.pack("=Q", drops))

    def _write(self, kind: int, number: int, time_ns: int, data: memoryview | bytes = b"") -> None:
        for error in self._spool.write(kind, number, time_ns, data):
            if not self._is_full:
                self._is_full = True
                self._send("full", error=error.strerror)
            self._hear()
            if self._ends_ms is not None:
                self._end_unwritten()
            time.sleep(FULL_WAIT_S)
        if self._is_full:
            self._is_full = False
            self._send("room")

    def _hear(self) -> None:
        """Read what the other process says: a file was read, or the capture ends. Exit if it has ended."""
        while True:
            try:
                said = self._control.recv(1, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not said:
                sys.exit(0)
            if said == b"R":
                self._spool.release()
            elif said == b"Q" and self._ends_ms is None:
                for ring in self._rings:
                    ring.end()
                self._ends_ms = time.monotonic_ns() // NS_PER_MS + 2 * RETIRE_MS

    def _notify(self) -> None:
        os.eventfd_write(self._news, 1)

    def _send(self, event: str, **facts: Any) -> None:
        send(self._control, event, **facts)
        self._notify()


def send(control: socket.socket, event: str, **facts: Any) -> None:
    """Send a message to the other process."""
    control.send(json.dumps({"event": event, **facts}).encode())


def give_up_rights(user: list[int] | None) -> None:
    """Become this user (uid, gid) if we are root, and give up all capabilities for good."""
    if user is not None and user[0] and os.geteuid() == 0:
        uid, gid = user
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        except OSError as error:
            raise CannotChange(error.errno, error.strerror) from None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or (os.geteuid() and libc.capset(header, bytes(24))):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    # the whole group of processes gets these; the other process tells us when to end
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        Capture(control, json.loads(control.recv(1 << 20))).run()
    except OSError as error:
        try:
            user = isinstance(error, CannotChange)
            send(
                control, "failed", errno=error.errno, error=error.strerror or str(error), file=error.filename, user=user
            )
        except OSError:
            sys.exit(1)


if __name__ == "__main__":
    main()
