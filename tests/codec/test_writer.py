"""Values to bytes: what is written for what is left out, and what is refused, with the field's path."""

from __future__ import annotations

from typing import Any

import pytest

from kshark.codec import compile_reader, compile_writer, plain
from kshark.errors import EncodeError
from kshark.schema import (
    Field,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    records,
    string,
    struct,
    uint16,
    uuid,
    varint,
)
from tests.codec.damage import of


def written(value: Any, *fields: Field, flexible: str = "0+") -> bytes:
    return compile_writer(of(*fields, flexible=flexible), 0)(value)


def test_what_is_left_out_takes_its_default() -> None:
    assert (
        written({}, int8("a", default=-1), string("b"), string("c", nullable="0+"), flexible="none")
        == b"\xff\0\0\xff\xff"
    )
    assert (
        written({}, array("a", int8()), bytes_("b"), struct(int8("x", default=3), name="s"), boolean("y"))
        == b"\1\1\3\0\0\0"
    )
    assert written({}, int8("a", tag=0, default=7)) == b"\0"
    assert written({}, uuid("a"), flexible="none") == bytes(16)
    assert written({}, array("a", int8(), default=[5]), flexible="none") == b"\0\0\0\1\5"


def test_lengths_are_compact_only_where_flexible() -> None:
    fields = (string("a", flexible="none"), string("b"), bytes_("c"), records("d", nullable="0+"))
    assert written({"a": "x", "b": "y", "c": b"z", "d": None}, *fields) == b"\0\1x\2y\2z\0\0"
    assert (
        written({"a": "x", "b": "y", "c": b"z", "d": None}, *fields, flexible="none")
        == b"\0\1x\0\1y\0\0\0\1z\xff\xff\xff\xff"
    )
    assert written({"b": "y" * 127}, string("b")) == b"\x80\1" + b"y" * 127 + b"\0"


def test_tags_are_written_in_order_the_unknown_ones_among_them() -> None:
    fields = (int8("a", tag=5), struct(int8("x"), name="s", tag=200, nullable="0+"))
    value = {"_tagged": {"7": b"u", "0": b""}, "s": {"x": 1}, "a": 9}
    assert written(value, *fields) == b"\4\0\0\5\1\x09\7\1u\xc8\1\3\1\1\0"
    assert written({"s": None}, *fields) == b"\1\xc8\1\1\0"


def test_bodies_as_read_are_written_back() -> None:
    body = of(array("rows", struct(int8("x"), string("y", tag=0))), string("z", nullable="0+"))
    data = written({"rows": [{"x": 1}, {"x": 2, "y": "t"}], "z": None}, *body.root.fields)
    read, _ = compile_reader(body, 0)(data, 0)
    assert compile_writer(body, 0)(read) == compile_writer(body, 0)(plain(read)) == data


def test_an_older_layout_is_written_when_its_fields_are_given() -> None:
    row, older = struct(int8("x"), int8("y", default=-1)), struct(int8("x"))
    body = of(array("rows", row), flexible="none", older={0: struct(array("rows", older))})
    write = compile_writer(body, 0)
    assert write({"rows": [{"x": 1, "y": 2}]}) == b"\0\0\0\1\1\2"
    assert write({"rows": [{"x": 1}]}) == b"\0\0\0\1\1"
    assert write({"rows": [{"y": 1}]}) == b"\0\0\0\1\0\1"
    assert write({}) == write({"rows": []}) == b"\0\0\0\0"
    assert compile_writer(body, 0, older=True)({"rows": [{}]}) == b"\0\0\0\1\0"


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        (int8("a"), 128, "field a: 128 does not fit int8"),
        (int8("a"), True, "field a: int8 does not accept True"),
        (int8("a"), 1.0, "field a: int8 does not accept 1.0"),
        (uint16("a"), -1, "field a: -1 does not fit uint16"),
        (int32("a"), None, "field a: int32 does not accept None"),
        (int32("a"), 10**400, "field a: an integer of 1329 bits does not fit int32"),
        (boolean("a"), 1, "field a: bool does not accept 1"),
        (float64("a"), 10**400, "field a: an integer of 1329 bits does not fit float64"),
        (float64("a"), "1", "field a: float64 does not accept '1'"),
        (uuid("a"), "A" * 21 + "B", f"field a: '{'A' * 21}B' does not fit uuid"),
        (uuid("a"), "A" * 24, f"field a: '{'A' * 24}' does not fit uuid"),
        (uuid("a"), "ä" * 22, f"field a: '{'ä' * 22}' does not fit uuid"),
        (uuid("a"), bytes(16), f"field a: uuid does not accept {bytes(16)!r}"[:80]),
        (varint("a"), 1 << 31, "field a: 2147483648 is not an integer of 32 bits"),
        (string("a"), None, "field a: string cannot be null in this version"),
        (string("a"), b"x", "field a: expects a str, not b'x'"),
        (string("a"), "\ud800", "field a: '\\ud800' cannot be encoded as UTF-8"),
        (bytes_("a"), "x", "field a: bytes expects bytes, not 'x'"),
        (records("a"), {"size": 1}, "field a: records expects bytes, not a dict"),
        (array("a", int8()), 5, "field a: expects a list, not 5"),
        (array("a", int8()), [1, 2, "x"], "field a[2]: int8 does not accept 'x'"),
        (array("a", struct(int8("x"))), [{}, {"x": None}], "field a[1].x: int8 does not accept None"),
        (array("a", struct(int8("x"))), [{"y": 1}], "field a[0]: Body.a has no field 'y' in this version"),
        (struct(int8("x"), name="a"), 5, "field a: expects a dict, not 5"),
        (struct(int8("x"), name="a"), None, "field a: struct cannot be null in this version"),
        (int16("a", tag=3), 1 << 15, "field a: 32768 does not fit int16"),
    ],
)
def test_misfits_are_refused(field: Field, value: Any, complaint: str) -> None:
    with pytest.raises(EncodeError) as refused:
        written({"a": value}, field)
    assert str(refused.value).startswith(complaint)
    assert refused.value.path.startswith("a")


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        ([], "expects a dict of tag to bytes, not a list"),
        ({"x": b""}, "'x' is not a tag number"),
        ({"01": b""}, "'01' is not a tag number"),
        ({7: b""}, "7 is not a tag number"),
        ({"4294967296": b""}, "'4294967296' is not a tag number"),
        ({"3": b""}, "tag 3 is the field a"),
        ({"4": "x"}, "tag 4 expects bytes, not 'x'"),
    ],
)
def test_tags_that_cannot_be_are_refused(tags: Any, complaint: str) -> None:
    with pytest.raises(EncodeError, match=f"field _tagged: {complaint}"):
        written({"_tagged": tags}, int8("a", tag=3))


def test_a_string_too_long_for_its_length() -> None:
    assert len(written({"a": "x" * 40_000}, string("a"))) == 40_004
    with pytest.raises(EncodeError, match="field a: 40000 bytes are too long for a string"):
        written({"a": "x" * 40_000}, string("a"), flexible="none")
    with pytest.raises(EncodeError, match="has no field '_tagged'"):
        written({"_tagged": {}}, string("a"), flexible="none")
    with pytest.raises(EncodeError, match="expects a dict, not None"):
        written(None, string("a"))
