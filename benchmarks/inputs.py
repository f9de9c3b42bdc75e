"""Inputs for the benchmarks: a small real capture, repeated with other addresses and later times until it is large enough.

Each copy's connections are its own (the second and third byte of both IPv4 addresses count the copies), so that every copy costs
what the first one did.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WORK = Path(__file__).parent / "work"
_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Source:
    """A classic little-endian pcap of Ethernet and IPv4, held as bytes and the places that a copy changes."""

    raw: bytes
    records: np.ndarray
    addresses: np.ndarray
    span_s: int
    nano: bool

    @classmethod
    def load(cls, path: Path) -> Source:
        raw = path.read_bytes()
        magic = struct.unpack_from("<I", raw)[0]
        if magic not in (0xA1B2C3D4, 0xA1B23C4D):
            raise SystemExit(f"{path} is not a little-endian pcap")
        at, records, addresses = 24, [], []
        while at + 16 <= len(raw):
            length = struct.unpack_from("<I", raw, at + 8)[0]
            records.append(at - 24)
            if raw[at + 28 : at + 30] == b"\x08\x00":
                addresses += [at + 16 + 26 - 24, at + 16 + 30 - 24]
            at += 16 + length
        first, last = (struct.unpack_from("<I", raw, 24 + records[i])[0] for i in (0, -1))
        return cls(raw, np.array(records), np.array(addresses), last - first + 1, magic == 0xA1B23C4D)

    def copy(self, index: int) -> bytes:
        """The packets of copy `index`, without file header."""
        data = np.frombuffer(self.raw, np.uint8)[24:].copy()
        seconds = np.lib.stride_tricks.sliding_window_view(data, 4)[self.records].copy().view("<u4")[:, 0] + np.uint32(index * self.span_s)
        for byte in range(4):
            data[self.records + byte] = (seconds >> np.uint32(8 * byte)) & np.uint32(255)
        data[self.addresses + 1] = (index >> 8) & 255
        data[self.addresses + 2] = index & 255
        return data.tobytes()


def replicated(path: Path, megabytes: int) -> Path:
    """`path` repeated to at least that size, made once and kept in benchmarks/work."""
    WORK.mkdir(exist_ok=True)
    target = WORK / f"{path.name.split('.')[0]}-{megabytes}.pcap"
    if target.exists() and target.stat().st_size >= megabytes * 1_000_000:
        return target
    source = Source.load(path)
    with target.open("wb") as out:
        out.write(source.raw[:24])
        index = 0
        while out.tell() < megabytes * 1_000_000:
            out.write(source.copy(index))
            index += 1
    return target
