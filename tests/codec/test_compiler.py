"""The compiled reader: what it makes, and that damaged bytes cost it no time."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce

import msgspec
import pytest

from kshark.codec import compile_reader, compile_writer, interpret, reader_source
from kshark.codec.primitives import Misfit
from kshark.codec.shapes import shape_of
from kshark.schema import Field, Layout, array, int8, int16, int32, int64, layout, string, struct, uuid
from tests.codec.damage import of
from tests.test_guard import counting

offsets = struct(int64("first_offset"), int64("last_offset"), int16("delivery_count"))


def test_a_reader_starts_anywhere_and_tells_where_it_ended() -> None:
    body = of(int8("a"), string("b"))
    assert compile_reader(body, 0)(b"\xff\xff\5\3xy\0\xff", 2)[1] == 7
    assert compile_reader(body, 0)(b"\xff\xff\5\3xy\0\xff", 2, 7)[0].b == "xy"


def test_bodies_are_json_in_wire_order_with_tags_behind() -> None:
    body = of(string("b", tag=1), int8("z"), string("a", nullable="0+"), uuid("id"), array("raw", int8()))
    data = compile_writer(body, 0)(
        {"z": 1, "a": None, "id": "A" * 22, "raw": [-1], "b": "tagged", "_tagged": {"7": b"\0\1"}}
    )
    read, _ = compile_reader(body, 0)(data, 0)
    assert msgspec.json.encode(read) == b'{"z":1,"a":null,"id":"%s","raw":[-1],"b":"tagged","_tagged":{"7":"AAE="}}' % (
        b"A" * 22
    )
    read, _ = compile_reader(body, 0)(compile_writer(body, 0)({}), 0)
    assert msgspec.json.encode(read) == b'{"z":0,"a":null,"id":"%s","raw":[]}' % (b"A" * 22)
    assert read.b is msgspec.UNSET


def test_both_readers_make_the_same_class() -> None:
    body = of(array("rows", offsets))
    data = compile_writer(body, 0)({"rows": [{}]})
    fast, _ = compile_reader(body, 0)(data, 0)
    assert type(fast) is type(interpret(body, 0, data, 0, len(data)).body) is shape_of(body, 0).make
    assert repr(fast).startswith("Body(rows=[Body.rows(first_offset=0,")


def test_the_source_names_the_fields_and_fuses_what_is_fixed() -> None:
    body = of(int32("throttle_time_ms"), int16("error_code"), string("message"), array("rows", offsets))
    source = reader_source(body, 0)
    assert source.startswith("# Body, version 0\n")
    assert "throttle_time_ms_1, error_code_2, n = FIXED" in source
    assert "[*starmap(MAKE" in source


def nested(depth: int) -> Layout:
    """Arrays of structs inside each other."""
    innermost = struct(int8("x"), string("s", nullable="0+"))
    deepest: Field = reduce(lambda inner, _: struct(array("a", inner), int8("b")), range(depth - 1), innermost)
    return layout("Deep", versions="0-1", flexible="1+", fields=deepest)


@pytest.mark.parametrize("depth", [2, 8, 10, 25, 32])
@pytest.mark.parametrize("version", [0, 1])
def test_loops_deeper_than_python_allows_in_one_function(depth: int, version: int) -> None:
    body = nested(depth)
    value: object = {"x": 1, "s": None}
    for _ in range(depth - 1):
        value = {"a": [value], "b": 2}
    data = compile_writer(body, version)(value)
    assert compile_reader(body, version)(data, 0) == (interpret(body, version, data, 0, len(data)).body, len(data))


def test_a_huge_count_ends_at_once() -> None:
    body = of(array("a", struct(array("b", string(), nullable="0+"))), flexible="none")
    frame = b"\x7f\xff\xff\xff" + b"\xff\xff\xff\xff" * 20
    read = compile_reader(body, 0)
    with counting() as steps, pytest.raises(Misfit):
        read(frame, 0, len(frame))
    assert steps.total() < 200


def test_counts_inside_counts_cannot_multiply() -> None:
    """Each inner array claims what the frame holds: the work is that of the frame's bytes, not of their product."""
    body = of(array("a", struct(array("b", struct(array("c", int8()))))), flexible="none")
    frame = b"\0\0\x10\0" * 2_500
    read = compile_reader(body, 0)
    with counting() as steps:
        with suppress(Exception):
            read(frame * 4, 0, len(frame))
        interpret(body, 0, frame, 0, len(frame))
    assert steps.total() < 40 * len(frame)


def test_the_first_message_of_an_api_waits_little_for_its_reader() -> None:
    """Compiling the longest layouts takes 6,000 steps, a few milliseconds; four times that would be a mistake."""
    partition = struct(
        *[int32(f"f{i}") for i in range(8)], *[string(f"s{i}") for i in range(8)], array("rows", offsets)
    )
    body = layout(
        "Typical",
        versions="0",
        flexible="0+",
        fields=struct(array("topics", struct(uuid("id"), array("partitions", partition)))),
    )
    with counting() as steps:
        compile_reader(body, 0)
    assert steps.total() < 25_000
