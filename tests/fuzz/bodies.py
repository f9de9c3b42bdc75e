"""Bodies of every API and structure, in every version: a value or a code of the catalogue, by both readers, and written
back the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random

import msgspec

from kshark.anomaly import CATALOGUE
from kshark.codec import Reader, Reading, compile_reader, compile_writer, interpret
from kshark.codec.shapes import shape_of
from kshark.schema import Layout
from tests.conformance.test_java_classes import RELEASES, vectors
from tests.fuzz.kind import Broken, Kind, Seen, shorter, shorter_bytes
from tests.fuzz.mutating import mutated
from tests.fuzz.values import value_of
from tools.sync.ours import our_layouts

#: Bodies of one case.
MANY = 50
#: What JSON may make of a byte: names of fields, for each element of an array of small structs.
JSON_BYTES = 1_000


class Body(msgspec.Struct):
    """Bytes, and what they are read as."""

    layout: str
    version: int
    data: bytes
    #: Whether nothing happened to them.
    whole: bool = False


class Some(msgspec.Struct):
    """Bodies that have nothing to do with each other."""

    bodies: list[Body]


@cache
def layouts() -> dict[str, Layout]:
    return {name: ours.layout for name, ours in our_layouts().items()}


@cache
def written_by_kafka() -> tuple[Body, ...]:
    """What Kafka's own classes made, of each layout and version."""
    found = [
        vector
        for release in RELEASES
        for vector in vectors(release)
        if layouts().get(vector.layout.name) is vector.layout
    ]
    return tuple(Body(vector.layout.name, vector.version, vector.data, True) for vector in found)


@cache
def _reader(layout: str, version: int) -> Reader:
    return compile_reader(layouts()[layout], version)


class Bodies(Kind[Some]):
    name = "bodies"
    case = Some
    share = 2

    def make(self, random: Random) -> Some:
        return Some([_body(random) for _ in range(MANY)])

    def check(self, case: Some) -> Seen:
        codes: Counter[str] = Counter()
        for body in case.bodies:
            codes.update(fault.code for fault in check_body(body).faults)
        return Seen(len(case.bodies), sum(len(body.data) for body in case.bodies), codes)

    def smaller(self, case: Some) -> Iterator[Some]:
        yield from map(Some, shorter(case.bodies))
        if len(case.bodies) == 1:
            (body,) = case.bodies
            yield from (Some([Body(body.layout, body.version, data)]) for data in shorter_bytes(body.data))


def _body(random: Random) -> Body:
    """One that Kafka wrote, or of random values; then, mostly, something happens to it."""
    known = random.choice(written_by_kafka())
    if random.random() < 0.4:
        layout = layouts()[known.layout]
        data = compile_writer(layout, known.version)(value_of(shape_of(layout, known.version), random))
        known = Body(known.layout, known.version, data, True)
    if random.random() < 0.1:
        return known
    data = mutated(known.data, random, [random.choice(written_by_kafka()).data])
    return Body(known.layout, known.version, data)


def check_body(body: Body) -> Reading:
    """Raises Broken where the readers disagree, or what was read cannot be written again."""
    layout, data = layouts()[body.layout], body.data
    reading = interpret(layout, body.version, data, 0, len(data))
    if not 0 <= reading.position <= len(data):
        raise Broken("a body is read beyond its end", reading.position)
    if any(fault.code not in CATALOGUE for fault in reading.faults):
        raise Broken("a fault has no code of the catalogue", reading.faults)
    if any(fault.fatal for fault in reading.faults[:-1]):
        raise Broken("reading goes on behind a fault that ends it", reading.faults)
    size = len(msgspec.json.encode(reading.body))
    if size > JSON_BYTES * (len(data) + 10):
        raise Broken("a body is much more than its bytes", f"{size} bytes of JSON of {len(data)}")
    if body.whole and reading.faults and reading.faults[0].code != "LAYOUT_DRIFT":
        raise Broken("a whole body has faults", reading.faults)
    try:
        value, position = _reader(body.layout, body.version)(data, 0, len(data))
    except Exception:
        value, position = None, -1
    taken = position == len(data)
    if taken == bool(reading.faults):
        raise Broken("the fast reader takes what is not whole, or not what is", reading.faults)
    if taken and repr(value) != repr(reading.body):  # by text, since no NaN equals another
        raise Broken("the readers read other values", f"{value!r:.900} and {reading.body!r:.900}")
    if taken:
        _assert_written(layout, body, reading)
    return reading


def _assert_written(layout: Layout, body: Body, reading: Reading) -> None:
    """What was read is written in bytes that say the same; of a whole body in the same bytes."""
    written = compile_writer(layout, body.version)(reading.body)
    if body.whole and written != body.data:
        raise Broken("a whole body is written otherwise", written.hex())
    again = interpret(layout, body.version, written, 0, len(written))
    if again.faults or repr(again.body) != repr(reading.body):
        raise Broken("what was read is written as something else", f"{again.body!r:.900} and {reading.body!r:.900}")
