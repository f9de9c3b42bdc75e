"""The vocabulary: what it says, and that a mistake stops where it is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest

from kshark.errors import SchemaError
from kshark.schema import (
    NEVER,
    Versions,
    api,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    layout,
    named,
    records,
    string,
    struct,
    uint16,
    uuid,
    varint,
    versions_of,
)


@pytest.mark.parametrize("text", ["0-3", "2+", "4", "none", "0+"])
def test_version_ranges_are_written_as_kafka_writes_them(text: str) -> None:
    assert str(versions_of(text)) == text


def test_version_ranges_hold_both_their_ends() -> None:
    assert [version for version in range(6) if version in versions_of("1-3")] == [1, 2, 3]
    assert 32767 in versions_of("2+")
    assert 0 not in NEVER
    assert versions_of("0-3") & versions_of("2+") == Versions(2, 3)


def test_a_struct_knows_its_fields_by_version_and_tag() -> None:
    fields = struct(
        int32("a", versions="0-1"), string("b", versions="1+", tag=0, tagged="2+"), uuid("c", versions="2+", tag=7)
    )
    assert [f.name for f in fields.in_wire_order(0)] == ["a"]
    assert [f.name for f in fields.in_wire_order(1)] == ["a", "b"]
    assert fields.in_wire_order(2) == ()
    assert {tag: f.name for tag, f in fields.by_tag(2).items()} == {0: "b", 7: "c"}
    assert fields.by_tag(1) == {}


def test_a_shared_struct_becomes_a_field() -> None:
    leader = struct(int32("leader_id"), int32("leader_epoch"))
    field = named("current_leader", leader, versions="12+", tag=1, nullable="13+")
    assert (field.name, field.fields, field.tag) == ("current_leader", leader.fields, 1)
    assert (12 in field.versions, 12 in field.tagged, 12 in field.nullable, 13 in field.nullable) == (
        True,
        True,
        False,
        True,
    )


def test_headers_follow_from_the_flexible_versions() -> None:
    plain = api(99, "Example", versions="0-3", flexible="2+", request=struct(), response=struct())
    assert [plain.request_header_version(version) for version in range(4)] == [1, 1, 2, 2]
    assert [plain.response_header_version(version) for version in range(4)] == [0, 0, 1, 1]
    odd = api(
        99,
        "Example",
        versions="0-3",
        flexible="2+",
        request=struct(),
        response=struct(),
        response_header=0,
        request_header={0: 0},
    )
    assert [odd.request_header_version(version) for version in range(4)] == [0, 1, 2, 2]
    assert odd.response_header_version(3) == 0
    assert (odd.request.name, odd.response.name) == ("ExampleRequest", "ExampleResponse")


def nested(depth: int) -> Any:
    return reduce(lambda inner, _: struct(array("a", inner)), range(depth - 1), struct(int8("x")))


def body(*fields: Any, flexible: str = "none", **more: Any) -> Any:
    return layout("Body", versions="0-3", flexible=flexible, fields=struct(*fields), **more)


MISTAKES: list[tuple[str, Callable[[], Any]]] = [
    ("not a version range: '1,2'", lambda: versions_of("1,2")),
    ("'3-1' ends before it begins", lambda: versions_of("3-1")),
    ("'groupId' is not snake_case", lambda: string("groupId")),
    (r"'a' has tagged='1\+' without a tag", lambda: int8("a", tagged="1+")),
    ("tag -1 is not an unsigned 32-bit number", lambda: int8("a", tag=-1)),
    ("int8 cannot be null", lambda: int8("a", nullable="0+")),
    ("varint cannot be null", lambda: varint("a", nullable="0+")),
    ("128 is not a default of int8", lambda: int8("a", default=128)),
    ("True is not a default of int16", lambda: int16("a", default=True)),
    ("-1 is not a default of uint16", lambda: uint16("a", default=-1)),
    ("1 is not a default of bool", lambda: boolean("a", default=1)),
    ("'x' is not a default of float64", lambda: float64("a", default="x")),
    ("0 is not a default of string", lambda: string("a", default=0)),
    ("'' is not a default of bytes", lambda: bytes_("a", default="")),
    ("0 is not a default of array", lambda: array("a", int8(), default=0)),
    ("{} is not a default of struct", lambda: struct(name="a", default={})),
    ("must have no name, not 'b'", lambda: array("a", int8("b"))),
    ("no arrays of arrays", lambda: array("a", array("", int8()))),
    ("no versions or tag of its own", lambda: array("a", int8(versions="2+"))),
    ("a field without a name", lambda: struct(int8())),
    ("field 'a' twice", lambda: struct(int8("a"), int16("a"))),
    ("tag 3 for 'a' and 'b'", lambda: struct(int8("a", tag=3), int16("b", tag=3))),
    ("expects a struct without a name, not the int8 ''", lambda: named("a", int8())),
    ("expects a struct without a name, not the struct 'b'", lambda: named("a", struct(name="b"))),
    ("a layout's fields are a struct", lambda: layout("Body", versions="0", flexible="none", fields=int8("a"))),
    (
        "a struct that is never null",
        lambda: layout("Body", versions="0", flexible="none", fields=struct(nullable="0+")),
    ),
    (
        r"Body\.a: a tagged field in versions 0-3, but only 2\+ are flexible",
        lambda: body(int8("a", tag=0), flexible="2+"),
    ),
    (r"Body\.s\.a: a tagged field", lambda: body(struct(int8("a", tag=0), name="s"))),
    (r"Body\.a\.b: a tagged field", lambda: body(array("a", struct(int8("b", tag=0)), flexible="none"), flexible="0+")),
    (
        r"Body\.a: in version 1 its elements take no bytes",
        lambda: body(array("a", struct(int8("b", versions="0")), versions="0-1")),
    ),
    (r"Body\.a: in version 0 its elements", lambda: body(int8("x"), older={0: struct(array("a", struct()))})),
    ("more than 32 deep", lambda: layout("Body", versions="0", flexible="none", fields=nested(33))),
    (
        "api key 40000 is not an int16",
        lambda: api(40_000, "A", versions="0", flexible="none", request=struct(), response=struct()),
    ),
]


@pytest.mark.parametrize(("complaint", "mistake"), MISTAKES, ids=[complaint for complaint, _ in MISTAKES])
def test_a_mistake_stops_where_it_is_made(complaint: str, mistake: Callable[[], Any]) -> None:
    with pytest.raises(SchemaError, match=complaint):
        mistake()


def test_what_looks_odd_but_is_right_passes() -> None:
    body(array("a", struct()), records("r", nullable="0+"), int8("b", versions="0+", tag=0, tagged="1+"), flexible="0+")
    body(
        array("a", struct(nullable="0+")),
        string("s", default="x"),
        uuid("u", default="A" * 22),
        float64("f", default=1),
    )
    body(int8("a", versions="4+", tag=0))
    layout("Body", versions="0", flexible="none", fields=nested(32))
