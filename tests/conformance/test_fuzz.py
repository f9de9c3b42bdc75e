"""Bodies of every API after accidents: each gives a value or a code of the catalogue, and both readers agree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import msgspec
import pytest

from kshark.anomaly import CATALOGUE
from kshark.codec import Reader, compile_reader, interpret
from kshark.schema import Layout
from tests.conformance.test_java_classes import RELEASES, vectors
from tests.dissectors.schema_rows import WRITTEN, dissector

QUICK, THOROUGH = 20_000, 1_000_000
#: What damage likes to put in: the ends of lengths, counts and varints.
TELLING = (
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


@cache
def bodies() -> tuple[tuple[Layout, int, Reader, bytes], ...]:
    """Every body that Kafka's own classes made, with its reader."""
    layouts = {id(layout) for key in WRITTEN for layout in (dissector(key).request, dissector(key).response)}
    found = [vector for release in RELEASES for vector in vectors(release) if id(vector.layout) in layouts]
    return tuple((each.layout, each.version, compile_reader(each.layout, each.version), each.data) for each in found)


def damaged(count: int, dice: random.Random) -> Iterator[tuple[Layout, int, Reader, bytes]]:
    """Each body in turn, after one to four accidents: overwritten, put in, cut out, doubled, cut short, a bit
    turned."""
    whole = bodies()
    for index in range(count):
        layout, version, read, data = whole[index % len(whole)]
        out = bytearray(data)
        for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
            at, size = dice.randint(0, len(out)), dice.randint(1, 4)
            match dice.randrange(6):
                case 0:
                    out[at : at + size] = dice.randbytes(size)
                case 1:
                    out[at:at] = dice.choice(TELLING)
                case 2:
                    out[at : at + size] = dice.choice(TELLING)
                case 3:
                    del out[at : at + size]
                case 4:
                    del out[at:]
                case _ if at < len(out):
                    out[at] ^= 1 << dice.randrange(8)
        yield layout, version, read, bytes(out)


def assert_safe(layout: Layout, version: int, read: Reader, data: bytes) -> bool:
    """Whether the bytes are a whole body; a fault has a code, and the fast reader takes exactly what is without
    fault."""
    where = (layout.name, version, data.hex())
    reading = interpret(layout, version, data, 0, len(data))
    assert 0 <= reading.position <= len(data), where
    assert all(fault.code in CATALOGUE for fault in reading.faults), where
    assert not any(fault.fatal for fault in reading.faults[:-1]), where
    msgspec.json.encode(reading.body)
    try:
        body, position = read(data, 0, len(data))
    except Exception:
        body, position = None, -1
    taken = position == len(data)
    assert taken == (not reading.faults), where
    assert not taken or repr(body) == repr(reading.body), where  # by text, since no NaN equals another
    return taken


def fuzz(count: int, seed: int) -> int:
    return sum(assert_safe(*each) for each in damaged(count, random.Random(seed)))


@pytest.mark.sweep
def test_damaged_bodies_of_every_api_are_a_value_or_a_code() -> None:
    assert {layout.name for layout, _, _, _ in bodies()} == {
        layout.name for key in WRITTEN for layout in (dissector(key).request, dissector(key).response)
    }
    taken = fuzz(QUICK, seed=4)
    assert QUICK * 0.1 < taken < QUICK * 0.6


@pytest.mark.slow
def test_a_million_damaged_bodies_are_a_value_or_a_code() -> None:
    assert fuzz(THOROUGH, seed=5) > THOROUGH * 0.1
