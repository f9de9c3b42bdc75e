"""Capture network interfaces as packet batches: the kernel's blocks go through a spool, so that reading may be late.

A process of its own (kshark.capture.live.child) only writes the kernel's blocks to the spool, on disk. Linux.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from kshark.capture.in_order import TimeOrder
from kshark.capture.live import child
from kshark.capture.live.filters import ANY, program_of
from kshark.capture.live.kernel_blocks import (
    ARPHRD_LOOPBACK,
    BLOCK_HEADER_BYTES,
    COOKED,
    LINK_TYPES,
    batch_of,
    packets_of,
)
from kshark.capture.live.rights import User
from kshark.capture.live.spool import Record, SpoolReader
from kshark.errors import UnreadableInput, UsageError
from kshark.limits import SNAP_LENGTH, SPOOL_BYTES
from kshark.model import Lost, PacketBatch, Tick, Weird

_SEGMENT_BYTES: Final = 32 << 20
#: The last losses that are kept, each with its time.
_LOSSES: Final = 100
#: Packets wait no longer for earlier ones, if no more come: those of one interface, and those of several, whose blocks
#: have different times.
_HOLD_MS: Final = 20
_HOLD_SEVERAL_MS: Final = 4 * child.RETIRE_MS
#: Reading waits no longer than this, so that its caller can do something else.
_PATIENCE_MS: Final = 250
_MISSING_RIGHTS: Final = (
    "{names}: capturing needs root, or the capability CAP_NET_RAW: sudo kshark live ..., or sudo setpriv "
    "--reuid=$(id -u) --regid=$(id -g) --init-groups --inh-caps=+net_raw --ambient-caps=+net_raw kshark live ..."
)


class LiveCapture:
    """Interfaces, read until `stop`: iterating yields PacketBatches, numbered from 1, Weirds, Ticks, and None when
    nothing came for a while.

    `bpf` is a capture filter as tcpdump takes it, `snap_length` the number of bytes kept of a packet; `any` stands for
    all interfaces. `spool_bytes`: at most so much of the captured packets waits on disk, in the folder for temporary
    files. `user`: the capture process becomes this user if it is root. `once`: an interface that goes down or away ends
    the capture. `origin` of a packet is the number of its interface. On loopback, where every packet is seen outgoing
    and incoming, only the incoming one is returned. Raises UnreadableInput without the rights or the interface,
    UsageError for a wrong filter.
    """

    def __init__(
        self,
        *interfaces: str,
        bpf: str | None = None,
        snap_length: int = SNAP_LENGTH,
        promiscuous: bool = True,
        spool_bytes: int = SPOOL_BYTES,
        user: User | None = None,
        once: bool = False,
    ) -> None:
        self.interfaces = interfaces
        #: Packets for which the kernel had no room, and the last of these losses.
        self.dropped = 0
        self.losses: deque[Lost] = deque(maxlen=_LOSSES)
        #: Interfaces that are down, and since when.
        self.down: dict[str, int] = {}
        #: What stands in the way of the capture, as a sentence; empty if nothing does.
        self.fault = ""
        #: True if the capture process ended by itself.
        self.has_failed = False
        self._once = once
        self._has_ended = False
        self._number = 0
        self._time_ns = 0
        #: The time of the last packet or tick that was read.
        self._read_ns = 0
        #: True until there is a packet after the last loss.
        self._loss_is_open = False
        self._stops = False
        self._in_order = TimeOrder()
        #: How much of a block is read to count its packets; all of it where loopback's copies are left out.
        self._counted_bytes: tuple[int, ...] = (BLOCK_HEADER_BYTES,)
        programs = [program_of(bpf, name, snap_length) for name in _known(interfaces)]
        self._news = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_open = True
        self._spool, self._process = self._start(programs, promiscuous, spool_bytes, user)
        self.link_types = self._opened()

    def __iter__(self) -> Iterator[PacketBatch | Weird | Tick | None]:
        hold_ms = _HOLD_MS if len(self.interfaces) == 1 else _HOLD_SEVERAL_MS
        waiting = select.poll()
        waiting.register(self._news, select.POLLIN)
        waiting.register(self._spool, select.POLLIN)
        try:
            while True:
                ended, record = self._spool.has_ended, self._spool.read()
                self._hear()
                if record is not None:
                    yield from self._items(record)
                elif ended:
                    break
                elif waiting.poll(hold_ms if self._in_order.holds else _PATIENCE_MS):
                    with suppress(BlockingIOError):
                        os.eventfd_read(self._news)
                else:
                    yield from self._in_order.flush()
                    yield None
            yield from self._in_order.flush()
            for name in [*self.down]:
                yield self._was_down(name, time.time_ns())
        finally:
            self.close()

    @property
    def process_id(self) -> int:
        """Return the id of the capture process."""
        return self._process.pid

    @property
    def waiting(self) -> int:
        """Return the bytes that were captured and not read."""
        return self._spool.waiting

    @property
    def delay_ns(self) -> int:
        """Return how far the packets that were read are behind those captured; 0 if all were read."""
        return max(0, time.time_ns() - self._read_ns) if self._spool.waiting > 0 and self._read_ns else 0

    def rest(self) -> int:
        """Read the rest only to count its packets; return their number."""
        packets = 0
        while (record := self._spool.read(*self._counted_bytes)) is not None:
            if record.kind == child.BLOCK_RECORD:
                packets += self._count(record)
            elif record.kind == child.DROPS_RECORD:
                self._lose(record)
        return packets

    def _count(self, record: Record) -> int:
        """Return the number of packets that a block gives: of loopback, half of them."""
        if self._counted_bytes:
            return packets_of(record.data)
        batch = batch_of(record.data, self.link_types[record.interface], 1)
        return 0 if batch is None else len(batch.number)

    def stop(self) -> None:
        """End the iteration after all packets received until now; from any thread or signal handler."""
        if not self._stops:
            self._stops = True
            self._spool.end()

    def close(self) -> None:
        """End the capture process, and remove the spool; iterating does this at its end."""
        if self._is_open:
            self._is_open = False
            self._spool.close()
            self._process.wait()
            os.close(self._news)

    def _start(
        self, programs: list[bytes], promiscuous: bool, spool_bytes: int, user: User | None
    ) -> tuple[SpoolReader, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", child.__file__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(), self._news),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        asked = {
            "interfaces": self.interfaces,
            "bpf": [program.hex() for program in programs],
            "promiscuous": promiscuous,
            "user": None if user is None else [user.uid, user.gid],
            "folder": tempfile.gettempdir(),
            "segment_bytes": _SEGMENT_BYTES,
            "segments": max(2, spool_bytes // _SEGMENT_BYTES),
            "news": self._news,
        }
        ours.send(json.dumps(asked).encode())
        return SpoolReader(ours), process

    def _opened(self) -> list[int]:
        """Wait until the capture process has opened the interfaces; return their link types."""
        said = self._spool.wait()
        if said is None or said["event"] != "ready":
            self.close()
            raise UnreadableInput(_sentence(self.interfaces, said))
        link_types = [
            COOKED if name == ANY else LINK_TYPES.get(hardware, -1)
            for name, hardware in zip(self.interfaces, said["hardware"], strict=True)
        ]
        if ANY in self.interfaces or ARPHRD_LOOPBACK in said["hardware"]:
            self._counted_bytes = ()
        for name, link_type, hardware in zip(self.interfaces, link_types, said["hardware"], strict=True):
            if link_type < 0:
                self.close()
                raise UnreadableInput(
                    f"{name}: hardware type {hardware} cannot be captured on its own; capture on {ANY}"
                )
        return link_types

    def _hear(self) -> None:
        """Read what the capture process says."""
        while (said := self._spool.heard()) is not None:
            if said["event"] == "full":
                self.fault = f"no space for the spool in {tempfile.gettempdir()}: {said['error'].lower()}"
            elif said["event"] == "room":
                self.fault = ""
            elif said["event"] == "ended":
                self._has_ended = True
                self.dropped += said["unwritten"]
            elif said["event"] == "failed":
                self.fault = _sentence(self.interfaces, said)
        if self._spool.has_ended and not self._has_ended:
            self.has_failed = True
            self.fault = self.fault or f"{', '.join(self.interfaces)}: the capture process has ended unexpectedly"

    def _items(self, record: Record) -> Iterator[PacketBatch | Weird | Tick]:
        if record.kind == child.BLOCK_RECORD:
            batch = batch_of(record.data, self.link_types[record.interface], self._number + 1, record.interface)
            if batch is not None:
                yield from self._batch(batch)
        elif record.kind == child.DROPS_RECORD:
            yield from self._drops(record)
        elif record.kind == child.TICK_RECORD:
            self._read_ns = record.time_ns
            yield from self._in_order.flush(record.time_ns)
            yield Tick(record.time_ns)
        else:
            yield from self._link(record)

    def _batch(self, batch: PacketBatch) -> Iterator[PacketBatch | Weird]:
        if self._loss_is_open:
            self._loss_is_open = False
            self.losses[-1] = self.losses[-1]._replace(until_ns=int(batch.time_ns[0]))
        self._number += len(batch.number)
        self._time_ns = self._read_ns = int(batch.time_ns[-1])
        yield from self._in_order.feed(batch)

    def _drops(self, record: Record) -> Iterator[PacketBatch | Weird]:
        yield from self._in_order.flush()
        drops = self._lose(record)
        detail = f"{drops} packets dropped by the kernel, {self.dropped} since the start"
        yield Weird("PACKETS_DROPPED", "capture", self._number, self._time_ns, detail, times=drops)

    def _lose(self, record: Record) -> int:
        """Count dropped packets; return their number."""
        drops = int.from_bytes(record.data, sys.byteorder)
        self.dropped += drops
        self.losses.append(Lost(self._time_ns, time.time_ns(), drops))
        self._loss_is_open = True
        return drops

    def _link(self, record: Record) -> Iterator[PacketBatch | Weird]:
        """Note that an interface went down, or that it is up again."""
        name = self.interfaces[record.interface]
        if record.kind == child.DOWN_RECORD:
            self.down[name] = record.time_ns
            if self._once:
                self.stop()
        elif name in self.down:
            yield from self._in_order.flush()
            yield self._was_down(name, record.time_ns)

    def _was_down(self, name: str, until_ns: int) -> Weird:
        down_ns = until_ns - self.down.pop(name)
        detail = f"{name} was down for {down_ns / 1e9:.1f} s"
        return Weird("INTERFACE_DOWN", "capture", self._number, self._time_ns, detail, by_ns=down_ns)


def _known(interfaces: Sequence[str]) -> Sequence[str]:
    """Return the interfaces. Raises UnreadableInput for one that does not exist."""
    if sys.platform != "linux":
        raise UsageError("live capture needs Linux; elsewhere, capture with tcpdump: tcpdump -U -w - | kshark check -")
    names = [name for _, name in socket.if_nameindex()]
    for interface in interfaces:
        if interface not in (ANY, *names):
            raise UnreadableInput(f"no interface {interface}; there are {', '.join(names)}, and {ANY}")
    return interfaces


def _sentence(interfaces: Sequence[str], said: dict[str, Any] | None) -> str:
    names = ", ".join(interfaces)
    if said is None:
        return f"{names}: the capture process ended at its start"
    if said["file"] is not None:
        return (
            f"the spool cannot be written in {tempfile.gettempdir()}: {said['error'].lower()}; name a folder that the "
            "user of the capture (-Z) may write in TMPDIR"
        )
    if said["user"]:
        return (
            "root without the capabilities CAP_SETUID and CAP_SETGID cannot become another user: add them, or stay "
            "root with -Z root"
        )
    if said["errno"] in (errno.EPERM, errno.EACCES):
        return _MISSING_RIGHTS.format(names=names)
    return f"{names}: {said['error']}"
