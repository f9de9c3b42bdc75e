"""Values of a body by their path, with and without knowing its class."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from kshark.codec import compile_reader
from kshark.codec.paths import paths, values
from kshark.codec.reach import Reach
from kshark.schema import array, int32, layout, struct
from tests.output.messages import REGISTRY, body_of

TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
BODY = body_of(
    "ShareFetch",
    1,
    "response",
    {
        "error_code": 0,
        "responses": [
            {"topic_id": TOPIC, "partitions": [{"partition_index": 4, "error_code": 6}, {"partition_index": 5}]},
            {"topic_id": TOPIC, "partitions": []},
        ],
    },
)


def reach(exact: bool) -> Reach:
    api = REGISTRY.api(78)
    assert api is not None
    return Reach(api.response.root, 1, exact)


@pytest.mark.parametrize("exact", [True, False])
def test_rows_are_fields_that_stand_together(exact: bool) -> None:
    rows = reach(exact).rows(("responses", "partitions"), ("partition_index", "error_code"))
    assert list(rows(BODY)) == [(4, 6), (5, 0)]
    failed = reach(exact).rows(("responses", "partitions"), ("error_code", "acknowledge_error_code"), true=True)
    assert list(failed(BODY)) == [(6, 0)]
    assert not reach(exact).rows((), ("error_code",), true=True)(BODY)


@pytest.mark.parametrize("exact", [True, False])
def test_every_occurrence_is_what_the_slow_way_finds(exact: bool) -> None:
    for path in paths(reach(exact).struct, 1):
        slow = [value for value in values(BODY, path.names) if value is not None]
        assert [value for value in reach(exact).every(path.names)(BODY) if value is not None] == slow


@pytest.mark.parametrize("exact", [True, False])
def test_whether_any_of_some_fields_is_there(exact: bool) -> None:
    known = {str(path): path for path in paths(reach(exact).struct, 1)}
    above, inside, beside = (
        known["error_code"],
        known["responses.partitions.error_code"],
        known["responses.partitions.acknowledge_error_code"],
    )
    lists = ([above], [above, inside], [beside, above], [beside, inside], [])
    held = [bool(reach(exact).holds_any(some)(BODY)) for some in lists]
    assert held == [False, True, False, True, False]


@pytest.mark.parametrize("exact", [True, False])
def test_null_and_absent_have_nothing(exact: bool) -> None:
    assert reach(exact).first_value(("error_message",))(BODY) is None
    assert not reach(exact).every(("node_endpoints", "node_id"))(BODY)


def test_a_body_of_another_layout_is_read_as_far_as_it_goes() -> None:
    other = body_of("ShareAcknowledge", 1, "response", {"error_code": 122, "responses": []})
    assert reach(exact=False).rows((), ("error_code", "no_such_field"))(other) == [(122, UNSET)]
    assert not reach(exact=False).every(("responses", "partitions", "acquired_records"))(other)


def test_fields_may_have_names_that_python_keeps_for_itself() -> None:
    known = layout(
        "Words", versions="0", flexible="none", fields=struct(array("is", struct(int32("in"), int32("from"))))
    )
    body, _ = compile_reader(known, 0)(bytes((0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 8)), 0)
    words = Reach(known.root, 0, exact=True)
    assert list(words.every(("is", "in"))(body)) == [7]
    assert list(words.rows(("is",), ("in", "from"))(body)) == [(7, 8)]
