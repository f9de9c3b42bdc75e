"""Accidents of bytes: overwritten, put in, cut out, doubled, cut short, bits turned, spliced with others."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

#: What damage likes to put in: the ends of lengths, counts and varints.
TELLING: Final = (
    b"\0",
    b"\1",
    b"\2",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 11,
)


def mutated(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """The bytes after one to four accidents; one of `others` may lend some of its own."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        at, size = random.randint(0, len(out)), random.randint(1, 4)
        match random.randrange(8):
            case 0:
                out[at : at + size] = random.randbytes(size)
            case 1:
                out[at:at] = random.choice(TELLING)
            case 2:
                out[at : at + size] = random.choice(TELLING)
            case 3:
                del out[at : at + size]
            case 4:
                del out[at:]
            case 5:
                out[at:at] = out[at : at + random.choice((1, 4, 16, 64))]
            case 6 if others:
                other = random.choice(others)
                out[at:] = other[random.randint(0, len(other)) :]
            case _ if at < len(out):
                out[at] ^= 1 << random.randrange(8)
    return bytes(out)
