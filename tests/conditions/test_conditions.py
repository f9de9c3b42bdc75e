"""Conditions as a rule writes them: what they say of bodies, in SQL and to people."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kshark.codec import compile_reader, compile_writer
from kshark.conditions import ALWAYS, ELEMENT, NEVER, Condition, F, any_of, by_version, compiled_together, size
from kshark.errors import SchemaError, UsageError
from kshark.schema import Field
from kshark_dissectors.enums import AcknowledgeType, ErrorCode
from kshark_dissectors.share_acknowledge import DISSECTOR as SHARE_ACKNOWLEDGE
from kshark_dissectors.share_group_heartbeat import DISSECTOR as SHARE_GROUP_HEARTBEAT

BATCHES = "topics.partitions.acknowledgement_batches"
types = size("acknowledge_types")
INVERTED = any_of(BATCHES, F("first_offset") > F("last_offset"))
COUNT_WRONG = any_of(BATCHES, (types > 1) & (types != F("last_offset") - F("first_offset") + 1))
TYPE_UNKNOWN = any_of(
    f"{BATCHES}.acknowledge_types",
    by_version({"0-1": (ELEMENT < 0) | (ELEMENT > 3), "2+": (ELEMENT < 0) | (ELEMENT > 4)}),
)
RENEWED_WITHOUT_SAYING_SO = (
    any_of(f"{BATCHES}.acknowledge_types", ELEMENT == AcknowledgeType.RENEW) & ~F("is_renew_ack").is_true()
)


def acknowledged(*batches: tuple[int, int, list[int]], version: int = 2, **fields: Any) -> Any:
    """The body of a ShareAcknowledge request with these batches: first offset, last offset, types."""
    layout = SHARE_ACKNOWLEDGE.request
    parts = [{"first_offset": first, "last_offset": last, "acknowledge_types": types} for first, last, types in batches]
    topics = [{"topic_id": "A" * 22, "partitions": [{"partition_index": 0, "acknowledgement_batches": parts}]}]
    data = compile_writer(layout, version)(
        {"group_id": "g", "member_id": "m", "share_session_epoch": 1, "topics": topics, **fields}
    )
    return compile_reader(layout, version)(data, 0)[0]


def heartbeat(**fields: Any) -> Any:
    layout = SHARE_GROUP_HEARTBEAT.request
    data = compile_writer(layout, 1)({"group_id": "g", "member_id": "m", "member_epoch": 0, **fields})
    return compile_reader(layout, 1)(data, 0)[0]


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        (INVERTED, [(0, 3, [1]), (9, 8, [1])], [(0, 3, [1]), (8, 8, [1])]),
        (INVERTED, [((1 << 63) - 1, -(1 << 63), [1])], []),
        (COUNT_WRONG, [(0, 3, [1, 1])], [(0, 3, [1]), (0, 3, [1, 1, 1, 1])]),
        (any_of(BATCHES, types == 0), [(0, 0, [])], [(0, 0, [1])]),
        (TYPE_UNKNOWN, [(0, 0, [5])], [(0, 0, [4])]),
        (TYPE_UNKNOWN, [(0, 0, [-1])], []),
        (RENEWED_WITHOUT_SAYING_SO, [(0, 1, [1, 4])], [(0, 1, [1, 2])]),
        (any_of(BATCHES, F("first_offset").one_of(7, 9)), [(7, 8, [])], [(8, 8, [])]),
        (~INVERTED, [(1, 1, [])], [(1, 0, [])]),
        (INVERTED | COUNT_WRONG, [(0, 3, [1, 1])], [(0, 0, [1])]),
        (ALWAYS & ~NEVER, [], None),
    ],
)
def test_a_condition_holds(condition: Condition, yes: list[Any], no: list[Any] | None) -> None:
    test = condition.compiled(2)
    assert test(acknowledged(*yes)) is True
    assert no is None or test(acknowledged(*no)) is False


def test_what_is_absent_has_no_value() -> None:
    """is_renew_ack came with version 2; rack_id is nullable; subscribed names may be null."""
    old, new = acknowledged(version=1), acknowledged(is_renew_ack=True)
    asked = F("is_renew_ack").is_true()
    assert (asked.compiled()(old), asked.compiled()(new)) == (False, True)
    assert ((~asked).compiled()(old), F("is_renew_ack").present().compiled()(old)) == (True, False)
    joins = heartbeat(rack_id=None, subscribed_topic_names=None)
    for condition in (
        F("rack_id") == "r",
        F("rack_id") != "r",
        F("rack_id") < "r",
        F("rack_id").contains(""),
        F("rack_id").matches(""),
    ):
        assert condition.compiled()(joins) is False
    assert (size("subscribed_topic_names") == 0).compiled()(joins) is True
    assert any_of("subscribed_topic_names", ALWAYS).compiled()(joins) is False
    assert F("subscribed_topic_names").present().compiled()(joins) is False


def test_texts() -> None:
    body = heartbeat(rack_id="eu-west-1a", subscribed_topic_names=["orders", "Payments"])
    assert F("rack_id").contains("west").compiled()(body)
    assert not F("rack_id").contains("WEST").compiled()(body)
    assert F("rack_id").matches("^EU-.*[0-9]a$").compiled()(body)
    assert any_of("subscribed_topic_names", ELEMENT.matches("^pay")).compiled()(body)
    assert not any_of("subscribed_topic_names", ELEMENT == "order").compiled()(body)


def test_the_version_decides() -> None:
    renewed = acknowledged((0, 0, [4]), version=1)
    assert [TYPE_UNKNOWN.compiled(version)(renewed) for version in (1, 2)] == [True, False]
    assert by_version({"3+": ALWAYS}).compiled(2)(renewed) is False
    with pytest.raises(
        UsageError, match=r"depends on the API's version: give the version, as in condition.compiled\(1\)"
    ):
        TYPE_UNKNOWN.compiled()
    with pytest.raises(UsageError, match="name the column with the version"):
        TYPE_UNKNOWN.sql("request")


def test_several_are_asked_at_once() -> None:
    test = compiled_together([INVERTED, COUNT_WRONG, TYPE_UNKNOWN, RENEWED_WITHOUT_SAYING_SO], 2)
    assert test(acknowledged((0, 0, [1]))) == ()
    assert test(acknowledged((1, 0, [4, 9]), is_renew_ack=False)) == (0, 1, 2, 3)
    assert test(acknowledged((1, 0, [2]), (0, 1, [4]))) == (0, 3)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (INVERTED, "some acknowledgement batch with first_offset > last_offset"),
        (
            COUNT_WRONG,
            "some acknowledgement batch with number of acknowledge types > 1 and "
            "number of acknowledge types != last_offset - first_offset + 1",
        ),
        (
            TYPE_UNKNOWN,
            "some acknowledge type < 0 or acknowledge type > 3 in version 0-1; acknowledge type < 0 or acknowledge "
            "type > 4 in version 2+",
        ),
        (RENEWED_WITHOUT_SAYING_SO, "some acknowledge type == RENEW and not (is_renew_ack)"),
        ((F("group_id") == "") & ((F("a") < 1) | F("b").present()), 'group_id == "" and (a < 1 or b present)'),
        ((F("a") < 1) & ALWAYS, "a < 1"),
        (
            (F("a") < 1) & by_version({"0-5": ALWAYS, "6+": F("b") > 1}),
            "a < 1 and (always in version 0-5; b > 1 in version 6+)",
        ),
        (F("error_code").one_of(ErrorCode.NONE, 7), "error_code in {NONE, 7}"),
        (F("name").contains("x") | ~F("name").matches("y"), 'name contains "x" or not (name matches "y")'),
    ],
)
def test_it_is_told(condition: Condition, told: str) -> None:
    assert condition.description == told


def test_it_is_sql() -> None:
    """Read by Spark itself in tests/spark."""
    assert (F("a") != 1).sql("r") == "coalesce(r.`a` <> 1, false)"
    assert (
        any_of("xs", ELEMENT == "it's").sql("r")
        == r"coalesce(exists(r.`xs`, x0 -> coalesce(x0 = 'it\'s', false)), false)"
    )


def test_values_are_equal_where_they_are_written_the_same() -> None:
    again = any_of(BATCHES, F("first_offset") > F("last_offset"))
    assert again == INVERTED
    assert {again: 1}[INVERTED] == 1
    assert any_of(BATCHES, F("first_offset") > F("first_offset")) != INVERTED


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        (
            any_of(BATCHES, F("frist_offset") > 0),
            "no field frist_offset: frist_offset is not one of first_offset, last_offset, acknowledge_types",
        ),
        (any_of("topics.group_id", ALWAYS), "no field group_id"),
        (any_of("group_id", ALWAYS), "group_id is not an array but string"),
        (F("topics") == 1, "topics is array, which has no single value"),
        (F("group_id") > 3, "group_id > 3: cannot compare number with text"),
        (size("member_id") == 0, "member_id is not an array"),
        (any_of("topics", ELEMENT == 1), "the element is struct, which has no single value"),
        (F("share_session_epoch").contains("1"), "cannot compare number with text"),
        (F("is_renew_ack") == 1, "cannot compare number with truth"),
        (F("group_id") + 1 == 2, "is not a sum of whole numbers"),
        (~by_version({"0+": F("nobody").present()}), "no field nobody"),
    ],
)
def test_a_schema_refuses_what_it_does_not_have(condition: Condition, wrong: str) -> None:
    with pytest.raises(SchemaError, match=wrong):
        condition.check(SHARE_ACKNOWLEDGE.request.root)


def test_bytes_of_two_fields_have_no_order() -> None:
    two = struct_of("a", "b")
    (F("a") == F("b")).check(two)
    (F("a") < b"x").check(two)
    with pytest.raises(SchemaError, match="a < b: the bytes of two fields can only be compared with"):
        (F("a") < F("b")).check(two)


def struct_of(*names: str) -> Field:
    """One that has these fields, of bytes."""
    root = SHARE_ACKNOWLEDGE.request.root
    text = next(field for field in root.fields if field.name == "group_id")
    return replace(root, fields=tuple(replace(text, name=name, type="bytes") for name in names))


def test_mistakes_stop_at_once() -> None:
    with pytest.raises(TypeError, match="join conditions with"):
        0 < F("a") < 5  # type: ignore[operator]  # noqa: B015
    with pytest.raises(TypeError, match="join conditions with"):
        bool(F("a") < 5 and F("b") < 5)
    with pytest.raises(TypeError, match="one_of"):
        F("a") or F("b")
    with pytest.raises(TypeError, match="absent or null"):
        F("a") == None  # type: ignore[operator]  # noqa: B015, E711
