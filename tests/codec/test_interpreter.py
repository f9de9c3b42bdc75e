"""What is wrong with a body, where, and what was readable all the same."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.codec import compile_reader, interpret, plain
from kshark.codec.primitives import Misfit
from kshark.schema import (
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
    varint,
    varlong,
)
from tests.codec.damage import faults, of, rest

topics = of(
    array("topics", struct(string("name"), array("partitions", struct(int32("index"), bytes_("data"))))),
    flexible="none",
)


def test_a_body_that_ends_early_keeps_what_came_before() -> None:
    body = of(int32("a"), int16("b"), flexible="none")
    assert faults(body, b"\0\0\0\1\0") == [("BODY_TOO_SHORT", 4, "b")]
    assert rest(body, b"\0\0\0\1\0") == {"a": 1}
    assert rest(body, b"") == {}


def test_bytes_behind_the_body_are_counted() -> None:
    body = of(int8("a"), flexible="none")
    assert faults(body, b"\1\2\3") == [("TRAILING_BYTES", 1, "")]
    assert interpret(body, 0, b"\1\2\3", 0, 3).faults[0].detail == "2 bytes after the body"
    assert rest(body, b"\1\2\3") == {"a": 1}


def test_the_path_leads_through_arrays_to_the_field() -> None:
    data = bytes.fromhex("00000002 0001 61 00000001 00000007 00000001 ff 0001 62 00000001 00000008 00000009 ff")
    assert faults(topics, data) == [("LENGTH_INVALID", 31, "topics[1].partitions[0].data")]
    assert rest(topics, data) == {
        "topics": [
            {"name": "a", "partitions": [{"index": 7, "data": b"\xff"}]},
            {"name": "b", "partitions": [{"index": 8}]},
        ]
    }


def test_a_length_outside_the_frame_though_inside_the_buffer() -> None:
    assert faults(of(string("a"), flexible="none"), b"\0\x05abc") == [("LENGTH_INVALID", 0, "a")]
    assert faults(of(string("a")), b"\x06abc\0") == [("LENGTH_INVALID", 0, "a")]
    assert faults(of(bytes_("a"), flexible="none"), b"\x7f\xff\xff\xffabc") == [("LENGTH_INVALID", 0, "a")]
    assert faults(of(records("a")), b"\xff\xff\xff\xff\x0fabc") == [("LENGTH_INVALID", 0, "a")]


def test_more_elements_than_the_frame_can_hold() -> None:
    numbers = of(array("a", int32()), flexible="none")
    assert faults(numbers, b"\x7f\xff\xff\xff" + b"\0\0\0\1" * 2) == [("TOO_MANY_ELEMENTS", 0, "a")]
    assert rest(numbers, b"\x7f\xff\xff\xff" + b"\0\0\0\1" * 2 + b"\0") == {"a": [1, 1]}
    rows = of(array("a", struct(int8("x"), int8("y"))))
    assert faults(rows, b"\xff\xff\xff\xff\x0f\1\2\0\3\4\0") == [("TOO_MANY_ELEMENTS", 0, "a")]
    assert rest(rows, b"\xff\xff\xff\xff\x0f\1\2\0\3\4\0") == {"a": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}
    nested = of(array("a", struct(array("b", string()))), flexible="none")
    assert faults(nested, b"\x7f\0\0\0\x7f\0\0\0\0\1a") == [("TOO_MANY_ELEMENTS", 0, "a")]


def test_nulls_where_none_may_be_are_passed_over() -> None:
    assert faults(of(string("a"), int8("b")), b"\0\7\0") == [("NULL_NOT_ALLOWED", 0, "a")]
    assert rest(of(string("a"), int8("b")), b"\0\7\0") == {"a": None, "b": 7}
    assert faults(of(array("a", int8()), int8("b"), flexible="none"), b"\xff\xff\xff\xff\7") == [
        ("NULL_NOT_ALLOWED", 0, "a")
    ]
    assert faults(of(bytes_("a"), flexible="none"), b"\xff\xff\xff\xff") == [("NULL_NOT_ALLOWED", 0, "a")]
    assert faults(of(array("a", string()), flexible="none"), b"\0\0\0\1\xff\xff") == [("NULL_NOT_ALLOWED", 4, "a[0]")]


def test_any_negative_length_is_null_as_for_brokers() -> None:
    nullable = of(
        array("a", int8(), nullable="0+"), string("b", nullable="0+"), bytes_("c", nullable="0+"), flexible="none"
    )
    data = b"\xff\xff\xff\xfe\x80\x00\xff\xff\xff\xf0"
    assert faults(nullable, data) == []
    assert rest(nullable, data) == {"a": None, "b": None, "c": None}
    assert faults(of(array("a", int8()), flexible="none"), b"\xff\xff\xff\xfe") == [("NULL_NOT_ALLOWED", 0, "a")]


def test_of_many_faults_only_the_first_are_named() -> None:
    found = faults(of(array("a", string()), flexible="none"), b"\0\0\x10\0" + b"\xff\xff" * 0x1000)
    assert len(found) == limits.FAULTS_PER_BODY
    found = faults(of(array("a", string()), int8("b"), flexible="none"), b"\0\0\x10\0" + b"\xff\xff" * 0x1000)
    assert found[-1] == ("BODY_TOO_SHORT", 4 + 0x2000, "b")


def test_a_struct_may_be_null() -> None:
    body = of(struct(int8("a"), name="s", nullable="0+"), flexible="none")
    assert rest(body, b"\xff") == rest(body, b"\x80") == {"s": None}
    assert rest(body, b"\1\5") == rest(body, b"\0\5") == {"s": {"a": 5}}
    assert faults(body, b"\xff") == faults(body, b"\x80") == faults(body, b"\0\5") == []
    assert faults(body, b"\1") == [("BODY_TOO_SHORT", 1, "s.a")]
    assert faults(body, b"") == [("BODY_TOO_SHORT", 0, "s")]


def test_a_tagged_struct_is_null_by_a_varint() -> None:
    body = of(struct(int8("a"), name="s", nullable="0+", tag=0))
    assert rest(body, b"\1\0\1\0") == {"s": None}
    assert rest(body, b"\1\0\3\1\5\0") == {"s": {"a": 5}}
    assert faults(body, b"\1\0\3\1\5\0") == faults(body, b"\1\0\1\0") == []
    assert faults(body, b"\1\0\3\1\5") == [("LENGTH_INVALID", 1, "")]


def test_varints_beyond_their_type() -> None:
    assert faults(of(string("a")), b"\xff\xff\xff\xff\x80\x80\x01") == [("VARINT_TOO_LONG", 0, "a")]
    assert faults(of(string("a")), b"\x80\x80\x80\x80\x10\0") == [("VARINT_TOO_LONG", 0, "a")]
    assert faults(of(string("a")), b"\x82\x80\x80\x80\x80\x00z\0") == [("VARINT_TOO_LONG", 0, "a")]
    assert faults(of(varint("a")), b"\x80\x80\x80\x80\x10\0") == [("VARINT_TOO_LONG", 0, "a")]
    assert faults(of(varlong("a")), b"\xff" * 9 + b"\x02\0") == [("VARINT_TOO_LONG", 0, "a")]
    assert faults(of(varlong("a")), b"\xff" * 10 + b"\0") == [("VARINT_TOO_LONG", 0, "a")]
    assert faults(of(varlong("a")), b"\x80" * 10 + b"\0\0") == [("VARINT_TOO_LONG", 0, "a")]
    assert faults(of(varint("a")), b"\xff\xff") == [("BODY_TOO_SHORT", 0, "a")]


def test_varints_longer_than_they_need_be_are_read() -> None:
    assert faults(of(string("a")), b"\x82\x80\x00z\x80\x00") == []
    assert rest(of(string("a")), b"\x82\x80\x00z\x80\x00") == {"a": "z"}


def test_zigzag_from_end_to_end() -> None:
    body = of(varint("a"), varlong("b"))
    assert rest(body, b"\xff\xff\xff\xff\x0f" + b"\xff" * 9 + b"\x01\0") == {"a": -(1 << 31), "b": -(1 << 63)}
    assert rest(body, b"\1\2\0") == {"a": -1, "b": 1}


def test_a_tags_content_does_not_fill_its_length() -> None:
    tagged = of(int16("a", tag=3))
    assert faults(tagged, b"\1\3\2\0\7") == []
    assert faults(tagged, b"\1\3\3\0\7\0") == [("TAG_LENGTH_MISMATCH", 3, "a")]
    assert faults(tagged, b"\1\3\1\0\7") == [("TAG_LENGTH_MISMATCH", 3, "a")]
    assert rest(tagged, b"\1\3\3\0\7\0") == {"a": 7}
    assert faults(of(string("a", tag=3)), b"\1\3\2\5x") == [("TAG_LENGTH_MISMATCH", 3, "a")]
    assert faults(of(array("a", int8(), tag=3)), b"\1\3\2\5x") == [("TAG_LENGTH_MISMATCH", 3, "a")]


def test_tags_out_of_order_are_read_on() -> None:
    tagged = of(int8("a", tag=0), int8("b", tag=1))
    assert faults(tagged, b"\2\1\1\7\0\1\6") == [("TAGS_UNSORTED", 4, "")]
    assert rest(tagged, b"\2\1\1\7\0\1\6") == {"a": 6, "b": 7}
    assert faults(tagged, b"\2\0\1\7\0\1\6") == [("TAGS_UNSORTED", 4, "")]
    assert faults(of(int8("a")), b"\0\2\5\0\5\0") == [("TAGS_UNSORTED", 4, "")]


def test_tags_nobody_knows_are_kept() -> None:
    assert rest(of(int8("a"), string("b", tag=1)), b"\5\3\0\2xy\1\2\2z\x90\x4e\0") == {
        "a": 5,
        "b": "z",
        "_tagged": {"0": b"xy", "10000": b""},
    }


def test_a_tag_section_that_leaves_the_frame() -> None:
    assert faults(of(int8("a")), b"\5\1\7\4abc") == [("LENGTH_INVALID", 2, "")]
    assert faults(of(int8("a")), b"\5\xff\xff\xff\xff\x0f\7\1a") == [("BODY_TOO_SHORT", 9, "")]
    assert faults(of(int8("a")), b"\5\2\7\0") == [("BODY_TOO_SHORT", 4, "")]
    with pytest.raises(Misfit):
        compile_reader(of(int8("a")), 0)(b"\5\1\7\4abc" + bytes(20), 0, 7)
    assert rest(of(int8("a")), b"\5\2\7\1a\x08\x09") == {"a": 5, "_tagged": {"7": b"a"}}


def test_an_array_of_structs_one_of_which_has_tags() -> None:
    rows = of(array("rows", struct(int16("a"), uuid("id"))))
    plain_row, tagged_row = b"\0\1" + bytes(16) + b"\0", b"\0\2" + bytes(16) + b"\1\5\1x"
    assert faults(rows, b"\3" + plain_row + tagged_row + b"\0") == []
    assert rest(rows, b"\3" + plain_row + tagged_row + b"\0")["rows"][1] == {
        "a": 2,
        "id": "A" * 22,
        "_tagged": {"5": b"x"},
    }


def test_text_that_is_no_utf8_is_escaped() -> None:
    assert rest(of(string("a"), flexible="none"), b"\0\3a\xff\xfe") == {"a": "a\\xff\\xfe"}
    assert faults(of(string("a"), flexible="none"), b"\0\3a\xff\xfe") == [("NOT_UTF8", 0, "a")]
    assert (
        interpret(of(string("a")), 0, b"\3a\xff\0", 0, 4).faults[0].detail
        == "byte 1 of a string of 2 bytes is not UTF-8"
    )


def test_an_older_layout_of_the_version_is_taken_when_it_fits() -> None:
    body = of(int32("a"), int32("b"), flexible="none", older={0: struct(int32("a"))})
    reading = interpret(body, 0, b"\0\0\0\5", 0, 4)
    assert plain(reading.body) == {"a": 5}
    assert [(fault.code, fault.fatal) for fault in reading.faults] == [("LAYOUT_DRIFT", False)]
    assert interpret(body, 0, b"\0\0\0\5\0\0\0\6", 0, 8).faults == ()
    assert [fault.code for fault in interpret(body, 0, b"\0\0\0\5\0", 0, 5).faults] == ["BODY_TOO_SHORT"]


def test_records_go_to_their_reader_and_only_when_they_lie_in_the_frame() -> None:
    body = of(int8("a"), records("r", nullable="0+"), records("s", nullable="0+"))
    asked: list[tuple[int, int]] = []

    def reader(buffer: bytes, start: int, end: int, aligned: bool) -> str:
        asked.append((start, end))
        return f"{end - start} bytes"

    buffer = b"\xff\5\3ab\0\0\xff"
    assert plain(compile_reader(body, 0, records=reader)(buffer, 1, 7)[0]) == {"a": 5, "r": "2 bytes", "s": None}
    assert plain(interpret(body, 0, buffer, 1, 7, records=reader).body) == {"a": 5, "r": "2 bytes", "s": None}
    assert asked == [(3, 5), (3, 5)]
    assert interpret(body, 0, b"\5\x09ab\0\0", 0, 6, records=reader).faults[0].code == "LENGTH_INVALID"
    with pytest.raises(Misfit):
        compile_reader(body, 0, records=reader)(b"\5\x09ab\0\0" + bytes(20), 0, 6)
    assert len(asked) == 2


def test_every_type_keeps_its_value() -> None:
    body = of(boolean("yes"), int8("a"), int64("b"), float64("c"), uuid("id"), flexible="none")
    data = b"\2\x80\x80" + bytes(7) + b"\x3f\xf8" + bytes(6) + bytes(range(240, 256))
    assert rest(body, data) == {"yes": True, "a": -128, "b": -(1 << 63), "c": 1.5, "id": "8PHy8_T19vf4-fr7_P3-_w"}
    assert faults(body, data) == []
