"""pcapng files: bytes in, packet batches out.

Source: IETF draft-ietf-opsawg-pcapng ("PCAP Now Generic Capture File Format"), sections 3 and 4.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from kshark.capture.blocks import ENHANCED_PACKET, PACKET, SIMPLE_PACKET, PacketBlocks
from kshark.capture.carry import Carry
from kshark.capture.formats import MAGIC, ORDERS, SMALLEST_BLOCK, begins_pcap
from kshark.capture.interfaces import Interface, described, dropped, options
from kshark.capture.origins import NO_LINK_TYPE, Description, Origins, description_of
from kshark.capture.resume_point import START, ResumePoint
from kshark.errors import Damaged
from kshark.limits import BLOCK_BYTES, DROPPED_PACKETS, INTERFACES, TLS_SECRETS_BYTES
from kshark.model import PacketBatch, Weird
from kshark.rate_limit import WeirdLimit

SECTION_HEADER: Final = 0x0A0D0D0A
INTERFACE_DESCRIPTION: Final = 1
INTERFACE_STATISTICS: Final = 5
DECRYPTION_SECRETS: Final = 10

OTHER_PACKETS: Final = frozenset((SIMPLE_PACKET, PACKET))
READ_BLOCKS: Final = frozenset((SECTION_HEADER, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, DECRYPTION_SECRETS))

SMALLEST_DESCRIPTION: Final = 20
SMALLEST_STATISTICS: Final = 24
SMALLEST_SECRETS: Final = 20
#: The secrets type of a TLS key log.
TLS_KEY_LOG: Final = 0x544C534B


class Section(NamedTuple):
    """The state of a section so far: its byte order and its interfaces."""

    order: str
    interfaces: tuple[Interface, ...]


class PcapngReader:
    """One pcapng file: `feed` its bytes in pieces of any size, then `close`.

    Packets are numbered from 1 over all sections and interfaces, including those that cannot be delivered. Secrets of
    TLS are delivered with the next batch; blocks without packet or interface are skipped. Reading stops at a block
    whose two lengths disagree; the bytes after it are counted and reported at the end. Where a pcap file begins (cat
    a.pcapng b.pcap), its bytes are left in `rest`. Raises Damaged when no section begins. `begin`: the position of
    another reader without reports, from which this one continues. `origins`: batches have the origins of packets.
    """

    def __init__(self, begin: ResumePoint[Section] = START, origins: Origins | None = None) -> None:
        self._origins = origins
        #: The interfaces of this section in `origins`.
        self._numbers: list[int] = []
        position, self._number, self._time_ns, section = begin
        self._carry = Carry(SMALLEST_BLOCK, position)
        self._order = "" if section is None else section.order
        self._interfaces = [] if section is None else list(map(replace, section.interfaces))
        self._unread: int | None = None
        self.rest = b""
        self._secrets = b""
        self._limit = WeirdLimit()

    @property
    def resume_point(self) -> ResumePoint[Section]:
        """The position after the bytes fed so far; another reader can continue there if none are `missing`."""
        section = Section(self._order, tuple(map(replace, self._interfaces))) if self._order else None
        return ResumePoint(self._carry.position + len(self._carry), self._number, self._time_ns, section)

    @property
    def missing(self) -> int:
        """Bytes of the begun block that are known to be missing."""
        return self._carry.missing

    @property
    def stopped(self) -> bool:
        return self._unread is not None

    def feed(self, data: bytes) -> Iterator[PacketBatch | Weird]:
        if self._unread is not None:
            self._unread += len(data)
            return
        joined = self._carry.join(data)
        if joined is None:
            return
        position = 0
        while True:
            if self._order:
                starts, walked_to = _walk(joined, position, self._order)
                position = (yield from self._packets(joined, starts, walked_to)) if starts else walked_to
            size = self._block_size(joined, position)
            if size is None and begins_pcap(joined, position):
                self._carry.keep(joined[:position], position, SMALLEST_BLOCK)
                self.rest = joined[position:]
                return
            if size is None:
                yield self._stop(joined, position)
                return
            if position + size > len(joined):
                self._carry.keep(joined, position, size)
                return
            yield from self._other(joined, position, size)
            position += size

    def close(self) -> Iterator[Weird]:
        yield from self._limit.close()
        left = len(self._carry)
        if self._unread is not None:
            if self._unread:
                yield self._weird("CAPTURE_UNREAD", f"{self._unread} bytes were not read", self._unread)
        elif not self._order:
            raise Damaged(f"the pcapng file ends after {left} bytes, inside its first section header")
        elif left:
            yield self._weird(
                "CAPTURE_CUT", f"the file ends {left} bytes into a block, after packet {self._number}", left
            )

    def _packets(self, joined: bytes, starts: list[int], walked_to: int) -> Generator[PacketBatch | Weird, None, int]:
        """Deliver packet blocks; return the position of the first one with wrong lengths, or `walked_to`."""
        blocks = PacketBlocks(joined, self._order, np.array(starts, np.int64))
        if blocks.sound:
            batch, faults = blocks.read(self._interfaces, self._number + 1, self._time_ns, self._origins, self._numbers)
            self._number += blocks.sound
            if len(batch.number):
                self._time_ns = int(batch.time_ns[-1])
                batch.secrets, self._secrets = self._secrets, b""
                yield batch
            for fault in faults:
                yield from self._limit.take(fault)
        return starts[blocks.sound] if blocks.sound < len(starts) else walked_to

    def _block_size(self, joined: bytes, position: int) -> int | None:
        """Return the bytes of the block at `position`, or the bytes needed to know; None: its lengths contradict each
        other.
        """
        if position + SMALLEST_BLOCK > len(joined):
            return SMALLEST_BLOCK
        order = self._order
        if joined.startswith(MAGIC, position):
            order = ORDERS.get(joined[position + 8 : position + 12], "")
        if not order:
            if not self._order:
                raise Damaged("the file does not begin with a pcapng section header")
            return None
        (size,) = struct.unpack_from(order + "I", joined, position + 4)
        if size < SMALLEST_BLOCK or size & 3 or size > BLOCK_BYTES:
            return None
        if position + size <= len(joined) and struct.unpack_from(order + "I", joined, position + size - 4)[0] != size:
            return None
        return int(size)

    def _other(self, joined: bytes, position: int, size: int) -> Iterator[Weird]:
        """Process a whole block that holds no packet."""
        if joined.startswith(MAGIC, position):
            self._order = ORDERS[joined[position + 8 : position + 12]]
            self._interfaces = []
            self._numbers.clear()
            if self._origins is not None:
                self._origins.add_section(options(joined, position + 24, position + size - 4, self._order))
            return
        (kind,) = struct.unpack_from(self._order + "I", joined, position)
        if kind == INTERFACE_DESCRIPTION:
            yield from self._describe(joined, position, size)
        elif kind == INTERFACE_STATISTICS:
            yield from self._count_drops(joined, position, size)
        elif kind == DECRYPTION_SECRETS:
            yield from self._keep_secrets(joined, position, size)

    def _describe(self, joined: bytes, position: int, size: int) -> Iterator[Weird]:
        if len(self._interfaces) == INTERFACES:
            yield from self._limit.take(
                self._weird("BLOCK_INVALID", f"more than {INTERFACES} interfaces; this one is not known", size)
            )
        elif size < SMALLEST_DESCRIPTION:
            self._interfaces.append(Interface(link_type=-1, snap_length=0))
            if self._origins is not None:
                self._numbers.append(self._origins.interface(Description(len(self._numbers), NO_LINK_TYPE, 0)))
            yield from self._limit.take(self._weird("BLOCK_INVALID", f"an interface described in {size} bytes", size))
        else:
            interface = described(joined, position + 8, position + size - 4, self._order)
            self._interfaces.append(interface)
            if self._origins is not None:
                block = joined, position + 16, position + size - 4, self._order
                at = len(self._numbers)
                self._numbers.append(
                    self._origins.interface(description_of(at, interface.link_type, block, interface.snap_length))
                )

    def _count_drops(self, joined: bytes, position: int, size: int) -> Iterator[Weird]:
        (at,) = struct.unpack_from(self._order + "I", joined, position + 8)
        if size < SMALLEST_STATISTICS or at >= len(self._interfaces):
            yield from self._limit.take(self._weird("BLOCK_INVALID", "statistics of no known interface", size))
            return
        total = dropped(joined, position + 20, position + size - 4, self._order)
        new_drops = total - self._interfaces[at].dropped
        if new_drops > 0:
            self._interfaces[at].dropped = total
            if self._origins is not None:
                self._origins.dropped[self._numbers[at]] += new_drops
            yield from self._limit.take(
                self._weird(
                    "PACKETS_DROPPED",
                    f"{new_drops} packets dropped on interface {at}",
                    times=min(new_drops, DROPPED_PACKETS),
                )
            )

    def _keep_secrets(self, joined: bytes, position: int, size: int) -> Iterator[Weird]:
        length = struct.unpack_from(self._order + "I", joined, position + 12)[0] if size >= SMALLEST_SECRETS else size
        if length > size - SMALLEST_SECRETS:
            yield from self._limit.take(
                self._weird("BLOCK_INVALID", f"secrets that do not fit into their block of {size} bytes", size)
            )
        elif struct.unpack_from(self._order + "I", joined, position + 8)[0] == TLS_KEY_LOG:
            if len(self._secrets) + length > TLS_SECRETS_BYTES:
                yield from self._limit.take(
                    self._weird("BLOCK_INVALID", "more secrets than are kept; these were skipped", size)
                )
            else:
                self._secrets += joined[position + 16 : position + 16 + length] + b"\n"

    def _stop(self, joined: bytes, position: int) -> Weird:
        self._unread = len(joined) - position
        block_position = self._carry.position + position
        return self._weird(
            "BLOCK_INVALID", f"the lengths of the block at byte {block_position} are impossible; reading stops"
        )

    def _weird(self, code: str, detail: str, size: int = 0, times: int = 1) -> Weird:
        return Weird(code, "capture", self._number, self._time_ns, detail, size=size, times=times)


def _walk(joined: bytes, position: int, order: str) -> tuple[list[int], int]:
    """Return the positions of whole packet blocks up to the first other block that matters, and that one's position.

    The one loop that runs for every packet. Blocks that do not matter here are skipped, so that they do not make
    batches small.
    """
    starts: list[int] = []
    add = starts.append
    kind_and_size_at = struct.Struct(order + "II").unpack_from
    size_at = struct.Struct(order + "I").unpack_from
    end = len(joined)
    last = end - SMALLEST_BLOCK
    while position <= last:
        kind, size = kind_and_size_at(joined, position)
        next_block = position + size
        if next_block > end or size < SMALLEST_BLOCK:
            break
        if kind == ENHANCED_PACKET or kind in OTHER_PACKETS:
            add(position)
        elif kind in READ_BLOCKS or size & 3 or size_at(joined, next_block - 4)[0] != size:
            break
        position = next_block
    return starts, position
